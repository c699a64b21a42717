"""Records real brokers' answers to a Fetch: `python -m tests.support.record_record_sets [VERSION ...]`.

For each broker version it creates small topics, one for each format, compression and peculiarity. It writes the record
set of each to tests/data/record_sets/VERSION/NAME.bin, and the messages that librdkafka's consumer delivers of the same
topic to expected.json. Needs Java, like the tests of brokers.
"""

from __future__ import annotations

import base64
import json
import random
import shutil
import socket
import struct
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaError, Producer, TopicPartition

from legacy_consumer.embedded import KAFKA_VERSIONS, EmbeddedZooKeeper
from legacy_consumer.fetching.librdkafka import Record
from tests.support.broker_cluster import CODECS, FORMAT_VERSIONS, FORMATS, BrokerCluster
from tests.support.waiting import eventually

FOLDER = Path(__file__).parents[1] / "data" / "record_sets"
FETCH_VERSION = {"0.8.2.2": 0, "0.10.2.2": 2, "1.1.1": 4, "2.8.2": 10, "3.9.1": 10}
"""{broker version: version of Fetch}. From 4 on there are isolation levels; brokers send zstd from 10 on."""
BEGIN_MS = 1_400_000_000_000


@dataclass(frozen=True)
class Answer:
    record_set: bytes
    high_watermark: int
    last_stable_offset: int | None
    aborted: list[tuple[int, int]]
    """[(producer id, first offset)] of aborted transactions."""


def fetch_all(cluster: BrokerCluster, topic: str, *, read_committed: bool = False) -> Answer:
    """Fetch all of partition 0. A response ends with a segment, so the record sets of several are joined."""
    answer = fetch(cluster, topic, 0, read_committed=read_committed)
    record_set, aborted = answer.record_set, set(answer.aborted)
    end = answer.last_stable_offset if read_committed else answer.high_watermark
    while (position := behind(record_set)) < end:
        more = fetch(cluster, topic, position, read_committed=read_committed)
        assert more.record_set
        record_set += more.record_set
        aborted.update(more.aborted)
    return replace(answer, record_set=record_set, aborted=sorted(aborted))


def settled(cluster: BrokerCluster, topic: str, *, read_committed: bool) -> Answer:
    """Fetch all of partition 0, once no transaction is open."""

    def look() -> Answer | None:
        answer = fetch_all(cluster, topic, read_committed=read_committed)
        return answer if answer.last_stable_offset in (None, -1, answer.high_watermark) else None

    return eventually(look)


def behind(record_set: bytes) -> int:
    """Return the offset after the last batch, by its head."""
    at = position = 0
    while at < len(record_set):
        offset, size = struct.unpack_from(">qi", record_set, at)
        delta = struct.unpack_from(">i", record_set, at + 23)[0] if record_set[at + 16] == 2 else 0
        position, at = offset + delta + 1, at + 12 + size
    return position


def fetch(cluster: BrokerCluster, topic: str, offset: int, *, read_committed: bool = False) -> Answer:
    """Return the answer to one Fetch for partition 0."""
    version = FETCH_VERSION[cluster.version]
    body = struct.pack(">iii", -1, 500, 1)
    if version >= 4:
        body += struct.pack(">ib", 2**24, read_committed)
    if version >= 10:
        body += struct.pack(">ii", 0, -1)
    body += struct.pack(">ih", 1, len(topic)) + topic.encode() + struct.pack(">ii", 1, 0)
    if version >= 10:
        body += struct.pack(">iqqi", -1, offset, -1, 2**24) + struct.pack(">i", 0)
    else:
        body += struct.pack(">qi", offset, 2**24)
    request = struct.pack(">hhih", 1, version, 7, 8) + b"recorder" + body
    host, _, port = str(cluster.producer_settings["bootstrap.servers"]).partition(":")
    with socket.create_connection((host, int(port)), 20) as connection, connection.makefile("rb") as stream:
        connection.sendall(struct.pack(">i", len(request)) + request)
        (size,) = struct.unpack(">i", stream.read(4))
        return _answer(stream.read(size), version)


def _answer(reply: bytes, version: int) -> Answer:
    at = 4 + (4 if version >= 1 else 0) + (6 if version >= 10 else 0)  # correlation, throttle, error and session
    at += 4
    (length,) = struct.unpack_from(">h", reply, at)
    at += 2 + length + 4
    _, error, high_watermark = struct.unpack_from(">ihq", reply, at)
    assert error == 0, error
    at += 14
    last_stable_offset, aborted = None, []
    if version >= 4:
        (last_stable_offset,) = struct.unpack_from(">q", reply, at)
        at += 8 + (8 if version >= 5 else 0)
        (count,) = struct.unpack_from(">i", reply, at)
        at += 4
        for _ in range(max(count, 0)):
            aborted.append(struct.unpack_from(">qq", reply, at))
            at += 16
    (size,) = struct.unpack_from(">i", reply, at)
    record_set = reply[at + 4 : at + 4 + size]
    assert len(record_set) == size
    return Answer(record_set, high_watermark, last_stable_offset, aborted)


def delivered(cluster: BrokerCluster, topic: str, *, read_committed: bool = False) -> list[list[object]]:
    """Return [offset, timestamp type, timestamp, key, value, headers] of each message, by librdkafka; base64 bytes."""
    consumer = Consumer(
        {
            **cluster.producer_settings,
            "group.id": "recorder",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "check.crcs": True,
            "isolation.level": "read_committed" if read_committed else "read_uncommitted",
        }
    )
    consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    rows: list[list[object]] = []
    while True:
        message = consumer.poll(20)
        assert message is not None, "nothing came"
        if message.error():
            assert message.error().code() == KafkaError._PARTITION_EOF, message.error()
            consumer.close()
            return rows
        headers = [[key, text(value)] for key, value in message.headers() or []] or None
        rows.append([message.offset(), *message.timestamp(), text(message.key()), text(message.value()), headers])


def text(data: bytes | None) -> str | None:
    return None if data is None else base64.b64encode(data).decode()


def peculiar(magic: int) -> list[Record]:
    """Return records with null and empty fields, headers, times that fall, all bytes, and more than one block."""
    headers = (("a", b"1"), ("a", None), ("\u00fc", b"")) if magic == 2 else ()
    return [
        Record(b"k", b"v", 0, BEGIN_MS, headers),
        Record(None, b"v", 0, BEGIN_MS + 1_000_000_000),
        Record(b"k", None, 0, BEGIN_MS - 2),
        Record(None, None, 0, BEGIN_MS + 3),
        Record(b"", b"", 0, BEGIN_MS + 4, headers[:1]),
        Record("\u00fc".encode(), bytes(range(256)), 0, BEGIN_MS + 5),
        *(Record(b"k%d" % (n % 3), b"%d " % n * 8, 0, BEGIN_MS + 6 + n) for n in range(8)),
    ]


def plain_topics(cluster: BrokerCluster) -> Iterator[tuple[str, str]]:
    """Yield (name, topic) of each format and compression, by producer or broker, and with append times."""
    version = cluster.version
    for magic in FORMATS[version]:
        config = {"message_format_version": FORMAT_VERSIONS[magic]} if len(FORMATS[version]) > 1 else {}
        for codec in ("none", *CODECS[version]):
            if codec == "zstd" and magic < 2:
                continue
            topic = cluster.new_topic(**config)
            produce(cluster, topic, magic, compression_type=codec)
            yield f"v{magic}-{codec}", topic
            if version != "0.8.2.2" and codec != "none":
                topic = cluster.new_topic(**config, compression_type=codec)
                produce(cluster, topic, magic)
                yield f"v{magic}-{codec}-by-broker", topic
        if magic:
            for codec in ("none", "gzip"):
                topic = cluster.new_topic(**config, message_timestamp_type="LogAppendTime")
                produce(cluster, topic, magic, compression_type=codec)
                yield f"v{magic}-{codec}-append-time", topic


def produce(cluster: BrokerCluster, topic: str, magic: int, **settings: str | int | bool) -> None:
    # two batches: the offsets of the second do not begin at 0
    cluster.produce(topic, peculiar(magic), linger_ms=200, **settings)
    cluster.produce(topic, peculiar(magic)[:3], linger_ms=200, **settings)


def mixed_topic(cluster: BrokerCluster) -> tuple[str, str]:
    """Produce to one topic with and without compression in turn. Returns: (name, topic)."""
    topic = cluster.new_topic()
    for codec in ("none", "gzip", "none", "snappy", "lz4", "none"):
        cluster.produce(topic, peculiar(cluster.newest_format)[:4], linger_ms=200, compression_type=codec)
    return "mixed", topic


def compacted_topics(cluster: BrokerCluster) -> Iterator[tuple[str, str]]:
    """Yield (name, topic) of logs with gaps between and inside batches."""
    for codec in ("none", "snappy"):
        topic = cluster.new_topic(
            cleanup_policy="compact",
            segment_bytes="2000",
            segment_index_bytes="4096",
            min_cleanable_dirty_ratio="0.001",
            delete_retention_ms="0",
        )
        noise = random.Random(5)
        for n in range(60):
            records = [
                Record(b"k%d" % noise.randrange(40), noise.randbytes(12), 0, BEGIN_MS + n * 10 + i) for i in range(10)
            ]
            cluster.produce(topic, records, batch_num_messages=10, linger_ms=100, compression_type=codec)
        eventually(lambda topic=topic: cluster.cleaned_up_to(topic) == cluster.active_segment(topic) > 0)
        yield f"compacted-{codec}", topic


def transactional_topic(cluster: BrokerCluster) -> tuple[str, str]:
    """Produce committed, aborted and plain records in turn, with two transactions at a time; the last is aborted.

    Returns: (name, topic).
    """
    topic = cluster.new_topic()
    settings = {**cluster.producer_settings, "enable.metrics.push": False}
    a, b = (Producer({**settings, "transactional.id": f"{name}-{uuid.uuid4().hex[:6]}"}) for name in "ab")
    plain = Producer(settings)

    def write(producer: Producer, name: str, count: int) -> None:
        for n in range(count):
            producer.produce(topic, f"{name} {n}".encode(), f"{name}".encode(), 0, timestamp=BEGIN_MS + n)
        assert producer.flush(20) == 0

    for producer in (a, b):
        producer.init_transactions(30)
    a.begin_transaction()
    write(a, "a aborted", 3)
    b.begin_transaction()
    write(b, "b committed", 2)
    write(plain, "plain", 2)
    write(a, "a aborted, too", 2)
    a.abort_transaction(30)
    write(b, "b committed, too", 1)
    a.begin_transaction()
    write(a, "a committed", 2)
    b.commit_transaction(30)
    b.begin_transaction()
    write(b, "b aborted", 2)
    a.commit_transaction(30)
    write(plain, "plain, too", 1)
    b.abort_transaction(30)
    return "transactions", topic


def record(version: str, zookeeper: EmbeddedZooKeeper, scratch: Path) -> None:
    folder = scratch / version
    folder.mkdir()
    cluster = BrokerCluster(version, zookeeper, scratch)
    cluster.start()
    expected: dict[str, object] = {}

    def keep(name: str, topic: str, *, read_committed: bool = False) -> None:
        # until two answers are equal: brokers answer before they write markers, and report before they swap segments
        answer, rows = None, []
        while answer != (answer := settled(cluster, topic, read_committed=read_committed)):
            rows = delivered(cluster, topic, read_committed=read_committed)
        (folder / f"{name}.bin").write_bytes(answer.record_set)
        expected[name] = {
            "next_offset": behind(answer.record_set),
            "read_committed": read_committed,
            "last_stable_offset": answer.last_stable_offset,
            "aborted": answer.aborted,
            "records": rows,
        }

    try:
        for name, topic in (*plain_topics(cluster), mixed_topic(cluster), *compacted_topics(cluster)):
            keep(name, topic)
        if cluster.newest_format == 2:
            name, topic = transactional_topic(cluster)
            keep(name, topic)
            keep(f"{name}-read-committed", topic, read_committed=True)
    finally:
        cluster.close()
    one_a_line = [f"{json.dumps(name)}: {json.dumps(what, separators=(',', ':'))}" for name, what in expected.items()]
    lines = ",\n".join(one_a_line)
    (folder / "expected.json").write_text("{\n" + lines + "\n}\n")
    shutil.rmtree(FOLDER / version, ignore_errors=True)
    shutil.copytree(folder, FOLDER / version)


def main() -> None:
    with tempfile.TemporaryDirectory() as scratch, EmbeddedZooKeeper() as zookeeper:
        for version in sys.argv[1:] or KAFKA_VERSIONS:
            begun = time.monotonic()
            record(version, zookeeper, Path(scratch))
            print(f"{version}: {time.monotonic() - begun:.0f} s")


if __name__ == "__main__":
    main()
