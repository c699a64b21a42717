"""Members of a group over an in-memory ZooKeeper. The test takes their turns: no threads, no waiting."""

from __future__ import annotations

from rebalance.assignors import ASSIGNORS
from rebalance.assignors.strategies import make_assignors
from rebalance.coordinator import Coordinator
from rebalance.led.member import LED, LedMember
from rebalance.led.records import ephemeral_paths
from rebalance.machine import Policy
from rebalance.ownership import Ownership
from rebalance.registrar import Registrar
from rebalance.upkeep import Periods
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicAssignment

GROUP = "g"


class FakeClock:
    """A clock that stands still until a test moves it."""

    def __init__(self):
        self.now = 1000.0

    def monotonic(self):
        return self.now

    def wall_ms(self):
        return int(self.now * 1000)

    def wait(self, event, timeout_s):
        return event.is_set()


class RecordingDelivery:
    """Records the coordinator's calls. in_hand: partitions of which the user's code has messages in hand."""

    def __init__(self):
        self.log = []
        self.flowing = set()
        self.in_hand = set()
        self.assignment = {}
        self.commits = 0
        self.paused = False

    def begin(self, claimed, assignment):
        self.log.append(("begin", tuple(sorted(claimed))))
        self.flowing |= set(claimed)
        self.assignment = assignment
        yield from ()

    def stop(self, partitions):
        self.log.append(("stop", tuple(sorted(partitions))))
        self.flowing -= set(partitions)

    def undrained(self, partitions):
        return frozenset(self.in_hand & set(partitions))

    def go_on(self, partitions):
        self.log.append(("go_on", tuple(sorted(partitions))))
        self.flowing |= set(partitions)

    def end(self, partitions):
        self.log.append(("end", tuple(sorted(partitions))))
        yield from ()

    def finish_telling(self):
        yield from ()

    def await_answer(self, timeout_s):
        raise AssertionError("nothing is awaited")

    def drop(self, partitions):
        self.log.append(("drop", tuple(sorted(partitions))))
        self.flowing -= set(partitions)

    def bury(self, partitions):
        self.log.append(("bury", tuple(sorted(partitions))))
        self.flowing -= set(partitions)

    def disown(self, partitions):
        self.log.append(("disown", tuple(sorted(partitions))))

    def pause(self):
        self.paused = True

    def resume(self):
        self.paused = False

    def commit(self):
        self.commits += 1


class Member:
    """A coordinator with all its parts except streams."""

    def __init__(
        self,
        server,
        name,
        subscription,
        clock,
        *,
        strategy="range",
        pattern=SubscriptionPattern.STATIC,
        gather_ms=0,
        absence_ms=0,
        backoff_ms=2000,
        led=None,
    ):
        self.consumer_id = f"{GROUP}_{name}"
        self.store = MemoryStore(server)
        self.store.start()
        self.delivery = RecordingDelivery()
        self.clock = clock
        coordination = "classic" if led is None else LED
        registration = ConsumerRegistration(
            pattern, tuple(subscription.items()), clock.wall_ms(), coordination=coordination
        )
        goes_along = () if led is None else ephemeral_paths(GROUP, self.consumer_id)
        ownership = Ownership(self.store, GROUP, self.consumer_id, goes_along)

        def classic(group):
            return ASSIGNORS[strategy](group, "1.0")

        self.led = None
        if led is not None:
            self.led = LedMember(
                self.store,
                GROUP,
                self.consumer_id,
                make_assignors(led, {}),
                classic=classic,
                session_id=lambda: self.coordinator.session_id,
                owned=lambda: ownership.owned,
                post=lambda mail: self.coordinator.post(mail),  # noqa: PLW0108
                later=lambda errand, delay_ms: self.coordinator.post_later(errand, delay_ms),  # noqa: PLW0108
                clock=clock,
                rebalance_timeout_ms=5000,
            )
        self.coordinator = Coordinator(
            store=self.store,
            registrar=Registrar(self.store, GROUP, self.consumer_id, registration),
            ownership=ownership,
            delivery=self.delivery,
            assign=classic if self.led is None else self.led.assign,
            exclude_internal_topics=True,
            policy=Policy(
                4, backoff_ms, suspicion_ms=1500, drain_timeout_ms=3000, gather_ms=gather_ms, absence_ms=absence_ms
            ),
            periods=Periods(commit_ms=60_000, audit_ms=10_000),
            clock=clock,
            led=self.led,
        )

    def join(self):
        self.coordinator.open()
        return self

    @property
    def owned(self):
        return sorted(self.coordinator.status.owned)

    @property
    def phase(self):
        return self.coordinator.status.phase


class Group:
    """An in-memory ZooKeeper with topics, and the members that joined."""

    def __init__(self, topics):
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(wall_ms=self.clock.wall_ms)
        self.admin = MemoryStore(self.server)
        self.admin.start()
        self.members = []
        for topic, partitions in topics.items():
            self.create_topic(topic, partitions)

    def create_topic(self, topic, partitions):
        data = encode_topic(TopicAssignment(dict.fromkeys(range(partitions), (0,))))
        self.admin.create(f"/brokers/topics/{topic}", data, make_parents=True)

    def add_partitions(self, topic, partitions):
        data = encode_topic(TopicAssignment(dict.fromkeys(range(partitions), (0,))))
        self.admin.set_data(f"/brokers/topics/{topic}", data)

    def join(self, name, subscription, **options):
        member = Member(self.server, name, subscription, self.clock, **options).join()
        self.members.append(member)
        return member

    def settle(self, turns=10_000):
        """Let all members take turns until no member has anything to do now."""
        for _ in range(turns):
            # a list, so that all members get a turn, not only the members before the first busy one
            idle = [member.coordinator.is_closed or member.coordinator.turn() > 0 for member in self.members]
            if all(idle):
                return
        raise AssertionError("the group does not settle")

    def pass_time(self, seconds):
        """Move the clock in steps, and let all members take their turns at each step."""
        end = self.clock.now + seconds
        while self.clock.now < end:
            self.settle()
            # a member may have let time pass in its turn
            self.clock.now += max(0.0, min(0.25, end - self.clock.now))
        self.settle()

    def owners(self, topic):
        """Return {partition: text of its owner znode}."""
        path = f"/consumers/{GROUP}/owners/{topic}"
        if self.admin.exists(path) is None:
            return {}
        return {int(p): self.admin.get_data(f"{path}/{p}").data.decode() for p in self.admin.get_children(path)}
