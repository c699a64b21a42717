"""A broker of any version for tests: each test creates its own topics, produces to them, and joins with consumers."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from legacy_consumer import ClusterConfig, ConsumerConnector, KafkaStream, TopicPartition
from legacy_consumer.embedded import KAFKA_VERSIONS, EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.fetching.librdkafka import Record, produce_all
from legacy_consumer.fetching.librdkafka.settings import client_settings
from tests.support.zk_history import ZkHistory
from zk_layout.kazoo_store import KazooStore

FORMATS = {"0.8.2.2": (0,), "0.10.2.2": (0, 1), "1.1.1": (0, 1, 2), "2.8.2": (0, 1, 2), "3.9.1": (2,)}
"""{version: the message formats that the broker can write}. From 3.0 on message.format.version has no effect."""
FORMAT_VERSIONS = {0: "0.9.0", 1: "0.10.0", 2: "0.11.0"}
"""{format: its message.format.version}."""
CODECS = {version: ("gzip", "snappy", "lz4", *(("zstd",) if version >= "2" else ())) for version in KAFKA_VERSIONS}
CODEC_BITS = {"gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}

USER, PASSWORD = "reader", "reader-secret"
"""The credentials that the SASL listeners accept."""
STORE_PASSWORD = "store-secret"

on_every_broker = pytest.mark.parametrize("broker_version", KAFKA_VERSIONS)
on_brokers_with_listeners = pytest.mark.parametrize("broker_version", KAFKA_VERSIONS[1:])
LARGEST_MESSAGE_BYTES = 4_000_000

_PROPERTIES = {
    "message.max.bytes": str(LARGEST_MESSAGE_BYTES),
    "replica.fetch.max.bytes": str(2 * LARGEST_MESSAGE_BYTES),
    # 0.8.2.2 cleans only with this setting; the second one shortens the 15 s between two looks, in every version
    "log.cleaner.enable": "true",
    "log.cleaner.backoff.ms": "100",
}


@dataclass(frozen=True)
class Batch:
    """The head of a message or of a batch of messages in a segment."""

    offset: int
    magic: int
    codec: int
    count: int
    """The number of messages; a compressed message of an old format counts as one."""


class BrokerCluster:
    """One broker of a version, with the listeners that the version has.

    history: all writes to its ZooKeeper, in all chroots; None if they are not recorded.
    """

    def __init__(
        self, version: str, zookeeper: EmbeddedZooKeeper, folder: Path, history: ZkHistory | None = None
    ) -> None:
        self.version = version
        self.history = history
        self.ca = folder / "ca.pem"
        listeners = ("PLAINTEXT",) if version == KAFKA_VERSIONS[0] else ("PLAINTEXT", "SSL", "SASL_PLAINTEXT")
        self.kafka = EmbeddedKafka(
            version,
            zookeeper=zookeeper,
            chroot=f"/kafka-{version}",
            listeners=listeners,
            properties={**_PROPERTIES, **_tls_properties(folder), "sasl.enabled.mechanisms": "PLAIN"},
            # The logins are for the listener. Without zookeeper.sasl.client=false, Kafka has no login for ZooKeeper,
            # takes each new connection there for a failed login, and resigns as controller; its own old znode then
            # keeps it from being controller again.
            flags=(f"-Djava.security.auth.login.config={_login_file(folder)}", "-Dzookeeper.sasl.client=false"),
        )
        self.store = KazooStore(ClusterConfig.load(zookeeper_connect=zookeeper.connect).zk_settings())

    def start(self) -> None:
        self.kafka.start()
        config = ClusterConfig.load(zookeeper_connect=self.kafka.zookeeper_connect)
        self.store = KazooStore(config.zk_settings())
        self.store.start()
        self.producer_settings = client_settings(config, read_brokers(self.store))

    def close(self) -> None:
        self.store.close()
        self.kafka.close()

    @property
    def newest_format(self) -> int:
        return FORMATS[self.version][-1]

    def new_topic(self, partitions: int = 1, **config: str) -> str:
        """Create a topic. config: topic properties, with underscores for dots. Returns: its name."""
        name = f"t-{uuid.uuid4().hex[:8]}"
        self.kafka.create_topic(name, partitions, config={k.replace("_", "."): v for k, v in config.items()})
        return name

    def produce(self, topic: str, records: Iterable[Record], **settings: str | int | bool) -> int:
        """Produce the records. settings: librdkafka's, with underscores for dots."""
        named = {name.replace("_", "."): value for name, value in settings.items()}
        return produce_all(
            topic, records, {**self.producer_settings, "message.max.bytes": 2 * LARGEST_MESSAGE_BYTES, **named}
        )

    def config(self, group: str = "g", **properties: str | int | bool) -> dict[str, str | int | bool]:
        return {
            "zookeeper_connect": self.kafka.zookeeper_connect,
            "group_id": group,
            "auto_offset_reset": "smallest",
            "auto_commit_enable": False,
            "consumer_timeout_ms": 60_000,
            **properties,
        }

    @contextmanager
    def consuming(
        self, topic: str, group: str | None = None, **properties: object
    ) -> Iterator[tuple[ConsumerConnector, KafkaStream]]:
        """Join as a member with one stream of the topic; leave at the end of the with block."""
        with ConsumerConnector(**self.config(group or f"g-{uuid.uuid4().hex[:8]}", **properties)) as connector:
            yield connector, connector.create_message_streams({topic: 1})[topic][0]

    def committed(self, group: str, topic: str) -> dict[int, int]:
        path = f"/consumers/{group}/offsets/{topic}"
        return {int(p): int(self.store.get_data(f"{path}/{p}").data or b"") for p in self.store.get_children(path)}

    def topics(self) -> tuple[str, ...]:
        return self.store.get_children("/brokers/topics")

    def members(self, group: str) -> tuple[str, ...]:
        path = f"/consumers/{group}/ids"
        return self.store.get_children(path) if self.store.exists(path) else ()

    def has_group(self, group: str) -> bool:
        """Return whether a client ever wrote to the group: a member leaves at least the folder /consumers/G/ids."""
        return self.store.exists(f"/consumers/{group}")

    def batches_on_disk(self, topic: str) -> list[Batch]:
        """Return the batches in the segments of partition 0, in order."""
        folder = self.kafka.brokers[0].data_folder / f"{topic}-0"
        return [batch for segment in sorted(folder.glob("*.log")) for batch in _heads(segment.read_bytes())]

    def active_segment(self, topic: str) -> int:
        """Return the first offset of partition 0's active segment, which the cleaner does not clean."""
        folder = self.kafka.brokers[0].data_folder / f"{topic}-0"
        return max(int(segment.stem) for segment in folder.glob("*.log"))

    def cleaned_up_to(self, topic: str) -> int:
        """Return the offset at which the cleaner continues in partition 0; 0 before its first run."""
        checkpoint = self.kafka.brokers[0].data_folder / "cleaner-offset-checkpoint"
        if not checkpoint.exists():
            return 0
        rows = [line.split() for line in checkpoint.read_text().splitlines()]
        return next((int(row[2]) for row in rows if row[:2] == [topic, "0"]), 0)


def take(stream: KafkaStream, count: int) -> list[Message]:
    return [message for _, message in zip(range(count), stream, strict=False)]


def comes_no_more(stream: KafkaStream) -> bool:
    """Return whether the stream has no message in 0.2 s; this finishes the messages in hand."""
    return list(next(stream.batches(timeout=0.2))) == []


def tp(topic: str) -> TopicPartition:
    return TopicPartition(topic, 0)


def _heads(data: bytes) -> Iterator[Batch]:
    # Bytes: offset 8, length 4, then CRC (formats 0 and 1) or leader epoch (2) 4, magic 1. The codec is in the lowest
    # bits of the attributes: 1 byte after magic, or in format 2 the 2 bytes after the CRC. Format 2 has its count of
    # records at byte 57.
    at = 0
    while at + 17 < len(data) and (length := int.from_bytes(data[at + 8 : at + 12], "big")):
        magic = data[at + 16]
        count = int.from_bytes(data[at + 57 : at + 61], "big") if magic == 2 else 1
        codec = data[at + (22 if magic == 2 else 17)] & 7
        yield Batch(int.from_bytes(data[at : at + 8], "big"), magic, codec, count)
        at += 12 + length


def _tls_properties(folder: Path) -> Mapping[str, str]:
    keystore, ca = folder / "broker.p12", folder / "ca.pem"
    if not ca.exists():
        store = ["-keystore", str(keystore), "-storetype", "PKCS12", "-storepass", STORE_PASSWORD, "-alias", "broker"]
        for command in (
            ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=b", "-ext", "SAN=ip:127.0.0.1", "-ext", "BC=ca:true"],
            ["-exportcert", "-rfc", "-file", str(ca)],
        ):
            subprocess.run(["keytool", *command, *store], check=True, capture_output=True, timeout=60)
    return {
        "ssl.keystore.location": str(keystore),
        "ssl.keystore.type": "PKCS12",
        "ssl.keystore.password": STORE_PASSWORD,
        "ssl.key.password": STORE_PASSWORD,
    }


def _login_file(folder: Path) -> Path:
    path = folder / "broker.jaas"
    path.write_text(
        "KafkaServer {\n"
        "  org.apache.kafka.common.security.plain.PlainLoginModule required\n"
        f'  username="broker" password="broker-secret" user_broker="broker-secret" user_{USER}="{PASSWORD}";\n'
        "};\n"
    )
    return path
