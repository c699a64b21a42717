"""A Python worker of Spark that is used for task after task."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


def spare_modules_from_collection() -> None:
    """Have the garbage collector leave alone what the modules of this worker hold; elsewhere nothing happens.

    Spark calls gc.collect() after each task. With the decoder, Arrow and pandas loaded that goes through more than
    120,000 objects, which takes longer than a small task reads.
    """
    if TaskContext.get() is not None:
        _freeze_once()


@functools.cache
def _freeze_once() -> None:
    gc.collect()
    gc.freeze()
