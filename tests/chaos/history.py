"""The events of a chaos run, as lines of JSON that any process appends: one file for each writer.

An event is {"at": seconds, "who": writer, "what": kind, ...}. The seconds come from the machine's monotonic clock,
which all processes share, so that events of different files can be put in order. A line is one write to a file opened
for appending, so the events of a killed process are not lost.

    member    what                details
    Python    joined              id, session, fetcher
              session             kind, session: as the store tells it
              status              phase, owned
              read                offsets {partition: [offset, version]}: the committed ones, after a claim
              assigned            partitions
              followed            offsets {the same}: read for a request to reset, which a stranger may have written
              revoked             partitions, how: released, dropped (lost with the session, or stolen)
              delivered           partition, first, last, and seq, the sequence number of the first, none if it is not
                                  a produced message; asked: when the user asked for them; looked: when the last check
                                  that found the lease to hold began
              commit              began, session, offsets {partition: [offset, version seen]}, committed {partition:
                                  [offset, version]}, foreign {the same}, unowned [partition], error
              sought              partition, offset, before, began: the user's seek has returned
              paused              partition, began: the user's pause has returned
              resumed             partition: the user is about to resume it
              interrupted         error, where: an exception interrupts the consuming thread, which continues
              died                the consuming thread; another one takes its place
              told to end         call, on: a signal handler is about to make that call; where the member consumes
              refused             command, error: the runner's command failed with this error
              failed, closed
    JVM       joined, delivered   written by the runner, which reads its output
    runner    began               seed, conflict, kafka
              member              name, kind; fetcher, how, on and isolation of a Python member: it is started
              killed, frozen, thawed          name
              ended               name, code: it left in order
              fault               fault, target, phase: begin or end, number
              flows               all partitions flow again after the faults before
              operator            partition, offset, version, before: an operator has written an offset
              command             command, began, code, said: an operator's command has ended
              reset               partition, offset, before, began, sure: `offsets reset --live` has written it, or
                                  perhaps if not sure
              robbed              partition, began: a stranger deleted its owner znode, or tried to, since then
              id, owner, offset   the present state in ZooKeeper, at each change
              acked, aborted      partition, offset, seq; of a transaction when it is committed, or aborted
              final               owners, offsets: when all members have left
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Event:
    """One line of a history; its details by name."""

    at: float
    who: str
    what: str
    details: Mapping[str, Any]

    def __getitem__(self, name: str) -> Any:
        return self.details[name]

    def offsets(self, name: str) -> dict[int, tuple[int | None, int | None]]:
        """Return a detail that is {partition: [offset, version]}."""
        return {int(p): (offset, version) for p, (offset, version) in self.details.get(name, {}).items()}


class HistoryFile:
    """Appends events of one writer."""

    def __init__(self, folder: Path, who: str) -> None:
        self.who = who
        self.path = folder / f"{who}.jsonl"
        self._file = os.open(self.path, os.O_APPEND | os.O_CREAT | os.O_WRONLY, 0o600)

    def write(self, what: str, at: float | None = None, who: str | None = None, **details: Any) -> None:
        """Append one event. at: None = now. who: the member whose event it is, if not the writer's."""
        when = time.monotonic() if at is None else at
        event = {"at": round(when, 6), "who": who or self.who, "what": what, **details}
        os.write(self._file, json.dumps(event, separators=(",", ":")).encode() + b"\n")

    def close(self) -> None:
        os.close(self._file)


def event_of(line: str) -> Event:
    """Return the event of a line."""
    details = json.loads(line)
    return Event(details.pop("at"), details.pop("who"), details.pop("what"), details)


def load_history(folder: Path) -> list[Event]:
    """Return all events of a folder, in order of time, without an incomplete last line of a killed writer."""
    events = []
    for path in sorted(folder.glob("*.jsonl")):
        *whole, _ = path.read_text("utf-8").split("\n")
        events += [event_of(line) for line in whole]
    return sorted(events, key=lambda event: event.at)


class Tail:
    """Reads the lines appended to the files of a folder since the last read."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._read: dict[Path, int] = {}
        self._lock = threading.Lock()

    def fresh(self) -> Iterator[Event]:
        """Yield the new events, file by file."""
        with self._lock:
            for path in sorted(self._folder.glob("*.jsonl")):
                with path.open("rb") as file:
                    file.seek(self._read.get(path, 0))
                    data = file.read()
                whole = data[: data.rfind(b"\n") + 1]
                self._read[path] = self._read.get(path, 0) + len(whole)
                yield from (event_of(line) for line in whole.decode().splitlines())


def runs_of(messages: Iterable[tuple[int, int, int | None]]) -> Iterator[tuple[int, int, int, int | None]]:
    """Yield (partition, first offset, last offset, first number) of each run in which both go up by one.

    messages: (partition, offset, number), in the order in which a member handed them out. A message without a number
    is a run of its own.
    """
    runs: dict[int, tuple[int, int, int | None]] = {}
    for partition, offset, number in messages:
        if (run := runs.get(partition)) is not None:
            first, last, begun = run
            if number is not None and begun is not None and offset == last + 1 and number == begun + offset - first:
                runs[partition] = first, offset, begun
                continue
            yield partition, *run
        runs[partition] = offset, offset, number
    for partition, run in runs.items():
        yield partition, *run
