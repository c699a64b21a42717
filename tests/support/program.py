"""Runs the command line in this process, and captures its output and exit code."""

from __future__ import annotations

import contextlib
import io
import logging
from dataclasses import dataclass

from legacy_consumer.operations.cli import main


@dataclass(frozen=True)
class Done:
    code: int
    out: str
    err: str


class _Captured(io.TextIOWrapper):
    def __init__(self):
        self.bytes = io.BytesIO()
        super().__init__(self.bytes, encoding="utf-8", write_through=True)

    def text(self):
        return self.bytes.getvalue().decode()


def run_program(*args) -> Done:
    """Run the command line with these arguments, without a new process."""
    root, kazoo = logging.getLogger(), logging.getLogger("kazoo")
    before = root.level, kazoo.level, list(root.handlers)
    out, err, code = _Captured(), _Captured(), 0
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            try:
                main([str(arg) for arg in args])
            except SystemExit as end:
                code = end.code
    finally:
        root.setLevel(before[0])
        kazoo.setLevel(before[1])
        root.handlers[:] = before[2]
    return Done(code, out.text(), err.text())
