"""Compares the reading speed in Spark: messages with its own Kafka connector, offsets with kazoo alone.

Messages: 24 million of 100 bytes in four partitions of a 1.1.1 broker, so that the start of a query matters little;
local[2]. Each measurement is a Spark of its own that reads the topic once to warm up, then again, and counts, adds up
the lengths of values and takes the greatest offset (and, not pruned, timestamp). Spark's connector knows by itself
which columns a query wants; for ours it is the schema that prunes. The figure is messages a second of the second read.

Offsets: 1,000 groups with 100 offset znodes each. Ours: a Spark that has read them once lists the groups and sums
up their offsets. The peer: two processes of kazoo, each of which lists half of the groups, their topics and partitions,
and reads their offsets, all by pipelined asynchronous calls; the clock runs once both are connected. A server before
3.6 takes no reads in bulk, so there it is the same pipelined reads on both sides.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from benchmarks.comparison import Effort, Figures
from benchmarks.consuming import ConsumingStage
from benchmarks.processes import output_of, own_program
from benchmarks.spark_jars import connector_jars
from legacy_consumer.embedded import EmbeddedZooKeeper
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import OffsetPath
from zk_layout.settings import ZkSettings
from zk_layout.store import CreateOp

MESSAGES_PER_S = "messages_per_s"
ZNODES_PER_S = "znodes_per_s"
SECONDS = "seconds"

TOPIC = "benchmark"


@dataclass(frozen=True, slots=True)
class ReadMessages:
    """One way to read a topic: format, fetcher (ours only), and whether only value and offset are wanted.

    tuned: with the settings that an expert would give to Spark's connector (programs/spark_messages.py).
    """

    form: str
    pruned: bool = False
    fetcher: str = ""
    tuned: bool = False

    def __str__(self) -> str:
        which = f"{self.form}{f', {self.fetcher}' if self.fetcher else ''}{', tuned' if self.tuned else ''}"
        return f"{which}, value and offset" if self.pruned else which

    def measure(self, stage: ConsumingStage) -> Figures:
        """Return messages a second."""
        told = {
            "form": self.form,
            "pruned": self.pruned,
            "fetcher": self.fetcher,
            "tuned": self.tuned,
            "topic": TOPIC,
            "messages": stage.messages,
            "zookeeper": stage.kafka.zookeeper_connect,
            "brokers": stage.kafka.bootstrap_servers,
            "jars": "" if self.form != "kafka" else ",".join(map(str, connector_jars())),
        }
        return _figures(stage.python("spark_messages", json.dumps(told)))


class OffsetsStage:
    """A ZooKeeper full of offsets."""

    def __init__(self, zookeeper: EmbeddedZooKeeper, workspace: Workspace, groups: int, partitions: int) -> None:
        self.connect = zookeeper.connect
        self.groups = groups
        self.partitions = partitions
        self._workspace = workspace
        self._runs = 0

    def python(self, program: str, *arguments: str) -> str:
        """Run one of our programs to its end. Returns: its output."""
        self._runs += 1
        name = f"{program}-{self._runs}"
        command = own_program(program, *arguments)
        return output_of(ServerProcess(name, command, self._workspace, self._workspace.folder / f"{name}.log"))


@dataclass(frozen=True, slots=True)
class OffsetsScene:
    """A number of groups with a number of offsets each, in a ZooKeeper of this version."""

    groups: int = 1000
    quick_groups: int = 100
    partitions: int = 100
    version: str = "3.9"
    rounds: int = 5

    def __str__(self) -> str:
        return f"{self.groups} groups of {self.partitions} offsets, ZooKeeper {self.version}"

    @contextmanager
    def open(self, effort: Effort) -> Iterator[OffsetsStage]:
        """Start the server and write the offsets."""
        groups = effort.choose(self.groups, self.quick_groups)
        with EmbeddedZooKeeper(version=self.version) as zookeeper, Workspace("benchmark") as workspace:
            store = KazooStore(ZkSettings(zookeeper.connect, connection_timeout_ms=20_000))
            store.start()
            try:
                for group in range(groups):
                    paths = [OffsetPath(f"group-{group}", TOPIC, n).path for n in range(self.partitions)]
                    store.ensure_path(paths[0].rpartition("/")[0])
                    store.multi([CreateOp(path, b"123456789") for path in paths])
            finally:
                store.close()
            yield OffsetsStage(zookeeper, workspace, groups, self.partitions)


@dataclass(frozen=True, slots=True)
class ReadOffsets:
    """One way to read all offsets: spark_offsets or kazoo_offsets."""

    program: str

    def __str__(self) -> str:
        return {"spark_offsets": "zk_offsets", "kazoo_offsets": "two processes of kazoo"}[self.program]

    def measure(self, stage: OffsetsStage) -> Figures:
        """Return seconds, and znodes a second."""
        return _figures(stage.python(self.program, stage.connect, str(stage.groups * stage.partitions)))


def _figures(output: str) -> Figures:
    line = next(line for line in reversed(output.splitlines()) if line.startswith("{"))
    figures: dict[str, float] = json.loads(line)
    return figures
