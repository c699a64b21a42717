"""A consumer gets messages of every format and compression from every broker version."""

import random
import time

import pytest

from legacy_consumer import ConsumerConfig, ConsumerConnector, FetchError
from legacy_consumer.fetching.librdkafka import Record
from tests.support.broker_cluster import (
    CODEC_BITS,
    CODECS,
    FORMAT_VERSIONS,
    FORMATS,
    comes_no_more,
    on_every_broker,
    take,
)
from tests.support.record_encoder import crc32c

pytestmark = pytest.mark.kafka

CREATE_TIME, NO_TIMESTAMP = 1, 0
BEGIN_MS = 1_400_000_000_000

in_every_format = pytest.mark.parametrize(
    ("broker_version", "magic"), [(version, magic) for version, formats in FORMATS.items() for magic in formats]
)
in_every_codec = pytest.mark.parametrize(
    ("broker_version", "codec"), [(version, codec) for version, codecs in CODECS.items() for codec in codecs]
)


def format_config(cluster, magic):
    """Return the topic's configuration for a message format; empty for brokers without a choice."""
    return {"message_format_version": FORMAT_VERSIONS[magic]} if len(FORMATS[cluster.version]) > 1 else {}


@in_every_format
def test_keys_values_timestamps_and_headers_are_those_of_the_format(cluster, magic):
    topic = cluster.new_topic(**format_config(cluster, magic))
    headers = (("a", b"1"), ("a", None), ("b", b"")) if magic == 2 else ()  # older formats have none
    sent = [
        Record(b"k", b"v", 0, BEGIN_MS, headers),
        Record(None, b"v", 0, BEGIN_MS + 1),
        Record(b"k", None, 0, BEGIN_MS + 2),
        Record(None, None, 0, BEGIN_MS + 3),
        Record(b"", b"", 0, BEGIN_MS + 4),
        Record("\u00fc".encode(), bytes(range(256)), 0, BEGIN_MS + 5),
    ]
    cluster.produce(topic, sent)
    assert {batch.magic for batch in cluster.batches_on_disk(topic)} == {magic}
    with cluster.consuming(topic) as (_, stream):
        got = take(stream, len(sent))
        assert comes_no_more(stream)
    assert [(m.offset(), m.key(), m.value()) for m in got] == [(i, r.key, r.value) for i, r in enumerate(sent)]
    if magic == 0:
        assert {m.timestamp()[0] for m in got} == {NO_TIMESTAMP}
    else:
        assert [m.timestamp() for m in got] == [(CREATE_TIME, record.timestamp_ms) for record in sent]
    assert got[0].headers() == (list(headers) or None)
    assert got[1].headers() is None


@pytest.mark.parametrize("broker_version", ["1.1.1"])
def test_a_header_whose_name_is_not_utf8_ends_no_process(cluster):
    """Some producers write such names. At the second read of such headers librdkafka ends with a segmentation fault."""
    topic = cluster.new_topic()
    cluster.produce(
        topic, [Record(None, b"v", 0, BEGIN_MS, (("name", b"1"),)), Record(None, b"w", 0)], batch_num_messages=1
    )
    segment = cluster.kafka.brokers[0].data_folder / f"{topic}-0" / f"{0:020}.log"
    data = bytearray(segment.read_bytes())
    at = data.index(b"name")
    data[at : at + 4] = b"na\xff\xfe"
    end = 12 + int.from_bytes(data[8:12], "big")
    data[17:21] = crc32c(bytes(data[21:end])).to_bytes(4, "big")
    with segment.open("r+b") as file:
        file.write(data)
    told = {}
    for fetcher in ("columnar", "librdkafka"):
        with cluster.consuming(topic, fetcher=fetcher) as (_, stream):
            first, second = take(stream, 2)
            for _ in range(100):  # the interpreter specialises a frequent call, and then checks its result less
                second.headers()
            for _ in range(3):
                try:
                    told[fetcher] = first.headers()
                except FetchError as error:
                    told[fetcher] = str(error)
            assert (first.value(), second.value(), second.headers()) == (b"v", b"w", None)
    assert told["columnar"] == [("na\ufffd\ufffd", b"1")]
    assert told["librdkafka"].startswith(f"{topic}/0: offset 0: the name of a header is not UTF-8")


@in_every_codec
def test_messages_that_a_producer_compressed_arrive_with_exact_positions(cluster, codec):
    topic = cluster.new_topic()
    cluster.produce(topic, numbered(500), compression_type=codec, linger_ms=200)
    assert_compressed(cluster, topic, codec, fewer_batches_than=500)
    with cluster.consuming(topic, "in-the-middle") as (connector, stream):
        assert_numbered(take(stream, 123), range(123))
        connector.commit_offsets()
    assert cluster.committed("in-the-middle", topic) == {0: 123}
    with cluster.consuming(topic, "in-the-middle") as (_, stream):
        assert_numbered(take(stream, 377), range(123, 500))
        assert comes_no_more(stream)


@pytest.mark.parametrize(
    ("broker_version", "codec"),
    # 0.8.2.2 has no compression.type; it compresses anew whatever came compressed, which the test above checks
    [(version, codec) for version, codecs in CODECS.items() if version != "0.8.2.2" for codec in codecs],
)
def test_messages_that_a_broker_compressed_arrive(cluster, codec):
    topic = cluster.new_topic(compression_type=codec)
    cluster.produce(topic, numbered(500), linger_ms=200)
    assert_compressed(cluster, topic, codec, fewer_batches_than=500)
    with cluster.consuming(topic) as (_, stream):
        assert_numbered(take(stream, 500), range(500))
        assert comes_no_more(stream)


@pytest.mark.parametrize(
    ("broker_version", "magic", "codec"),
    [
        (version, magic, codec)
        for version, formats in FORMATS.items()
        for magic in formats[:-1]  # the last one is the broker's default, which the tests above check
        for codec in ("gzip", "snappy", "lz4")
    ],
)
def test_old_formats_are_read_compressed_too(cluster, magic, codec):
    topic = cluster.new_topic(**format_config(cluster, magic), compression_type=codec)
    cluster.produce(topic, numbered(300), linger_ms=200)
    assert {batch.magic for batch in cluster.batches_on_disk(topic)} == {magic}
    assert_compressed(cluster, topic, codec, fewer_batches_than=300)
    with cluster.consuming(topic) as (_, stream):
        assert_numbered(take(stream, 300), range(300))
        assert comes_no_more(stream)


@on_every_broker
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_messages_larger_than_the_fetch_size_arrive_in_order(cluster, compression, record_property):
    topic = cluster.new_topic()
    noise = random.Random(1)
    sizes = [10] * 50 + [2_000_000] + [10] * 50 + [3_000_000, 3_500_000] + [10] * 50
    values = [noise.randbytes(size) for size in sizes]
    cluster.produce(topic, (Record(None, value, 0) for value in values), compression_type=compression)
    with cluster.consuming(topic, "large", fetch_message_max_bytes=10_000) as (connector, stream):
        begun = time.monotonic()
        assert [m.value() for m in take(stream, len(values))] == values
        record_property("seconds", round(time.monotonic() - begun, 3))
        assert comes_no_more(stream)
        connector.commit_offsets()
    assert cluster.committed("large", topic) == {0: len(values)}


@on_every_broker
def test_an_answer_larger_than_we_may_take_is_an_error_that_names_the_limit_to_raise(cluster):
    topic = cluster.new_topic()
    values = [b"first", b"x" * 3_000_000, b"last"]
    cluster.produce(topic, (Record(None, value, 0) for value in values), batch_num_messages=1)
    limits = {"rdkafka.fetch.max.bytes": 1_000_000, "rdkafka.receive.message.max.bytes": 1_000_512}
    with pytest.raises(FetchError, match=r"response size \d+ .*rdkafka\.receive\.message\.max\.bytes"):
        consume_all(cluster, topic, limits, 3)
    assert consume_all(cluster, topic, {"rdkafka.receive.message.max.bytes": 10_000_000}, 3) == values


def consume_all(cluster, topic, overrides, count):
    properties = cluster.config("limited", fetch_message_max_bytes=100_000)
    with ConsumerConnector(ConsumerConfig.load(None, overrides, **properties)) as connector:
        return [m.value() for m in take(connector.create_message_streams({topic: 1})[topic][0], count)]


def numbered(count):
    return (Record(b"k%d" % (n % 7), b"%d " % n * 20, 0, BEGIN_MS + n) for n in range(count))


def assert_numbered(messages, numbers):
    assert [m.offset() for m in messages] == list(numbers)
    assert [(m.key(), m.value()) for m in messages] == [(b"k%d" % (n % 7), b"%d " % n * 20) for n in numbers]


def assert_compressed(cluster, topic, codec, *, fewer_batches_than):
    batches = cluster.batches_on_disk(topic)
    assert {batch.codec for batch in batches} == {CODEC_BITS[codec]}
    assert len(batches) < fewer_batches_than
