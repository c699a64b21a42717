"""The operators' world of tests/simulation/operators, on a real ZooKeeper and a real broker.

Commands run in this process, as in the simulation, so the story can act around each of their writes. All else is real:
the sessions of members, newer consumers that join a group on the brokers' side, deletions and new creations of topics,
logs that lose their beginning, and the group coordinator that keeps offsets.
"""

from __future__ import annotations

import contextlib

from confluent_kafka import Consumer, ConsumerGroupTopicPartitions
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.librdkafka import open_group_offsets, open_log_offsets
from legacy_consumer.offsets import KafkaOffset
from legacy_consumer.operations.admin.pruning import zookeeper_ms
from legacy_consumer.operations.cli import groups_describe, kafka_offsets
from legacy_consumer.operations.cli.helpers import migrate_options
from legacy_consumer.operations.cli.helpers import options as cli_options
from tests.simulation.operators.world import GROUPS, PARTITIONS, OperatorsWorld, WatchedWrites
from tests.support.waiting import eventually
from zk_layout.errors import NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

_ANSWER_S = 30.0
MESSAGES = 100


class _WatchedStore(WatchedWrites, KazooStore):
    def __init__(self, settings, world):
        super().__init__(settings)
        self._world = world


class _WatchedOffsets:
    """A command's connection to the group coordinator; calls the world before each write."""

    def __init__(self, offsets, world):
        self._offsets = offsets
        self._world = world
        self.read, self.close = offsets.read, offsets.close

    def write(self, offsets, timeout_s):
        self._world.before_write()
        return self._offsets.write(offsets, timeout_s)


class _Kept:
    """The offsets of a group that the brokers' group coordinator keeps, for the world to read and change."""

    def __init__(self, world, group):
        self._world = world
        self._group = group
        self.kept = self
        self._offsets = open_group_offsets(world.config(group), world.store)

    def read(self):
        def answered():
            with contextlib.suppress(BrokersUnavailableError):
                return self._offsets.read(PARTITIONS, _ANSWER_S)

        return eventually(answered)

    def get(self, tp, default=None):
        kept = self.read().get(tp)
        return default if kept is None or kept.offset is None else kept

    def __setitem__(self, tp, kept):
        newer = self._world.consumers.get(self._group)
        if newer is not None:
            newer.commit(offsets=[Place(*tp, kept.offset)], asynchronous=False)
            return
        places = [Place(*tp, kept.offset)]
        asked = [ConsumerGroupTopicPartitions(self._group, places)]
        for done in self._world.admin.alter_consumer_group_offsets(asked).values():
            [answer] = done.result().topic_partitions
            assert answer.error is None, answer

    def pop(self, tp, default=None):
        """Wait until the broker itself has dropped the offset, as it does for a deleted topic."""
        eventually(lambda: self.get(tp) is None)
        return default

    def close(self):
        self._offsets.close()


class _Newer(dict):
    """{group: its newer consumers}; a change of the story lets a real consumer join or leave."""

    def __init__(self, world):
        super().__init__(dict.fromkeys(GROUPS, ()))
        self._world = world

    def __setitem__(self, group, names):
        if bool(names) != bool(self[group]):
            (self._world.newer_comes if names else self._world.newer_goes)(group)
        super().__setitem__(group, names)


class RealOperatorsWorld(OperatorsWorld):
    """cluster: a BrokerCluster, in which topics t and u and groups g and h belong to this world."""

    forgets = False  # a broker keeps the offsets of an idle group for at least a day

    def __init__(self, monkeypatch, folder, cluster):
        self.folder = folder
        self.cluster = cluster
        self.zookeeper = cluster.kafka.zookeeper_connect
        self.before_write = self.after_write = lambda: None
        self.stores, self.consumers, self.logs = [], {}, {}
        self.store = self.new_store()
        self.other_operator = self.new_store()
        self.admin = AdminClient({"bootstrap.servers": cluster.kafka.bootstrap_servers})
        self.log_offsets = open_log_offsets(self.config("g"), self.store)
        self.kafka = {group: _Kept(self, group) for group in GROUPS}
        self.newer = _Newer(self)
        self.members = {}
        self.ghosts = []
        self.consumed, self.consumed_by_newer = {}, {}
        self._clean()
        self.topic("t", 2)
        self.topic("u", 1)
        self.topics = set(cluster.topics()) | {"__consumer_offsets"}
        monkeypatch.setattr(cli_options, "KazooStore", lambda settings: _WatchedStore(settings, self))
        for module in (migrate_options, kafka_offsets, groups_describe):
            monkeypatch.setattr(module, "open_group_offsets", self._watched_offsets)
        for group in GROUPS:
            for number, tp in enumerate(PARTITIONS):
                self.commit_in_zookeeper(group, tp, 10 + 10 * number)

    def close(self):
        """Remove everything of this world, since other tests share the servers."""
        for group in GROUPS:
            self.newer[group] = ()
        for store in self.stores[1:]:
            store.close()
        self._clean()
        for group in GROUPS:
            self.kafka[group].close()
        self.log_offsets.close()
        self.store.close()

    def config(self, group):
        return ConsumerConfig.load(zookeeper_connect=self.zookeeper, group_id=group)

    def new_store(self):
        store = KazooStore(ZkSettings(self.zookeeper))
        store.start()
        self.stores.append(store)
        return store

    def _watched_offsets(self, config, store):
        return _WatchedOffsets(open_group_offsets(config, store), self)

    def _clean(self):
        for topic in {tp.topic for tp in PARTITIONS} & set(self.cluster.topics()):
            self.drop(topic)
        for group in GROUPS:
            self._delete_all(f"/consumers/{group}")
            for tp in PARTITIONS:
                self.kafka[group].pop(tp)

    def _delete_all(self, top):
        with contextlib.suppress(NoNodeError):
            for path in sorted(self.paths(top), reverse=True):
                self.store.delete(path)

    # the state of the cluster

    @property
    def created(self):
        return sorted(set(self.cluster.topics()) - self.topics)

    def tree(self):
        return {
            path: self.store.get_data(path).data
            for group in GROUPS
            if self.store.exists(f"/consumers/{group}") is not None
            for path in self.paths(f"/consumers/{group}")
        }

    def numbers(self):
        found = {("zookeeper", group, tp): self.in_zookeeper(group, tp) for group in GROUPS for tp in PARTITIONS}
        for group in GROUPS:
            kept = self.kafka[group].read()
            found |= {("kafka", group, tp): kept.get(tp, KafkaOffset(None)).offset for tp in PARTITIONS}
        return found

    # the events of a story

    def topic(self, name, partitions):
        places = [tp for tp in PARTITIONS if tp.topic == name]
        assert len(places) == partitions
        self.cluster.kafka.create_topic(name, partitions)
        records = [(None, b"m", n % partitions) for n in range(MESSAGES * partitions)]
        self.cluster.produce(name, records)
        self.logs |= dict.fromkeys(places, (0, MESSAGES))
        self._await_logs()

    def _await_logs(self):
        """Wait until the broker reports the bounds of all logs as this world changed them."""

        def told():
            with contextlib.suppress(BrokersUnavailableError):
                begins, ends = self.log_offsets.earliest(self.logs), self.log_offsets.latest(self.logs)
                return all((begins.get(tp), ends.get(tp)) == log for tp, log in self.logs.items())

        eventually(told)

    def drop(self, name):
        self.logs = {tp: log for tp, log in self.logs.items() if tp.topic != name}
        # not by an AdminClient: a broker of 2.8 may take more than a minute to answer it
        self.cluster.kafka.delete_topic(name)
        eventually(lambda: name not in self.cluster.topics())

    def drop_topic(self, topic):
        self.drop(topic)
        for tp in [tp for tp in PARTITIONS if tp.topic == topic]:
            for group in GROUPS:
                self.kafka[group].pop(tp)
                self.consumed[group, tp] = self.consumed_by_newer[group, tp] = 0
        self._divide()

    def make_anew(self, topic):
        there = {group: names for group, names in self.newer.items() if names}
        for group in there:
            self.newer[group] = ()
        partitions = [tp for tp in PARTITIONS if tp.topic == topic]
        if partitions[0] in self.logs:
            self.drop_topic(topic)
        self.topic(topic, len(partitions))
        self._divide()
        for group, names in there.items():
            self.newer[group] = names

    def let_time_pass(self):
        """Wait until everything written so far is older than a second, by the server's clock."""
        begun_ms = zookeeper_ms(self.store)
        eventually(lambda: zookeeper_ms(self.store) > begun_ms + 1100)

    def truncate(self, tp, begin):
        super().truncate(tp, begin)
        for done in self.admin.delete_records([Place(*tp, self.logs[tp][0])]).values():
            done.result()
        self._await_logs()

    def newer_comes(self, group):
        consumer = Consumer(
            {
                "bootstrap.servers": self.cluster.kafka.bootstrap_servers,
                "group.id": group,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "session.timeout.ms": 60_000,
            }
        )
        consumer.subscribe(sorted({tp.topic for tp in PARTITIONS}))

        def has_joined():
            consumer.poll(0.1)
            return len(consumer.assignment()) == len(PARTITIONS)

        eventually(has_joined)
        consumer.pause(consumer.assignment())
        self.consumers[group] = consumer

    def newer_goes(self, group):
        self.consumers.pop(group).close()
