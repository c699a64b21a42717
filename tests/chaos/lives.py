"""Joins a history's events: when each member owned which partitions, and what it handed out and committed meanwhile.

Here, a *life* is one member's ownership of one partition. A Python member's life lasts from its `assigned` to its
`revoked`, or until it is killed; a JVM member's life lasts as long as the owner znode names it.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from tests.chaos.history import Event

JVM, PYTHON = "jvm", "python"


@dataclass(eq=False)
class Life:
    """One member's ownership of one partition.

    start: the committed offset at which it began, None = the log's beginning; version: of that offset's znode.
    how: how it ended: released, dropped, killed, left or gone; "" while it lasts. runs: [(at, first, last)] handed out.
    foreign: offsets of other clients from which the member may continue.
    """

    who: str
    kind: str
    partition: int
    began: float
    start: int | None = None
    version: int = -1
    ended: float = math.inf
    how: str = ""
    session_ended: bool = False
    runs: list[tuple[float, int, int]] = field(default_factory=list)
    foreign: set[int] = field(default_factory=set)
    sought: list[Move] = field(default_factory=list)

    @property
    def consumed(self) -> int:
        """The offset after all messages that it handed out."""
        return max((last + 1 for _, _, last in self.runs), default=self.start or 0)


@dataclass(frozen=True)
class Delivery:
    """A run of messages that a member handed out. life: None if the member never owned the partition.

    asked: when the user asked for them. looked: when the member last found its lease to hold before it returned them;
    None for a JVM member, which has no lease.
    """

    at: float
    who: str
    partition: int
    first: int
    last: int
    seq: int | None
    life: Life | None
    asked: float
    looked: float | None


@dataclass(frozen=True)
class CommitTry:
    """One partition of one commit. outcome: committed, foreign, unowned, or the error's name."""

    began: float
    at: float
    who: str
    partition: int
    offset: int
    outcome: str
    version: int | None
    life: Life | None


@dataclass(frozen=True)
class Write:
    """One version of an offset znode. who: a member, OPERATOR, or UNSEEN if only the observer saw its result."""

    version: int
    offset: int
    who: str
    at: float
    began: float


OPERATOR, UNSEEN = "the operator", "unseen"


@dataclass(frozen=True)
class Move:
    """A user's seek, or an operator's reset, from `before` to an offset.

    who: the user's member, or OPERATOR. ended: when the call returned, or the command ended. sure: whether the command
    said that it is done; if not, it may be done.
    """

    who: str
    partition: int
    before: int
    offset: int
    began: float
    ended: float
    sure: bool = False


@dataclass(frozen=True)
class Pause:
    """A user's pause of a partition. since: when the pause returned. until: when the user called resume."""

    life: Life
    since: float
    until: float = math.inf


@dataclass(frozen=True)
class FaultSpan:
    name: str
    target: str
    began: float
    ended: float


def _move_of(event: Event, who: str, *, sure: bool = False) -> Move:
    began = event.details.get("began", event.at)
    return Move(who, event["partition"], event["before"], event["offset"], began, event.at, sure)


class Story:
    """A history's events, grouped by their subject."""

    def __init__(self, events: Iterable[Event]) -> None:
        self.events = list(events)
        self.kinds: dict[str, str] = {}
        self.lives: dict[int, list[Life]] = defaultdict(list)
        self.deliveries: list[Delivery] = []
        self.commits: list[CommitTry] = []
        self.writes: dict[int, dict[int, Write]] = defaultdict(dict)
        self.acked: dict[int, dict[int, tuple[int, float]]] = defaultdict(dict)
        """{partition: {offset: (number, time)}} of acknowledged messages."""
        self.aborted: dict[int, dict[int, int]] = defaultdict(dict)
        """{partition: {offset: number}} of messages in aborted transactions."""
        self.reads_committed: set[str] = set()
        self.moves: list[Move] = []
        self.pauses: list[Pause] = []
        self.deaths = self.interrupts = 0
        self.told_to_end: dict[str, Event] = {}
        self.commands: list[Event] = []
        self._robberies: list[Event] = []
        self.freezes: dict[str, list[tuple[float, float]]] = defaultdict(list)
        self.faults: list[FaultSpan] = []
        self.flowed: list[float] = []
        """The times when the runner saw every partition flow again."""
        self.final: Event | None = None
        self.degraded = 0
        self.expired = 0
        self.failed: list[str] = []
        self.broken: list[str] = []
        self.fetchers: set[str] = set()
        """The fetchers that Python members said they use."""
        self._names: dict[str, str] = {}
        self._now: dict[tuple[str, int], Life] = {}
        self._read: dict[tuple[str, int], tuple[int | None, int]] = {}
        self._session_ended: dict[str, bool] = defaultdict(bool)
        self._open_faults: dict[int, tuple[str, str, float]] = {}
        for event in self.events:
            getattr(self, f"_on_{event.what.replace(' ', '_')}", lambda event: None)(event)
        for lives in self.lives.values():
            lives.sort(key=lambda life: life.began)

    @property
    def has_jvm(self) -> bool:
        return JVM in self.kinds.values()

    def superseding(self, life: Life, before: float = math.inf) -> Life | None:
        """Return the first life of the partition that another member began after this one, and before a moment."""
        lives = self.lives[life.partition]
        after = bisect_right(lives, life.began, key=lambda other: other.began)
        for other in lives[after:]:
            if other.began >= before:
                return None
            if other.who != life.who:
                return other
        return None

    def is_robbed(self, life: Life, before: float = math.inf) -> bool:
        """Return whether a stranger deleted the owner znode of this life, or tried to, before that moment."""
        until = min(before, life.ended)
        return any(
            robbery["partition"] == life.partition and robbery["began"] < until and life.began < robbery.at
            for robbery in self._robberies
        )

    def freeze_between(self, who: str, began: float, at: float) -> tuple[float, float] | None:
        """Return (frozen at, thawed at) of the member's last freeze between these moments; None without one.

        A freeze is longer than the session.
        """
        found = [span for span in self.freezes[who] if began < span[0] and span[1] < at]
        return found[-1] if found else None

    # Members.

    def _on_member(self, event: Event) -> None:
        self.kinds[event["name"]] = event["kind"]
        if event.details.get("isolation") == "read_committed":
            self.reads_committed.add(event["name"])
        self._names[event["id"]] = event["name"]

    def _on_joined(self, event: Event) -> None:
        self.fetchers |= {event["fetcher"]} if "fetcher" in event.details else set()

    def _on_killed(self, event: Event) -> None:
        self._end_all(event["name"], event.at, "killed")

    def _on_ended(self, event: Event) -> None:
        if event["code"] != 0:
            self.broken.append(f"{event['name']} ended with code {event['code']}")
        self._end_all(event["name"], event.at, "left")

    def _end_all(self, who: str, at: float, how: str) -> None:
        for name, partition in [key for key in self._now if key[0] == who]:
            self._end_life(name, partition, at, how)

    def _on_frozen(self, event: Event) -> None:
        self.freezes[event["name"]].append((event.at, math.inf))

    def _on_thawed(self, event: Event) -> None:
        frozen, _ = self.freezes[event["name"]].pop()
        self.freezes[event["name"]].append((frozen, event.at))

    def _on_died(self, event: Event) -> None:
        self.deaths += 1

    def _on_interrupted(self, event: Event) -> None:
        self.interrupts += 1

    def _on_told_to_end(self, event: Event) -> None:
        self.told_to_end[event.who] = event

    def _on_command(self, event: Event) -> None:
        self.commands.append(event)

    def _on_session(self, event: Event) -> None:
        if event["kind"] == "expired":
            self.expired += 1
            self._session_ended[event.who] = True
            for (who, _), life in self._now.items():
                if who == event.who:
                    life.session_ended = True

    def _on_status(self, event: Event) -> None:
        self.degraded += event["phase"] == "degraded"

    def _on_failed(self, event: Event) -> None:
        self.failed.append(f"{event.who}: {event['error']}")

    # Ownership.

    def _on_read(self, event: Event) -> None:
        for partition, (offset, version) in event.offsets("offsets").items():
            self._read[event.who, partition] = (offset, -1 if version is None else version)

    def _on_assigned(self, event: Event) -> None:
        for partition in event["partitions"]:
            start, version = self._read.get((event.who, partition), (None, -1))
            self._begin_life(Life(event.who, PYTHON, partition, event.at, start, version))

    def _on_followed(self, event: Event) -> None:
        for partition, (offset, _) in event.offsets("offsets").items():
            life = self._life_at(event.who, partition)
            if life is not None and offset is not None:
                life.foreign.add(offset)

    def _on_revoked(self, event: Event) -> None:
        for partition in event["partitions"]:
            self._end_life(event.who, partition, event.at, event["how"])

    def _on_owner(self, event: Event) -> None:
        partition = event["partition"]
        owner = self._names.get((event["owner"] or "").rpartition("-")[0])
        for who in [who for who, kind in self.kinds.items() if kind == JVM and who != owner]:
            self._end_life(who, partition, event.at, "gone")
        if self.kinds.get(owner or "") == JVM:
            self._end_life(owner, partition, event.at, "gone")
            self._begin_life(Life(owner, JVM, partition, event.at))

    def _begin_life(self, life: Life) -> None:
        self._now[life.who, life.partition] = life
        self.lives[life.partition].append(life)

    def _end_life(self, who: str, partition: int, at: float, how: str) -> None:
        life = self._now.pop((who, partition), None)
        if life is not None:
            life.ended, life.how = at, how

    def _life_at(self, who: str, partition: int) -> Life | None:
        """Return the member's latest life of the partition, ended or not."""
        return next((life for life in reversed(self.lives[partition]) if life.who == who), None)

    # Messages and offsets.

    def _on_aborted(self, event: Event) -> None:
        self.aborted[event["partition"]][event["offset"]] = event["seq"]

    def _on_acked(self, event: Event) -> None:
        self.acked[event["partition"]][event["offset"]] = (event["seq"], event.at)

    def _on_delivered(self, event: Event) -> None:
        life = self._life_at(event.who, event["partition"])
        run = (event.at, event["first"], event["last"])
        if life is not None:
            life.runs.append(run)
        asked, looked = event.details.get("asked", event.at), event.details.get("looked")
        self.deliveries.append(
            Delivery(event.at, event.who, event["partition"], *run[1:], event["seq"], life, asked, looked)
        )

    def _on_commit(self, event: Event) -> None:
        committed, foreign = event.offsets("committed"), event.offsets("foreign")
        unowned = event.details.get("unowned", ())
        for partition, (offset, _) in event.offsets("offsets").items():
            life = self._life_at(event.who, partition)
            version = None
            if partition in committed:
                outcome, version = "committed", committed[partition][1]
                self._write(partition, Write(version, offset, event.who, event.at, event["began"]))
            elif partition in foreign:
                outcome = "foreign"
                theirs, version = foreign[partition]
                if life is not None and theirs is not None:
                    life.foreign.add(theirs)
            else:
                outcome = "unowned" if partition in unowned else event.details.get("error", "left out")
            self.commits.append(
                CommitTry(event["began"], event.at, event.who, partition, offset, outcome, version, life)
            )

    def _on_operator(self, event: Event) -> None:
        self.moves.append(_move_of(event, OPERATOR))
        write = Write(event["version"], event["offset"], OPERATOR, event.at, event.at)
        self.writes[event["partition"]][event["version"]] = write

    def _on_reset(self, event: Event) -> None:
        self.moves.append(_move_of(event, OPERATOR, sure=event["sure"]))

    def _on_sought(self, event: Event) -> None:
        move = _move_of(event, event.who)
        self.moves.append(move)
        life = self._life_at(event.who, move.partition)
        if life is not None and life.began < move.began:
            life.sought.append(move)

    def _on_paused(self, event: Event) -> None:
        life = self._life_at(event.who, event["partition"])
        if life is not None and life.began < event["began"]:
            self.pauses.append(Pause(life, event.at))

    def _on_resumed(self, event: Event) -> None:
        self.pauses = [
            replace(pause, until=event.at)
            if (pause.life.who, pause.life.partition, pause.until) == (event.who, event["partition"], math.inf)
            else pause
            for pause in self.pauses
        ]

    def _on_robbed(self, event: Event) -> None:
        self._robberies.append(event)

    def _on_offset(self, event: Event) -> None:
        self._write(event["partition"], Write(event["version"], event["offset"], UNSEEN, event.at, event.at))

    def _write(self, partition: int, write: Write) -> None:
        known = self.writes[partition].get(write.version)
        if known is None or known.who == UNSEEN:
            self.writes[partition][write.version] = write

    def _on_fault(self, event: Event) -> None:
        if event["phase"] == "begin":
            self._open_faults[event["number"]] = (event["fault"], event["target"], event.at)
        elif event["number"] in self._open_faults:
            name, target, began = self._open_faults.pop(event["number"])
            self.faults.append(FaultSpan(name, target, began, event.at))

    def _on_flows(self, event: Event) -> None:
        self.flowed.append(event.at)

    def _on_final(self, event: Event) -> None:
        self.final = event
