"""Calls the user's hooks on threads that may block: a rebalance waits for them, up to a bound.

The coordinator's thread also handles events of the session and of waiting members, so no user code may run on it. The
hooks of a listener are called one after another, in the order of their events. A hook that does not return delays only
the hooks behind it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from legacy_consumer.member.listener import RebalanceListener
from zk_layout.loggers import safe_logger
from zk_layout.running_threads import LibraryThread, is_running
from zk_layout.signals import Flag

logger = safe_logger(__name__)

_MOST_WAITING = 100
"""The most hooks that may wait behind one that does not return; others are not called."""
_SLICE_S = 0.1
"""The interval at which a wait checks for a shorter deadline."""

Hook = Callable[[RebalanceListener], None]
Result = TypeVar("Result")


class ListenerCalls:
    """Calls one listener's hooks on a thread of their own, from the first hook until end(). One thread uses call().

    after: the calls of the same listener in an earlier membership: its last hook may still run.
    The thread stays between two hooks, because from Python 3.12 on no thread can be started in an atexit handler.
    """

    def __init__(self, consumer_id: str, listener: RebalanceListener, after: ListenerCalls | None = None) -> None:
        self._consumer_id = consumer_id
        self.listener = listener
        self._after = after
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[tuple[Hook, Flag]] = deque()
        self._running: Flag | None = None
        self._thread: threading.Thread | None = None
        self._over = False
        self._late = False
        self.give_up_at = float("inf")
        """The time, by time.monotonic(), after which call() waits for no hook."""
        self.errors = 0
        """The number of hooks that raised, did not return in time, or could not be called."""

    def call(self, hook: Hook, timeout_s: float) -> None:
        """Call a hook and wait for it, timeout_s at most; if an earlier hook is late, do not wait."""
        done = Flag()
        with self._lock:
            if self._over:
                return
            if not is_running(self._thread):
                self._thread = LibraryThread(target=self._run, name=f"{self._consumer_id}-listener")
                self._thread.start()
            late = self._late
            if len(self._waiting) >= _MOST_WAITING:
                self.errors += 1
                logger.error(
                    "%s: the rebalance listener does not return, %d calls wait", self._consumer_id, _MOST_WAITING
                )
                return
            self._waiting.append((hook, done))
            self._changed.notify()
        if self._is_over_in_time(done, 0.0 if late else timeout_s):
            return
        with self._lock:
            # the hook may have returned a moment ago, and its thread may have reset _late already: if it were set now,
            # it would stay set, and the next call would not wait for its hook
            if done.is_set():
                return
            self.errors += 1
            self._late = True
        if late:
            logger.error(
                "%s: does not wait for the rebalance listener, an earlier call has not ended", self._consumer_id
            )
            return
        logger.error(
            "%s: the rebalance listener did not return within %.1f s, the group does not wait for it any longer",
            self._consumer_id,
            timeout_s,
        )

    def _is_over_in_time(self, done: Flag, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while not done.is_set() and not self._over:
            left_s = min(deadline, self.give_up_at) - time.monotonic()
            if left_s <= 0:
                return False
            done.wait(min(left_s, _SLICE_S))
        return True

    @property
    def is_late(self) -> bool:
        """Whether a hook is still running after its time."""
        return self._late

    @property
    def is_over(self) -> bool:
        """Whether end() was called: no hook may begin."""
        return self._over

    def is_on_this_thread(self) -> bool:
        """Return whether the caller is a hook."""
        return threading.current_thread() is self._thread

    def end(self) -> None:
        """Call no further hook, and end all waits for the running one; from any thread, also from a hook."""
        with self._lock:
            self._over = True
            waiting, running = list(self._waiting), self._running
            self._waiting.clear()
            self._changed.notify()
        for _, done in waiting:
            done.set()
        if running is not None:
            running.set()

    def join(self) -> None:
        """Wait for the return of the last hook, after end()."""
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        if self._after is not None:
            self._after.join()
            self._after = None
        while True:
            with self._lock:
                if not self._waiting:
                    self._running = None
                    self._late = False
                    self._changed.wait_for(lambda: self._waiting or self._over)
                if self._over:
                    return
                hook, self._running = self._waiting.popleft()
                done = self._running
            try:
                hook(self.listener)
            except BaseException:
                # a user's defect must not stop the group's rebalance
                with self._lock:
                    self.errors += 1
                logger.exception("%s: the rebalance listener raised", self._consumer_id)
            finally:
                done.set()


class BoundedCall(Generic[Result]):
    """A call on a thread of its own, with a bounded wait for its result."""

    def __init__(self, ask: Callable[[], Result], name: str) -> None:
        self._ask = ask
        self._answer: Result
        self._error: BaseException | None = None
        self._done = Flag()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    def wait(self, timeout_s: float) -> Result:
        """Return the result. Raises: the call's exception; TimeoutError, after which the result is dropped."""
        began = time.monotonic()
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"no answer within {time.monotonic() - began:.1f} s")
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except BaseException as error:  # noqa: BLE001  (wait() raises it)
            self._error = error
        self._done.set()
