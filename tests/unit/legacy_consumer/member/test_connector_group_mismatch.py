"""A connector with another strategy than its group: the error is one line, and none of the member's znodes stay."""

import logging

import pytest

from legacy_consumer import ConsumerConnector, Phase
from rebalance.errors import StrategyMismatchError
from rebalance.group_strategy import ClassicStrategy
from rebalance.snapshot import GroupSnapshot
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_registration, encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicAssignment, TopicPartition

STATIC = SubscriptionPattern.STATIC
RANGE = ClassicStrategy("range")
ROUNDROBIN = ClassicStrategy("roundrobin", "1.0")


class Cluster:
    """A group whose other members are only znodes: they own their shares by a strategy, and never rebalance."""

    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.partitions = {"t": 4, "u": 1}
        for topic, count in self.partitions.items():
            data = encode_topic(TopicAssignment(dict.fromkeys(range(count), (0,))))
            self.admin.create(f"/brokers/topics/{topic}", data, make_parents=True)
        self.members = {}
        self.connectors = []

    def register(self, *names):
        for name in names:
            self.members[f"g_{name}"] = ConsumerRegistration(STATIC, (("t", 1), ("u", 1)), 0)
            data = encode_registration(self.members[f"g_{name}"])
            self.admin.create(f"/consumers/g/ids/g_{name}", data, ephemeral=True, make_parents=True)

    def own(self, strategy, *, also=(), leave=()):
        """Let the members own their shares by the strategy, as if the members `also` were there, except `leave`."""
        members = self.members | {name: ConsumerRegistration(STATIC, (("t", 1), ("u", 1)), 0) for name in also}
        partitions = {topic: tuple(range(count)) for topic, count in self.partitions.items()}
        group = GroupSnapshot("g", dict(sorted(members.items())), partitions)
        for tp, thread in strategy.assign(group).items():
            if thread.consumer_id in self.members and tp not in leave:
                path = f"/consumers/g/owners/{tp.topic}/{tp.partition}"
                self.admin.create(path, str(thread).encode(), ephemeral=True, make_parents=True)

    def connector(self, **properties):
        properties = {"rebalance_backoff_ms": 10, "partition_assignment_strategy": "roundrobin", **properties}
        connector = ConsumerConnector(
            store=MemoryStore(self.zookeeper),
            fetchers=FakeFetchers(FakeKafka()),
            zookeeper_connect="memory",
            group_id="g",
            consumer_id="me",
            **properties,
        )
        self.connectors.append(connector)
        return connector

    def tree(self):
        """Return {path: data} of the group's znode and all znodes below it."""
        found, open_paths = {}, ["/consumers/g"]
        while open_paths:
            path = open_paths.pop()
            if self.admin.exists(path) is not None:
                found[path] = self.admin.get_data(path).data
                open_paths += [f"{path}/{child}" for child in self.admin.get_children(path)]
        return found


@pytest.fixture
def cluster():
    cluster = Cluster()
    yield cluster
    for connector in cluster.connectors:
        connector.shutdown()


def join(connector):
    connector.create_message_streams({"t": 1, "u": 1})


def test_a_group_of_another_strategy_is_not_joined_and_nothing_is_written(cluster):
    cluster.register("a", "b")
    cluster.own(RANGE)
    before = cluster.tree()
    cluster.zookeeper.requests.clear()
    with pytest.raises(StrategyMismatchError, match=r"set partition\.assignment\.strategy=range"):
        join(cluster.connector())
    assert not cluster.zookeeper.requests.keys() & {"create", "multi", "set_data", "delete"}
    assert cluster.tree() == before
    assert cluster.connectors[0].status.phase is Phase.CLOSED


def test_the_right_setting_joins(cluster):
    cluster.register("a", "b")
    cluster.own(RANGE)
    connector = cluster.connector(partition_assignment_strategy="range", rebalance_max_retries=1)
    join(connector)
    assert cluster.admin.exists("/consumers/g/ids/g_me") is not None


def test_with_warn_a_member_joins_at_once_with_a_warning(cluster, caplog):
    cluster.register("a", "b")
    cluster.own(RANGE)
    with caplog.at_level(logging.WARNING):
        join(cluster.connector(group_mismatch="warn", rebalance_max_retries=1))
    assert "divides its partitions by range and this member by roundrobin 1.0" in caplog.text
    assert cluster.admin.exists("/consumers/g/ids/g_me") is not None


def test_an_empty_group_and_one_left_behind_are_joined(cluster):
    cluster.admin.create("/consumers/g/owners/t/0", b"g_dead-0", make_parents=True)
    cluster.admin.delete("/consumers/g/owners/t/0")
    connector = cluster.connector()
    join(connector)
    assert len(connector.status.owned) == 5


def test_a_coincidence_in_the_midst_of_a_rebalance_refuses_nobody(cluster):
    """a alone owns t/0, as range gives a beside b; a moment later the round-robin group has finished its rebalance."""
    cluster.partitions = {"t": 1, "u": 1}
    cluster.admin.set_data("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})))
    cluster.register("a")
    cluster.own(ROUNDROBIN)
    cluster.register("b")
    looks = []

    def a_gives_way(session, kind):
        # at the third read of the owners, a and b have settled
        if kind == "get_children":
            looks.append(kind)
            if len(looks) == 3:
                cluster.zookeeper.fault = None
                for topic in ("t", "u"):
                    cluster.admin.delete(f"/consumers/g/owners/{topic}/0")
                cluster.own(ROUNDROBIN)

    cluster.zookeeper.fault = a_gives_way
    connector = cluster.connector(rebalance_max_retries=4)
    join(connector)
    assert len(looks) == 3
    assert cluster.admin.exists("/consumers/g/ids/g_me") is not None


def test_a_mismatch_that_shows_only_after_joining_ends_in_the_same_error_and_leaves_nothing(cluster):
    """The group rebalances when the member looks, then settles by range, the member included, but keeps its share."""
    cluster.register("a", "z")
    cluster.own(RANGE, also=["g_me"])
    before = cluster.tree()
    with pytest.raises(StrategyMismatchError, match="range and this member by roundrobin"):
        join(cluster.connector(rebalance_max_retries=2))
    assert cluster.tree().keys() == before.keys()
    assert cluster.connectors[0].status.phase is Phase.CLOSED


def test_an_owner_that_is_merely_in_the_way_is_no_mismatch(cluster):
    cluster.admin.create("/consumers/g/owners/t/0", b"g_ghost-0", ephemeral=True, make_parents=True)
    connector = cluster.connector(rebalance_max_retries=1)
    join(connector)
    assert connector.status.phase is Phase.DEGRADED
    cluster.admin.delete("/consumers/g/owners/t/0")
    eventually(lambda: TopicPartition("t", 0) in connector.status.owned)


class CountingStore(MemoryStore):
    """Records the owner znodes that are read."""

    def __init__(self, server):
        super().__init__(server)
        self.owners_read = []

    def get_data_many(self, paths, watcher=None):
        self.owners_read += [path for path in paths if "/owners/" in path]
        return super().get_data_many(paths, watcher)


def owners_read_by_the_check_of(cluster, **properties):
    store = CountingStore(cluster.zookeeper)
    store.start()
    connector = ConsumerConnector(
        store=store, fetchers=FakeFetchers(FakeKafka()), zookeeper_connect="memory", group_id="g", **properties
    )
    cluster.connectors.append(connector)
    return connector._membership.checks.mismatch(), len(store.owners_read)


def test_of_a_group_of_its_own_strategy_a_member_reads_one_owner_and_of_another_one_all(cluster):
    cluster.register("a", "b", "c")
    cluster.own(RANGE)
    assert owners_read_by_the_check_of(cluster, partition_assignment_strategy="range") == (None, 1)
    mismatch, read = owners_read_by_the_check_of(cluster, partition_assignment_strategy="roundrobin")
    assert isinstance(mismatch, StrategyMismatchError)
    assert read == 6, "the one again, and all five"


def test_of_a_group_that_owns_nothing_yet_a_member_reads_no_owner(cluster):
    cluster.register("a", "b")
    assert owners_read_by_the_check_of(cluster) == (None, 0)
