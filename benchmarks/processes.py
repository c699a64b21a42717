"""Processes that do what is measured; they end with the stage, or with this process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Literal

from legacy_consumer.embedded.process import ServerProcess, Workspace
from legacy_consumer.errors import ServerStartError

Side = Literal["ours", "jvm"]

_HERE = Path(__file__).resolve().parent
JAVA_SOURCES = _HERE / "java"

_RUN_TIMEOUT_S = 180.0
_LEAVE_TIMEOUT_S = 20.0


def own_program(name: str, *arguments: str) -> list[str]:
    """The command that runs a file of programs/ on the very code that this process runs."""
    return ["env", f"PYTHONPATH={_HERE.parent}", sys.executable, str(_HERE / "programs" / f"{name}.py"), *arguments]


def output_of(process: ServerProcess) -> str:
    """Wait until it has ended; what it wrote. Raises: ServerStartError if it failed or took too long."""
    try:
        code = process.wait(_RUN_TIMEOUT_S)
        if code != 0:
            reason = f"it did not end within {_RUN_TIMEOUT_S:g} s" if code is None else f"exit code {code}"
            raise ServerStartError(process.name, reason, process.log_tail())
        return process.log_text()
    finally:
        process.kill()


class MembersProcess:
    """The process that holds the members of one side."""

    def __init__(self, side: Side, command: list[str], workspace: Workspace) -> None:
        self.name = f"members, {side}"
        self._errors = (workspace.folder / f"{side}.err").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1
        )
        workspace.guard(self._process.pid)
        self._answer()

    def tell(self, line: str) -> str:
        """Have it do something, and wait until it is done; what it answers. Raises: ServerStartError."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")
        return self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        verdict, _, answer = self._process.stdout.readline().strip().partition(" ")
        if verdict != "ok":
            self._errors.seek(0)
            raise ServerStartError(self.name, answer or "it ended", self._errors.read()[-2000:])
        return answer

    def close(self) -> None:
        """End it; its members leave in order if they can."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(_LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()
