"""The measured processes; they end with the stage, or with this process."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Literal

from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace

Side = Literal["ours", "jvm", "led", "cooperative", "librdkafka"]
"""led: ours, with group.coordination=leader. librdkafka: ours, with fetcher=librdkafka."""

_HERE = Path(__file__).resolve().parent
JAVA_SOURCES = _HERE / "java"

_RUN_TIMEOUT_S = 180.0
_LEAVE_TIMEOUT_S = 20.0


def own_program(name: str, *arguments: str) -> list[str]:
    """Return the command that runs a file of programs/ with the library's code of this process."""
    return ["env", f"PYTHONPATH={_HERE.parent}", sys.executable, str(_HERE / "programs" / f"{name}.py"), *arguments]


def compile_java(java: Path, source: str, jars: Sequence[Path], folder: Path) -> Path:
    """Compile a file of java/, once for many processes. Returns: the classes' folder. Raises: ServerStartError."""
    classes = folder / "classes"
    options = ["-nowarn", "-proc:none", "-cp", os.pathsep.join(map(os.fspath, jars)), "-d", os.fspath(classes)]
    command = [os.fspath(java), "-m", "jdk.compiler/com.sun.tools.javac.Main", *options, str(JAVA_SOURCES / source)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=_RUN_TIMEOUT_S, check=False)
    if done.returncode != 0:
        raise ServerStartError(source, "it does not compile", done.stdout + done.stderr)
    return classes


def output_of(process: ServerProcess) -> str:
    """Wait until a process has ended. Returns: its output. Raises: ServerStartError if it failed or took too long."""
    try:
        code = process.wait(_RUN_TIMEOUT_S)
        if code != 0:
            reason = f"it did not end within {_RUN_TIMEOUT_S:g} s" if code is None else f"exit code {code}"
            raise ServerStartError(process.name, reason, process.log_tail())
        return process.log_text()
    finally:
        process.kill()


class Crew:
    """The members of one side, numbered from 0: each in its own process, or all in one.

    new_process: returns a new process whose first member has this number.
    """

    def __init__(self, new_process: Callable[[int], MembersProcess], *, in_one_process: bool) -> None:
        self._new_process = new_process
        self._in_one_process = in_one_process
        self._processes: list[MembersProcess] = []

    def prepare(self, group: str, members: int) -> None:
        """Start the processes of `members` members that do not run yet, and tell all of them the group's name."""
        missing = range(len(self._processes), 1 if self._in_one_process else members)
        started = [self._new_process(number) for number in missing]
        for process in started:
            process.answer()
        self._processes += started
        self._tell(self._processes, f"group {group}")

    def join(self, first: int, count: int) -> None:
        """Let these members join at the same time, and wait until all have their streams."""
        self._tell_members("join", first, count)

    def leave(self, first: int, count: int) -> None:
        """Let these members leave at the same time; in one process they must be the last that joined."""
        self._tell_members("leave", first, count)

    def commit(self, times: int) -> float:
        """Let the first member commit all its offsets `times` times. Returns: the seconds that this took."""
        return float(self._tell(self._processes[:1], f"commit {times}")[0])

    @property
    def pids(self) -> list[int]:
        """The ids of the processes."""
        return [process.pid for process in self._processes]

    def _tell_members(self, verb: str, first: int, count: int) -> None:
        if self._in_one_process:
            self._tell(self._processes, f"{verb} {count}")
        else:
            self._tell(self._processes[first : first + count], f"{verb} 1")

    @staticmethod
    def _tell(processes: Sequence[MembersProcess], line: str) -> list[str]:
        for process in processes:
            process.tell(line)
        return [process.answer() for process in processes]

    def close(self) -> None:
        """End the processes."""
        for process in self._processes:
            process.end_input()
        for process in self._processes:
            process.close()


class MembersProcess:
    """A process with members of a group. It answers once when it is ready, and then each command."""

    def __init__(self, name: str, command: list[str], workspace: Workspace) -> None:
        self.name = name
        self._errors = (workspace.folder / f"{name}.err").open("w+", encoding="utf-8")
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1
        )
        workspace.guard(self._process.pid)

    @property
    def pid(self) -> int:
        """The id of the process."""
        return self._process.pid

    def tell(self, line: str) -> None:
        """Send the process a command."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{line}\n")

    def answer(self) -> str:
        """Wait until the process has done the command. Returns: its answer. Raises: ServerStartError."""
        assert self._process.stdout is not None
        verdict, _, answer = self._process.stdout.readline().strip().partition(" ")
        if verdict != "ok":
            self._errors.seek(0)
            raise ServerStartError(self.name, answer or "it ended", self._errors.read()[-2000:])
        return answer

    def end_input(self) -> None:
        """Close the input: the members leave in order if they can, and the process ends."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def close(self) -> None:
        """Wait until the process has ended; kill it if that takes too long."""
        assert self._process.stdout is not None
        try:
            self._process.wait(_LEAVE_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()
        self._errors.close()
