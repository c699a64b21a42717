"""Child processes that end with their parent, and the temporary folder they live in."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import TracebackType

from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers import keeper
from legacy_consumer.sandbox.servers.waiting import POLL_S
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

_TAIL_LINES = 20
_TAIL_BYTES = 16_384
_KILL_TIMEOUT_S = 10.0


class Workspace:
    """A temporary folder and the processes that live in it. Both are gone after close(), or once this process is.

    parent: where the folder is made; the system's temporary folder if None. Usable from any thread.
    """

    def __init__(self, name: str, parent: Path | None = None) -> None:
        self._name = name
        self._parent = parent
        self._folder: Path | None = None
        self._keeper: subprocess.Popen[bytes] | None = None
        self._lock = threading.Lock()

    @property
    def folder(self) -> Path:
        """The folder; only between open() and close()."""
        if self._folder is None:
            raise ServerStartError(self._name, "it is not started", "")
        return self._folder

    @property
    def is_open(self) -> bool:
        """Whether the folder exists."""
        return self._folder is not None

    def open(self) -> None:
        """Make the folder and set the keeper beside it; twice is harmless."""
        with self._lock:
            if self._folder is not None:
                return
            # the folder's name is chosen first, and the guarded process creates the folder: no moment without a guard
            parent = Path(tempfile.gettempdir()) if self._parent is None else self._parent
            folder = parent.absolute() / f"legacy-consumer-{self._name}-{os.getpid()}-{os.urandom(4).hex()}"
            self._keeper = subprocess.Popen(
                [sys.executable, "-I", "-S", keeper.__file__, os.fspath(folder)],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
            )
            folder.mkdir(mode=0o700)
            self._folder = folder

    def guard(self, pid: int) -> None:
        """Have the process killed when this one ends."""
        with self._lock:
            if self._keeper is None or self._keeper.stdin is None:
                raise ServerStartError(self._name, "it was closed during its start", "")
            self._keeper.stdin.write(b"%d\n" % pid)
            self._keeper.stdin.flush()

    def close(self) -> None:
        """Remove the folder; processes that still run in it are killed. Twice is harmless."""
        with self._lock:
            guardian, self._keeper = self._keeper, None
            folder, self._folder = self._folder, None
        if guardian is not None:
            if guardian.stdin is not None:
                with contextlib.suppress(OSError):
                    guardian.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                guardian.wait(_KILL_TIMEOUT_S)
            if guardian.poll() is None:
                guardian.kill()
                guardian.wait()
        if folder is not None:
            shutil.rmtree(folder, ignore_errors=True)  # the keeper did, unless it was killed

    def __enter__(self) -> Workspace:
        self.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class ServerProcess:
    """One server: a child process in a session of its own, its output in a log file.

    A session of its own, so that Ctrl-C in the terminal reaches the program that uses the server and not the server:
    a consumer could not commit and leave its group without one.
    """

    def __init__(self, name: str, command: Sequence[str], workspace: Workspace, log: Path) -> None:
        self.name = name
        self._log = log
        self._log_start = log.stat().st_size if log.exists() else 0
        with log.open("ab") as output:
            # The shell waits for a line before it becomes the server: by then the keeper knows its id. If this
            # process dies in between, the shell reads the end of the pipe and ends.
            self._process = subprocess.Popen(
                ["/bin/sh", "-c", 'read -r go && exec "$@" </dev/null', name, *command],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                cwd=workspace.folder,
            )
        try:
            workspace.guard(self._process.pid)
            assert self._process.stdin is not None
            self._process.stdin.write(b"go\n")
            self._process.stdin.close()
        except BaseException:
            self.kill()
            raise
        logger.debug("%s: process %s started", name, self._process.pid)

    @property
    def pid(self) -> int:
        """The server's process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process lives."""
        return self._process.poll() is None

    def wait_until(self, is_ready: Callable[[], bool], timeout_s: float, what: str) -> None:
        """Wait for a condition of the server, and no longer than it lives.

        Raises: ServerStartError when the process ends or the time is up; what names the condition.
        """
        deadline = time.monotonic() + timeout_s
        while not is_ready():
            code = self.wait(POLL_S)
            if code is not None:
                raise ServerStartError(self.name, f"its process ended with {_describe_exit(code)}", self.log_tail())
            if time.monotonic() > deadline:
                raise ServerStartError(self.name, f"{what} within {timeout_s:g} s", self.log_tail())

    def stop(self, timeout_s: float) -> None:
        """End it with SIGTERM, and with SIGKILL if that takes longer than timeout_s."""
        if self.is_running:
            self._process.terminate()
            if self.wait(timeout_s) is None:
                logger.warning("%s: did not end within %s s of SIGTERM, killing it", self.name, timeout_s)
        self.kill()

    def kill(self) -> None:
        """End it with SIGKILL and wait until it is gone; harmless when it is."""
        self.send_kill()
        self._process.wait(_KILL_TIMEOUT_S)
        if self._process.stdin is not None and not self._process.stdin.closed:
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def send_kill(self) -> None:
        """SIGKILL without waiting."""
        if self.is_running:
            self._process.send_signal(signal.SIGKILL)

    def log_text(self) -> str:
        """Return its output since this start."""
        try:
            with self._log.open("rb") as log:
                log.seek(self._log_start)
                return log.read().decode("utf-8", "replace")
        except OSError:
            return ""

    def log_tail(self) -> str:
        """The end of what it wrote since this start."""
        return "\n".join(self.log_text()[-_TAIL_BYTES:].rstrip().splitlines()[-_TAIL_LINES:])

    def lost_its_port(self) -> bool:
        """Return whether it ended because another process took its port between our choice and its bind."""
        text = self.log_text()
        return "java.net.BindException" in text or "Address already in use" in text

    def wait(self, timeout_s: float) -> int | None:
        """The exit code, negative for a signal; None if it still runs after timeout_s."""
        try:
            return self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            return None


def _describe_exit(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
