"""The common base of a server process and a set of them: they can be stopped, killed, started again, and closed."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import TYPE_CHECKING

from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers.process import ServerProcess

if TYPE_CHECKING:
    from typing_extensions import Self

STOP_TIMEOUT_S = 30.0


class RestartableServer:
    """One server process at a time, under a name that it keeps over kill(), stop() and the next start."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._process: ServerProcess | None = None
        self._lock = threading.RLock()

    @property
    def pid(self) -> int:
        """The process id. Raises: ServerStartError before the first start."""
        return self._started().pid

    @property
    def is_running(self) -> bool:
        """Whether its process lives."""
        process = self._process
        return process is not None and process.is_running

    def stop(self, timeout_s: float = STOP_TIMEOUT_S) -> None:
        """End it with SIGTERM; it can be started again."""
        with self._lock:
            if self._process is not None:
                self._process.stop(timeout_s)

    def kill(self) -> None:
        """End it with SIGKILL; it can be started again."""
        with self._lock:
            if self._process is not None:
                self._process.kill()

    def send_kill(self) -> None:
        """SIGKILL without waiting for it to be gone."""
        if self._process is not None:
            self._process.send_kill()

    def log_text(self) -> str:
        """Return its output since the last start."""
        return "" if self._process is None else self._process.log_text()

    def lost_its_port(self) -> bool:
        """Return whether the last start failed because a port was taken meanwhile."""
        return self._process is not None and self._process.lost_its_port()

    def _started(self) -> ServerProcess:
        if self._process is None:
            raise ServerStartError(self.name, "it is not started", "")
        return self._process


class Embedded(ABC):
    """Servers that live as long as a with block, or from start() to close()."""

    @abstractmethod
    def start(self) -> None:
        """Start what does not run, and wait until it serves. Harmless twice."""

    @abstractmethod
    def close(self) -> None:
        """End everything and remove its data; twice is harmless."""

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
