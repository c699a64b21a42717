"""For commands that do more than print, or answer by their exit code: they go on when their output cannot be written.

In `... --execute | head` the reader may be gone before the plan is shown. The operator has said what is to be done, so
the command does it, and its exit code says how it went. What cannot be written is dropped.
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
    """In it no write to standard output and standard error fails.

    Raises: click.ClickException at the end if some of it was not written, and not because its reader is gone.
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
    """Give a command a lasting output. option: the flag without which it needs none."""

    def decorate(command: Callable[P, R]) -> Callable[P, R]:
        @functools.wraps(command)
        def lasting(*args: P.args, **kwargs: P.kwargs) -> R:
            with lasting_output() if option is None or kwargs[option] else nullcontext():
                return command(*args, **kwargs)

        return lasting

    return decorate


class _LastingDescriptor(io.RawIOBase):
    """Writes to a descriptor until that fails, and from then on nowhere. failure: why."""

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
    """The stream itself if it is closed, or of no descriptor."""
    try:
        stream.flush()
        raw = _LastingDescriptor(stream.fileno())
    except (AttributeError, OSError, ValueError):
        return stream, None
    made = io.TextIOWrapper(io.BufferedWriter(raw), stream.encoding, stream.errors, line_buffering=True)
    return made, raw
