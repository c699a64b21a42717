"""SimpleConsumer on every broker version, and over the change of a leader."""

import time

import pytest
from kazoo.client import KazooClient

from legacy_consumer import BrokersUnavailableError, OffsetOutOfRangeError, SimpleConsumer, TopicPartition
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.errors import BrokerRefusedError, FetchError, NoSuchPartitionError, NoSuchTopicError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.librdkafka import Record, produce_all
from tests.support.broker_cluster import FORMAT_VERSIONS, PASSWORD, USER, on_every_broker, tp
from tests.support.waiting import eventually
from zk_layout.errors import LegacyConsumerError

pytestmark = pytest.mark.kafka

DAY_MS = 24 * 3600 * 1000
BEGIN_MS = 1_500_000_000_000
BY_SEGMENT = ("0.8.2.2",)

on_some_brokers = pytest.mark.parametrize("broker_version", ["0.8.2.2", "1.1.1", "2.8.2"])


@pytest.fixture
def consumer(cluster):
    with SimpleConsumer(zookeeper_connect=cluster.kafka.zookeeper_connect) as consumer:
        yield consumer


@pytest.fixture
def log(cluster):
    """Make a log of 300 messages, one a day, whose values are their offsets, in segments of about 20."""
    topic = cluster.new_topic(segment_bytes="1000", retention_ms=str(2**62))
    records = (Record(None, b"%d" % n, 0, BEGIN_MS + n * DAY_MS) for n in range(300))
    cluster.produce(topic, records, batch_num_messages=5)
    return tp(topic)


def fetch_all(consumer, partition, offset, count, *, at_once=1000, patience_s=30.0):
    """Fetch exactly count messages; try again after errors of unavailable brokers."""
    messages = []
    deadline = time.monotonic() + patience_s
    while len(messages) < count:
        assert time.monotonic() < deadline, f"{len(messages)} of {count} messages"
        try:
            messages += consumer.fetch(partition, offset + len(messages), min(at_once, count - len(messages)))
        except BrokersUnavailableError:
            continue
    return [int(message.value()) for message in messages]


def all_znodes(connect):
    client = KazooClient(connect)
    client.start()
    try:
        found, open_paths = set(), ["/"]
        while open_paths:
            path = open_paths.pop()
            found.add(path)
            open_paths += [f"{path.rstrip('/')}/{child}" for child in client.get_children(path)]
        return found
    finally:
        client.stop()
        client.close()


@on_every_broker
def test_a_fetch_begins_at_its_offset_wherever_the_last_one_ended(consumer, log):
    assert fetch_all(consumer, log, 0, 300, at_once=70) == list(range(300))
    assert fetch_all(consumer, log, 123, 10) == list(range(123, 133))
    assert fetch_all(consumer, log, 133, 10) == list(range(133, 143))
    assert fetch_all(consumer, log, 299, 1) == [299]
    assert list(consumer.fetch(log, 300, timeout=0.2)) == []


@on_every_broker
def test_messages_of_one_partition_are_never_those_of_another(cluster, consumer):
    topic = cluster.new_topic(partitions=3)
    cluster.produce(topic, (Record(None, b"%d" % n, n % 3) for n in range(300)))
    for offset in range(0, 100, 50):
        for number in range(3):
            got = fetch_all(consumer, TopicPartition(topic, number), offset, 50)
            assert got == list(range(3 * offset + number, 3 * (offset + 50) + number, 3))


@pytest.mark.usefixtures("_lone_broker")
@on_every_broker
def test_an_offset_outside_the_log_is_an_error_with_the_logs_range(consumer, log):
    for outside in (301, 10**12, -1):
        with pytest.raises(OffsetOutOfRangeError) as caught:
            consumer.fetch(log, outside, timeout=20)
        error = caught.value
        assert (error.partition, error.offset, error.earliest, error.latest) == (log, outside, 0, 300)
    assert fetch_all(consumer, log, 298, 2) == [298, 299]


@on_every_broker
def test_the_ends_of_a_log_are_reported(cluster, consumer, log):
    assert consumer.offsets_before(log, EARLIEST) == [0]
    assert consumer.offsets_before(log, LATEST) == [300]
    empty = tp(cluster.new_topic())
    assert [consumer.offsets_before(empty, time_ms) for time_ms in (EARLIEST, LATEST, BEGIN_MS)] == [[0], [0], [0]]


@on_some_brokers
@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_several_offsets_are_the_begins_of_segments_newest_first(cluster, log, fetcher):
    segments = sorted(int(f.stem) for f in (cluster.kafka.brokers[0].data_folder / f"{log.topic}-0").glob("*.log"))
    assert len(segments) > 3
    with SimpleConsumer(zookeeper_connect=cluster.kafka.zookeeper_connect, fetcher=fetcher) as consumer:
        assert consumer.offsets_before(log, LATEST, 1000) == [300, *reversed(segments)]
        assert consumer.offsets_before(log, LATEST, 3) == [300, *reversed(segments)][:3]
        assert consumer.offsets_before(log, EARLIEST, 5) == [0]
        assert consumer.offsets_before(log, BEGIN_MS - DAY_MS, 5) == [0], "none is as old: read from the begin"


@on_some_brokers
@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_many_partitions_are_fetched_at_once_with_an_error_for_each_that_has_one(cluster, log, fetcher):
    topic = cluster.new_topic(partitions=3)
    cluster.produce(topic, (Record(None, b"%d" % n, n % 3) for n in range(90)))
    parts = [TopicPartition(topic, number) for number in range(3)]
    nowhere, beyond = TopicPartition("no-such-topic", 0), TopicPartition(topic, 7)
    with SimpleConsumer(zookeeper_connect=cluster.kafka.zookeeper_connect, fetcher=fetcher) as consumer:
        positions = {parts[0]: 0, parts[1]: 10, parts[2]: 29, log: 290, nowhere: 0, beyond: 0, tp(topic): 0}
        outside = {parts[1]: -1}
        read, errors = {}, {}
        deadline = time.monotonic() + 60
        while sum(map(len, read.values())) < 30 + 20 + 1 + 10:
            assert time.monotonic() < deadline
            for one, answer in consumer.fetch_many(positions, 7).items():
                if isinstance(answer, LegacyConsumerError):
                    errors[one] = type(answer)
                    continue
                assert len(answer) <= 7
                read.setdefault(one, []).extend(int(message.value()) for message in answer)
                positions[one] += len(answer)
        assert errors == {nowhere: NoSuchTopicError, beyond: NoSuchPartitionError}
        assert read == {
            parts[0]: list(range(0, 90, 3)),
            parts[1]: list(range(31, 90, 3)),
            parts[2]: [89],
            log: list(range(290, 300)),
        }
        [error] = consumer.fetch_many(outside, timeout=30).values()
        assert isinstance(error, OffsetOutOfRangeError)
        assert (error.partition, error.earliest, error.latest) == (parts[1], 0, 30)


@on_every_broker
def test_all_before_the_offset_of_a_time_is_older(cluster, consumer, log):
    middle = consumer.offsets_before(log, BEGIN_MS + 100 * DAY_MS)
    after_all = consumer.offsets_before(log, int(time.time() * 1000) + DAY_MS)
    before_all = consumer.offsets_before(log, BEGIN_MS - DAY_MS)
    assert after_all == [300]
    assert before_all == [0]
    # to a broker that uses the dates of its files, all segments look new
    assert middle == ([0] if cluster.version in BY_SEGMENT else [100])


@pytest.mark.parametrize("broker_version", ["0.10.2.2", "1.1.1", "2.8.2"])
def test_a_time_in_a_log_without_timestamps_is_an_error_with_the_reason(cluster, consumer):
    old = tp(cluster.new_topic(message_format_version=FORMAT_VERSIONS[0]))
    cluster.produce(old.topic, [Record(None, b"0", 0)])
    with pytest.raises(FetchError, match="no timestamps"):
        consumer.offsets_before(old, BEGIN_MS)
    assert consumer.offsets_before(old, LATEST) == [1]


@on_every_broker
def test_unknown_topics_and_partitions_are_named(consumer, log):
    nowhere = TopicPartition("no-such-topic", 0)
    beyond = TopicPartition(log.topic, 1)
    for ask in (consumer.fetch, consumer.offsets_before):
        with pytest.raises(NoSuchTopicError, match="no-such-topic"):
            ask(nowhere, 0)
        with pytest.raises(NoSuchPartitionError, match="the topic has 1 partitions"):
            ask(beyond, 0)
    with pytest.raises(NoSuchTopicError):
        consumer.partitions("no-such-topic")


@on_every_broker
def test_a_topic_that_is_deleted_ends_the_wait_for_its_messages(cluster, consumer):
    gone = tp(cluster.new_topic())
    assert list(consumer.fetch(gone, 0, timeout=0)) == []
    cluster.kafka.delete_topic(gone.topic)
    begun = time.monotonic()
    with pytest.raises(NoSuchTopicError):
        consumer.fetch(gone, 0, timeout=60)
    assert time.monotonic() - begun < 30


@on_every_broker
def test_leader_and_replicas_are_those_of_zookeeper(cluster, consumer):
    topic = cluster.new_topic(partitions=2)
    found = consumer.partitions(topic)
    assert list(found) == [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    for info in found.values():
        assert info.leader.endpoint("PLAINTEXT").port == cluster.kafka.brokers[0].port
        assert (info.leader_epoch, info.replicas, info.in_sync_replicas) == (0, (0,), (0,))


@on_every_broker
def test_nothing_is_written_to_zookeeper(cluster, log):
    before = all_znodes(cluster.kafka.zookeeper_connect)
    with SimpleConsumer(zookeeper_connect=cluster.kafka.zookeeper_connect, group_id="some-group") as consumer:
        fetch_all(consumer, log, 0, 300)
        consumer.offsets_before(log, LATEST)
        consumer.partitions(log.topic)
        assert all_znodes(cluster.kafka.zookeeper_connect) == before


@pytest.mark.parametrize("broker_version", ["1.1.1"])
def test_brokers_that_refuse_the_credentials_are_an_error_of_every_question(cluster, log):
    sasl = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "PLAIN", "sasl_username": USER}
    sasl["sasl_plain_without_tls"] = "true"
    properties = {"zookeeper_connect": cluster.kafka.zookeeper_connect, **sasl, "sasl_password": "wrong"}
    begun = time.monotonic()
    with SimpleConsumer(**properties) as consumer:
        with pytest.raises(BrokerRefusedError):
            consumer.fetch(log, 0, timeout=60)
        with pytest.raises(BrokerRefusedError):
            consumer.offsets_before(log, EARLIEST)
    assert time.monotonic() - begun < 20


def test_a_leader_that_changes_is_followed():
    with EmbeddedKafka(brokers=2) as kafka:
        kafka.create_topic("t", replication_factor=2)
        partition = TopicPartition("t", 0)
        produce(kafka, range(100))
        with (
            SimpleConsumer(zookeeper_connect=kafka.zookeeper_connect) as consumer,
            SimpleConsumer(bootstrap_servers=kafka.bootstrap_servers) as without_zookeeper,
        ):
            assert fetch_all(without_zookeeper, partition, 0, 60) == list(range(60))
            info = consumer.partitions("t")[partition]
            assert {broker.broker_id for broker in consumer.brokers()} == {0, 1}
            old = info.leader.broker_id
            assert [follower.broker_id for follower in info.followers] == [1 - old]
            assert fetch_all(consumer, partition, 0, 60) == list(range(60))
            other = 1 - old
            # the controller elects only a replica in sync; on a busy machine the follower may be behind for a moment
            eventually(lambda: set(consumer.partitions("t")[partition].in_sync_replicas) == {old, other})
            kafka.brokers[old].kill()
            eventually(lambda: led_by(other, consumer.partitions("t")[partition]))
            produce(kafka, range(100, 150))
            assert fetch_all(consumer, partition, 60, 90) == list(range(60, 150))
            assert fetch_all(without_zookeeper, partition, 60, 90) == list(range(60, 150))
            assert [broker.broker_id for broker in without_zookeeper.brokers()] == [other]
            assert consumer.offsets_before(partition, LATEST) == [150]
            assert fetch_all(consumer, partition, 5, 1) == [5]
            # now no broker is left
            kafka.brokers[other].kill()
            with pytest.raises(BrokersUnavailableError, match="has no leader"):
                eventually_raises(consumer, partition, 150)
            kafka.brokers[other].start()
            produce(kafka, range(150, 160))
            assert fetch_all(consumer, partition, 150, 10, patience_s=60) == list(range(150, 160))


def led_by(broker_id, info):
    assert info.leader is not None, f"no leader: {info}"
    return info.leader.broker_id == broker_id


def eventually_raises(consumer, partition, offset):
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        consumer.fetch(partition, offset, timeout=1)


def produce(kafka, numbers):
    settings = {"bootstrap.servers": kafka.bootstrap_servers}
    produce_all("t", ((None, b"%d" % n, 0) for n in numbers), settings)


# Without ZooKeeper


def by_brokers(cluster, fetcher, listener="PLAINTEXT", **properties):
    port = cluster.kafka.brokers[0].ports[listener]
    return SimpleConsumer(
        bootstrap_servers=f"127.0.0.1:{port}", fetcher=fetcher, security_protocol=listener, **properties
    )


@on_some_brokers
@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_brokers_alone_are_enough_and_no_topic_is_created(cluster, log, fetcher):
    topics = cluster.topics()
    with by_brokers(cluster, fetcher) as consumer:
        assert fetch_all(consumer, log, 0, 300, at_once=70) == list(range(300))
        assert fetch_all(consumer, log, 123, 10) == list(range(123, 133))
        assert consumer.offsets_before(log, EARLIEST) == [0]
        assert consumer.offsets_before(log, LATEST, 3)[0] == 300
        [broker] = consumer.brokers()
        [info] = consumer.partitions(log.topic).values()
        assert (info.leader, info.replicas, info.in_sync_replicas, info.followers) == (broker, (0,), (0,), ())
        with pytest.raises(NoSuchTopicError):
            consumer.fetch(TopicPartition("no-such-topic", 0), 0)
        with pytest.raises(NoSuchPartitionError):
            consumer.fetch(TopicPartition(log.topic, 1), 0)
        with pytest.raises(OffsetOutOfRangeError):
            consumer.fetch(log, -1)
        made = cluster.new_topic()
        cluster.produce(made, [Record(None, b"0", 0)])
        eventually(lambda: fetch_all(consumer, tp(made), 0, 1) == [0])
    # the brokers create this topic for a consumer of librdkafka
    assert {*cluster.topics()} - {"__consumer_offsets"} == {*topics, made} - {"__consumer_offsets"}


@pytest.mark.parametrize("broker_version", ["1.1.1"])
@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_security_settings_hold_without_zookeeper(cluster, log, fetcher):
    tls = {"ssl_ca_location": str(cluster.ca)}
    sasl = {"sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_plain_without_tls": "true"}
    for listener, properties in (("SSL", tls), ("SASL_PLAINTEXT", {**sasl, "sasl_password": PASSWORD})):
        with by_brokers(cluster, fetcher, listener, **properties) as consumer:
            assert fetch_all(consumer, log, 290, 10) == list(range(290, 300))
            [broker] = consumer.brokers()
            assert broker.endpoint(listener).port == cluster.kafka.brokers[0].ports[listener]
    with (
        by_brokers(cluster, fetcher, "SASL_PLAINTEXT", **sasl, sasl_password="wrong") as consumer,
        pytest.raises(BrokerRefusedError, match=r"check security\.protocol"),
    ):
        consumer.fetch(log, 0, timeout=20)
    with by_brokers(cluster, fetcher, "SSL") as consumer, pytest.raises(BrokerRefusedError, match="certificate"):
        consumer.brokers()
    with by_brokers(cluster, fetcher, broker_hosts="elsewhere.example.com") as consumer:
        assert consumer.partitions(log.topic), "the user named this broker"
        with pytest.raises(LegacyConsumerError, match="PLAINTEXT"):
            consumer.fetch(log, 0, timeout=0.1)


@pytest.mark.parametrize("broker_version", ["0.8.2.2", "2.8.2"])
def test_librdkafka_alone_asks_brokers_where_the_extra_fast_is_missing(cluster, log, monkeypatch):
    monkeypatch.setattr("legacy_consumer.fetching.fetchers.missing_modules", lambda: ("legacy_consumer_native",))
    with by_brokers(cluster, "auto") as consumer:
        assert fetch_all(consumer, log, 290, 10) == list(range(290, 300))
        assert consumer.offsets_before(log, LATEST, 5) == [300], "librdkafka asks for one"
        assert consumer.offsets_before(log, BEGIN_MS + 100 * DAY_MS) == [0 if cluster.version in BY_SEGMENT else 100]
        with pytest.raises(NoSuchTopicError):
            consumer.fetch(TopicPartition("no-such-topic", 0), 0)
    assert "no-such-topic" not in cluster.topics()


@pytest.mark.parametrize("broker_version", ["2.8.2"])
def test_librdkafka_alone_says_that_a_broker_refuses_the_password(cluster, monkeypatch):
    monkeypatch.setattr("legacy_consumer.fetching.fetchers.missing_modules", lambda: ("legacy_consumer_native",))
    sasl = {"sasl_mechanism": "PLAIN", "sasl_username": USER, "sasl_plain_without_tls": "true"}
    with (
        by_brokers(cluster, "auto", "SASL_PLAINTEXT", **sasl, sasl_password="wrong") as consumer,
        pytest.raises(BrokerRefusedError),
    ):
        consumer.brokers()
