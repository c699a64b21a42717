"""Ranges that a Spark task reads through the columnar fetcher, from a scripted broker."""

import json
from contextlib import closing

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.columnar.records import decode_records
from spark_source.arrow import arrow_schema
from spark_source.messages.column_batches import batch_of_columns
from spark_source.messages.columnar_reader import read_columnar
from spark_source.messages.columns import WantedColumn
from spark_source.messages.message_arrays import MessageArrays
from spark_source.messages.ranges import OffsetRange
from tests.support.record_encoder import Written, batch, marker
from tests.support.scripted_broker import ScriptedBroker
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

TP = TopicPartition("t", 0)
RECORDS = batch([Written(n, None, b"%d" % n, 7) for n in range(3)], producer_id=7, is_transactional=True)
LOG = RECORDS + marker(3, 7, is_abort=False)


class Message:
    def __init__(self, time_ms):
        self._time_ms = time_ms

    def timestamp(self):
        return 1, self._time_ms


LAST_MS = (2**63 - 1) // 1000


@pytest.mark.parametrize(
    ("time_ms", "micros"),
    [
        (1_700_000_000_000, 1_700_000_000_000_000),
        (1_700_000_000_000_000_000, None),
        (LAST_MS, LAST_MS * 1000),
        (LAST_MS + 1, None),
        (-LAST_MS, -LAST_MS * 1000),
        (2**63 - 1, None),
        (-(2**63), None),
    ],
)
def test_a_time_beyond_sparks_range_is_null_with_either_fetcher(time_ms, micros):
    columns = [WantedColumn("timestamp", "timestamp", True)]
    arrays = MessageArrays(TP, columns)
    arrays.add([Message(time_ms)])
    run = decode_records(batch([Written(0, None, b"x", time_ms)]), TP, 0)
    as_columns = batch_of_columns(run, columns, arrow_schema([column.arrow for column in columns]))
    for made in (arrays.batch(), as_columns):
        assert made.column(0).cast("int64").to_pylist() == [micros]


@pytest.fixture
def read():
    """Return a function that reads a range: (number of rows, ranges that are left to librdkafka)."""
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
            # the time limit is an hour, so a wait for messages would fail the test
            batches = read_columnar(config, lambda: store, OffsetRange(TP, start, end), column, rest, 3600.0)
            return sum(made.num_rows for made in batches), left

        yield read


def test_a_range_that_holds_nothing_but_the_end_of_a_transaction_is_read_without_a_wait(read):
    assert read(3, 4) == (0, [])


def test_a_range_that_ends_with_the_end_of_a_transaction_is_read_to_its_end(read):
    assert read(0, 4) == (3, [])
