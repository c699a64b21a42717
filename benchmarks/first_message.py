"""Measures the time of a process from its start to its first message: it joins a group of one and reads from the start.

Ours prints the first message of a stream; so does Kafka's console consumer of 1.1.1, over its Scala consumer on
ZooKeeper. The clock of the benchmark starts with the process, and stops when the message is in the output of the
process. In the cold row the process has an empty home directory, as right after the installation: the figure includes
everything that a fetcher compiles or stores at its first use.
"""

from __future__ import annotations

import itertools
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Literal

from benchmarks.comparison import Comparison, Effort, Figures
from benchmarks.consuming import producer_settings
from benchmarks.processes import own_program
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.errors import ServerStartError
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.fetching.librdkafka.producer import Record
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace

SECONDS = "seconds"

_TOPIC = "benchmark"
_VALUE = "a message of the benchmark"
_MESSAGES = 100
_TIMEOUT_S = 120.0
_LOOK_EVERY_S = 0.002


class FirstMessageStage:
    """A broker with a topic that holds some messages."""

    def __init__(self, kafka: EmbeddedKafka, workspace: Workspace) -> None:
        self.kafka = kafka
        self._workspace = workspace
        self._runs = itertools.count()

    def new_name(self) -> str:
        """Return a name for a new group and for a process."""
        return f"first-{next(self._runs)}"

    def python(self, name: str, *, cold: bool) -> ServerProcess:
        """Start our program."""
        command = own_program("consume_first", self.kafka.zookeeper_connect, _TOPIC, name)
        if cold:
            home = self._workspace.folder / f"home-{name}"
            home.mkdir()
            command = ["env", f"HOME={home}", f"XDG_CACHE_HOME={home}/cache", *command]
        return ServerProcess(name, command, self._workspace, self._workspace.folder / f"{name}.log")

    def console_consumer(self, name: str) -> ServerProcess:
        """Start Kafka's console consumer."""
        properties = self._workspace.folder / f"{name}.properties"
        properties.write_text(f"group.id={name}\n", encoding="ascii")
        return self.kafka.start_java(
            name, "kafka.tools.ConsoleConsumer", "--zookeeper", self.kafka.zookeeper_connect, "--topic", _TOPIC,
            "--from-beginning", "--max-messages", "1", "--consumer.config", os.fspath(properties),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class FirstMessageScene:
    """One 1.1.1 broker."""

    rounds: int = 5

    def __str__(self) -> str:
        return "the first message (one broker of 1.1.1, a topic of one partition)"

    @contextmanager
    def open(self, effort: Effort) -> Iterator[FirstMessageStage]:  # noqa: ARG002  (the same work, quick or not)
        """Start the broker and fill the topic."""
        with EmbeddedKafka() as kafka, Workspace("benchmark") as workspace:
            kafka.create_topic(_TOPIC, partitions=1)
            produce_all(_TOPIC, [Record(None, _VALUE.encode(), 0)] * _MESSAGES, producer_settings(kafka))
            yield FirstMessageStage(kafka, workspace)


@dataclass(frozen=True, slots=True)
class FirstMessage:
    """One side."""

    side: Literal["ours", "ours, cold", "console consumer"]

    def __str__(self) -> str:
        return self.side

    def measure(self, stage: FirstMessageStage) -> Figures:
        """Return the seconds to the first message."""
        name = stage.new_name()
        began = time.perf_counter()
        is_ours = self.side != "console consumer"
        process = stage.python(name, cold=self.side == "ours, cold") if is_ours else stage.console_consumer(name)
        try:
            while _VALUE not in process.log_text():
                if time.perf_counter() - began > _TIMEOUT_S:
                    raise ServerStartError(name, f"no message after {_TIMEOUT_S:g} s", process.log_tail())
                time.sleep(_LOOK_EVERY_S)
            seconds = time.perf_counter() - began
            process.wait(_TIMEOUT_S)
        finally:
            process.kill()
        return {SECONDS: seconds}


def _comparison(name: str, about: str, side: Literal["ours", "ours, cold"]) -> Comparison[FirstMessageStage]:
    return Comparison(
        name, about, FirstMessageScene(), FirstMessage(side), FirstMessage("console consumer"),
        SECONDS, "s", "lower", 0.5, headline=True,
    )  # fmt: skip


FIRST_MESSAGE = (
    _comparison("first_message_vs_jvm", "from the start of a process to its first message", "ours"),
    _comparison("first_message_cold_vs_jvm", "the same, right after installing", "ours, cold"),
)
