"""Measures the changes of a group of N members on one topic of P partitions: ours, and Kafka's Scala consumers.

Each member has a process of its own, as members are deployed: ours in Python, the JVM's with a small heap, over
kafka.javaapi.consumer.ConsumerConnector. (A group may also have all members of a side in one process. One row does so,
and the picture of growth, which would otherwise need a hundred JVMs.) The processes start before the clock runs and
stay for the whole stage. The first change of a group of each size is not measured, since the JVM compiles meanwhile.
Members have the default settings of their side and one stream each, read by a thread. The group is new and the topic
empty, but the directory for its offsets is there: each partition's first position is written at its release, as in a
working group. Changes begin two seconds after the one before has settled. (A JVM member that finds a partition not yet
given up backs off for two seconds: many of its figures are that.) Both sides change in the same way:

    N members start together -> settled -> one more joins -> settled -> it leaves -> settled -> all leave

What a figure includes, seconds, all by the clock of the ZooKeeper server (see observer.py):
- start: from the first registration to the last owner znode of the settled group.
- join: from the joiner's registration to the last owner znode. It connected to ZooKeeper before: not in the figure.
- leave: from when the leaver was told to leave to the last owner znode of the others.
- requests of start, join and leave: all requests from before the change until nothing has changed for two seconds,
heartbeats not counted.
- commits: a member commits offsets of all partitions that it owns, new ones each time.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.comparison import Effort, Figures
from benchmarks.observer import Observer
from benchmarks.processes import Crew, MembersProcess, Side, compile_java, own_program
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper, find_java
from legacy_consumer.sandbox.servers.jvm import ALL_COMPILERS, java_command, write_logging_files
from legacy_consumer.sandbox.servers.process import Workspace

JOIN_S, LEAVE_S, START_S = "join_s", "leave_s", "start_s"
JOIN_REQUESTS = "join_requests"
COMMITS_PER_S = "commits_per_s"

_TOPIC = "benchmark"
DURABLE = {"forceSync": "yes", "preAllocSize": "65536"}
"""ZooKeeper's defaults, which the embedded one changes: it answers a transaction after it is on the disk."""
_SMALL_HEAP = ("-Xms32m", "-Xmx128m")
_COMMITS: dict[Side, int] = {"ours": 40, "jvm": 4}
"""The number of measured commits; a JVM member takes half a second for one."""
_COMMITS_BEFORE: dict[Side, int] = {"ours": 20, "jvm": 2}
"""Commits before the measured ones. The first creates the znodes; the others warm up the server, which gets 500
requests for a JVM member's commit."""


class GroupStage:
    """A broker with a topic, an observer, and the members of each side, whose processes start when first needed."""

    def __init__(self, kafka: EmbeddedKafka, observer: Observer, workspace: Workspace, partitions: int) -> None:
        self.observer = observer
        self.partitions = partitions
        self._kafka = kafka
        self._workspace = workspace
        self._crews: dict[tuple[Side, bool], Crew] = {}
        self._groups = itertools.count()
        self._classes: Path | None = None
        self.warm: set[Changes] = set()

    def new_group(self, side: Side, members: int, *, in_one_process: bool = False) -> tuple[str, Crew]:
        """Return the name of a new group without members and offsets, and the processes for its members."""
        group = f"{side}-{next(self._groups)}"
        key = side, in_one_process
        if key not in self._crews:
            self._crews[key] = Crew(
                lambda first: self._new_process(side, first, in_one_process=in_one_process),
                in_one_process=in_one_process,
            )
        self._crews[key].prepare(group, members)
        return group, self._crews[key]

    def _new_process(self, side: Side, first: int, *, in_one_process: bool) -> MembersProcess:
        arguments = [self._kafka.zookeeper_connect, _TOPIC, str(self.partitions), str(first)]
        command = self._java_command(arguments) if side == "jvm" else own_program("members", *arguments, side)
        name = f"{side}, all members" if in_one_process else f"{side}, member {first}"
        return MembersProcess(name, command, self._workspace)

    def _java_command(self, arguments: list[str]) -> list[str]:
        java, folder = find_java(), self._workspace.folder
        if self._classes is None:
            write_logging_files(folder, level="WARN", target="System.err")
            self._classes = compile_java(java, "Members.java", self._kafka.jars, folder)
        jars = [self._classes, *self._kafka.jars]
        return java_command(java, jars, "Members", arguments, folder=folder, flags=_SMALL_HEAP)

    @property
    def zookeeper(self) -> str:
        """The value of zookeeper.connect."""
        return self._kafka.zookeeper_connect

    def close(self) -> None:
        """End the processes."""
        for crew in self._crews.values():
            crew.close()


@dataclass(frozen=True, slots=True)
class GroupScene:
    """One 1.1.1 broker, an empty topic with this number of partitions, and a ZooKeeper of this version."""

    partitions: int
    zookeeper_version: str = "3.9"
    rounds: int = 5

    def __str__(self) -> str:
        return f"groups ({self.partitions} partitions, ZooKeeper {self.zookeeper_version})"

    @contextmanager
    def open(self, effort: Effort) -> Iterator[GroupStage]:  # noqa: ARG002  (the same work, quick or not)
        """Start servers and create the topic."""
        with ExitStack() as stack:
            zookeeper = stack.enter_context(EmbeddedZooKeeper(self.zookeeper_version, properties=DURABLE))
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
    in_one_process: bool = False

    def __str__(self) -> str:
        return f"{self.side}, {self.members} members{' in one process' if self.in_one_process else ''}"

    def measure(self, stage: GroupStage) -> Figures:
        """Return the seconds and requests of each change; on a new stage, after an unmeasured run."""
        if self not in stage.warm:
            stage.warm.add(self)
            self._change(stage)
        return self._change(stage)

    def _change(self, stage: GroupStage) -> Figures:
        observer, count = stage.observer, self.members
        group, crew = stage.new_group(self.side, count + 1, in_one_process=self.in_one_process)
        observer.prepare(group)

        before = observer.requests()
        crew.join(0, count)
        started = observer.wait_until_settled(group, count)
        first_ms = min(observer.registered_ms(group, number) for number in range(count))
        start_requests = started.requests.since(before)

        before = observer.requests()
        crew.join(count, 1)
        joined = observer.wait_until_settled(group, count + 1)
        joiner_ms = observer.registered_ms(group, count)
        join_requests = joined.requests.since(before)

        before = observer.requests()
        told_ms = time.time() * 1000
        crew.leave(count, 1)
        left = observer.wait_until_settled(group, count)
        crew.leave(0, count)
        return {
            START_S: (started.at_ms - first_ms) / 1000,
            JOIN_S: (joined.at_ms - joiner_ms) / 1000,
            LEAVE_S: (left.at_ms - told_ms) / 1000,
            "start_requests": start_requests,
            JOIN_REQUESTS: join_requests,
            "leave_requests": left.requests.since(before),
        }


@dataclass(frozen=True, slots=True)
class Commits:
    """One member that owns all partitions commits offsets for all of them."""

    side: Side

    def __str__(self) -> str:
        return f"{self.side}, commits"

    def measure(self, stage: GroupStage) -> Figures:
        """Return commits per second; the commits of the warm-up are not counted."""
        group, crew = stage.new_group(self.side, 1)
        crew.join(0, 1)
        stage.observer.wait_until_settled(group, 1)
        times = _COMMITS[self.side]
        crew.commit(_COMMITS_BEFORE[self.side])
        seconds = crew.commit(times)
        crew.leave(0, 1)
        return {COMMITS_PER_S: times / seconds}


@dataclass(frozen=True, slots=True)
class Size:
    """The size of a measured group. in_one_process: all members in one process, not each in its own.

    plain: on a ZooKeeper without MultiRead.
    """

    members: int
    partitions: int
    plain: bool = False
    in_one_process: bool = False

    def name(self, what: str) -> str:
        """Return the name of a benchmark at this size."""
        special = f"{'_plain' if self.plain else ''}{'_in_one_process' if self.in_one_process else ''}"
        return f"{what}{special}_vs_jvm_{self.members}_{self.partitions}"

    def __str__(self) -> str:
        where = ", ZooKeeper without MultiRead" if self.plain else ""
        where += ", all in one process" if self.in_one_process else ""
        return f"{self.members} on {self.partitions} partitions{where}"

    @property
    def scene(self) -> GroupScene:
        """The scene of its measurements."""
        return GroupScene(self.partitions, _WITHOUT_MULTI_READ) if self.plain else GroupScene(self.partitions)

    @property
    def in_quick(self) -> bool:
        """Whether a quick run has time for it."""
        return self in (Size(1, 500), Size(4, 500))


_WITHOUT_MULTI_READ = "3.5"

SIZES = (
    *(Size(members, 500) for members in (1, 4, 16, 32)),
    Size(16, 2000),
    Size(16, 500, plain=True),
)

LED_SIZES = (Size(4, 500), Size(16, 500))
"""Sizes of led groups, with range or cooperative-sticky, to compare with a classic group of ours."""

IN_ONE_PROCESS = Size(50, 500, in_one_process=True)
"""The size for programs with many members in one process. The row is reported; the code is not tuned for it."""
