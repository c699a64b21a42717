"""A topic and a group for one test alone, and queries of zk_messages in a real Spark that read the topic."""

import uuid

import pytest
from pyspark.errors import StreamingQueryException

from legacy_consumer.fetching.librdkafka import produce_all
from spark_source.reasons import reason_of
from tests.spark.story_app import NOT_IN_TIME
from zk_layout.errors import NoNodeError

WAIT_S = 90.0


class Scene:
    """A topic, a group, and a folder for the query's output and checkpoint."""

    def __init__(self, spark, kafka, store, folder):
        self.spark = spark
        self.kafka = kafka
        self.store = store
        self.folder = folder
        self.topic = f"t-{uuid.uuid4().hex[:8]}"
        self.group = f"g-{self.topic}"
        self.produced = [0, 0, 0]
        kafka.create_topic(self.topic, partitions=2)

    def produce(self, partition, count):
        begin = self.produced[partition]
        self.produced[partition] += count
        values = [(None, b"%d:%d" % (partition, begin + n), partition) for n in range(count)]
        produce_all(self.topic, values, {"bootstrap.servers": self.kafka.bootstrap_servers})

    def commit(self, partition, offset):
        self.store.create(
            f"/consumers/{self.group}/offsets/{self.topic}/{partition}", b"%d" % offset, make_parents=True
        )

    def committed(self):
        return {
            partition: int(self.store.get_data(f"/consumers/{self.group}/offsets/{self.topic}/{partition}").data)
            for partition in self.children("offsets")
        }

    def owners(self):
        return {
            partition: self.store.get_data(f"/consumers/{self.group}/owners/{self.topic}/{partition}").data.decode()
            for partition in self.children("owners")
        }

    def children(self, kind):
        try:
            return self.store.get_children(f"/consumers/{self.group}/{kind}/{self.topic}")
        except NoNodeError:
            return ()

    def members(self):
        try:
            return self.store.get_children(f"/consumers/{self.group}/ids")
        except NoNodeError:
            return ()

    def reading(self, **options):
        given = {"zookeeper.connect": self.kafka.zookeeper_connect, "topics": self.topic, "group.id": self.group}
        return self.spark.readStream.format("zk_messages").options(**{**given, **options}).schema("value binary").load()

    def start(self, *, once=True, **options):
        writer = (
            self.reading(**options)
            .selectExpr("cast(value as string)")
            .writeStream.format("json")
            .option("path", str(self.folder / "out"))
            .option("checkpointLocation", str(self.folder / "checkpoint"))
        )
        return (writer.trigger(availableNow=True) if once else writer).start()

    def run(self, **options):
        """Run a query over the present data. Returns: the query, once it has ended."""
        return run_to_its_end(lambda: self.start(**options))

    def elsewhere(self):
        """Return a scene with the same group and topic, and with another checkpoint and output."""
        other = Scene.__new__(Scene)
        other.__dict__.update(self.__dict__, folder=self.folder / "other")
        return other

    def output(self):
        rows = self.spark.read.schema("value string").json(str(self.folder / "out")).collect()
        return sorted(tuple(map(int, row["value"].split(":"))) for row in rows)


def run_to_its_end(start):
    """Run a query that ends by itself; again if its Python worker did not start within Spark's time limit."""
    while True:
        query = start()
        try:
            assert query.awaitTermination(WAIT_S)
        except StreamingQueryException as error:
            if NOT_IN_TIME not in str(error):
                raise
        else:
            return query


def numbers(*ranges):
    return sorted((partition, n) for partition, own in ranges for n in own)


def failed(query):
    with pytest.raises(StreamingQueryException) as caught:
        query.awaitTermination(WAIT_S)
    return reason_of(caught.value)
