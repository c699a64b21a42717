"""A broker refuses one partition and sends messages of another in one response; both fetchers deliver the messages."""

import json

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.columnar import ColumnarFetchers
from legacy_consumer.fetching.fetcher import EARLIEST
from legacy_consumer.fetching.librdkafka import LibrdkafkaFetchers
from legacy_consumer.fetching.topic_names import NO_SUCH_NAME
from tests.support.fetching import fetch
from tests.support.native_fetchers import NATIVE, NativeFetchers
from tests.support.scripted_broker import ScriptedBroker
from tests.support.waiting import eventually
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

OTHER, OUTSIDE = TopicPartition("t", 0), TopicPartition("t", 1)
COUNT = 200


@pytest.fixture
def broker():
    made = ScriptedBroker()
    yield made
    made.close()


@pytest.fixture(
    params=[
        pytest.param(LibrdkafkaFetchers, id="librdkafka"),
        pytest.param(ColumnarFetchers, id="columnar"),
        pytest.param(NativeFetchers, id="native", marks=NATIVE),
    ]
)
def fetchers(request, broker):
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    store.create("/brokers/ids/0", broker.registration(), make_parents=True)
    state = json.dumps({"leader": 0, "leader_epoch": 0, "isr": [0], "controller_epoch": 1, "version": 1}).encode()
    for tp in (OTHER, OUTSIDE):
        broker.logs[tp] = [b"%d" % number for number in range(COUNT)]
        store.create(f"/brokers/topics/t/partitions/{tp.partition}/state", state, make_parents=True)
    # with this setting librdkafka believes at once that a topic does not exist; by default only after half a minute
    properties = {"rdkafka.topic.metadata.propagation.max.ms": "0"} if request.param is LibrdkafkaFetchers else {}
    config = ConsumerConfig.load(
        None,
        properties,
        zookeeper_connect="nowhere:1",
        group_id="g",
        fetch_wait_max_ms=20,
        auto_offset_reset="smallest",
    )
    made = request.param(config, store)
    made.store = store
    yield made
    made.close()
    store.close()


def test_messages_that_come_beside_a_position_outside_the_log_move_their_own_position(fetchers, monkeypatch):
    """Regression: the member handed them out, but no commit counted them, so the next owner handed them out again."""
    monkeypatch.setattr("legacy_consumer.fetching.positions.LOG_END_WAIT_S", 0.1)
    fetcher = fetchers.fetcher()
    for _ in range(10):  # several tries, because messages and error may come in different polls
        fetcher.assign({OTHER: 0, OUTSIDE: 999_999})
        got = fetch(fetcher, 2 * COUNT)  # fetch() compares the positions of each batch with its messages
        assert got.positions == {OTHER: COUNT, OUTSIDE: COUNT}
        assert {OUTSIDE: 0} in got.moves
        assert (got.offsets(OTHER), got.offsets(OUTSIDE)) == (list(range(COUNT)), list(range(COUNT)))


@pytest.mark.parametrize("length", [513, 40_000], ids=lambda length: f"{length} characters")
@pytest.mark.parametrize("position", [0, EARLIEST], ids=["offset", "earliest"])
def test_a_topic_of_a_name_that_no_broker_takes_keeps_no_other_waiting(fetchers, length, position, caplog):
    """Any client can create one in ZooKeeper, and a filter may match it. The shorter one makes librdkafka abort."""
    nameless = TopicPartition("x" * length, 0)
    state = json.dumps({"leader": 0, "leader_epoch": 0, "isr": [0], "controller_epoch": 1, "version": 1}).encode()
    fetchers.store.create(f"/brokers/topics/{nameless.topic}/partitions/0/state", state, make_parents=True)
    fetchers.store.set_data(f"/brokers/topics/{nameless.topic}", b'{"version":1,"partitions":{"0":[0]}}')
    fetcher = fetchers.fetcher()
    fetcher.assign({nameless: position, OTHER: position})
    assert len(fetch(fetcher, COUNT).offsets(OTHER)) == COUNT
    assert eventually(lambda: fetcher.poll(100, 0.05) is None and NO_SUCH_NAME in caplog.text)
    assert list(fetchers.log_offsets().latest([nameless, OTHER])) == [OTHER]


@pytest.mark.parametrize("fetchers", [LibrdkafkaFetchers], indirect=True)
def test_librdkafka_is_begun_again_when_a_broker_told_it_that_a_topic_has_no_partitions(fetchers, broker, caplog):
    """A broker that has just started may say so. librdkafka usually recovers by itself, but sometimes never."""
    fetcher = fetchers.fetcher()
    fetcher.assign({OTHER: 0})
    assert len(fetch(fetcher, COUNT).offsets(OTHER)) == COUNT
    with caplog.at_level("INFO"):
        broker.forget_topics()
        # another handle, which only checks whether the broker is back, asks for topics too: wait for the handle in use
        assert eventually(lambda: fetcher.poll(100, 0.1) is None and "partition count changed" in caplog.text)
    broker.remember_topics()
    assert eventually(lambda: fetcher.poll(100, 0.1) is None and "it is begun again" in caplog.text)
    broker.logs[OTHER] += [b"later"] * 10
    assert fetch(fetcher, 10).offsets(OTHER) == list(range(COUNT, COUNT + 10))
