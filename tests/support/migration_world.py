"""A group to be migrated, with an in-memory ZooKeeper, coordinator and logs."""

from __future__ import annotations

from legacy_consumer.offsets import KafkaOffset
from legacy_consumer.operations.admin.group_trees import read_trees
from legacy_consumer.operations.admin.migration import (
    Choices,
    Direction,
    Sides,
    apply_migration,
    finish_migration,
    look_at,
    make_plan,
    read_record,
    roll_back_migration,
    verify_migration,
)
from tests.support.fake_group_offsets import FakeGroupOffsets
from tests.support.fake_kafka import FakeKafka
from tests.support.group_members import FakeClock
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

TPS = [TopicPartition("t", n) for n in range(3)]
MEMBER = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'


class Logs(FakeKafka):
    """begins: {partition: first offset if not 0}. without: partitions for which no broker answers."""

    def __init__(self):
        super().__init__()
        self.begins = {}
        self.without = set()

    def earliest(self, partitions):
        return {tp: self.begins.get(tp, 0) for tp in partitions if tp not in self.without}

    def latest(self, partitions):
        return {tp: self.ends[tp] for tp in partitions if tp not in self.without}

    def close(self):
        pass


class World:
    """Group g has offsets 10, 20 and 30 of a topic of three partitions with 100 messages each."""

    def __init__(self, folder):
        self.folder = folder
        self.store = MemoryStore(MemoryZooKeeper())
        self.store.start()
        self.kafka = FakeGroupOffsets()
        self.logs = Logs()
        self.newer = ()
        self.sides = Sides("g", self.store, self.kafka, self.logs, lambda: self.newer, FakeClock())
        self.backups = 0
        internal = encode_topic(TopicAssignment({0: (0,)}))
        self.store.create("/brokers/topics/__consumer_offsets", internal, make_parents=True)
        self.make_topic()
        for n, offset in enumerate((10, 20, 30)):
            self.set(n, offset)
            self.logs.produce(TPS[n], 100)

    def make_topic(self):
        data = encode_topic(TopicAssignment(dict.fromkeys(range(3), (0,))))
        self.store.create("/brokers/topics/t", data, make_parents=True)

    def set(self, partition, offset):
        path = f"/consumers/g/offsets/t/{partition}"
        data = offset if isinstance(offset, bytes) else b"%d" % offset
        if self.store.exists(path) is None:
            self.store.create(path, data, make_parents=True)
        else:
            self.store.set_data(path, data)

    def in_zookeeper(self):
        return [int(self.store.get_data(f"/consumers/g/offsets/t/{n}").data) for n in range(3)]

    def in_kafka(self):
        return [self.kafka.kept[tp].offset if tp in self.kafka.kept else None for tp in TPS]

    def put_in_kafka(self, *offsets):
        self.kafka.kept.update({tp: KafkaOffset(o) for tp, o in zip(TPS, offsets, strict=False) if o is not None})

    def join(self, consumer_id="g_old", owns=()):
        self.store.create(f"/consumers/g/ids/{consumer_id}", MEMBER, make_parents=True)
        for n in owns:
            self.store.create(f"/consumers/g/owners/t/{n}", f"{consumer_id}-0".encode(), make_parents=True)

    def leave(self, consumer_id="g_old"):
        for n in range(3):
            if self.store.exists(f"/consumers/g/owners/t/{n}"):
                self.store.delete(f"/consumers/g/owners/t/{n}")
        self.store.delete(f"/consumers/g/ids/{consumer_id}")

    def plan(self, direction=Direction.TO_KAFKA, **choices):
        return make_plan(look_at(self.sides), direction, Choices(**choices))

    def actions(self, direction=Direction.TO_KAFKA, **choices):
        return [(move.action, move.offset) for move in self.plan(direction, **choices).moves]

    def backup(self):
        self.backups += 1
        return self.folder / f"backup-{self.backups}.json"

    def apply(self, **choices):
        return apply_migration(self.sides, self.plan(**choices), self.backup())

    def roll_back(self, **choices):
        return roll_back_migration(self.sides, self.plan(Direction.TO_ZOOKEEPER, **choices), self.backup())

    def verify(self):
        return verify_migration(look_at(self.sides))

    def phase(self):
        return read_record(self.store, "g").phase

    def finish(self, *, delete=False, **choices):
        trees = read_trees(self.store, ["g"])
        look = look_at(self.sides)
        return finish_migration(self.sides, look, self.backup(), delete=trees[0] if delete else None, **choices)

    def make_topic_anew(self):
        self.store.delete("/brokers/topics/t")
        self.make_topic()
