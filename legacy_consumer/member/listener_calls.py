"""Calls the user's hooks on threads that may block: a rebalance goes on when they return, or after a bound.

The coordinator's thread also handles events of the session and of waiting members, so no user code may run on it. The
hooks of a listener are called one after another, in the order of their events. A hook that does not return delays only
the hooks behind it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
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


@dataclass(slots=True, eq=False)
class HookCall:
    """One call of a hook.

    wait_s: how many seconds the caller waits at most. on_return: called, on any thread, when the hook has returned or
    end() is called. deadline: by time.monotonic(), once the caller has begun to wait. is_behind: whether an earlier
    hook was late then, so that the caller does not wait.
    """

    hook: Hook
    wait_s: float
    on_return: Callable[[], None]
    deadline: float | None = None
    is_behind: bool = False
    is_given_up: bool = False
    done: Flag = field(default_factory=Flag)


class ListenerCalls:
    """Calls one listener's hooks on a thread of their own, from the first hook until end(). One thread begins calls.

    after: the calls of the same listener in an earlier membership: its last hook may still run.
    The thread stays between two hooks, because from Python 3.12 on no thread can be started in an atexit handler.
    """

    def __init__(self, consumer_id: str, listener: RebalanceListener, after: ListenerCalls | None = None) -> None:
        self._consumer_id = consumer_id
        self.listener = listener
        self._after = after
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._waiting: deque[HookCall] = deque()
        self._running: HookCall | None = None
        self._thread: threading.Thread | None = None
        self._over = False
        self._given_up: HookCall | None = None
        """The last call that was given up."""
        self.give_up_at = float("inf")
        """The time, by time.monotonic(), at which every wait for a hook ends."""
        self.errors = 0
        """The number of hooks that raised, did not return in time, or could not be called."""

    def begin(self, hook: Hook, timeout_s: float, on_return: Callable[[], None] = lambda: None) -> HookCall:
        """Have a hook called on the listener's thread; the caller waits while left_s() is above 0, then concludes."""
        with self._lock:
            call = HookCall(hook, timeout_s, on_return)
            if self._over:
                return call
            if not is_running(self._thread):
                self._thread = LibraryThread(target=self._run, name=f"{self._consumer_id}-listener")
                self._thread.start()
            if len(self._waiting) >= _MOST_WAITING:
                self.errors += 1
                logger.error(
                    "%s: the rebalance listener does not return, %d calls wait", self._consumer_id, _MOST_WAITING
                )
                call.done.set()
                return call
            self._waiting.append(call)
            self._changed.notify()
            return call

    def left_s(self, call: HookCall) -> float:
        """Return how many seconds to wait for a call from now on; 0 if it has returned, or is waited for no longer.

        The time of the wait begins with the first question.
        """
        if call.done.is_set() or self._over:
            return 0.0
        if call.deadline is None:
            call.is_behind = self.is_late
            call.deadline = time.monotonic() + (0.0 if call.is_behind else call.wait_s)
        return max(0.0, min(call.deadline, self.give_up_at) - time.monotonic())

    def wait(self, call: HookCall) -> None:
        """Wait for a call, then conclude it."""
        while (left_s := self.left_s(call)) > 0:
            call.done.wait(min(left_s, _SLICE_S))
        self.conclude(call)

    def conclude(self, call: HookCall) -> None:
        """Log and count a hook that has not returned while the caller waited for it."""
        with self._lock:
            if call.done.is_set() or self._over or call.is_given_up:
                return
            call.is_given_up = True
            self.errors += 1
            self._given_up = call
        if call.is_behind:
            logger.error(
                "%s: does not wait for the rebalance listener, an earlier call has not ended", self._consumer_id
            )
            return
        logger.error(
            "%s: the rebalance listener did not return within %.1f s, the group does not wait for it any longer",
            self._consumer_id,
            call.wait_s,
        )

    @property
    def is_late(self) -> bool:
        """Whether a hook that was given up has not returned yet."""
        return self._given_up is not None and not self._given_up.done.is_set()

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
            calls = [*self._waiting, *([] if self._running is None else [self._running])]
            self._waiting.clear()
            self._changed.notify()
        for call in calls:
            call.done.set()
            call.on_return()

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
                    self._changed.wait_for(lambda: self._waiting or self._over)
                if self._over:
                    return
                call = self._running = self._waiting.popleft()
            try:
                call.hook(self.listener)
            except BaseException:
                # a user's defect must not stop the group's rebalance
                with self._lock:
                    self.errors += 1
                logger.exception("%s: the rebalance listener raised", self._consumer_id)
            finally:
                call.done.set()
                call.on_return()


class BoundedCall(Generic[Result]):
    """A call on a thread of its own, with a bounded wait for its result. on_return: called on that thread."""

    def __init__(self, ask: Callable[[], Result], name: str, on_return: Callable[[], None] = lambda: None) -> None:
        self._ask = ask
        self._on_return = on_return
        self._answer: Result
        self._error: BaseException | None = None
        self._done = Flag()
        self._began = time.monotonic()
        threading.Thread(target=self._run, name=name, daemon=True).start()

    @property
    def is_done(self) -> bool:
        """Whether the call has ended, with a result or an exception."""
        return self._done.is_set()

    def wait(self, timeout_s: float) -> Result:
        """Return the result. Raises: the call's exception; TimeoutError, after which the result is dropped."""
        if not self._done.wait(timeout_s):
            raise TimeoutError(f"no answer within {time.monotonic() - self._began:.1f} s")
        if self._error is not None:
            raise self._error
        return self._answer

    def _run(self) -> None:
        try:
            self._answer = self._ask()
        except BaseException as error:  # noqa: BLE001  (wait() raises it)
            self._error = error
        self._done.set()
        self._on_return()
