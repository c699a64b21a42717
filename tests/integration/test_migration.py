"""A group leaves ZooKeeper on real brokers, from JVM members at the start to plain newer consumers at the end."""

from __future__ import annotations

import contextlib
import itertools
import json
import threading
import time
import uuid
from collections import Counter

import pytest
from click.testing import CliRunner
from confluent_kafka import Consumer

from legacy_consumer import ConsumerConnector, TopicPartition
from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.librdkafka import open_group_offsets
from legacy_consumer.operations.cli import main
from tests.support.jvm_member import JvmMember, Subscription
from tests.support.waiting import eventually
from zk_layout.codecs import decode_offset
from zk_layout.paths import OffsetPath

pytestmark = [pytest.mark.kafka]

VERSIONS = ["0.10.2.2", "1.1.1", "2.8.2", "3.9.1"]
MEMBERS = {"0.10.2.2": "0.10.2.2"}
"""{broker version: version of its Scala consumer}; all other brokers use that of 1.1.1, as the newest have none."""
PARTITIONS = 3


class Group:
    """A group and a topic for one test alone, and all messages that the members got."""

    def __init__(self, cluster, programs, folder):
        self.cluster = cluster
        self.programs = programs
        self.folder = folder
        self.topic = cluster.new_topic(PARTITIONS)
        self.name = f"g-{uuid.uuid4().hex[:8]}"
        self.produced = Counter()
        self.handed = Counter()
        self.members = []
        self.own_ids = set()
        """Consumer ids of our members; all others are JVM members."""
        self.backups = 0

    def produce(self, count):
        for n in range(count):
            self.produced[TopicPartition(self.topic, n % PARTITIONS)] += 1
        self.cluster.produce(self.topic, [(b"k", b"v", n % PARTITIONS) for n in range(count)])

    def jvm_member(self, **properties):
        settings = {
            "zookeeper.connect": self.cluster.kafka.zookeeper_connect,
            "group.id": self.name,
            "auto.offset.reset": "smallest",
            "auto.commit.interval.ms": 200,
            "rebalance.max.retries": 10,
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        version = MEMBERS.get(self.cluster.version, "1.1.1")
        name = f"{self.name}-{len(self.members)}"
        member = JvmMember(self.programs, version, name, Subscription("static", f"{self.topic}:1"), settings)
        self.members.append(member)
        return member

    def end(self, member):
        member.shutdown()
        member.await_end()

    def read_by_plain_consumer(self, count, then=lambda: None):
        """Read by a plain consumer. Where an offset is lost it begins at the log's end, so messages are missing."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.kafka.bootstrap_servers,
                "group.id": self.name,
                "auto.offset.reset": "latest",
                "enable.auto.commit": False,
                "session.timeout.ms": 6000,
            }
        )
        read = []
        try:
            consumer.subscribe([self.topic])
            eventually(lambda: read.extend(consumer.consume(100, 0.5)) or len(read) >= count)
            then()
            consumer.commit(asynchronous=False)
        finally:
            consumer.close()
        assert [message.error() for message in read if message.error()] == []
        return Counter((TopicPartition(self.topic, message.partition()), message.offset()) for message in read)

    def handed_to_members(self):
        return Counter((one.tp, one.offset) for member in self.members for one in member.consumed)

    def all_produced(self):
        return {(tp, offset) for tp, count in self.produced.items() for offset in range(count)}

    def migrate(self, verb, *arguments):
        if "--execute" in arguments:
            self.backups += 1
            arguments = (*arguments, "--backup", str(self.folder / f"backup-{self.backups}.json"))
        done = CliRunner().invoke(
            main, ["migrate", verb, self.name, *arguments, "--zookeeper", self.cluster.kafka.zookeeper_connect]
        )
        if done.exception is not None and not isinstance(done.exception, SystemExit):
            return 1, f"{type(done.exception).__name__}: {done.exception}"
        return done.exit_code, done.output

    def verdict(self):
        """Run verify. Returns: (exit code, number of members that it reports to commit to ZooKeeper alone)."""
        code, output = self.migrate("verify")
        return code, output.count("commits to ZooKeeper alone")

    def in_zookeeper(self):
        return self.cluster.committed(self.name, self.topic)

    def close(self):
        for member in self.members:
            member.kill()


class Ratchet:
    """Reads a group's offsets in Kafka again and again, and at the end all that clients wrote to ZooKeeper.

    Only a JVM member may move an offset backwards: it reads the offset before it claims the partition, and begins there
    although the former owner commits meanwhile. With dual commits it moves both offsets.
    """

    def __init__(self, group):
        self.group = group
        self.config = ConsumerConfig.load(zookeeper_connect=group.cluster.kafka.zookeeper_connect, group_id=group.name)
        self.partitions = [TopicPartition(group.topic, n) for n in range(PARTITIONS)]
        self.seen = {}
        self.looks = 0
        self.backwards = []
        self.ended = threading.Event()
        self.thread = threading.Thread(target=self.run)

    def __enter__(self):
        self.thread.start()
        return self

    def __exit__(self, *_):
        self.ended.set()
        self.thread.join()
        by_jvm = self.check_zookeeper()
        assert [move for move in self.backwards if move[0] not in by_jvm] == []
        assert self.looks > 5

    def run(self):
        with contextlib.closing(open_group_offsets(self.config, self.group.cluster.store)) as kafka:
            while not self.ended.wait(0.05):
                self.note({tp: one.offset for tp, one in kafka.read(self.partitions, 10).items()})
                self.looks += 1

    def note(self, offsets):
        for tp, offset in offsets.items():
            before = self.seen.get(tp)
            if before is not None and (offset is None or offset < before):
                self.backwards.append((tp, before, offset))
            self.seen[tp] = offset

    def check_zookeeper(self):
        """Check that only JVM members moved offsets backwards. Returns: the partitions of these offsets."""
        cluster, name = self.group.cluster, self.group.name
        chroot = f"/{cluster.kafka.zookeeper_connect.partition('/')[2]}"
        znodes = cluster.history.below(f"{chroot}/consumers/{name}")
        ids = [(path.rpartition("/")[2], changes) for path, changes in znodes.items() if "/ids/" in path]
        sessions = {one.session for name, changes in ids if name not in self.group.own_ids for one in changes}
        found = set()
        for tp in self.partitions:
            path = f"{chroot}{OffsetPath(name, *tp).path}"
            changes = znodes[path]
            assert len(changes) > 1
            for before, after in itertools.pairwise(changes):
                if after.data is None or decode_offset(path, after.data) < decode_offset(path, before.data):
                    assert after.session in sessions, (before, after)
                    found.add(tp)
        return found


@pytest.fixture
def group(cluster, programs, tmp_path):
    made = Group(cluster, programs, tmp_path)
    yield made
    made.close()


@pytest.mark.slow
@pytest.mark.parametrize("broker_version", VERSIONS)
def test_a_stopped_group_moves_to_kafka_and_back_and_no_message_is_lost_or_read_twice(group):
    group.produce(60)
    member = group.jvm_member()
    member.wait_until(lambda: len(member.consumed) == 60, "60 messages")

    code, output = group.migrate("apply", "--execute")
    assert (code, "1 member is in ZooKeeper: stop them first, or move them" in output) == (1, True)
    group.end(member)
    group.produce(30)
    with Ratchet(group):
        code, output = group.migrate("apply")
        assert code == 0, output
        assert f"Group {group.name}: ZooKeeper to Kafka, migration not begun: 3 to write" in output
        assert "Nothing was written" in output
        assert group.migrate("verify")[0] == 1

        code, output = group.migrate("apply", "--execute")
        assert (code, "3 partitions of group" in output) == (0, True), output
        assert group.migrate("apply", "--execute")[1].splitlines()[-2].startswith("0 partitions of group")
        code, output = group.migrate("verify")
        assert (code, "migration applied, members in ZooKeeper: 0" in output) == (0, True), output

        refused = []
        newer = group.read_by_plain_consumer(30, then=lambda: refused.append(group.migrate("rollback", "--execute")))
        assert (refused[0][0], "1 consumer is in the group on the brokers' side" in refused[0][1]) == (1, True)
        assert newer | group.handed_to_members() == Counter(group.all_produced())
        assert newer & group.handed_to_members() == Counter()
        assert group.migrate("verify")[0] == 0

        group.produce(15)
        code, output = group.migrate("rollback", "--execute")
        assert (code, "3 partitions of group" in output) == (0, True), output
        back = group.jvm_member()
        back.wait_until(lambda: len(back.consumed) == 15, "the 15 messages that came last")
        group.end(back)
    assert newer + group.handed_to_members() == Counter(group.all_produced())

    # the group migrates again, and now finishes
    assert group.migrate("apply", "--execute")[0] == 0
    assert group.migrate("finish", "--execute")[0] == 0
    code, output = group.migrate("rollback", "--execute")
    assert (code, "closed the way back" in output) == (1, True)
    shown = CliRunner().invoke(
        main, ["migrate", "status", "--json", "--zookeeper", group.cluster.kafka.zookeeper_connect]
    )
    assert {"group": group.name, "phase": "finished"}.items() <= next(
        one for one in json.loads(shown.output) if one["group"] == group.name
    ).items()
    assert group.migrate("finish", "--delete", "--execute")[0] == 0
    assert "does not exist" in group.migrate("plan")[1]


@pytest.mark.slow
@pytest.mark.parametrize("broker_version", VERSIONS)
def test_members_move_one_by_one_under_load_and_nothing_is_lost(group):
    dual = {"offsets_storage": "kafka", "dual_commit_enabled": "true"}
    first, second = group.jvm_member(), group.jvm_member()
    ended = threading.Event()

    def keep_producing():
        while not ended.wait(0.1):
            group.produce(12)

    producing = threading.Thread(target=keep_producing)
    producing.start()
    try:
        with contextlib.ExitStack() as cleanup, Ratchet(group):
            eventually(lambda: first.consumed and second.consumed)
            code, output = group.migrate("apply", "--rolling", "--execute")
            assert (code, "The migration is rolling" in output) == (0, True), output
            # verify reports a member only once it has committed since then
            eventually(lambda: group.verdict() == (1, 2))

            group.end(first)
            third = group.jvm_member(**dual)
            eventually(lambda: third.consumed)
            group.end(second)
            ours = Ours(group, **dual)
            cleanup.callback(ours.end)
            eventually(lambda: ours.consumed)
            eventually(lambda: group.migrate("verify")[0] == 0)
            code, output = group.migrate("verify", "--json")
            assert len(json.loads(output)["members"]) == 2

            ours.end()
            asked_at = time.time()
            group.end(third)
            # a JVM member still hands out fetched messages while its last commit is on the way
            after_its_commit = {(one.tp, one.offset) for one in third.consumed if one.at >= asked_at}
            assert group.migrate("apply", "--execute")[0] == 0
            assert group.migrate("verify")[0] == 0
            ended.set()
            producing.join()
            handed = set(group.handed_to_members()) | set(ours.consumed)
            newer = group.read_by_plain_consumer(len(group.all_produced() - handed))
    finally:
        ended.set()
        producing.join()
    assert handed | set(newer) == group.all_produced()
    assert handed & set(newer) <= after_its_commit
    assert group.migrate("verify")[0] == 0


class Ours:
    """A Python member in this process."""

    def __init__(self, group, **properties):
        settings = group.cluster.config(group.name, auto_commit_enable=True, auto_commit_interval_ms=200, **properties)
        self.connector = ConsumerConnector(**{**settings, "consumer_timeout_ms": -1})
        group.own_ids.add(self.connector.consumer_id)
        self.consumed = []
        self.stream = self.connector.create_message_streams({group.topic: 1})[group.topic][0]
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        for message in self.stream:
            self.consumed.append((TopicPartition(message.topic(), message.partition()), message.offset()))

    def end(self):
        self.connector.end_streams()
        self.thread.join()
        self.connector.shutdown()


@pytest.mark.parametrize("broker_version", ["0.8.2.2"])
def test_a_broker_without_newer_consumers_is_refused(group):
    group.cluster.store.ensure_path(f"/consumers/{group.name}/offsets")
    code, output = group.migrate("plan")
    assert (code, "is a Kafka 0.8, which has no consumers of the newer kind: upgrade" in output) == (1, True)
    code, output = group.migrate("apply", "--execute")
    assert (code, "is a Kafka 0.8" in output, list(group.folder.iterdir())) == (1, True, [])
