"""What a broker refuses for one partition, in the same answer as messages of another, which both fetchers deliver."""

import json

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.librdkafka import LibrdkafkaFetchers
from legacy_consumer.wire import ColumnarFetchers
from tests.support.fetching import fetch
from tests.support.native_fetchers import NATIVE, NativeFetchers
from tests.support.scripted_broker import ScriptedBroker
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

OTHER, OUTSIDE = TopicPartition("t", 0), TopicPartition("t", 1)
COUNT = 200


@pytest.fixture(
    params=[
        pytest.param(LibrdkafkaFetchers, id="librdkafka"),
        pytest.param(ColumnarFetchers, id="columnar"),
        pytest.param(NativeFetchers, id="native", marks=NATIVE),
    ]
)
def fetchers(request):
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    broker = ScriptedBroker()
    store.create("/brokers/ids/0", broker.registration(), make_parents=True)
    state = json.dumps({"leader": 0, "leader_epoch": 0, "isr": [0], "controller_epoch": 1, "version": 1}).encode()
    for tp in (OTHER, OUTSIDE):
        broker.logs[tp] = [b"%d" % number for number in range(COUNT)]
        store.create(f"/brokers/topics/t/partitions/{tp.partition}/state", state, make_parents=True)
    config = ConsumerConfig.load(
        zookeeper_connect="nowhere:1", group_id="g", fetch_wait_max_ms=20, auto_offset_reset="smallest"
    )
    made = request.param(config, store)
    yield made
    made.close()
    broker.close()
    store.close()


def test_messages_that_come_beside_a_position_outside_the_log_move_their_own_position(fetchers, monkeypatch):
    """They were handed out, and then no commit counted them: the next owner got them again."""
    monkeypatch.setattr("legacy_consumer.positions.LOG_END_WAIT_S", 0.1)
    fetcher = fetchers.fetcher()
    for _ in range(10):  # the two may miss each other by a poll
        fetcher.assign({OTHER: 0, OUTSIDE: 999_999})
        got = fetch(fetcher, 2 * COUNT)  # which compares the positions of each batch with its messages
        assert got.positions == {OTHER: COUNT, OUTSIDE: COUNT}
        assert {OUTSIDE: 0} in got.moves
        assert (got.offsets(OTHER), got.offsets(OUTSIDE)) == (list(range(COUNT)), list(range(COUNT)))
