"""The group coordinator of a simulated world whose group keeps its offsets in Kafka: offsets.storage=kafka.

The group keeps them only in Kafka, or in ZooKeeper too (dual.commit.enabled). If the group has read before, offsets are
committed in both or in one.

A read may find no coordinator, or get no answer for one partition. The coordinator may refuse a commit for one
partition, not get it, carry it out without an answer, or carry it out late: after its client gave it up, left the group
or died. A client begins no other commit while one of its own may still be carried out.
"""

from __future__ import annotations

import random
from dataclasses import replace

from tenacity import Retrying, stop_after_attempt

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.offsets.kafka import KafkaOffset
from tests.simulation.zookeeper import InjectedError
from zk_layout.model import TopicPartition

_LATE_S = (0.0, 0.5, 2.0, 8.0)


def ask_once(_within_s):
    """Return a retry policy for KafkaOffsetStore's reads that tries once, as if no second try came in time."""
    return Retrying(stop=stop_after_attempt(1), reraise=True)


def use_kafka(seed, settings):
    """Return the settings of this world if its group keeps its offsets in Kafka, None if it does not."""
    # a generator of its own: the other choices of a seed do not depend on it
    rng = random.Random(f"kafka {seed}")
    if rng.random() >= 0.3 or settings.jvm_members:
        return None
    return replace(settings, adopt=rng.random() < 0.75, commit_ms=rng.choice((200, 500, 2000)))


class GroupCoordinator:
    """Kafka's coordinator of the group. is_used: the group keeps its offsets here, alone or in ZooKeeper too."""

    def __init__(self, world, *, is_used):
        self.world = world
        self.is_dual = is_used and random.Random(f"dual {world.seed}").random() < 0.5
        self.is_alone = is_used and not self.is_dual
        self.is_used = is_used
        self.user_commits = 0.3 if is_used else 0.1
        """The probability of a user's commit; higher with Kafka, because only users see a commit's result."""
        self.rng = random.Random(f"coordinator {world.seed}")
        self.fails = self.rng.choice((0.2, 0.3, 0.5))
        self.kept = {}
        self._late = []
        """[(time of its write, channel, offsets)] of commits to carry out late."""

    def have_read_before(self):
        """Commit offsets before the first member joins, in most worlds that use Kafka."""
        if not self.is_used or self.rng.random() < 0.3:
            return
        for tp in [TopicPartition(topic, n) for topic, count in self.world.partitions.items() for n in range(count)]:
            end = self.world.kafka.ends[tp] = self.rng.randint(0, 9)
            self.world.record("produced", tp, end)
            where = self.rng.choice(("both", "in Kafka", "in Kafka", "in ZooKeeper")) if self.is_dual else "in Kafka"
            if where != "in ZooKeeper":
                self.reset(tp, self.rng.choice((end, self.rng.randint(0, end))))
            if where != "in Kafka":
                self.world.write_offset(tp, self.rng.randint(0, end))

    def reset(self, tp, offset):
        """Write an offset, as an operator does."""
        self._keep("operator", {tp: KafkaOffset(offset)}, is_late=False)

    def forget(self, tp):
        """Delete an offset, as an operator does, or as it expires; False if there is none."""
        if self.kept.pop(tp, None) is None:
            return False
        self.world.record("forgotten", tp)
        return True

    def carry_out_late(self, *, all_of_them=False):
        """Carry out the late commits that are due; all_of_them: end the faults too, and carry out all."""
        if all_of_them:
            self.fails = 0.0
        due = [one for one in self._late if all_of_them or one[0] <= self.world.clock.now]
        self._late = [one for one in self._late if one not in due]
        for _, channel, offsets in due:
            self._keep(channel.name, offsets, is_late=True)

    def is_waiting(self, channel):
        """Whether a commit of this client may still be carried out."""
        return any(one is channel for _, one, _ in self._late)

    def delay(self, channel, offsets):
        """Carry this commit out later, when its client has given it up."""
        self._late.append((self.world.clock.now + self.rng.choice(_LATE_S), channel, offsets))

    def keep(self, channel, offsets):
        """Carry this commit out now."""
        self._keep(channel.name, offsets, is_late=False)

    def _keep(self, name, offsets, *, is_late):
        self.kept.update(offsets)
        for tp, kept in sorted(offsets.items()):
            self.world.record("kept", name, tp, kept.offset, "late" if is_late else "")


class Channel:
    """One member's connection to the coordinator; implements GroupOffsets."""

    def __init__(self, coordinator, member):
        self._coordinator = coordinator
        self._member = member
        self.name = member.name

    def read(self, partitions, timeout_s):
        """Read offsets, as GroupOffsets.read; it may fail, or lack one partition."""
        fate = self._begin(("down", "unforeseen", "untold", "untold"))
        if fate in ("down", "unforeseen"):
            self._fail(fate)
        told = {tp: self._coordinator.kept.get(tp, KafkaOffset(None)) for tp in partitions}
        if fate == "untold":
            secret = self._coordinator.rng.choice(sorted(told))
            del told[secret]
            self._coordinator.world.record("no answer", self.name, fate, secret)
        self._coordinator.world.checker.note_told(self.name, told)
        return told

    def write(self, offsets, timeout_s):
        """Commit offsets, as GroupOffsets.write; it may fail as the module says."""
        coordinator = self._coordinator
        fate = self._begin(
            ("down", "unforeseen", "refused", "refused", "unanswered", "unanswered", "unforeseen, done", "late")
        )
        coordinator.world.checker.check_asked(self.name, offsets)
        if coordinator.is_waiting(self):
            self._fail("an earlier commit may still be carried out")
        if fate in ("down", "unforeseen"):
            self._fail(fate)
        if fate == "late":
            coordinator.delay(self, offsets)
            self._fail(fate)
        refused = coordinator.rng.choice(sorted(offsets)) if fate == "refused" else None
        coordinator.keep(self, {tp: kept for tp, kept in offsets.items() if tp != refused})
        if fate in ("unanswered", "unforeseen, done"):
            self._fail(fate)
        if refused is not None:
            coordinator.world.record("no answer", self.name, fate, refused)
        coordinator.world.strike_commit(self._member.store)
        return None if refused is None else "refused"

    def close(self):
        """Do nothing: a late commit is still carried out."""

    def _begin(self, fates):
        coordinator = self._coordinator
        coordinator.world.before_request(self._member.store)
        if coordinator.rng.random() < coordinator.fails:
            return coordinator.rng.choice(fates)
        return ""

    def _fail(self, fate):
        self._coordinator.world.failed_requests[self.name] += 1
        self._coordinator.world.record("no answer", self.name, fate)
        raise InjectedError(fate) if fate.startswith("unforeseen") else BrokersUnavailableError(fate)
