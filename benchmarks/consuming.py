"""Compares the speed of consuming a topic: ours, librdkafka alone, and Kafka's own consumers.

One 1.1.1 broker, one topic of four partitions, messages of 100 bytes without a key, not compressed; one consumer with
one stream reads all partitions from their start. Each measurement is a process of its own. All of them do the same work
as Kafka's ConsumerPerformance: count the messages and add up the lengths of their values.

What a figure includes, messages a second:
- ours: from the first batch or message at the user to the last. Joining the group is not in it.
- raw: the same for a loop over confluent_kafka's consume() with the settings that our fetcher gives to librdkafka.
- socket: sends the same requests as our columnar fetcher, and reads only the headers of the batches in the responses,
  which contain the next offsets. A floor also checks the CRCs, and decompresses the records or copies them once.
- scala: nMsg.sec of kafka.tools.ConsumerPerformance with --zookeeper and one thread. The tool starts its clock
  after it joined and slept a second, in which its fetcher filled the queue: neither is in the figure. The tool of 0.8
  computes its rate differently, so there the figure is computed from the times and the count that it prints.
- jvm_new: fetch.nMsg.sec of the same tool with the newer Java consumer. It is without the time for joining the group,
  but with that of looking up positions and of the first fetch, a few hundredths of a second.
The JVMs compile while they run, and the figure includes that; it matters little over this many messages.
"""

from __future__ import annotations

import json
import random
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from typing import Literal

from benchmarks.comparison import Effort, Figures
from benchmarks.processes import output_of, own_program
from legacy_consumer import ClusterConfig
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.errors import ServerStartError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.fetching.librdkafka.producer import Record
from legacy_consumer.fetching.librdkafka.settings import SettingsDict, client_settings
from legacy_consumer.sandbox.servers.jvm import ALL_COMPILERS
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from zk_layout.kazoo_store import KazooStore

MESSAGES_PER_S = "messages_per_s"
PEAK_MB = "peak_mb"

_TOPIC = "benchmark"
_DIFFERENT_VALUES = 50_000
"""More values than the largest window of a codec (zstd's) holds: fewer would compress to almost nothing."""
_TRIES = 3


class ConsumingStage:
    """A broker with a topic that holds a few more messages than are read, so no reader waits for the end of the log."""

    def __init__(self, kafka: EmbeddedKafka, workspace: Workspace, messages: int) -> None:
        self.kafka = kafka
        self.messages = messages
        self._workspace = workspace
        self._runs = 0

    def python(self, program: str, *arguments: str) -> str:
        """Run one of our programs to its end. Returns: its output."""
        self._runs += 1
        name = f"{program}-{self._runs}"
        command = own_program(program, *arguments)
        return output_of(ServerProcess(name, command, self._workspace, self._workspace.folder / f"{name}.log"))

    def java(self, main: str, *arguments: str, flags: Sequence[str] = ()) -> str:
        """Run one of Kafka's programs to its end. Returns: its output."""
        self._runs += 1
        return output_of(self.kafka.start_java(f"benchmark-{self._runs}", main, *arguments, flags=flags))

    def properties(self, *lines: str) -> tuple[str, str]:
        """Write these settings to a file. Returns: the arguments that give it to one of Kafka's consumers."""
        path = self._workspace.folder / "consumer.properties"
        path.write_text("\n".join(lines) + "\n", encoding="ascii")
        return "--consumer.config", str(path)


@dataclass(frozen=True, slots=True)
class ConsumingScene:
    """One broker and one topic: the number of partitions, of messages, and of bytes in a message."""

    messages: int = 64_000_000
    quick_messages: int = 1_000_000
    message_bytes: int = 100
    partitions: int = 4
    kafka_version: str = "1.1.1"
    compression: str = "none"
    rounds: int = 3

    def __str__(self) -> str:
        packed = "" if self.compression == "none" else f" {self.compression},"
        each = f"{self.messages / 1_000_000:g} million messages of {self.message_bytes} bytes"
        return f"consuming ({each},{packed} {self.partitions} partitions, Kafka {self.kafka_version})"

    @contextmanager
    def open(self, effort: Effort) -> Iterator[ConsumingStage]:
        """Start the broker and fill the topic."""
        messages = effort.choose(self.messages, self.quick_messages)
        with EmbeddedKafka(self.kafka_version, flags=ALL_COMPILERS) as kafka, Workspace("benchmark") as workspace:
            kafka.create_topic(_TOPIC, partitions=self.partitions)
            settings = {**producer_settings(kafka), "compression.type": self.compression}
            produce_all(_TOPIC, self._records(messages + messages // 50), settings)
            yield ConsumingStage(kafka, workspace, messages)

    def _records(self, count: int) -> Iterator[Record]:
        chance = random.Random(1)
        # for compression, text that shrinks to about a half, as logs and JSON do
        make = (
            chance.randbytes if self.compression == "none" else lambda size: chance.randbytes(size // 2).hex().encode()
        )
        values = [make(self.message_bytes) for _ in range(_DIFFERENT_VALUES)]
        for number in range(count):
            yield Record(None, values[number % _DIFFERENT_VALUES], number % self.partitions)


def producer_settings(kafka: EmbeddedKafka) -> SettingsDict:
    """Return librdkafka's settings for the broker's version, by its registration; a broker of 0.8 needs others."""
    config = ClusterConfig.load(zookeeper_connect=kafka.zookeeper_connect)
    store = KazooStore(config.zk_settings())
    store.start()
    try:
        return client_settings(config, read_brokers(store))
    finally:
        store.close()


SMALL_MESSAGES = ConsumingScene()
MESSAGES_FOR_SPARK = ConsumingScene(messages=24_000_000)
LARGE_MESSAGES = ConsumingScene(messages=8_000_000, quick_messages=250_000, message_bytes=1000)
FORMAT_0_MESSAGES = ConsumingScene(messages=16_000_000, kafka_version="0.8.2.2")
FORMAT_1_MESSAGES = ConsumingScene(messages=16_000_000, kafka_version="0.10.2.2")
COMPRESSED = {
    codec: ConsumingScene(messages=48_000_000, compression=codec, kafka_version="2.8.2" if codec == "zstd" else "1.1.1")
    for codec in ("snappy", "lz4", "zstd", "gzip")
}


@dataclass(frozen=True, slots=True)
class Ours:
    """ConsumerConnector and KafkaStream with default settings."""

    way: Literal["arrow", "batches", "iterate"]

    def __str__(self) -> str:
        return f"ours, {self.way}"

    def measure(self, stage: ConsumingStage) -> Figures:
        """Return messages a second and the highest resident memory."""
        return _figures(
            stage.python("consume_ours", stage.kafka.zookeeper_connect, _TOPIC, str(stage.messages), self.way)
        )


@dataclass(frozen=True, slots=True)
class Raw:
    """confluent_kafka alone."""

    def __str__(self) -> str:
        return "raw consume()"

    def measure(self, stage: ConsumingStage) -> Figures:
        """Return messages a second and the highest resident memory."""
        return _figures(stage.python("consume_raw", stage.kafka.zookeeper_connect, _TOPIC, str(stage.messages)))


@dataclass(frozen=True, slots=True)
class Socket:
    """Our requests without decoding of the responses. unpack: check batches, and decompress or copy them once."""

    unpack: bool = False

    def __str__(self) -> str:
        return "the socket, checked and unpacked" if self.unpack else "the socket alone"

    def measure(self, stage: ConsumingStage) -> Figures:
        """Return messages a second and the highest resident memory."""
        more = ("unpack",) if self.unpack else ()
        where = stage.kafka.zookeeper_connect, _TOPIC, str(stage.messages)
        return _figures(stage.python("consume_socket", *where, *more))


def _figures(output: str) -> Figures:
    figures: dict[str, float] = json.loads(output.splitlines()[-1])
    return figures


@dataclass(frozen=True, slots=True)
class ConsumerPerformance:
    """Kafka's own tool, over its Scala consumer or the newer Java one, with the settings that an expert would choose.

    In turns on one machine, four rounds: the newer consumer read 3.0 million messages a second with the tool's
    defaults, 3.4 with larger fetches and more than 500 messages a poll, and 3.9 with, in addition, a heap that the
    garbage collector seldom has to clean. With the parallel collector it read 3.5.
    """

    consumer: Literal["scala", "jvm_new"]

    def __str__(self) -> str:
        return f"ConsumerPerformance, {self.consumer}"

    def measure(self, stage: ConsumingStage) -> Figures:
        """Return messages a second, by the tool's own clock.

        With the older consumer the tool ends when no message comes for a second, which may happen at its start on a
        busy machine: then run it again.
        """
        for _ in range(_TRIES):
            output = self._run(stage)
            row = next(line for line in reversed(output.splitlines()) if line.count(", ") in (5, 6, 9))
            columns = row.split(", ")
            is_0_8 = len(columns) == 7
            count = float(columns[5] if is_0_8 else columns[4])
            if count >= stage.messages:
                return {MESSAGES_PER_S: count / _seconds_between(*columns[:2]) if is_0_8 else float(columns[-1])}
        raise ServerStartError(str(self), f"it read {count:.0f} of {stage.messages} messages", output[-2000:])

    def _run(self, stage: ConsumingStage) -> str:
        where = {
            "scala": ("--zookeeper", stage.kafka.zookeeper_connect),
            "jvm_new": ("--broker-list", stage.kafka.bootstrap_servers, *stage.properties("max.poll.records=100000")),
        }[self.consumer]
        return stage.java(
            "kafka.tools.ConsumerPerformance",
            *where, "--topic", _TOPIC, "--messages", str(stage.messages), "--threads", "1", "--fetch-size", "4194304",
            flags=("-Xms1g", "-Xmx1g"),
        )  # fmt: skip


def _seconds_between(begun: str, ended: str) -> float:
    """Return the seconds by the tool's clock. The rate of 0.8's tool subtracts a wait for messages that is not here."""
    first, last = (
        datetime.strptime(text, "%Y-%m-%d %H:%M:%S:%f").replace(tzinfo=timezone.utc) for text in (begun, ended)
    )
    return (last - first).total_seconds()
