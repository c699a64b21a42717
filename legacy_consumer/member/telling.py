"""Calls the user's listener when partitions start, are released or are lost, and says how long a step waits for it.

The hooks run on a thread of their own (listener_calls.py). The coordinator does not block until a hook returns: a step
of the delivery yields the seconds to wait at most, and the coordinator resumes it when the hook has returned.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping
from typing import cast

from legacy_consumer.member.arguments import checked_starts
from legacy_consumer.member.committer import Committer
from legacy_consumer.member.listener import (
    LOSSES,
    STARTS,
    JavaStyle,
    LossListener,
    RebalanceListener,
    StartListener,
    has_hooks,
    is_same_listener,
)
from legacy_consumer.member.listener_calls import Hook, HookCall, ListenerCalls
from rebalance.delivery import Waits
from rebalance.snapshot import Assignment
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.signals import Flag

logger = safe_logger(__name__)

_HASTE_S = 0.5
"""The bound for one answer, and for the last commit, once the time for leaving is over."""


class Telling:
    """Calls the listener of one member.

    The connector sets `listener` before the member joins. The first hook creates `calls`. Only the coordinator's thread
    takes the steps; any thread may call the methods below the comment "On any thread".
    """

    def __init__(
        self, consumer_id: str, committer: Committer, bound_s: float, on_answer: Callable[[], None] = lambda: None
    ) -> None:
        """bound_s: how long a step waits for one answer. on_answer: called on any thread when an answer is there."""
        self.listener: RebalanceListener | None = None
        self.calls: ListenerCalls | None = None
        self._consumer_id = consumer_id
        self._committer = committer
        self._bound_s = bound_s
        self._on_answer = on_answer
        self._answered = Flag()
        self._earlier: ListenerCalls | None = None
        """The listener calls of an earlier membership: hooks of the same listener wait for their end."""
        self._close_by = float("inf")
        self._unheard: list[HookCall] = []
        """The calls about losses, and about generations without a change. The next step waits for them."""
        self._known: set[TopicPartition] = set()
        """The partitions whose start the listener was told of, and whose release or loss it was not."""

    # Steps.

    def ask_for_starts(
        self, committed: Mapping[TopicPartition, int | None], by_hand: frozenset[TopicPartition]
    ) -> Waits[tuple[dict[TopicPartition, int], dict[TopicPartition, str]]]:
        """Return the listener's start positions, and the partitions without one, which must not start elsewhere.

        by_hand: the partitions whose offsets the group does not keep.
        """
        if not has_hooks(self.listener, STARTS) or not committed:
            return {}, {}
        yield from self.hear_out()
        answers: list[tuple[dict[TopicPartition, int], dict[TopicPartition, str]]] = []

        def ask(listener: RebalanceListener) -> None:
            # checked on the listener's thread: the answer may be a mapping that asks a database for each entry
            answer: object = cast(StartListener, listener).starting_offsets(dict(committed))
            answers.append(checked_starts(answer, committed, by_hand))

        if self.calls is None or not self.calls.is_late:
            yield from self._hear(self._tell(ask))
        if not answers:
            why = "the listener's starting_offsets raised, or has not returned yet: see the log"
            return {}, dict.fromkeys(committed, why)
        return answers[0]

    def tell_of_start(self, claimed: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment) -> Waits[None]:
        """Tell the listener of partitions that start, and wait until it has heard."""
        starting = dict(claimed)
        yield from self.hear_out()
        call = self._tell(lambda listener: listener.before_starting_fetchers(starting, assignment))
        self._known.update(starting)
        yield from self._hear(call)

    def tell_of_release(self, partitions: Collection[TopicPartition]) -> Waits[None]:
        """Tell the listener of partitions that are released, and wait until it has heard."""
        going = frozenset(partitions)
        yield from self.hear_out()
        call = self._tell(lambda listener: listener.before_releasing_partitions(going))
        self._known.difference_update(going)
        yield from self._hear(call)

    def hear_out(self) -> Waits[None]:
        """Wait until the listener has heard of losses, and of generations that change nothing for this member."""
        while self._unheard:
            yield from self._hear(self._unheard[0])
            del self._unheard[0]

    def wait_for(self, left_s: Callable[[], float]) -> Waits[None]:
        """Wait for an answer until left_s(), the seconds to wait, is 0."""
        self._answered.clear()
        while (wait_s := left_s()) > 0:
            yield wait_s
            self._answered.clear()

    # Without a wait.

    def tell_of_loss(self, partitions: Collection[TopicPartition]) -> None:
        """Tell the listener that it has lost these partitions, as far as it has them."""
        lost = self._known.intersection(partitions)
        if self.listener is None or not lost:
            return
        try:
            self._unheard.append(self._tell(_hook_of_loss(frozenset(lost), self._committer, self._listener_calls())))
        except Exception:
            # they are lost all the same if the system has no thread left for the hook
            logger.exception("%s: could not tell its listener what is lost", self._consumer_id)

    def tell_nothing_revoked(self) -> None:
        """Call a listener with Java's hooks: a generation begins for which this member releases nothing."""
        if isinstance(self.listener, JavaStyle):
            self._unheard.append(self._tell(lambda listener: cast(JavaStyle, listener).nothing_revoked()))

    def tell_nothing_assigned(self) -> None:
        """Call a listener with Java's hooks: a generation was assigned in which this member gains nothing."""
        if isinstance(self.listener, JavaStyle):
            self._unheard.append(self._tell(lambda listener: cast(JavaStyle, listener).nothing_assigned()))

    def forget(self, partitions: Collection[TopicPartition]) -> None:
        """Forget that the listener has these partitions: it is told of their next start."""
        self._known.difference_update(partitions)

    # On any thread.

    def tell_answered(self) -> None:
        """Resume the step that waits for an answer."""
        self._answered.set()
        self._on_answer()

    def await_answer(self, timeout_s: float) -> None:
        """Block until the answer is there that a step waits for, timeout_s at most."""
        self._answered.wait(timeout_s)

    def bound_s(self) -> float:
        """Return how long to wait for an answer now at most, in seconds."""
        return min(self._bound_s, max(_HASTE_S, self._close_by - time.monotonic()))

    def left_until(self, deadline: float) -> float:
        """Return the seconds until deadline, by time.monotonic(), or until the time for leaving is over."""
        return min(deadline, self._close_by) - time.monotonic()

    def begin_closing(self, timeout_s: float) -> None:
        """Wait for no answer after timeout_s; if a hook calls this, do not wait for that hook at all."""
        self._close_by = min(self._close_by, time.monotonic() + timeout_s)
        if self.calls is not None:
            self.calls.give_up_at = self._close_by
            if self.calls.is_on_this_thread():
                self.calls.end()
        # the coordinator may wait for longer than that
        self.tell_answered()

    def close(self) -> None:
        """Wait until the listener has heard of lost partitions, as long as a rebalance waits; then call it no more."""
        calls = self.calls
        if calls is None:
            return
        try:
            for call in [] if calls.is_on_this_thread() else list(self._unheard):
                calls.wait(call)
        finally:
            calls.end()

    def take_over(self, earlier: Telling) -> None:
        """Take over the listener of an earlier membership; its hooks wait for an earlier hook that has not returned."""
        self.listener = earlier.listener
        calls = earlier.calls or earlier._earlier
        # a hook that unsubscribes may join again, which calls hooks inside it
        self._earlier = None if calls is None or calls.is_on_this_thread() else calls

    @property
    def errors(self) -> int:
        """The number of the listener's hooks that raised or did not return in time."""
        return 0 if self.calls is None else self.calls.errors

    # Inside.

    def _tell(self, hook: Hook) -> HookCall:
        """Have a hook called, after the hooks before it. Do not wait.

        hook: a function that does not use `self`. Otherwise interrupted_calls takes the user's calls in the hook for
        calls inside this object, and refuses them.
        """
        return self._listener_calls().begin(hook, self.bound_s(), self.tell_answered)

    def _hear(self, call: HookCall) -> Waits[None]:
        """Wait until a hook has returned, or for its time at most."""
        calls = self._listener_calls()
        yield from self.wait_for(lambda: calls.left_s(call))
        calls.conclude(call)

    def _listener_calls(self) -> ListenerCalls:
        if self.calls is None:
            assert self.listener is not None
            earlier = self._earlier
            after = earlier if earlier is not None and is_same_listener(earlier.listener, self.listener) else None
            self.calls = ListenerCalls(self._consumer_id, self.listener, after)
            self.calls.give_up_at = self._close_by
        return self.calls


def _hook_of_loss(lost: frozenset[TopicPartition], committer: Committer, calls: ListenerCalls) -> Hook:
    def tell(listener: RebalanceListener) -> None:
        # a commit under way may still write them; on this thread the wait counts as a part of the hook
        committer.finish()
        if calls.is_over:
            return
        if has_hooks(listener, LOSSES):
            cast(LossListener, listener).on_partitions_lost(lost)
        else:
            listener.before_releasing_partitions(lost)

    return tell
