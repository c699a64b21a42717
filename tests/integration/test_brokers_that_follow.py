"""A real broker that does not lead a partition refuses our fetches, so the fetcher has to look for the leader."""

from __future__ import annotations

import pytest

from legacy_consumer import SimpleConsumer
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.opening import open_connection
from legacy_consumer.fetching.columnar.protocol.api_versions import Api
from legacy_consumer.fetching.columnar.protocol.error_codes import error_name
from legacy_consumer.fetching.columnar.protocol.fetch import (
    FetchLimits,
    FetchPartition,
    FetchSession,
    decode_fetch,
    encode_fetch,
)
from legacy_consumer.fetching.columnar.security import Security
from legacy_consumer.fetching.librdkafka import produce_all
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition

pytestmark = pytest.mark.kafka

T0 = TopicPartition("t", 0)


def fetched(broker):
    """Return the broker's answer for t/0, in the protocol version that the fetcher uses with it."""
    [endpoint] = broker.endpoints
    address = BrokerAddress(broker.broker_id, endpoint.host, endpoint.port, broker.version)
    connection = open_connection(
        address, Security("PLAINTEXT"), client_id="c", timeout_s=60, receive_buffer_bytes=64 * 1024
    )
    try:
        spoken = connection.versions.of(Api.FETCH)
        limits = FetchLimits(max_wait_ms=100, min_bytes=1, max_bytes=10_000, read_committed=False)
        body = encode_fetch(spoken, limits, {T0: FetchPartition(0, 10_000)}, FetchSession(0, -1))
        frame = connection.ask(Api.FETCH, body, 60, largest_bytes=100_000)
        return decode_fetch(spoken, frame).partitions[T0]
    finally:
        connection.close()


@pytest.mark.parametrize("version", ["1.1.1", "2.8.2", "3.9.1"])
def test_a_broker_that_only_follows_refuses_a_fetch(version):
    with EmbeddedKafka(version, brokers=2) as kafka:
        kafka.create_topic("t", replication_factor=2)
        produce_all("t", [(None, b"x", 0)], {"bootstrap.servers": kafka.bootstrap_servers})
        with SimpleConsumer(zookeeper_connect=kafka.zookeeper_connect) as consumer:
            eventually(lambda: len(consumer.partitions("t")[T0].in_sync_replicas) == 2)
            info = consumer.partitions("t")[T0]
        [follower] = info.followers
        assert fetched(info.leader).error == 0
        assert error_name(fetched(follower).error) == "NOT_LEADER_OR_FOLLOWER"
