"""The operator's command line beside Kafka's consumer-groups of 1.1.1, on the same tree of many groups.

Each side is run as an operator runs it, a process for each call, from its start to its end: the JVM's start is in the
peer's figures, and Python's, its imports and the connections to ZooKeeper and the broker in ours. Kafka's tool
describes one group in a call, so a thousand groups are a thousand calls; ours describes them all in one. What is
compared is the time for one group:

- describe_vs_kafka_tool: `groups describe --all-groups` over the number of groups, beside `--describe --group G`.
- describe_one_vs_kafka_tool: one group each. Mostly what it takes to start.
- list_vs_kafka_tool: `groups list` beside `--list`. The same.

No member runs: owner znodes are there, but not of a session. Offsets are in ZooKeeper; Kafka's tool first asks the
broker for the group's offsets in Kafka, and so it is in its figures.
"""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from benchmarks.comparison import Comparison, Effort, Figures
from legacy_consumer.embedded import EmbeddedKafka
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
    """What stands in ZooKeeper, and the broker behind it."""

    kafka: EmbeddedKafka
    groups: int


@dataclass(frozen=True, slots=True)
class TreeScene:
    """So many groups, each with an offset and an owner for each partition of one topic."""

    groups: int
    rounds: int = 5

    @contextmanager
    def open(self, effort: Effort) -> Iterator[Tree]:
        """Start a broker and fill ZooKeeper."""
        groups = effort.choose(self.groups, 50)
        with EmbeddedKafka("1.1.1") as kafka:
            kafka.create_topic(_TOPIC, _PARTITIONS)
            store = KazooStore(ZkSettings(kafka.zookeeper_connect))
            store.start()
            try:
                _fill(store, groups)
            finally:
                store.close()
            yield Tree(kafka, groups)


def _fill(store: KazooStore, groups: int) -> None:
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
        arguments = {
            "describe all": ["describe", "--all-groups", "--format", "csv"],
            "describe one": ["describe", "group-00000"],
            "list": ["list"],
        }[self.work]
        command = [sys.executable, "-m", "legacy_consumer", "groups", *arguments]
        lines, seconds = _timed([*command, "--zookeeper", tree.kafka.zookeeper_connect])
        groups = tree.groups if self.work == "describe all" else 1
        wanted = {"describe all": tree.groups * _PARTITIONS, "describe one": _PARTITIONS, "list": tree.groups}
        assert lines >= wanted[self.work], f"{lines} lines"
        return {"s": seconds / groups}


@dataclass(frozen=True, slots=True)
class KafkaTool:
    """kafka.admin.ConsumerGroupCommand of 1.1.1."""

    work: _Work

    def measure(self, tree: Tree) -> Figures:
        """Run it once, for one group."""
        arguments = ["--list"] if self.work == "list" else ["--describe", "--group", "group-00000"]
        command = tree.kafka.java_command(
            "kafka.admin.ConsumerGroupCommand", "--zookeeper", tree.kafka.zookeeper_connect, *arguments
        )
        lines, seconds = _timed(command)
        assert lines >= (tree.groups if self.work == "list" else _PARTITIONS), f"{lines} lines"
        return {"s": seconds}


def _timed(command: list[str]) -> tuple[int, float]:
    """The number of lines it printed, and how long it took."""
    environment = {**os.environ, "PYTHONPATH": str(_ROOT)}
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, check=True, timeout=_TIMEOUT_S, env=environment)
    return done.stdout.count(b"\n"), time.perf_counter() - began


def _comparison(name: str, work: _Work, about: str, target: float) -> Comparison[Tree]:
    return Comparison(
        name=name,
        about=about,
        scene=TreeScene(1000),
        ours=Ours(work),
        peer=KafkaTool("list" if work == "list" else "describe one"),
        figure="s",
        unit="s",
        better="lower",
        target=target,
    )


COMPARISONS = [
    _comparison(
        "describe_vs_kafka_tool",
        "describe all",
        "time for each of 1,000 groups of 100 partitions described, starts of the JVM and of Python included",
        0.1,
    ),
    _comparison(
        "describe_one_vs_kafka_tool",
        "describe one",
        "one group of 100 partitions described among 1,000, starts of the JVM and of Python included",
        0.5,
    ),
    _comparison("list_vs_kafka_tool", "list", "1,000 groups named, starts of the JVM and of Python included", 0.5),
]
