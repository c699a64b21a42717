"""For commands that do more than print, or whose exit code is their answer: they continue if their output fails.

In `... --execute | head` the reader may exit before the plan is shown. The operator has asked for the change, so the
command makes it, and its exit code says whether that worked. Output that cannot be written is dropped.
"""

from __future__ import annotations

import functools
import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any, ParamSpec, TextIO, TypeVar

import click

from legacy_consumer.operations.cli.helpers.outputs import send_nowhere

P = ParamSpec("P")
R = TypeVar("R")


@contextmanager
def lasting_output() -> Iterator[None]:
    """In the block, no write to standard output or standard error raises an error.

    Raises: click.ClickException at the end if output was lost for another reason than a reader that is gone.
    """
    before = sys.stdout, sys.stderr
    sys.stdout, out = _lasting(before[0])
    sys.stderr, err = _lasting(before[1])
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                stream.flush()
        sys.stdout, sys.stderr = before
    failed = [raw.failure for raw in (out, err) if raw is not None and raw.failure is not None]
    others = [error for error in failed if not isinstance(error, BrokenPipeError)]
    if others:
        raise click.ClickException(f"the command is done, but its output cannot be written: {others[0].strerror}")


def outlasts_reader(option: str | None = None) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Give a command a lasting output. option: give it only with this flag; None = always."""

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(command)
        def lasting(*args: P.args, **kwargs: P.kwargs) -> R:
            with lasting_output() if option is None or kwargs[option] else nullcontext():
                return command(*args, **kwargs)

        return lasting

    return decorate


class _LastingDescriptor(io.RawIOBase):
    """Writes to a descriptor until a write fails; then drops all further output. failure: the error of that write."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        self.failure: OSError | None = None

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return self._descriptor

    def isatty(self) -> bool:
        return os.isatty(self._descriptor)

    def write(self, data: Any) -> int:
        try:
            return os.write(self._descriptor, data)
        except OSError as error:
            self.failure = error
            send_nowhere(self._descriptor)
            return len(data)


def _lasting(stream: TextIO) -> tuple[TextIO, _LastingDescriptor | None]:
    """Return a lasting stream and its descriptor; the stream itself if it is closed or has no descriptor."""
    try:
        stream.flush()
        raw = _LastingDescriptor(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return stream, None
    made = io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True)
    return made, raw
