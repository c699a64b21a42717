"""How long a group of N members on one topic of P partitions takes to change, ours and one of Kafka's Scala consumers.

Each side has all its members in one process: ours in Python, the JVM's over kafka.javaapi.consumer.ConsumerConnector.
Both processes stay for the whole stage, and what each does first there is not measured: the JVM compiles meanwhile.
Members have the default settings of their side and one stream each, read by a thread. The group is new and the topic
empty, but the directory for its offsets is there: each partition's first position is written when it is given up, as a
group at work has to write how far it came. Changes begin two seconds after the one before has settled.
(A JVM member that finds a partition not yet given up backs off for two seconds: many of its figures are that.)
Both sides change in the same way:

    N members start together -> settled -> one more joins -> settled -> it leaves -> settled -> all leave

What a figure includes, seconds, all by the clock of the ZooKeeper server (see observer.py):
- start: from the first registration to the last owner znode of the settled group.
- join: from the joiner's registration to the last owner znode. It connected to ZooKeeper before: not in the figure.
- leave: from when the leaver was told to leave to the last owner znode of the others.
- requests of start, join and leave: all that the server received from before the change until 0.2 s after it settled.
- commits: of offsets for all partitions by one member that owns them, each time other ones than before.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass

from benchmarks.comparison import Effort, Figures
from benchmarks.observer import Observer
from benchmarks.processes import JAVA_SOURCES, MembersProcess, Side, own_program
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.embedded.jvm import ALL_COMPILERS
from legacy_consumer.embedded.process import Workspace

JOIN_S, LEAVE_S, START_S = "join_s", "leave_s", "start_s"
JOIN_REQUESTS = "join_requests"
COMMITS_PER_S = "commits_per_s"

_TOPIC = "benchmark"
_DURABLE = {"forceSync": "yes", "preAllocSize": "65536"}
"""ZooKeeper as it comes: each transaction is on the disk before it is answered, which an embedded one leaves out."""
_COMMITS = {"ours": 40, "jvm": 4}
"""Enough for a figure; the JVM takes half a second for one."""
_COMMITS_BEFORE = {"ours": 20, "jvm": 2}
"""The first of them creates the znodes. The rest warms up the server, which gets 500 requests for one of the JVM's."""


class GroupStage:
    """A broker with a topic, an observer, and a process for the members of each side, started when first needed."""

    def __init__(self, kafka: EmbeddedKafka, observer: Observer, workspace: Workspace, partitions: int) -> None:
        self.observer = observer
        self.partitions = partitions
        self._kafka = kafka
        self._workspace = workspace
        self._processes: dict[Side, MembersProcess] = {}
        self._groups = itertools.count()
        self.warm: set[Side] = set()

    def members(self, side: Side) -> MembersProcess:
        """The process of this side."""
        if side not in self._processes:
            arguments = [self._kafka.zookeeper_connect, _TOPIC, str(self.partitions)]
            if side == "jvm":
                command = self._kafka.java_command(str(JAVA_SOURCES / "Members.java"), *arguments)
            else:
                command = own_program("members", *arguments)
            self._processes[side] = MembersProcess(side, command, self._workspace)
        return self._processes[side]

    def new_group(self, side: Side) -> str:
        """A group without members and offsets; those who join from now on join this one."""
        group = f"{side}-{next(self._groups)}"
        self.members(side).tell(f"group {group}")
        return group

    def close(self) -> None:
        """End the processes."""
        for process in self._processes.values():
            process.close()


@dataclass(frozen=True, slots=True)
class GroupScene:
    """One 1.1.1 broker, an empty topic of so many partitions, and a ZooKeeper of this version."""

    partitions: int
    zookeeper_version: str = "3.9"
    rounds: int = 5

    def __str__(self) -> str:
        return f"groups ({self.partitions} partitions, ZooKeeper {self.zookeeper_version})"

    @contextmanager
    def open(self, effort: Effort) -> Iterator[GroupStage]:  # noqa: ARG002  (the same work, quick or not)
        """Start servers and create the topic."""
        with ExitStack() as stack:
            zookeeper = stack.enter_context(EmbeddedZooKeeper(self.zookeeper_version, properties=_DURABLE))
            kafka = stack.enter_context(EmbeddedKafka(zookeeper=zookeeper, flags=ALL_COMPILERS))
            kafka.create_topic(_TOPIC, partitions=self.partitions)
            workspace = stack.enter_context(Workspace("benchmark"))
            observer = Observer(kafka.zookeeper_connect, _TOPIC, self.partitions)
            stack.callback(observer.close)
            observer.start()
            stage = GroupStage(kafka, observer, workspace, self.partitions)
            stack.callback(stage.close)
            yield stage


@dataclass(frozen=True, slots=True)
class Changes:
    """A group of N members that starts, is joined by one, and left by it."""

    side: Side
    members: int

    def __str__(self) -> str:
        return f"{self.side}, {self.members} members"

    def measure(self, stage: GroupStage) -> Figures:
        """Seconds and requests of each change; what a side does first on a stage is done twice."""
        if self.side not in stage.warm:
            stage.warm.add(self.side)
            self._change(stage)
        return self._change(stage)

    def _change(self, stage: GroupStage) -> Figures:
        process, observer, count = stage.members(self.side), stage.observer, self.members
        group = stage.new_group(self.side)
        observer.prepare(group)

        before = observer.requests()
        process.tell(f"join {count}")
        started = observer.wait_until_settled(group, count)
        first_ms = min(observer.registered_ms(group, number) for number in range(count))
        start_requests = started.requests - before

        before = observer.requests()
        process.tell("join 1")
        joined = observer.wait_until_settled(group, count + 1)
        joiner_ms = observer.registered_ms(group, count)
        join_requests = joined.requests - before

        before = observer.requests()
        told_ms = time.time() * 1000
        process.tell("leave 1")
        left = observer.wait_until_settled(group, count)
        process.tell(f"leave {count}")
        return {
            START_S: (started.at_ms - first_ms) / 1000,
            JOIN_S: (joined.at_ms - joiner_ms) / 1000,
            LEAVE_S: (left.at_ms - told_ms) / 1000,
            "start_requests": start_requests,
            JOIN_REQUESTS: join_requests,
            "leave_requests": left.requests - before,
        }


@dataclass(frozen=True, slots=True)
class Commits:
    """One member that owns all partitions commits offsets for all of them."""

    side: Side

    def __str__(self) -> str:
        return f"{self.side}, commits"

    def measure(self, stage: GroupStage) -> Figures:
        """Commits a second; those before, which warm up, are not counted."""
        process = stage.members(self.side)
        group = stage.new_group(self.side)
        process.tell("join 1")
        stage.observer.wait_until_settled(group, 1)
        times = _COMMITS[self.side]
        process.tell(f"commit {_COMMITS_BEFORE[self.side]}")
        seconds = float(process.tell(f"commit {times}"))
        process.tell("leave 1")
        return {COMMITS_PER_S: times / seconds}


@dataclass(frozen=True, slots=True)
class Size:
    """members and partitions that groups are measured at; plain: on a ZooKeeper without reads of many znodes."""

    members: int
    partitions: int
    plain: bool = False

    def name(self, what: str) -> str:
        """The name of a benchmark at this size."""
        return f"{what}{'_plain' if self.plain else ''}_vs_jvm_{self.members}_{self.partitions}"

    def __str__(self) -> str:
        where = ", ZooKeeper without MultiRead" if self.plain else ""
        return f"{self.members} on {self.partitions} partitions{where}"

    @property
    def scene(self) -> GroupScene:
        """Where it is measured."""
        return GroupScene(self.partitions, _WITHOUT_MULTI_READ) if self.plain else GroupScene(self.partitions)

    @property
    def in_quick(self) -> bool:
        """Whether a quick run has time for it."""
        return not self.plain and self.partitions == 500 and self.members in (1, 16)


_WITHOUT_MULTI_READ = "3.5"

SIZES = (
    *(Size(members, 500) for members in (1, 4, 16, 50)),
    Size(16, 2000),
    *(Size(members, 500, plain=True) for members in (16, 50)),
)
