"""The answers of our stream readers to Spark's worker."""

import pickle
from contextlib import nullcontext

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows
from pyspark.sql.types import BinaryType, IntegerType, LongType, StringType, StructType, TimestampType

from spark_source import batch, snapshot
from spark_source.errors import CheckpointError, SchemaMismatchError
from spark_source.source import ZkMessages, ZkOffsets
from zk_layout.errors import ConfigError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper

CONNECT = {"zookeeper.connect": "h:1"}
VALUE = StructType().add("value", BinaryType())


@pytest.mark.parametrize(
    ("source", "schema", "error", "reason"),
    [
        (ZkMessages({**CONNECT, "topics": "t", "endingOffsets": "5"}), VALUE, ConfigError, "a stream has no end"),
        (ZkMessages({**CONNECT, "topics": "t", "maxOffsetPerTrigger": "5"}), VALUE, ConfigError, "did you mean"),
        (ZkMessages({**CONNECT, "topics": "t"}), StructType().add("worth", BinaryType()), SchemaMismatchError, "worth"),
        (ZkOffsets({**CONNECT, "mode": "x"}), VALUE, ConfigError, "mode"),
    ],
)
def test_an_invalid_stream_raises_its_reason_at_the_first_call_of_spark(source, schema, error, reason):
    # if streamReader() itself raised, Spark's worker would hide the error behind an error of its own
    reader = source.streamReader(schema)
    for call in (
        reader.initialOffset,
        reader.getDefaultReadLimit,
        lambda: reader.latestOffset({}, ReadAllAvailable()),
        lambda: reader.partitions({}, {}),
        lambda: reader.read(None),
    ):
        with pytest.raises(error, match=reason):
            call()
    reader.stop()


def test_trigger_once_is_refused_where_its_batch_would_not_be_committed():
    reader = ZkMessages({**CONNECT, "topics": "t", "group.id": "g"}).streamReader(VALUE)
    # because of this limit only Trigger.Once passes ReadAllAvailable
    assert reader.getDefaultReadLimit() == ReadMaxRows(2**63 - 1)
    with pytest.raises(ConfigError, match=r"use Trigger\.AvailableNow, or set commitOffsets=false"):
        reader.latestOffset(reader.initialOffset(), ReadAllAvailable())


GROUP = StructType().add("group", StringType())


@pytest.mark.parametrize("start", [{}, {"at_ms": "soon"}, {"version": 2, "offsets": {}}, {"at_ms": True}])
def test_a_checkpoint_of_another_stream_is_refused(start):
    reader = ZkOffsets(CONNECT).streamReader(GROUP)
    with pytest.raises(CheckpointError, match="where the time of a snapshot should be"):
        reader.latestOffset(start, ReadAllAvailable())


def test_a_clock_that_was_put_back_does_not_stop_the_snapshots():
    reader = ZkOffsets({**CONNECT, "snapshotIntervalMs": "3600000"}).streamReader(GROUP)
    first = reader.latestOffset(reader.initialOffset(), ReadAllAvailable())
    assert reader.latestOffset(first, ReadAllAvailable()) == first
    later = {"at_ms": first["at_ms"] + 7_200_000}
    assert reader.latestOffset(later, ReadAllAvailable()) != later
    reader.prepareForTriggerAvailableNow()
    end = reader.latestOffset(later, ReadAllAvailable())
    assert end != later
    assert reader.latestOffset(end, ReadAllAvailable()) == end


REGISTRATION = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'


def test_changes_are_rows_in_which_a_column_of_the_query_changed(monkeypatch):
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    for module in (batch, snapshot):
        monkeypatch.setattr(module, "connected", lambda _: nullcontext(store))
    schema = StructType().add("partition", IntegerType()).add("committed_offset", LongType())
    schema.add("member", StringType()).add("read_at", TimestampType())
    reader = ZkOffsets({**CONNECT, "changesOnly": "true"}).streamReader(schema)
    taken_at = iter(range(100))

    def changes():
        at_ms = next(taken_at)
        tasks = pickle.loads(pickle.dumps(reader.partitions({"at_ms": at_ms}, {"at_ms": at_ms + 1})))
        rows = [row for task in tasks for batch in reader.read(task) for row in batch.to_pylist()]
        return [(row["partition"], row["committed_offset"], row["member"]) for row in rows]

    for partition in range(2):
        store.create(f"/consumers/g/offsets/t/{partition}", b"5", make_parents=True)
    assert changes() == [(0, 5, None), (1, 5, None)]
    store.set_data("/consumers/g/offsets/t/0", b"5")
    store.create("/consumers/g/ids/g_me", REGISTRATION, make_parents=True)
    assert changes() == []
    store.create("/consumers/g/owners/t/1", b"g_me-0", make_parents=True)
    assert changes() == [(1, 5, "g_me")]
    store.set_data("/consumers/g/offsets/t/0", b"6")
    store.delete("/consumers/g/ids/g_me")
    assert changes() == [(0, 6, None), (1, 5, None)]
