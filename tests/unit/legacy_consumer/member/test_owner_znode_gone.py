"""A member whose owner znode another client deleted notices when it commits, and does not wait for the next audit."""

import pytest

from legacy_consumer import ConsumerConnector, Phase
from legacy_consumer.errors import OffsetsNotCommittedError
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

P0, P1 = TopicPartition("t", 0), TopicPartition("t", 1)
OWNER = "/consumers/g/owners/t/0"


@pytest.fixture
def zookeeper():
    return MemoryZooKeeper()


@pytest.fixture
def admin(zookeeper):
    admin = MemoryStore(zookeeper)
    admin.start()
    data = encode_topic(TopicAssignment(dict.fromkeys(range(2), (0,))))
    admin.create("/brokers/topics/t", data, make_parents=True)
    return admin


def test_a_commit_that_is_refused_for_want_of_an_owner_znode_claims_it_again_at_once(zookeeper, admin, caplog):
    """In an earlier version, the member consumed for half a minute without the owner znode and without a commit."""
    kafka = FakeKafka()
    kafka.produce(P0, 3)
    with ConsumerConnector(
        store=MemoryStore(zookeeper),
        fetchers=FakeFetchers(kafka),
        zookeeper_connect="memory",
        group_id="g",
        auto_offset_reset="smallest",
        auto_commit_enable=False,
        audit_interval_ms=0,
    ) as connector:
        (stream,) = connector.create_message_streams({"t": 1})["t"]
        assert next(stream).offset() == 0
        admin.delete(OWNER)
        with pytest.raises(OffsetsNotCommittedError, match="t/0: this member does not own it"):
            connector.commit_offsets()
        eventually(lambda: admin.exists(OWNER) is not None)
        assert connector.wait_until(lambda status: status.phase is Phase.STABLE and status.owned.keys() == {P0, P1}, 10)
        # the message was not committed, so the member delivers it again
        assert next(stream).offset() == 0
    assert "not committed, the owner znode is gone: t/0" in caplog.text
