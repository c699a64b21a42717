"""What both fetchers deliver of the same logs, field by field, from every broker version in every format and codec."""

import random

import pytest
from confluent_kafka import Producer

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.librdkafka import LibrdkafkaFetchers, Record
from legacy_consumer.wire import ColumnarFetchers
from tests.support.broker_cluster import CODECS, FORMAT_VERSIONS, FORMATS, on_every_broker, tp
from tests.support.fetching import Fetched, fetch, poll_into
from zk_layout.kazoo_store import KazooStore

pytestmark = pytest.mark.kafka

COUNT = 400


@pytest.fixture
def store(cluster):
    zk = KazooStore(config_of(cluster).zk_settings())
    zk.start()
    yield zk
    zk.close()


def config_of(cluster, **properties):
    return ConsumerConfig.load(zookeeper_connect=cluster.kafka.zookeeper_connect, group_id="g", **properties)


def records(magic, seed):
    """Of all kinds that the format has: keys and values that are missing, empty, binary and large."""
    chance = random.Random(seed)
    texts = [b"", b"a", bytes(range(256)), b"the same again and again " * 50]
    for number in range(COUNT):
        key = chance.choice([None, b"", b"%d" % (number % 7), chance.randbytes(20)])
        value = chance.choice([None, *texts, chance.randbytes(chance.randrange(3000))])
        headers = ()
        if magic == 2 and chance.random() < 0.3:
            headers = tuple((f"h{n}", chance.choice([None, b"", b"x" * n])) for n in range(chance.randrange(4)))
        yield Record(key, value, 0, 1_400_000_000_000 + chance.randrange(10**9), headers)


def fields(message):
    kind, ms = message.timestamp()  # of kind 0 there is none, whatever the number is
    return (message.offset(), message.key(), message.value(), (kind, ms if kind else None), message.headers())


def delivered(factory, cluster, store, position, count, **properties):
    fetchers = factory(config_of(cluster, **properties), store)
    try:
        fetcher = fetchers.fetcher()
        fetcher.assign(position)
        return {one: list(map(fields, got)) for one, got in fetch(fetcher, count).messages.items()}
    finally:
        fetchers.close()


@on_every_broker
def test_both_fetchers_deliver_the_same_of_every_format_and_codec(cluster, store):
    topics = {}
    for magic in FORMATS[cluster.version]:
        for codec in ("none", *CODECS[cluster.version]):
            if codec == "zstd" and magic < 2:
                continue
            config = {"message_format_version": FORMAT_VERSIONS[magic]} if len(FORMATS[cluster.version]) > 1 else {}
            topic = cluster.new_topic(**config)
            cluster.produce(topic, records(magic, f"{magic}{codec}"), compression_type=codec, linger_ms=20)
            topics[topic] = f"format {magic}, {codec}"
    for begin in (0, COUNT // 3):
        wanted = {tp(topic): begin for topic in topics}
        count = len(wanted) * (COUNT - begin)
        theirs = delivered(LibrdkafkaFetchers, cluster, store, wanted, count)
        ours = delivered(ColumnarFetchers, cluster, store, wanted, count)
        for topic, name in topics.items():
            assert ours[tp(topic)] == theirs[tp(topic)], name
            assert [row[0] for row in ours[tp(topic)]] == list(range(begin, COUNT)), name


@pytest.mark.parametrize("broker_version", ["1.1.1", "3.9.1"])
def test_readers_of_committed_messages_get_no_others_from_either(cluster, store):
    topic = cluster.new_topic()
    producer = Producer({**cluster.producer_settings, "transactional.id": f"tx-{topic}"})
    producer.init_transactions(30)
    for number in range(12):
        producer.begin_transaction()
        for _ in range(20):
            producer.produce(topic, b"%d" % number, partition=0)
        if number % 3 == 1:
            producer.flush(10)
            producer.abort_transaction(30)
        else:
            producer.commit_transaction(30)
    cluster.produce(topic, [Record(None, b"last", 0)])
    committed = [b"%d" % n for n in range(12) if n % 3 != 1 for _ in range(20)]
    all_there_is = [b"%d" % n for n in range(12) for _ in range(20)]
    for level, values in (("read_committed", committed), ("read_uncommitted", all_there_is)):
        got = [
            delivered(factory, cluster, store, {tp(topic): 0}, len(values) + 1, isolation_level=level)[tp(topic)]
            for factory in (LibrdkafkaFetchers, ColumnarFetchers)
        ]
        assert got[0] == got[1]
        assert [row[2] for row in got[1]] == [*values, b"last"]


@on_every_broker
def test_a_log_that_grows_is_followed_and_positions_that_move_with_it_are_exact(cluster, store):
    """Sessions, from 1.1 on: partitions that come, go, and have nothing to say for a while."""
    topic = cluster.new_topic(partitions=3)
    parts = [tp(topic)._replace(partition=number) for number in range(3)]
    fetchers = ColumnarFetchers(config_of(cluster), store)
    try:
        fetcher = fetchers.fetcher()
        fetcher.assign(dict.fromkeys(parts, 0))
        got, produced = Fetched(), 0
        for round_ in range(6):
            cluster.produce(topic, [Record(None, b"%d" % round_, round_ % 3)] * 10)
            produced += 10
            while got.count < produced:
                poll_into(got, fetcher)
        assert [got.offsets(one) for one in parts] == [list(range(20))] * 3
        fetcher.unassign(parts[1:])
        fetcher.assign({parts[0]: 5})
        assert fetch(fetcher, 15).offsets(parts[0]) == list(range(5, 20))
    finally:
        fetchers.close()
