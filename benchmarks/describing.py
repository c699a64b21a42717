"""The operator's command line beside Kafka's consumer-groups of 1.1.1, on the same tree of many groups.

Each side is run as an operator runs it, a process for each call, from its start to its end: the JVM's start is in the
peer's figures, and Python's, its imports and the connections to ZooKeeper and the broker in ours. Kafka's tool
describes one group in a call, so a thousand groups are a thousand calls; ours describes them all in one. What is
compared is the time for one group:

- describe_vs_kafka_tool: `groups describe --all-groups` over the number of groups, beside `--describe --group G`.
- describe_one_vs_kafka_tool: one group each. Mostly what it takes to start.
- list_vs_kafka_tool: `groups list` beside `--list`. The same.
- list_again_vs_kafka_tool: the same a second time in the same process, on either side: the time without start and
loading.

The compiled code of Python modules exists beforehand, as after an installation by pip: without it each start would
compile all modules again.

No member runs: owner znodes exist, but belong to no session. Offsets are in ZooKeeper; Kafka's tool first asks the
broker for the group's offsets in Kafka, and its figures include that.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.comparison import Effort, Figures
from benchmarks.processes import JAVA_SOURCES, Side, own_program
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.sandbox.servers.jvm import ALL_COMPILERS
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings
from zk_layout.store import CreateOp, Op, multi_size

_TOPIC = "benchmark"
_PARTITIONS = 100
_TIMEOUT_S = 300.0
_ROOT = Path(__file__).resolve().parent.parent

_Work = Literal["describe all", "describe one", "list"]


@dataclass(frozen=True, slots=True)
class Tree:
    """A ZooKeeper with the groups, and its broker. compiled: the folder for the compiled code of Python modules."""

    kafka: EmbeddedKafka
    groups: int
    compiled: Path

    def run_ours(self, *arguments: str) -> tuple[int, float]:
        """Run `legacy-consumer groups`. Returns: the number of printed lines, and the seconds that it took."""
        return self._timed([sys.executable, "-m", "legacy_consumer", "groups", *arguments])

    def run_kafka_tool(self, *arguments: str) -> tuple[int, float]:
        """Run Kafka's consumer-groups. Returns: the number of printed lines, and the seconds that it took."""
        return self._timed(self.kafka.java_command("kafka.admin.ConsumerGroupCommand", *arguments))

    def _timed(self, command: list[str]) -> tuple[int, float]:
        environment = {**os.environ, "PYTHONPATH": str(_ROOT), "PYTHONPYCACHEPREFIX": str(self.compiled)}
        environment.pop("PYTHONDONTWRITEBYTECODE", None)
        began = time.perf_counter()
        done = subprocess.run(command, capture_output=True, check=False, timeout=_TIMEOUT_S, env=environment)
        return done.stdout.count(b"\n"), time.perf_counter() - began


@dataclass(frozen=True, slots=True)
class TreeScene:
    """A number of groups, each with an offset and an owner for each partition of one topic."""

    groups: int
    rounds: int = 5

    @contextmanager
    def open(self, effort: Effort) -> Iterator[Tree]:
        """Start a broker and fill ZooKeeper."""
        groups = effort.choose(self.groups, 50)
        with (
            EmbeddedKafka("1.1.1", flags=ALL_COMPILERS) as kafka,
            tempfile.TemporaryDirectory(prefix="compiled-") as compiled,
        ):
            kafka.create_topic(_TOPIC, _PARTITIONS)
            store = KazooStore(ZkSettings(kafka.zookeeper_connect))
            store.start()
            try:
                fill(store, groups)
            finally:
                store.close()
            tree = Tree(kafka, groups, Path(compiled))
            tree.run_ours("list", "--zookeeper", kafka.zookeeper_connect)
            tree.run_ours("describe", "group-00000", "--zookeeper", kafka.zookeeper_connect)
            yield tree


def fill(store: KazooStore, groups: int) -> None:
    """Create groups `group-00000` and so on, with an offset and an owner znode for each partition, without members."""
    ops: list[Op] = []
    size = 0
    store.ensure_path("/consumers")
    for number in range(groups):
        root = f"/consumers/group-{number:05d}"
        made: list[Op] = [CreateOp(root, None)]
        for folder, value in (("ids", None), ("owners", b"member-1"), ("offsets", b"0")):
            made.append(CreateOp(f"{root}/{folder}", None))
            if value is not None:
                parent = f"{root}/{folder}/{_TOPIC}"
                made.append(CreateOp(parent, None))
                made += [CreateOp(f"{parent}/{partition}", value) for partition in range(_PARTITIONS)]
        cost = sum(map(multi_size, made))
        if ops and size + cost > store.max_multi_bytes:
            store.multi(ops)
            ops, size = [], 0
        ops += made
        size += cost
    store.multi(ops)


@dataclass(frozen=True, slots=True)
class Ours:
    """`legacy-consumer groups`."""

    work: _Work

    def measure(self, tree: Tree) -> Figures:
        """Run it once."""
        arguments, wanted, groups = {
            "describe all": (["describe", "--all-groups", "--format", "csv"], tree.groups * _PARTITIONS, tree.groups),
            "describe one": (["describe", "group-00000"], _PARTITIONS, 1),
            "list": (["list"], tree.groups, 1),
        }[self.work]
        lines, seconds = tree.run_ours(*arguments, "--zookeeper", tree.kafka.zookeeper_connect)
        assert lines >= wanted, f"{lines} lines"
        return {"s": seconds / groups}


@dataclass(frozen=True, slots=True)
class KafkaTool:
    """kafka.admin.ConsumerGroupCommand of 1.1.1."""

    work: _Work

    def measure(self, tree: Tree) -> Figures:
        """Run it once, for one group."""
        arguments = ["--list"] if self.work == "list" else ["--describe", "--group", "group-00000"]
        lines, seconds = tree.run_kafka_tool("--zookeeper", tree.kafka.zookeeper_connect, *arguments)
        assert lines >= (tree.groups if self.work == "list" else _PARTITIONS), f"{lines} lines"
        return {"s": seconds}


@dataclass(frozen=True, slots=True)
class ListAgain:
    """A program of one side that lists the groups several times, and times itself."""

    side: Side

    def measure(self, tree: Tree) -> Figures:
        """Run it once."""
        zookeeper = tree.kafka.zookeeper_connect
        command = (
            own_program("list_groups", zookeeper)
            if self.side == "ours"
            else tree.kafka.java_command(str(JAVA_SOURCES / "ListGroups.java"), zookeeper)
        )
        done = subprocess.run(command, capture_output=True, check=True, timeout=_TIMEOUT_S, text=True)
        lines, seconds = done.stdout.split()
        assert int(lines) >= tree.groups, f"{lines} lines"
        return {"s": float(seconds)}
