"""A group of Python and JVM members on real servers: members come and go, and each settled state is checked.

After each step `settle` waits until exactly the living members are registered, every partition has the owner that our
own assignor computes for this group, and the owner znodes have not changed for a moment. JVM members claim the shares
that they compute themselves, so agreeing owner znodes prove that our assignor agrees with theirs. From 0.9 on JVM
members also print the whole assignment that they computed, which must agree, too. Then `produce_round` writes messages
to every partition, and waits until the owner of each partition, and no other member, has consumed them.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
import time
import zlib
from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

from confluent_kafka import Producer

from rebalance.assignors import ASSIGNORS
from rebalance.assignors.java_hash import java_sort_key
from rebalance.led.cluster import threads_of
from rebalance.led.records import decode_generation, generation_path
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import subscribed_topics
from tests.interop.early_reads import GroupHistory, starts_in
from tests.support.jvm_member import (
    ConsoleConsumer,
    Consumed,
    JvmMember,
    JvmPrograms,
    MemberProcess,
    Subscription,
    between_looks,
)
from tests.support.zk_history import ZkHistory
from zk_layout.codecs import decode_offset, decode_registration
from zk_layout.errors import NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import TopicPartition
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath, OffsetPath, OwnerPath
from zk_layout.settings import ZkSettings

ROOT = Path(__file__).parent.parent.parent
PYTHON = "python"
FETCHERS = ("columnar", "librdkafka")
QUIET_S = 0.4
"""Seconds without a change of owner znodes after which a group counts as settled; a JVM member acts sooner."""
SETTLE_TIMEOUT_S = 45.0
TELL_TIMEOUT_S = 45.0

PROPERTIES: dict[str, str | int] = {
    "auto.offset.reset": "smallest",
    # members commit when they release partitions, and seldom otherwise, so that every duplicate has a known reason
    "auto.commit.interval.ms": 600_000,
    "zookeeper.session.timeout.ms": 4000,
    "zookeeper.connection.timeout.ms": 20_000,
    "rebalance.max.retries": 10,
}

# {version of a JVM member: its dialect of round-robin}
DIALECT_OF = {"0.8.2.2": "0.8.2", "0.10.2.2": "0.10.2", "1.1.1": "1.0"}


class PythonMember(MemberProcess):
    """A Python member in a process of its own, so that a test can kill it."""

    kind = PYTHON

    def __init__(self, programs, name, subscription, properties):
        arguments = [*subscription.arguments, *(f"{key}={value}" for key, value in properties.items())]
        command = [sys.executable, str(Path(__file__).with_name("member.py")), *arguments]
        super().__init__(name, command, programs.folder, {"PYTHONPATH": str(ROOT)})


@dataclass
class Cluster:
    """The brokers that all groups share, and the tests' own connection to their ZooKeeper."""

    kafka: object
    programs: JvmPrograms
    store: KazooStore
    producer: Producer
    history: ZkHistory

    @classmethod
    def open(cls, kafka, programs, history):
        store = KazooStore(ZkSettings(kafka.zookeeper_connect, session_timeout_ms=30_000, connection_timeout_ms=30_000))
        store.start()
        old = {"api.version.request": False, "broker.version.fallback": "0.8.2"}
        settings = {
            "bootstrap.servers": kafka.bootstrap_servers,
            "linger.ms": 5,
            "message.timeout.ms": 30_000,
            "log_level": 0,
        }
        producer = Producer({**settings, **(old if kafka.version.startswith("0.8") else {})})
        return cls(kafka, programs, store, producer, history)

    @property
    def chroot(self):
        _, slash, folder = self.kafka.zookeeper_connect.partition("/")
        return slash + folder

    def close(self):
        self.producer.flush(10)
        self.store.close()


@dataclass
class Step:
    """One change of a group. seconds: from the change of the list of members to the last owner znode."""

    what: str
    kind: str
    seconds: float


@dataclass
class Verdict:
    """The deliveries of all produced messages."""

    produced: int
    consumed: int
    """Messages handed out at least once."""
    redelivered: dict[tuple[TopicPartition, int], list[str]]
    """{message: kinds of the members that handed it out, in order}, of messages handed out more than once."""
    read_too_early: set[tuple[TopicPartition, int]]
    """Redelivered messages that a JVM member handed out again because it had read the offset before its claim."""
    handed_out_late: set[tuple[TopicPartition, int]]
    """Redelivered messages that a JVM member had handed out after its last commit."""


class MixedGroup:
    """One group and the topics that it subscribes to."""

    def __init__(
        self, cluster, name, topics, *, strategy="range", dialect="1.0", properties=None, tools=None, create=True
    ):
        self.cluster = cluster
        self.name = name
        self.topics = dict(topics)
        self.strategy = strategy
        self.dialect = dialect
        self.tools = tools
        self.properties = {
            **PROPERTIES,
            "group.id": name,
            "zookeeper.connect": cluster.kafka.zookeeper_connect,
            "partition.assignment.strategy": strategy,
            **(properties or {}),
        }
        self.living: dict[str, MemberProcess | ConsoleConsumer] = {}
        self.everybody: list[MemberProcess | ConsoleConsumer] = []
        self.produced: dict[TopicPartition, int] = dict.fromkeys(self.partitions, 0)
        self.steps: list[Step] = []
        self.judged: Verdict | None = None
        self._subscriptions: dict[str, Subscription] = {}
        self._forgiven: set[tuple[TopicPartition, int]] = set()
        self._python_members = 0
        for topic, partitions in self.topics.items() if create else ():
            cluster.kafka.create_topic(topic, partitions)

    def _next_fetcher(self):
        """Return the fetcher of the next Python member: both in turn; the group's name decides which is first."""
        self._python_members += 1
        return FETCHERS[(self._python_members + zlib.crc32(self.name.encode())) % 2]

    @property
    def partitions(self):
        return [
            TopicPartition(topic, number) for topic, count in sorted(self.topics.items()) for number in range(count)
        ]

    # Changes of the group.

    def start(self, kind, name, subscription, **properties):
        """Start a member without waiting. kind: python, a Kafka version, or `console <version>`."""
        programs = self.cluster.programs
        settings = {**self.properties, "consumer.id": name, **properties}
        label = f"{self.name}-{name}"
        if kind == PYTHON:
            settings["partition.assignment.dialect"] = self.dialect
            settings.setdefault("fetcher", self._next_fetcher())
            member = PythonMember(programs, label, subscription, settings)
        elif kind.startswith("console "):
            member = ConsoleConsumer(programs, kind.removeprefix("console "), label, subscription, settings)
        else:
            member = JvmMember(programs, kind, label, subscription, settings)
        self.everybody.append(member)
        self._subscriptions[f"{self.name}_{name}"] = subscription
        self.living[f"{self.name}_{name}"] = member
        return member

    def join(self, kind, name, subscription, **properties):
        """Start a member and wait until the group has settled."""
        member = self.start(kind, name, subscription, **properties)
        self.settle(f"{_side(kind)} joins", kind)
        return member

    def leave(self, name, *, by_signal=False):
        """Let a member leave in order, and wait until the group has settled and the process has ended."""
        member = self.begin_leave(name, by_signal=by_signal)
        self.settle(f"{_side(member.kind)} leaves", member.kind)
        member.await_end()

    def subscription_of(self, name):
        """Return the subscription of a member."""
        return self._subscriptions[f"{self.name}_{name}"]

    def begin_leave(self, name, *, by_signal=False):
        """Let a member leave in order, without waiting."""
        member = self.living.pop(f"{self.name}_{name}")
        if by_signal:
            member.terminate()
        else:
            member.shutdown()
        return member

    def kill(self, name):
        """Kill a member and wait until the group has settled."""
        member = self.begin_kill(name)
        self.settle(f"{_side(member.kind)} is killed", member.kind)

    def begin_kill(self, name):
        """Kill a member. Others may consume again the messages that it had consumed and not committed."""
        member = self.living.pop(f"{self.name}_{name}")
        member.kill()
        self.forgive_uncommitted(member)
        return member

    def freeze(self, name):
        """Stop a member until its session is over, and wait until the group has settled without it."""
        member = self.living.pop(f"{self.name}_{name}")
        member.freeze()
        self.forgive_uncommitted(member)
        self.settle(f"{_side(member.kind)} is frozen", member.kind)
        return member

    def thaw(self, name, member):
        """Let a frozen member go on, and wait until the group has settled with it."""
        self.living[f"{self.name}_{name}"] = member
        member.thaw()
        self.settle(f"{_side(member.kind)} is thawed", member.kind)

    def add_topic(self, topic, partitions):
        """Create a topic and wait until the group has settled."""
        self.topics[topic] = partitions
        self.produced.update({TopicPartition(topic, number): 0 for number in range(partitions)})
        self.cluster.kafka.create_topic(topic, partitions)
        self.settle("a topic comes", "topic")

    def add_partitions(self, topic, partitions):
        """Enlarge a topic and wait until the group has settled."""
        for number in range(self.topics[topic], partitions):
            self.produced[TopicPartition(topic, number)] = 0
        self.topics[topic] = partitions
        self.cluster.kafka.add_partitions(topic, partitions)
        while len(self.cluster.producer.list_topics(topic, 10).topics[topic].partitions) < partitions:
            between_looks()
        self.settle("partitions come", "partitions")

    def close(self):
        """Kill all members that still live, without further checks."""
        for member in self.everybody:
            member.kill()

    # The state in ZooKeeper.

    def member_ids(self):
        try:
            return set(self.cluster.store.get_children(ConsumerIdsPath(self.name).path))
        except NoNodeError:
            return set()

    def owner_znodes(self):
        partitions = self.partitions
        paths = [OwnerPath(self.name, tp.topic, tp.partition).path for tp in partitions]
        found = zip(partitions, self.cluster.store.get_data_many(paths), strict=True)
        return {tp: znode for tp, znode in found if znode is not None}

    def owners(self):
        return {tp: znode.data.decode() for tp, znode in self.owner_znodes().items()}

    def committed(self, tp):
        """Return the committed offset, 0 if there is none."""
        path = OffsetPath(self.name, tp.topic, tp.partition).path
        (znode,) = self.cluster.store.get_data_many([path])
        return 0 if znode is None else decode_offset(path, znode.data)

    def expected_owners(self):
        """Return our assignor's answer for the present registrations; in a led group, the leader's assignment."""
        snapshot = self.snapshot()
        if snapshot.members and all(told.coordination == "leader" for told in snapshot.members.values()):
            (znode,) = self.cluster.store.get_data_many([generation_path(self.name)])
            shares = decode_generation(generation_path(self.name), znode.data).shares if znode is not None else {}
            return {tp: str(thread) for tp, thread in threads_of(shares, snapshot).items()}
        assignment = ASSIGNORS[self.strategy](snapshot, self.dialect)
        return {tp: str(thread) for tp, thread in assignment.items()}

    def snapshot(self):
        ids = sorted(self.member_ids(), key=java_sort_key)
        paths = [ConsumerIdPath(self.name, name).path for name in ids]
        members = {
            name: decode_registration(path, znode.data)
            for name, path, znode in zip(ids, paths, self.cluster.store.get_data_many(paths), strict=True)
            if znode is not None
        }
        partitions = {topic: tuple(range(count)) for topic, count in sorted(self.topics.items())}
        return GroupSnapshot(self.name, members, partitions)

    # Checks.

    def settle(self, what=None, kind=""):
        """Wait until the group has settled, check it, and note how long it took under `what`."""
        deadline = time.time() + SETTLE_TIMEOUT_S
        znodes, expected, members_since, last_change = self._await_settled(what, deadline)
        while (complaint := self._complaint_of_the_tool()) and self._has_moved(znodes):
            # a JVM member had not finished, and the tool read the group in the middle of its changes
            znodes, expected, _, last_change = self._await_settled(what, deadline)
        if what is not None:
            self.steps.append(Step(what, kind, max(0.0, last_change - members_since)))
        assert not complaint, complaint
        self._check_owners(znodes, expected)
        self._check_told()

    def _await_settled(self, what, deadline):
        """Return (owner znodes, expected owners, since when only living members are registered, last change)."""
        members_since = None
        last_change = time.time()
        before = None
        while True:
            ids = self.member_ids()
            znodes = self.owner_znodes()
            now = time.time()
            picture = {tp: (znode.data, znode.stat.czxid) for tp, znode in znodes.items()}
            if ids == set(self.living):
                members_since = members_since or now
            if picture != before:
                before, last_change = picture, now
            if members_since is not None and now - max(last_change, members_since) >= QUIET_S:
                expected = self.expected_owners()
                if {tp: znode.data.decode() for tp, znode in znodes.items()} == expected:
                    return znodes, expected, members_since, last_change
            if now > deadline:
                raise AssertionError(self._unsettled(what, ids, znodes))
            between_looks()

    def _complaint_of_the_tool(self):
        """Return what Kafka's own tool complains of about the owners; empty if nothing, or if there is no tool."""
        if self.tools is None:
            return []
        printed = self.tools.run(
            "kafka.tools.VerifyConsumerRebalance",
            "--zookeeper.connect",
            self.cluster.kafka.zookeeper_connect,
            "--group",
            self.name,
        )
        return [] if printed == ["Rebalance operation successful !"] else printed

    def _has_moved(self, znodes):
        """Return whether an owner znode has come or gone since these were read."""
        now = self.owner_znodes()
        return {tp: znode.stat.czxid for tp, znode in now.items()} != {
            tp: znode.stat.czxid for tp, znode in znodes.items()
        }

    def _unsettled(self, what, ids, znodes):
        expected = self.expected_owners()
        wrong = {
            str(tp): (znodes[tp].data.decode() if tp in znodes else None, expected.get(tp))
            for tp in self.partitions
            if (znodes[tp].data.decode() if tp in znodes else None) != expected.get(tp)
        }
        logs = "\n".join(f"=== {member.name}\n{member.log_tail()}" for member in self.everybody)
        return (
            f"not settled after {what}: members {sorted(ids)} of {sorted(self.living)}, "
            f"owners (is, should be) {wrong}\n{logs}"
        )

    def _check_owners(self, znodes, expected):
        subscribed = {
            topic
            for registration in self.snapshot().members.values()
            for topic in subscribed_topics(registration, self.topics)
        }
        wanted = {tp for tp in self.partitions if tp.topic in subscribed}
        assert set(expected) == wanted, "a partition has no owner"
        sessions = {
            znode.stat.ephemeral_owner
            for znode in self.cluster.store.get_data_many(
                [ConsumerIdPath(self.name, n).path for n in self.member_ids()]
            )
            if znode is not None
        }
        for tp, znode in znodes.items():
            assert znode.stat.ephemeral_owner in sessions, f"{tp} is owned by a session that no member has"

    def _check_told(self):
        """Wait until owner znodes agree with the assignments that members print; JVM members print them from 0.9 on.

        A member with an empty share may first sleep a back-off, after it tried to claim partitions of its former share.
        """
        deadline = time.time() + TELL_TIMEOUT_S
        while wrong := self._told_otherwise():
            assert time.time() < deadline, f"{wrong} computed something else than {self.owners()}"
            between_looks()

    def _told_otherwise(self):
        """Return {member: its last printed assignment} of members whose assignment differs from the owner znodes."""
        owners = self.owners()
        told = {
            member.name: {tp: str(thread) for tp, thread in member.assignments[-1].items()}
            for member in self.living.values()
            if member.assignments
        }
        return {name: assignment for name, assignment in told.items() if not assignment.items() <= owners.items()}

    def produce_round(self, count=5):
        """Write `count` messages to every owned partition, and check that the owner alone consumes each of them."""
        owners = self.owners()
        start = {tp: self.produced[tp] for tp in owners}
        self.produce(count, owners)
        self.await_consumed({tp: range(first, first + count) for tp, first in start.items()})
        consumers = defaultdict(list)
        for member_id, member in self.living.items():
            for tp, offset, _ in list(member.consumed):
                if tp in start and offset >= start[tp]:
                    consumers[tp, offset].append(member_id)
        for (tp, offset), who in consumers.items():
            owner = owners[tp].rpartition("-")[0]
            assert who == [owner], f"{tp}@{offset} is {owner}'s, and was consumed by {who}"

    def produce(self, count, partitions=None):
        """Write messages whose values are their topic, partition and offset, and wait until the broker has them."""
        failed = []
        for tp in partitions if partitions is not None else self.partitions:
            for number in range(self.produced[tp], self.produced[tp] + count):
                value = f"{tp.topic} {tp.partition} {number}"
                self.cluster.producer.produce(
                    tp.topic, value, partition=tp.partition, on_delivery=lambda error, _: error and failed.append(error)
                )
            self.produced[tp] += count
        assert self.cluster.producer.flush(30) == 0
        assert not failed

    @contextlib.contextmanager
    def flow(self):
        """Produce to every partition without a pause; afterwards wait until members have consumed all messages."""
        done = threading.Event()

        def produce():
            while not done.wait(0.02):
                self.produce(2)

        producing = threading.Thread(target=produce)
        producing.start()
        try:
            yield
        finally:
            done.set()
            producing.join()
        self.await_consumed({tp: range(count) for tp, count in self.produced.items()})

    def await_consumed(self, wanted, timeout_s=SETTLE_TIMEOUT_S):
        """Wait until some member has consumed each of these offsets: {partition: offsets}."""
        missing = {(tp, offset) for tp, offsets in wanted.items() for offset in offsets}
        deadline = time.time() + timeout_s
        while True:
            missing -= {(tp, offset) for tp, offset, _ in self.consumed()}
            if not missing:
                return
            if time.time() > deadline:
                logs = "\n".join(f"=== {member.name}\n{member.log_tail()}" for member in self.living.values())
                raise AssertionError(f"{len(missing)} messages were not consumed: {sorted(missing)[:10]}\n{logs}")
            between_looks()

    def consumed(self) -> list[Consumed]:
        return [consumed for member in self.everybody for consumed in list(member.consumed)]

    def verdict(self):
        """Check that members consumed every message, and twice only messages not committed when their owner was killed.

        Two more reasons are allowed and reported, if ZooKeeper's transaction log and the member's own log prove them. A
        JVM member reads an offset before it claims the partition, and so misses what the former owner commits in
        between. And it hands out messages after its last commit and before its release (early_reads.py).
        """
        wanted = {tp: range(count) for tp, count in self.produced.items()}
        self.await_consumed(wanted)
        handed_out = defaultdict(list)
        for member in self.everybody:
            for tp, offset, at in member.consumed:
                handed_out[tp, offset].append((at, member.kind, member))
        again = {
            message: sorted(times, key=lambda one: one[0]) for message, times in handed_out.items() if len(times) > 1
        }
        late = self._check_reasons({message: again[message] for message in again.keys() - self._forgiven})
        redelivered = {message: [kind for _, kind, _ in times] for message, times in again.items()}
        early = again.keys() - self._forgiven - late
        self.judged = Verdict(sum(self.produced.values()), len(handed_out), redelivered, early, late)
        return self.judged

    def _check_reasons(self, again):
        """Check that each of {message: [(time, kind, member), ...]} was handed out again because of a JVM member.

        Returns: the messages that a JVM member handed out late; of all others it had read the offset too early.
        """
        late = set()
        if not again:
            return late
        history = GroupHistory(self.cluster.history, self.cluster.chroot, self.name)
        starts = {member.name: starts_in(member.log_text()) for member in self.everybody if _side(member.kind) == "JVM"}
        for (tp, offset), times in sorted(again.items()):
            for (_, kind_before, _), (at, kind, member) in itertools.pairwise(times):
                consumer_id = f"{self.name}_{member.name.removeprefix(f'{self.name}-')}"
                if _side(kind_before) == "JVM" and history.is_handed_out_late(consumer_id, tp, offset, at):
                    late.add((tp, offset))
                    continue
                wrong = "a Python member reads after its claim"
                if kind != PYTHON:
                    wrong = history.why_not_early(consumer_id, starts[member.name], tp, offset, at)
                assert not wrong, (
                    f"{tp}@{offset} was handed out again without a reason: {wrong}; to "
                    f"{[(one.name, when) for when, _, one in times]}\n{history.story(tp)}\n{starts.get(member.name)}"
                )
        return late

    def forgive(self, messages):
        """Allow members to consume these (partition, offset) again."""
        self._forgiven |= set(messages)

    def forgive_uncommitted(self, member):
        """Allow others to consume again what a member did not commit before it was killed or lost its session."""
        committed = {tp: self.committed(tp) for tp in {tp for tp, _, _ in member.consumed}}
        self._forgiven |= {(tp, offset) for tp, offset, _ in list(member.consumed) if offset >= committed[tp]}

    def order_of(self, tp):
        """Return the offsets of a partition in the order in which any members consumed them."""
        return [offset for _, offset in sorted((c.at, c.offset) for c in self.consumed() if c.tp == tp)]


def _side(kind):
    return "Python" if kind == PYTHON else "JVM"
