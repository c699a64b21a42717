"""Recorded responses of brokers of five versions: both fetchers deliver the same messages, field by field."""

import json
import time
from collections import defaultdict

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.embedded import KAFKA_VERSIONS
from legacy_consumer.fetching.columnar import ColumnarFetchers
from legacy_consumer.fetching.librdkafka import LibrdkafkaFetchers
from tests.support.native_fetchers import NATIVE, NativeFetchers
from tests.support.record_sets import recorded
from tests.support.scripted_broker import ScriptedBroker
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

every_fetcher = pytest.mark.parametrize(
    "factory",
    [
        pytest.param(LibrdkafkaFetchers, id="librdkafka"),
        pytest.param(ColumnarFetchers, id="columnar"),
        pytest.param(NativeFetchers, id="native", marks=NATIVE),
    ],
)
PATIENCE_S, SILENCE_S = 30.0, 0.2
# the scripted broker answers in version 0 of Fetch, which has no list of aborted transactions
RECORDED = [recording for recording in recorded() if not recording.options["read_committed"]]


@pytest.fixture(params=KAFKA_VERSIONS)
def replay(request):
    """Return (a broker that answers as recorded of this version, its ZooKeeper's store, {partition: recording})."""
    recordings = [recording for recording in RECORDED if recording.name.startswith(f"{request.param}/")]
    by_partition = {TopicPartition("t", number): recording for number, recording in enumerate(recordings)}
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    broker = ScriptedBroker()
    store.create("/brokers/ids/0", broker.registration(), make_parents=True)
    state = json.dumps({"leader": 0, "leader_epoch": 0, "isr": [0], "controller_epoch": 1, "version": 1}).encode()
    for tp, recording in by_partition.items():
        broker.recordings[tp] = (recording.data, recording.next_offset)
        store.create(f"/brokers/topics/t/partitions/{tp.partition}/state", state, make_parents=True)
    yield store, by_partition
    broker.close()
    store.close()


def fields(message):
    """Return a message's fields in the form of the recordings. Kind 0 means no timestamp; librdkafka then gives 0."""
    kind, ms = message.timestamp()
    return (message.offset(), kind, ms if kind else -1, message.key(), message.value(), message.headers())


def delivered(fetcher, count):
    """Poll until count messages have come and no more come. Returns: ({partition: messages}, {partition: position})."""
    rows, positions = defaultdict(list), {}
    deadline = time.monotonic() + PATIENCE_S
    while True:
        batch = fetcher.poll(500, SILENCE_S)
        if batch is not None:
            for message in batch.messages():
                rows[TopicPartition(message.topic(), message.partition())].append(fields(message))
            positions.update(batch.next_offsets)
        elif (came := sum(map(len, rows.values()))) >= count:
            return rows, positions
        else:
            assert time.monotonic() < deadline, f"{came} of {count} messages"


@pytest.mark.parametrize("begins_at", ["the beginning", "the middle"])
@every_fetcher
def test_a_fetcher_delivers_the_recorded_messages_of_every_format_and_codec(replay, factory, begins_at):
    store, recordings = replay
    assert len(recordings) >= 7
    config = ConsumerConfig.load(zookeeper_connect="nowhere:1", group_id="g", fetch_wait_max_ms=20)
    fetchers = factory(config, store)
    try:
        fetcher = fetchers.fetcher()
        middle = begins_at == "the middle"
        begin = {tp: recording.rows[len(recording.rows) // 2][0] * middle for tp, recording in recordings.items()}
        expected = {tp: [row for row in recording.rows if row[0] >= begin[tp]] for tp, recording in recordings.items()}
        fetcher.assign(begin)
        rows, positions = delivered(fetcher, sum(map(len, expected.values())))
    finally:
        fetchers.close()
    for tp, recording in recordings.items():
        assert rows[tp] == expected[tp], recording.name
        # a fetcher may or may not have passed what follows the last message yet, such as the end of a transaction
        assert rows[tp][-1][0] < positions[tp] <= recording.next_offset
