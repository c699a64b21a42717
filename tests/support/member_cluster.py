"""Connectors with their threads over an in-memory ZooKeeper and in-memory logs: no server, no process."""

from __future__ import annotations

import threading

from legacy_consumer import ConsumerConnector
from tests.support.fake_group_offsets import FakeGroupOffsets
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from zk_layout.codecs import encode_topic
from zk_layout.errors import MultiFailedError, NotPermittedError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment
from zk_layout.store import CreateOp, SetOp


class RefusingStore(MemoryStore):
    """A store that refuses writes to the paths in `refused`, and reads of the paths in `closed`, as an ACL does."""

    refused = frozenset()
    closed = frozenset()

    def get_data_many(self, paths, watcher=None):
        for path in paths:
            if path in self.closed:
                raise NotPermittedError(path)
        return super().get_data_many(paths, watcher)

    def set_data(self, path, data, version=-1):
        if path in self.refused:
            raise NotPermittedError(path)
        return super().set_data(path, data, version)

    def multi(self, ops, **options):
        for index, op in enumerate(ops):
            if isinstance(op, (SetOp, CreateOp)) and op.path in self.refused:
                raise MultiFailedError(index, op.path, NotPermittedError(op.path))
        return super().multi(ops, **options)


class MemberCluster:
    """A cluster with these topics, {name: partitions}, and the members of one group that a test makes.

    defaults: properties of every member; a connector's own properties override them.
    """

    def __init__(self, topics, group="g", **defaults):
        self.zookeeper = MemoryZooKeeper()
        self.kafka = FakeKafka()
        self.group_offsets = FakeGroupOffsets()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        self.group = group
        self.defaults = {"auto_offset_reset": "smallest", "consumer_timeout_ms": 20_000, **defaults}
        self.connectors = []
        for topic, partitions in topics.items():
            self.create_topic(topic, partitions)

    def create_topic(self, topic, partitions):
        data = encode_topic(TopicAssignment(dict.fromkeys(range(partitions), (0,))))
        self.admin.create(f"/brokers/topics/{topic}", data, make_parents=True)

    def produce(self, count, *tps):
        for tp in tps:
            self.kafka.produce(tp, count)

    def connector(self, *, refusal=None, **properties):
        """Return one more member, which has not joined. refusal: the error with which brokers refuse the client."""
        properties = {"zookeeper_connect": "memory", "group_id": self.group, **self.defaults, **properties}
        fetchers = FakeFetchers(self.kafka, resets=properties["auto_offset_reset"] != "none")
        fetchers.refusal = refusal
        connector = ConsumerConnector(
            store=RefusingStore(self.zookeeper),
            fetchers=fetchers,
            group_offsets=self.group_offsets,
            **properties,
        )
        self.connectors.append(connector)
        return connector

    def join(self, listener=None, *, topic="t", **properties):
        """Let one more member join. Returns: its connector and its only stream."""
        connector = self.connector(**properties)
        if listener is not None:
            connector.set_rebalance_listener(listener)
        return connector, connector.create_message_streams({topic: 1})[topic][0]

    def path(self, tp):
        return f"/consumers/{self.group}/offsets/{tp.topic}/{tp.partition}"

    def owner_path(self, tp):
        return f"/consumers/{self.group}/owners/{tp.topic}/{tp.partition}"

    def owners(self, topic="t"):
        """Return [(partition, text of its owner znode)]."""
        path = f"/consumers/{self.group}/owners/{topic}"
        return [(name, self.admin.get_data(f"{path}/{name}").data.decode()) for name in self.admin.get_children(path)]

    def write(self, tp, data):
        """Write these bytes into an offset znode, as a foreign client may."""
        if self.admin.exists(self.path(tp)) is None:
            self.admin.create(self.path(tp), data, make_parents=True)
        else:
            self.admin.set_data(self.path(tp), data)

    def committed(self, tp):
        """Return the committed offset; None without one."""
        return int(self.admin.get_data(self.path(tp)).data) if self.admin.exists(self.path(tp)) else None

    def close(self, timeout_s=None):
        """Shut all members down, and check that no coordinator's thread is left."""
        for connector in self.connectors:
            connector.shutdown(*([] if timeout_s is None else [timeout_s]))
        assert not [thread for thread in threading.enumerate() if "coordinator" in thread.name]
