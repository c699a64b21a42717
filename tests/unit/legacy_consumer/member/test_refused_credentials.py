"""ZooKeeper refuses the credentials of a new connection: the stream raises, and the health probe fails."""

from __future__ import annotations

import pytest

from legacy_consumer import ConsumerConnector
from legacy_consumer.operations.metrics.health import judge_liveness
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.errors import AuthenticationError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition
from zk_layout.store import SessionEvent, SessionKind


def test_a_stream_raises_however_it_is_read_and_the_member_is_not_alive():
    zookeeper, kafka = MemoryZooKeeper(), FakeKafka()
    store, admin = MemoryStore(zookeeper), MemoryStore(zookeeper)
    admin.start()
    admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})), make_parents=True)
    kafka.produce(TopicPartition("t", 0), 1)
    connector = ConsumerConnector(
        store=store, fetchers=FakeFetchers(kafka), zookeeper_connect="m", group_id="g", auto_offset_reset="smallest"
    )
    with connector:
        [stream] = connector.create_message_streams({"t": 1})["t"]
        next(stream)
        assert judge_liveness(connector.status, connector.vitals).holds
        store._session_id = 0
        for listener in store._listeners:
            listener(SessionEvent(SessionKind.AUTH_FAILED, 0))
        eventually(lambda: isinstance(connector.status.error, AuthenticationError))
        for take in (lambda: next(stream), lambda: next(iter(stream)), lambda: next(stream.batches())):
            with pytest.raises(AuthenticationError, match="ZooKeeper refuses the credentials: restart with others"):
                take()
        assert not judge_liveness(connector.status, connector.vitals).holds
    admin.close()
