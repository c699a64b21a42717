"""For a Python worker of Spark that runs one task after the other."""

from __future__ import annotations

import functools
import gc

from pyspark import TaskContext


def spare_modules_from_collection() -> None:
    """Exclude the objects of this worker's modules from garbage collection; outside of a task do nothing.

    Spark calls gc.collect() after each task. With the decoder, Arrow and pandas loaded, that visits more than 120,000
    objects, which takes longer than a small task reads.
    """
    if TaskContext.get() is not None:
        _freeze_once()


@functools.cache
def _freeze_once() -> None:
    gc.collect()
    gc.freeze()
