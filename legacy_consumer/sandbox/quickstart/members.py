"""The consumer processes as the story sees them: started, braked, asked to leave, killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import threading
import time
from enum import Enum

from legacy_consumer.sandbox.quickstart.children import start_guarded
from legacy_consumer.sandbox.quickstart.errors import QuickstartError
from legacy_consumer.sandbox.quickstart.record import Record, decode_record
from legacy_consumer.sandbox.servers.process import Workspace

_PROGRAM = "legacy_consumer.sandbox.quickstart.worker"
_END_TIMEOUT_S = 30.0


class MemberState(Enum):
    """The state of a member's process."""

    RUNNING = "running"
    KILLED = "killed with -9"
    LEFT = "left"


class Member:
    """One consumer process. It ends with this process in any case: its input ends then, and the keeper knows it."""

    def __init__(self, name: str, zookeeper: str, rate: float, workspace: Workspace) -> None:
        self.name = name
        self.state = MemberState.RUNNING
        self.processed = 0
        self.positions: dict[int, int] = {}
        """{partition: next offset}, as it said last."""
        self.told_at: dict[int, float] = {}
        """{partition: when it last said that it processed some of it}, in seconds of the monotonic clock."""
        self._record = workspace.folder / f"{name}.record"
        self._errors = workspace.folder / f"{name}.err"
        with self._errors.open("wb") as errors:
            self._process = start_guarded(
                [sys.executable, "-m", _PROGRAM, zookeeper, name, os.fspath(self._record), str(rate)],
                workspace,
                stdout=subprocess.PIPE,
                stderr=errors,
            )
        self._listener = threading.Thread(target=self._listen, name=f"listen-to-{name}", daemon=True)
        self._listener.start()

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it still belongs to the group."""
        return self.state is MemberState.RUNNING

    def check(self) -> None:
        """Raises: QuickstartError if it ended by itself, with its last words."""
        code = self._process.poll()
        if self.is_running and code is not None:
            raise QuickstartError(f"{self.name} ended by itself with {_spell(code)}: {self._last_words()}")

    def set_rate(self, rate: float) -> None:
        """Flights a second, 0 = no limit."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # check() says why it is gone
            self._process.stdin.write(f"{rate:g}\n".encode())
            self._process.stdin.flush()

    def kill(self) -> None:
        """End it with -9: it commits nothing and releases nothing."""
        self.state = MemberState.KILLED
        self._process.kill()
        self._process.wait(_END_TIMEOUT_S)

    def leave(self) -> None:
        """Ask it to leave in order; does not wait."""
        self.state = MemberState.LEFT
        self._process.send_signal(signal.SIGTERM)

    def await_end(self) -> None:
        """Wait until it has left. Raises: QuickstartError if it does not, or not in order."""
        try:
            code = self._process.wait(_END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            raise QuickstartError(f"{self.name} did not leave within {_END_TIMEOUT_S:g} s of SIGTERM") from None
        if code != 0:
            raise QuickstartError(f"{self.name} left with {_spell(code)}: {self._last_words()}")

    def read_record(self) -> Record:
        """Return its record. Raises: QuickstartError."""
        try:
            data = self._record.read_bytes()
        except FileNotFoundError:
            data = b""
        return decode_record(self.name, data)

    def close(self) -> None:
        """Kill it if it still runs, and forget it; twice is harmless."""
        with contextlib.suppress(ProcessLookupError):
            self._process.kill()
        self._process.wait(_END_TIMEOUT_S)
        self._listener.join(_END_TIMEOUT_S)
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            if not line.endswith(b"\n"):  # killed while it spoke
                return
            said = json.loads(line)
            positions = {int(partition): offset for partition, offset in said.get("positions", {}).items()}
            self.processed = said.get("processed", self.processed)
            self.positions = {**self.positions, **positions}
            self.told_at = {**self.told_at, **dict.fromkeys(positions, time.monotonic())}

    def _last_words(self) -> str:
        lines = self._errors.read_text(encoding="utf-8", errors="replace").split("\n")
        return next((line.strip() for line in reversed(lines) if line.strip()), "it said nothing")


def _spell(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
