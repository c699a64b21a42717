"""Brings a member's owned partitions and its share together, one reading of the group and one step at a time.

A call first takes up the step that waits for an answer, if there is one. Then it reads the group anew and takes the
next possible step: release partitions outside the share once they are drained; claim partitions of the share once their
owner znodes are free; start delivery. It may be called at any moment and any number of times, and does nothing when the
member already owns its share. A call waits for ZooKeeper and for the offset store, but not for the user's code; only
leave() waits for that.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from rebalance.actions import Rebalance
from rebalance.delivery import Delivery, Waits
from rebalance.errors import PartitionOwnedError, PartlyBegunError, RebalanceError
from rebalance.events import (
    Blocked,
    Deregistered,
    Doubted,
    Draining,
    Event,
    Overtaken,
    Settled,
    Triggered,
    Unanswered,
    Unblocked,
)
from rebalance.group_warnings import some
from rebalance.ownership import Ownership
from rebalance.patience import Patience
from rebalance.plan import make_plan, owned_by
from rebalance.reader import GroupReader
from rebalance.registrar import Registrar
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.errors import LegacyConsumerError, NotPermittedError, SessionExpiredError
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerThreadId, TopicPartition

logger = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Step:
    """A step that may wait for an answer. begins: the partitions whose delivery it begins."""

    run: Waits[None]
    begins: Collection[TopicPartition] = ()


class Reconciler:
    """One member's share: reader, assignor, plan, owner znodes and delivery. Used by the coordinator's thread alone."""

    def __init__(
        self,
        registrar: Registrar,
        reader: GroupReader,
        assign: Callable[[GroupSnapshot], Assignment],
        ownership: Ownership,
        delivery: Delivery,
        patience: Patience | None,
        changed: Callable[[], Collection[str]],
        post: Callable[[Event], None],
        led_reads: Callable[[], int],
    ) -> None:
        """changed: returns the paths of watch events that the reader has not got yet. post: enqueues from any thread.

        patience: None if the group waits for no absent members.

        led_reads: returns how often this member has read znodes of its led group.
        """
        self._registrar = registrar
        self._consumer_id = registrar.consumer_id
        self._reader = reader
        self._assign = assign
        self._ownership = ownership
        self._delivery = delivery
        self._patience = patience
        self._changed = changed
        self._post = post
        self._led_reads = led_reads
        self._reads_before = 0
        """How often ZooKeeper had answered this member when the last step ended."""
        self._underway: _Step | None = None
        """The step that waits for an answer. It is taken up again before any other."""
        self._begun: dict[TopicPartition, ConsumerThreadId] = {}
        self._stopped: set[TopicPartition] = set()
        self._created: dict[str, int | None] = {}
        self._ended: dict[TopicPartition, int | None] = {}
        """{partition that has ended and is not released yet: the transaction that had created its topic}"""
        self._missing: frozenset[str] = frozenset()
        """The topics that this member names and that did not exist at the last reading; each was logged once."""
        self._announced: Assignment | None = None
        self._released = 0
        """How many partitions the member has released since it was last settled."""
        self._claimed: set[TopicPartition] = set()
        """The partitions that the member has claimed since then; it may have released some of them again."""

    def reconcile(self, todo: Rebalance) -> Event:
        """Take the next steps; return the event that they end in. Raises: LegacyConsumerErrors."""
        if todo.leaving:
            try:
                return self._give_up(todo)
            except SessionExpiredError:
                # a commit needs the registration, which is gone; the action runner has checked the session before
                return Deregistered()
        try:
            return self._step(todo)
        except PartitionOwnedError as error:
            return Blocked(error)
        finally:
            self._reads_before = self._reads()

    def _reads(self) -> int:
        return self._reader.lists_read + self._led_reads()

    def _step(self, todo: Rebalance) -> Event:
        if (unanswered := self._carry_on()) is not None:
            return unanswered
        self._ownership.resolve_doubts()
        if todo.doubtful:
            self.audit()
        snapshot = self._reader.read()
        if self._is_overtaken(todo):
            # a member that acts on an outdated reading blocks the members that do not
            return Overtaken()
        if not self._reader.has_read(self._consumer_id):
            return Deregistered()
        holder = self._reader.holder_of(self._consumer_id)
        is_taken = holder != self._ownership.session_id
        if not is_taken and self._reader.data_of(self._consumer_id) != self._registrar.data:
            return self._mend_registration(todo)
        if not is_taken:
            # with another member's registration the reader may not have looked at this member's topics
            self._bury_deleted(snapshot.created)
            self._tell_missing(snapshot.created)
        self._disown_commits()
        assignment = self._assign(snapshot)
        if self._patience is not None:
            assignment = self._patience.judge(snapshot, assignment, todo.memory)
        # if my session does not hold the id, the partitions assigned to the id are another member's
        mine = {} if is_taken else owned_by(assignment, self._consumer_id)
        plan = make_plan(self._ownership.owned, mine)
        self._take_back(self._stopped & plan.keep.keys())
        if plan.release:
            if self._is_held_up(plan.release, final=todo.final):
                return Draining()
            if (unanswered := self._take(_Step(self._give_away(plan.release)))) is not None:
                return unanswered
        if holder is None:
            # the other members cannot read this registration either, so they leave this member out
            self._reader.forget_members(self._consumer_id)
            raise RebalanceError(f"an ACL hides my own registration {self._registrar.path}: restore its ACL")
        if is_taken:
            return Deregistered()
        if plan.claim:
            if plan.release and self._is_overtaken(todo):
                return Overtaken()
            self._ownership.claim(plan.claim, lambda: self._post(Unblocked()))
            self._claimed.update(plan.claim)
        if (unanswered := self._begin(assignment)) is not None:
            return unanswered
        if (unanswered := self._take(_Step(self._delivery.finish_telling()))) is not None:
            return unanswered
        settled = Settled(len(self._ownership.owned.keys() - self._claimed), self._released, len(self._claimed))
        self._forget_moves()
        return settled

    def _forget_moves(self) -> None:
        self._released = 0
        self._claimed.clear()

    @property
    def is_waiting(self) -> bool:
        """Whether a step waits for an answer."""
        return self._underway is not None

    @property
    def may_commit(self) -> bool:
        """Whether a periodic commit may run. While a step waits, the member does not read that a topic has changed.

        It may have been deleted and created again.
        """
        return self._underway is None or self._reader.knows({tp.topic for tp in self._begun})

    def _take(self, step: _Step) -> Unanswered | None:
        """Take a step; None once it is done."""
        self._underway = step
        return self._carry_on()

    def _carry_on(self) -> Unanswered | None:
        """Take up the step that waits for an answer; None if it is done now, or if there is none."""
        step, self._underway = self._underway, None
        wait_s = None if step is None else next(step.run, None)
        if wait_s is None:
            return None
        self._underway = step
        return Unanswered(math.ceil(wait_s * 1000))

    def _mend_registration(self, todo: Rebalance) -> Event:
        """Replace a registration that another client wrote under my id, and have the group read again."""
        self._registrar.mend(self._ownership.session_id)
        self._reader.forget_members(self._consumer_id)
        if todo.last_look:
            raise RebalanceError("another client overwrites my own registration again and again")
        self._post(Triggered("my registration was overwritten"))
        return Overtaken()

    def _is_overtaken(self, todo: Rebalance) -> bool:
        return not todo.last_look and bool(self._changed())

    def _give_up(self, todo: Rebalance) -> Event:
        """Stop and end the delivery of everything before the member leaves; leave() deletes the owner znodes."""
        # a partition that could not begin needs no end
        with suppress(PartlyBegunError):
            if (unanswered := self._carry_on()) is not None:
                return unanswered
        if todo.doubtful:
            # the member gives up owner znodes that an ACL hides like the others; leave() reports owner znodes that stay
            with suppress(NotPermittedError):
                self.audit()
        if self._is_overtaken(todo):
            return Overtaken()
        self._bury_deleted_last()
        owned = self._ownership.owned
        if self._is_held_up(owned, final=todo.final):
            return Draining()
        return self._take(_Step(self._end(owned))) or Settled()

    def leave(self) -> NotPermittedError | None:
        """Commit what was not given up, delete the owner znodes and the registration; see Ownership.leave.

        Unlike reconcile(), it waits for answers: there is no later call.
        """
        try:
            self._wait_for(self._carry_on())
        except PartlyBegunError:
            pass
        except Exception:
            # it must not keep the other partitions from their last commit
            logger.warning("%s: gives up what it waited for", self._consumer_id, exc_info=True)
        self._bury_deleted_last()
        if self._begun:
            self._delivery.stop(self._begun)
            self._wait_for(self._take(_Step(self._end(list(self._begun)))))
        return self._ownership.leave()

    def _wait_for(self, unanswered: Unanswered | None) -> None:
        while unanswered is not None:
            self._delivery.await_answer(unanswered.wait_ms / 1000)
            unanswered = self._carry_on()

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """Drop lost partitions, all by default: no commit, no release."""
        step = self._underway if partitions is None else None
        begins = () if step is None else step.begins
        gone = list(dict.fromkeys([*self._begun, *begins]) if partitions is None else partitions)
        for tp in gone:
            self._begun.pop(tp, None)
            self._ended.pop(tp, None)
        self._stopped.difference_update(gone)
        if partitions is None:
            self._underway = None
            self._ended.clear()
            self._ownership.forget()
            self._forget_moves()
        # last, so that the partitions begin anew when they are claimed again even if this raises
        try:
            self._delivery.drop(gone)
        finally:
            if step is not None:
                step.run.close()

    def guard(self) -> None:
        """Watch the owner znodes that are not watched yet.

        Called once the group is quiet, and with each audit, because that request may have failed. Only a JVM member or
        an operator deletes an owner znode of mine.
        """
        try:
            self._ownership.watch_owned(lambda: self._post(Doubted()))
        except LegacyConsumerError as error:
            logger.info("%s: could not watch its owner znodes: %s", self._consumer_id, error)

    def audit(self) -> Event | None:
        """Drop partitions that ZooKeeper does not show as mine; Triggered if there were any, or if a member is hidden.

        A JVM member deletes owner znodes by path alone, and their owner gets no notice.
        """
        if self._underway is not None:
            # the step that waits still needs its partitions; if an owner znode is gone, the next audit says so
            return None
        lost = self._ownership.lost()
        if not lost:
            return Triggered("an ACL hid a registration") if self._reader.has_hidden else None
        self.drop(lost)
        logger.warning("%s: lost the owner znodes of %s", self._consumer_id, ", ".join(map(str, sorted(lost)[:5])))
        return Triggered("owner znodes lost")

    def _bury_deleted_last(self) -> None:
        """Bury deleted topics before the member leaves; read only the topics of begun partitions, not the group."""
        # if an ACL hides a topic, the member cannot know whether it was deleted
        with suppress(NotPermittedError):
            self._bury_deleted(self._reader.created({tp.topic for tp in self._begun}))
            self._disown_commits()

    def _bury_deleted(self, now: Mapping[str, int | None]) -> None:
        """End the delivery of deleted topics at once and without a commit, which a new topic of the name would inherit.

        The assignment decides whether the member keeps the owner znodes; kept partitions begin anew.
        """
        for topic in sorted({tp.topic for tp in self._begun}):
            created = now.get(topic)
            if created == self._created.get(topic):
                continue
            gone = [tp for tp in self._begun if tp.topic == topic]
            self._delivery.bury(gone)
            for tp in gone:
                self._begun.pop(tp, None)
            self._stopped.difference_update(gone)
            if created is None:
                self._missing |= {topic}
            logger.warning(
                "%s: topic %s was deleted%s; its committed offsets stay, and are not used for %s",
                self._consumer_id,
                topic,
                " and created again: it is read from its beginning, or where a listener says"
                if created is not None
                else ", its streams wait",
                "the new one" if created is not None else "a new topic of that name",
            )
        self._created = dict(now)

    def _tell_missing(self, there: Collection[str]) -> None:
        """Log the topics that this member names and that do not exist, once each until they exist."""
        before, self._missing = self._missing, self._registrar.named.difference(there)
        new = sorted(self._missing - before)
        if new:
            logger.warning(
                "%s: there is no topic %s: its streams wait; check the name, and the chroot of zookeeper.connect",
                self._consumer_id,
                some(new),
            )

    def _take_back(self, partitions: Collection[TopicPartition]) -> None:
        """Continue the delivery of stopped partitions that the member keeps after all."""
        if partitions:
            self._delivery.go_on(partitions)
            self._stopped.difference_update(partitions)

    def _is_held_up(self, going: Collection[TopicPartition], *, final: bool) -> bool:
        """Stop these partitions; return whether to wait until the user's code has finished messages in hand of them."""
        fresh = [tp for tp in going if tp not in self._stopped]
        self._delivery.stop(fresh)
        self._stopped.update(fresh)
        in_hand = self._delivery.undrained([tp for tp in going if tp in self._begun])
        if in_hand and final:
            logger.warning(
                "%s: drain.timeout.ms passed with messages of %d partitions in hand; they will be delivered again",
                self._consumer_id,
                len(in_hand),
            )
        return bool(in_hand) and not final

    def _give_away(self, going: Collection[TopicPartition]) -> Waits[None]:
        """End the delivery of partitions, then delete their owner znodes."""
        yield from self._end(going)
        self._ownership.release(going, just_asked=self._reads() > self._reads_before)
        self._released += len(going)

    def _end(self, going: Collection[TopicPartition]) -> Waits[None]:
        ending = [tp for tp in going if tp in self._begun]
        yield from self._delivery.end(ending)
        self._ended.update((tp, self._created.get(tp.topic)) for tp in ending)
        for tp in going:
            self._begun.pop(tp, None)
        self._stopped.difference_update(going)
        self._disown_commits()

    def _disown_commits(self) -> None:
        """Undo the last commits that arrived after their topics were deleted.

        ZooKeeper sends the watch event of a deletion before it answers a later commit, so only topics whose watches
        have fired are read again.
        """
        if not self._ended:
            return
        now = self._reader.created({tp.topic for tp in self._ended}, self._changed())
        wrong = [tp for tp, created in self._ended.items() if now[tp.topic] != created]
        if wrong:
            self._delivery.disown(wrong)
        self._ended.clear()

    def _begin(self, assignment: Assignment) -> Unanswered | None:
        """Begin the owned partitions that are not begun yet, also if an earlier step could not begin them."""
        fresh = {tp: thread for tp, thread in self._ownership.owned.items() if self._begun.get(tp) != thread}
        if not fresh and assignment == self._announced:
            return None
        return self._take(_Step(self._begin_these(fresh, assignment), begins=fresh))

    def _begin_these(self, fresh: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment) -> Waits[None]:
        try:
            yield from self._delivery.begin(fresh, assignment)
        except PartlyBegunError as error:
            self._begun.update((tp, thread) for tp, thread in fresh.items() if tp not in error.held)
            raise
        self._begun.update(fresh)
        self._announced = assignment
