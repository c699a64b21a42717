"""Ranges that a Spark task reads through the columnar fetcher, from a broker that sends what it is told to."""

import json
from contextlib import closing

import pytest

from legacy_consumer.config import ConsumerConfig
from spark_source.messages.columnar_reader import read_columnar
from spark_source.messages.columns import WantedColumn
from spark_source.messages.ranges import OffsetRange
from tests.support.record_encoder import Written, batch, marker
from tests.support.scripted_broker import ScriptedBroker
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

TP = TopicPartition("t", 0)
RECORDS = batch([Written(n, None, b"%d" % n, 7) for n in range(3)], producer_id=7, is_transactional=True)
LOG = RECORDS + marker(3, 7, is_abort=False)


@pytest.fixture
def read():
    """Reads a range; how many rows came, and what was left to the other fetcher."""
    with closing(ScriptedBroker()) as broker, closing(MemoryStore(MemoryZooKeeper())) as store:
        store.start()
        store.create("/brokers/ids/0", broker.registration(), make_parents=True)
        state = {"leader": 0, "leader_epoch": 0, "isr": [0], "controller_epoch": 1, "version": 1}
        store.create("/brokers/topics/t/partitions/0/state", json.dumps(state).encode(), make_parents=True)
        broker.recordings[TP] = (LOG, 4)
        config = ConsumerConfig.load(zookeeper_connect="nowhere:1", group_id="g")

        def read(start, end):
            left = []

            def rest(part):
                left.append(part)
                return iter(())

            column = [WantedColumn("value", "value", True)]
            # an hour: nothing of it may be waited for
            batches = read_columnar(config, lambda: store, OffsetRange(TP, start, end), column, rest, 3600.0)
            return sum(made.num_rows for made in batches), left

        yield read


def test_a_range_that_holds_nothing_but_the_end_of_a_transaction_is_read_without_a_wait(read):
    assert read(3, 4) == (0, [])


def test_a_range_that_ends_with_the_end_of_a_transaction_is_read_to_its_end(read):
    assert read(0, 4) == (3, [])
