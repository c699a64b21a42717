"""Brings what a member owns and what should be its own together, one look and one step at a time.

Every call looks at the group anew and does the next thing that is possible: give back what is not mine any more, as
soon as its users let go of it; claim what is mine, as soon as its owner znodes are free; start what I have. It may be
called at any moment and any number of times, and has nothing to do when all is as it should be.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection

from rebalance.delivery import Delivery
from rebalance.errors import PartlyBegunError, RebalanceError
from rebalance.machine import Deregistered, Draining, Event, Settled
from rebalance.ownership import Ownership
from rebalance.patience import Patience
from rebalance.plan import make_plan, owned_by
from rebalance.reader import GroupReader
from rebalance.registrar import Registrar
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.model import ConsumerThreadId, TopicPartition

logger = logging.getLogger(__name__)

_MOST_LOOKS = 10
"""In one step, while others come and go faster than one can look; then what was seen last has to do."""


class Reconciler:
    """One member's share: reader, assignor, plan, owner znodes and delivery. Used by the coordinator's thread alone."""

    def __init__(
        self,
        registrar: Registrar,
        reader: GroupReader,
        assign: Callable[[GroupSnapshot], Assignment],
        ownership: Ownership,
        delivery: Delivery,
        patience: Patience,
        hear_news: Callable[[], bool] = lambda: False,
    ) -> None:
        """hear_news: tells the reader of the watches that fired meanwhile; True if there were any."""
        self._registrar = registrar
        self._consumer_id = registrar.consumer_id
        self._reader = reader
        self._assign = assign
        self._ownership = ownership
        self._delivery = delivery
        self._patience = patience
        self._hear_news = hear_news
        self._begun: dict[TopicPartition, ConsumerThreadId] = {}
        self._stopped: set[TopicPartition] = set()
        self._created: dict[str, int] = {}
        self._doubted = False
        self._announced: Assignment | None = None
        self.moved = (0, 0, 0)
        """How many partitions the last step kept, released and claimed."""

    def reconcile(self, *, final: bool) -> Event:
        """Take the next steps; Settled, Draining or Deregistered.

        final: do not wait any longer for what users have in hand.
        Raises: PartitionOwnedError when somebody else's owner znodes are in the way; other LegacyConsumerErrors.
        """
        self._ownership.resolve_doubts()
        if self._doubted:
            self.audit()
            self._doubted = False
        released = 0
        for looks_left in reversed(range(_MOST_LOOKS)):
            lists_before = self._reader.lists_read
            snapshot = self._reader.read()
            if looks_left and self._hear_news():
                # whoever acts on what has been overtaken stands in the way of those who do not
                continue
            is_taken = self._reader.holder_of(self._consumer_id) not in (0, self._ownership.session_id)
            if not is_taken:
                if not self._reader.has_read(self._consumer_id):
                    return Deregistered()
                if self._reader.data_of(self._consumer_id) != self._registrar.data:
                    # nothing follows from what somebody else wrote in my name
                    self._registrar.mend(self._ownership.session_id)
                    self._reader.forget_members(self._consumer_id)
                    if looks_left:
                        continue
                    raise RebalanceError("somebody overwrites my own registration again and again")
            self._bury_deleted(snapshot)
            assignment = self._patience.judge(snapshot, self._assign(snapshot))
            # what is assigned to my id is another member's, if another session holds the id
            mine = {} if is_taken else owned_by(assignment, self._consumer_id)
            plan = make_plan(self._ownership.owned, mine)
            self._take_back(self._stopped & plan.keep.keys())
            if plan.release:
                if self._is_held_up(plan.release, final=final):
                    return Draining()
                self._end(plan.release)
                self._ownership.release(plan.release, just_asked=self._reader.lists_read > lists_before)
                released += len(plan.release)
            if is_taken:
                return Deregistered()
            if plan.claim:
                if looks_left and plan.release and self._hear_news():
                    continue
                self._ownership.claim(plan.claim)
            break
        self._begin(assignment)
        self.moved = (len(plan.keep), released, len(plan.claim))
        return Settled()

    def give_up(self, *, final: bool) -> Event:
        """Stop and end everything, as before leaving; the owner znodes are left to leave(). Settled or Draining."""
        owned = self._ownership.owned
        if self._is_held_up(owned, final=final):
            return Draining()
        self._end(owned)
        return Settled()

    def leave(self) -> bool:
        """Commit in haste what was not given up, then remove the owner znodes and the registration; whether all are."""
        if self._begun:
            self._delivery.stop(self._begun)
            self._end(list(self._begun))
        return self._ownership.leave()

    def drop(self, partitions: Collection[TopicPartition] | None = None) -> None:
        """These are lost, all by default: no commit, no release."""
        gone = list(self._begun if partitions is None else partitions)
        self._delivery.drop(gone)
        for tp in gone:
            self._begun.pop(tp, None)
        self._stopped.difference_update(gone)
        if partitions is None:
            self._ownership.forget()

    def doubt(self) -> None:
        """Audit before the next step."""
        self._doubted = True

    def audit(self) -> bool:
        """Whether ZooKeeper shows all that I believe to own as mine; what it does not is dropped.

        A member of the JVM deletes owner znodes by path alone, and nobody tells whom it deprives.
        """
        lost = self._ownership.lost()
        if lost:
            logger.warning("%s: lost the owner znodes of %s", self._consumer_id, ", ".join(map(str, sorted(lost)[:5])))
            self.drop(lost)
        return not lost

    def _bury_deleted(self, snapshot: GroupSnapshot) -> None:
        """Let go of logs that are no more, at once and without a commit, which the topic's next life would inherit.

        The owner znodes are kept or released as the assignment says; what is kept is begun anew.
        """
        for topic in sorted({tp.topic for tp in self._begun}):
            created = snapshot.created.get(topic)
            if created == self._created.get(topic):
                continue
            logger.warning(
                "%s: topic %s was deleted%s; its committed offsets stay, and are not used for %s",
                self._consumer_id,
                topic,
                " and created again: it is read from its beginning" if created is not None else ", its streams wait",
                "the new one" if created is not None else "one that may be created in its place",
            )
            gone = [tp for tp in self._begun if tp.topic == topic]
            self._delivery.bury(gone)
            for tp in gone:
                self._begun.pop(tp, None)
            self._stopped.difference_update(gone)
        self._created = dict(snapshot.created)

    def _take_back(self, partitions: Collection[TopicPartition]) -> None:
        """Stopped, and mine after all."""
        if partitions:
            self._delivery.go_on(partitions)
            self._stopped.difference_update(partitions)

    def _is_held_up(self, going: Collection[TopicPartition], *, final: bool) -> bool:
        """Stop these; True if users have some in hand that can still be waited for."""
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

    def _end(self, going: Collection[TopicPartition]) -> None:
        self._delivery.end([tp for tp in going if tp in self._begun])
        for tp in going:
            self._begun.pop(tp, None)
        self._stopped.difference_update(going)

    def _begin(self, assignment: Assignment) -> None:
        """Start what is owned and does not flow yet; also what an earlier step claimed and could not start."""
        fresh = {tp: thread for tp, thread in self._ownership.owned.items() if self._begun.get(tp) != thread}
        if fresh or assignment != self._announced:
            try:
                self._delivery.begin(fresh, assignment)
            except PartlyBegunError as error:
                self._begun.update((tp, thread) for tp, thread in fresh.items() if tp not in error.held)
                raise
            self._begun.update(fresh)
            self._announced = assignment
