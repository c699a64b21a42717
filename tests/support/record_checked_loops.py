"""The decoder's loops as plain Python over arrays that refuse every index outside of them.

Compiled code reads and writes wherever it is told to. The same code run so over the same bytes shows where that is.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import ModuleType

import numba
import numpy as np

from legacy_consumer.wire.records import batch_format, checksums, gathering, message_format, scanning

LOOPS = {
    scanning: ["scan"],
    checksums: ["damaged_message", "damaged_batch"],
    message_format: ["survey", "decode_messages"],
    batch_format: ["decode_batches"],
    gathering: ["measure", "gather"],
}


class Checked:
    """An array, element by element; negative indices are outside, too."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array
        self.shape = array.shape

    def __getitem__(self, index):
        return self.array[self._inside(index)]

    def __setitem__(self, index, value):
        self.array[self._inside(index)] = value

    def _inside(self, index):
        indices = tuple(map(int, index if isinstance(index, tuple) else (index,)))
        assert len(indices) == len(self.shape)
        for at, size in zip(indices, self.shape, strict=True):
            if not 0 <= at < size:
                raise AssertionError(f"index {indices} is outside of {self.shape}")
        return indices


def plain_functions(instrument: Callable[[Callable], Callable] = lambda function: function):
    """[(module, name, the function as Python runs it over checked arrays)]."""
    return [
        (module, name, _checked(instrument(getattr(plain, name))))
        for module, names in LOOPS.items()
        for plain in [_without_compiling(module, instrument)]
        for name in names
    ]


@contextmanager
def checked_loops(functions) -> Iterator[None]:
    """Meanwhile the decoder uses these functions."""
    compiled = [(module, name, getattr(module, name)) for module, name, _ in functions]
    for module, name, function in functions:
        setattr(module, name, function)
    try:
        yield
    finally:
        for module, name, function in compiled:
            setattr(module, name, function)


def _without_compiling(module: ModuleType, instrument) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"plain_{module.__name__}", module.__file__)
    plain = importlib.util.module_from_spec(spec)
    before = numba.config.DISABLE_JIT
    numba.config.DISABLE_JIT = True
    try:
        spec.loader.exec_module(plain)
    finally:
        numba.config.DISABLE_JIT = before
    for name, value in vars(plain).items():
        if name.startswith("_") and callable(value) and getattr(value, "__module__", "") == plain.__name__:
            setattr(plain, name, instrument(value))
    return plain


def _checked(function):
    def call(*arguments):
        with np.errstate(all="ignore"):
            return function(*(Checked(a) if isinstance(a, np.ndarray) else a for a in arguments))

    return call
