"""Topics are deleted and created again at any moment; no member commits an offset of an earlier topic for the new one.

Random worlds of coordinators in memory: members join, drain and leave, lose their connection and single requests, while
an operator deletes and creates topics between any two turns and any two requests.
"""

import random

import pytest

from rebalance.events import CloseRequested, Drained
from tests.support.group_members import GROUP, Group, RecordingDelivery
from zk_layout.memory_store import Fault
from zk_layout.model import TopicPartition

TOPICS = {"t": 3, "u": 2}
WORLDS = range(120)


class Lives(RecordingDelivery):
    """Commits when partitions end, and checks that their topics are the same as when delivery began."""

    def __init__(self, world):
        super().__init__()
        self._world = world
        self.begun = {}

    def begin(self, claimed, assignment):
        yield from super().begin(claimed, assignment)
        self.begun.update((tp, self._world.life(tp.topic)) for tp in claimed)

    def end(self, partitions):
        yield from super().end(partitions)
        for tp in partitions:
            if self.begun.pop(tp) != self._world.life(tp.topic):
                # collected and not raised, because the member would take an error for a failed commit
                self._world.wrong.append(tp)

    def drop(self, partitions):
        super().drop(partitions)
        self._forget(partitions)

    def bury(self, partitions):
        super().bury(partitions)
        self._forget(partitions)

    def _forget(self, partitions):
        for tp in partitions:
            self.begun.pop(tp, None)


class World:
    """One random world."""

    def __init__(self, seed):
        self.rng = random.Random(seed)
        self.group = Group(TOPICS)
        self.led = self.rng.choice([None, None, "range", "cooperative-sticky"])
        self.group.server.fault = self._fault
        self._names = 0
        self._acting = False
        self._away = []
        self.wrong = []
        """Partitions that a member committed after their topic had been replaced."""
        self.join()

    def life(self, topic):
        stat = self.group.admin.exists(f"/brokers/topics/{topic}")
        return None if stat is None else stat.czxid

    def join(self):
        if len(self.group.members) < 4:
            self._names += 1
            member = self.group.join(f"m{self._names}", dict.fromkeys(TOPICS, 1), led=self.led, backoff_ms=500)
            member.delivery = member.coordinator._runner._reconciler._delivery = Lives(self)
            member.coordinator._runner._delivery = member.coordinator._upkeep._delivery = member.delivery

    def _one(self):
        return self.rng.choice(self.group.members) if self.group.members else None

    def leave(self):
        if (member := self._one()) is not None:
            member.coordinator.post(CloseRequested(self.rng.choice((500, 3000, 9000))))

    def toggle(self):
        topic = self.rng.choice(sorted(TOPICS))
        path = f"/brokers/topics/{topic}"
        is_there = self.life(topic) is not None
        if is_there:
            self.group.admin.delete(path)
        if not is_there or self.rng.random() < 0.7:
            self.group.create_topic(topic, TOPICS[topic])

    def cut(self):
        if (member := self._one()) is not None and member not in self._away:
            self._away.append(member)
            self.group.server.suspend(member.store)

    def heal(self):
        if self._away:
            self.group.server.resume(self._away.pop().store)

    def hold(self):
        if (member := self._one()) is not None:
            member.delivery.in_hand = set(member.owned) if self.rng.random() < 0.5 else set()
            member.coordinator.post(Drained())

    def turn(self):
        for _ in range(self.rng.randint(1, 8)):
            if (member := self._one()) is not None and not member.coordinator.is_closed:
                member.coordinator.turn()

    def wait(self):
        self.group.clock.now += self.rng.choice((0.1, 0.5, 1.0, 3.0))

    def _end_sessions(self):
        """End the sessions of members that have left, as shutdown() does; owner znodes that they left go with them."""
        for member in [one for one in self.group.members if one.coordinator.is_closed]:
            self.group.members.remove(member)
            self._away = [one for one in self._away if one is not member]
            session_id = member.store.session_id
            member.store.close()
            self.group.server.expire(session_id)

    def _fault(self, session, _kind):
        if self._acting or session == self.group.admin.session_id:
            return None
        luck = self.rng.random()
        if luck < 0.03:
            self._acting = True
            self.toggle()
            self._acting = False
        return self.rng.choice((Fault.LOSE_REQUEST, Fault.LOSE_REPLY)) if luck > 0.98 else None

    def run(self):
        acts = [self.toggle, self.join, self.leave, self.cut, self.heal, self.hold, self.wait, *[self.turn] * 8]
        for _ in range(150):
            self.rng.choice(acts)()
            self._end_sessions()
        self.group.server.fault = None
        while self._away:
            self.heal()
        for member in self.group.members:
            member.delivery.in_hand = set()
            member.coordinator.post(Drained())
        self.group.pass_time(30.0)
        self._end_sessions()
        self.join()
        self.group.pass_time(30.0)


@pytest.mark.parametrize("block", range(10))
def test_no_partition_is_committed_for_another_life_of_its_topic(block):
    for seed in WORLDS[block::10]:
        world = World(seed)
        try:
            world.run()
            assert not world.wrong
            begun = {tp: life for member in world.group.members for tp, life in member.delivery.begun.items()}
            due = {TopicPartition(topic, number) for topic in TOPICS for number in range(TOPICS[topic])}
            assert begun == {tp: world.life(tp.topic) for tp in due if world.life(tp.topic) is not None}
        except AssertionError as error:
            raise AssertionError(f"world {seed}: {error}") from error
    assert world.group.admin.exists(f"/consumers/{GROUP}/ids")
