"""A member that cannot take part gets an error within BOUND_S, and leaves no registration behind."""

import json
import time
import uuid
from contextlib import closing, contextmanager

import pytest
from kazoo.client import KazooClient

from legacy_consumer import ConsumerConnector, Whitelist
from legacy_consumer.config import ConsumerConfig
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.errors import FetchError, GroupOffsetsUnavailableError, MissingListenerError
from legacy_consumer.fetching.librdkafka import LibrdkafkaFetchers
from legacy_consumer.sandbox.servers.ports import claim_port
from rebalance.errors import UnsupportedRegexError
from tests.support.created_topics import note_topic
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment

pytestmark = pytest.mark.kafka

BOUND_S = 30
SECRET, OPEN = "secret", "open"


class Cluster:
    """A broker that forbids everybody to read one topic, and has no group coordinator."""

    def __init__(self, kafka, zookeeper):
        self.kafka = kafka
        self.zookeeper = zookeeper

    def connector(self, group, **properties):
        return ConsumerConnector(
            zookeeper_connect=self.kafka.zookeeper_connect,
            group_id=group,
            rebalance_max_retries=2,
            rebalance_backoff_ms=300,
            **properties,
        )

    def has_group(self, group):
        """Return whether any client ever wrote anything of the group."""
        return self.zookeeper.exists(f"/consumers/{group}") is not None

    def members(self, group):
        return self.zookeeper.get_children(f"/consumers/{group}/ids")


@contextmanager
def started(client):
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture(scope="module")
def cluster():
    with EmbeddedZooKeeper() as server, started(KazooClient(server.connect)) as zookeeper:
        # in the form that kafka-acls.sh writes
        rule = {"principal": "User:somebody", "permissionType": "Allow", "operation": "All", "host": "*"}
        rules = json.dumps({"version": 1, "acls": [rule]}).encode()
        zookeeper.create(f"/kafka-acl/Topic/{SECRET}", rules, makepath=True)
        properties = {
            "authorizer.class.name": "kafka.security.auth.SimpleAclAuthorizer",
            "allow.everyone.if.no.acl.found": "true",
            # more replicas than brokers, so the broker can never create __consumer_offsets
            "offsets.topic.replication.factor": "3",
        }
        with EmbeddedKafka("1.1.1", zookeeper=server, properties=properties) as kafka:
            kafka.create_topic(OPEN)
            # not by create_topic, which waits for a leader: the broker does not tell the leader of this topic
            note_topic(kafka, SECRET)
            zookeeper.create(f"/brokers/topics/{SECRET}", encode_topic(TopicAssignment({0: (0,)})))
            yield Cluster(kafka, zookeeper)


@pytest.fixture
def group():
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_a_topic_that_no_broker_allows_to_read_ends_the_stream_with_an_error_that_names_it(cluster, group, fetcher):
    """The broker refuses the fetcher's first request, the one for the partition's position."""
    begun = time.monotonic()
    with cluster.connector(group, auto_offset_reset="smallest", fetcher=fetcher) as connector:
        (stream,) = connector.create_message_streams({SECRET: 1})[SECRET]
        for _ in range(2):  # user's code that goes on gets the error again
            with pytest.raises(FetchError, match=f"(?i)^{SECRET}/0: .*authorization"):
                next(stream)
        assert len(cluster.members(group)) == 1
    assert time.monotonic() - begun < BOUND_S
    assert cluster.members(group) == []


@pytest.mark.parametrize("dual", [True, False])
@pytest.mark.parametrize(
    "subscribe",
    [
        lambda connector: connector.create_message_streams({OPEN: 1, "not-yet": 1}),
        lambda connector: connector.create_message_streams_by_filter(Whitelist(f"{OPEN}|nothing")),
    ],
    ids=["static", "filter"],
)
def test_no_member_joins_while_no_coordinator_answers(cluster, group, dual, subscribe):
    begun = time.monotonic()
    storage = {"offsets_storage": "kafka", "dual_commit_enabled": dual, "offsets_channel_socket_timeout_ms": 500}
    connector = cluster.connector(group, **storage)
    with pytest.raises(GroupOffsetsUnavailableError) as caught:
        subscribe(connector)
    assert time.monotonic() - begun < BOUND_S
    assert "see whether the brokers run and __consumer_offsets has leaders" in str(caught.value)
    assert "or set offsets.storage=zookeeper in all members" in str(caught.value)
    assert not cluster.has_group(group)


def test_an_unsupported_regex_is_refused_before_any_request(cluster, group):
    connector = cluster.connector(group)
    with pytest.raises(UnsupportedRegexError, match="a negated class that holds a class or &&, which Java 9 changed"):
        connector.create_message_streams_by_filter(Whitelist("[^a&&b]"))
    assert not cluster.has_group(group)
    connector.shutdown()


# A member tries its access to the brokers before it registers


def unreachable(protocol):
    """Make a ZooKeeper with the registration of a broker that does not run."""
    zookeeper = MemoryZooKeeper()
    store = MemoryStore(zookeeper)
    store.start()
    port = claim_port("a broker that is gone", 0)
    registration = {
        "version": 4, "host": "127.0.0.1", "port": -1, "jmx_port": -1, "timestamp": "1",
        "endpoints": [f"{protocol}://127.0.0.1:{port}"], "listener_security_protocol_map": {protocol: protocol},
    }  # fmt: skip
    store.create("/brokers/ids/0", json.dumps(registration).encode(), make_parents=True)
    store.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})), make_parents=True)
    return store


def fetchers_over(store, protocol):
    sasl = {"sasl_mechanism": "SCRAM-SHA-256", "sasl_username": "u", "sasl_password": "p"}
    security = sasl if "SASL" in protocol else {}
    config = ConsumerConfig.load(zookeeper_connect="memory", group_id="g", security_protocol=protocol, **security)
    return closing(LibrdkafkaFetchers(config, store))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_PLAINTEXT"])
def test_a_member_joins_while_all_brokers_are_down(protocol):
    begun = time.monotonic()
    with fetchers_over(unreachable(protocol), protocol) as fetchers:
        fetchers.check_access()
    assert time.monotonic() - begun < 8


def test_a_member_joins_while_no_broker_is_registered():
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    with fetchers_over(store, "SASL_PLAINTEXT") as fetchers:
        fetchers.check_access()


def test_a_missing_listener_is_an_error_without_a_connection_to_a_broker():
    with (
        fetchers_over(unreachable("PLAINTEXT"), "SASL_PLAINTEXT") as fetchers,
        pytest.raises(MissingListenerError, match="only PLAINTEXT"),
    ):
        fetchers.check_access()
