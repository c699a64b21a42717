"""A member's record: one line for each batch that it has processed, written before it asks for the next.

A line is a JSON list of runs, [partition, offset of the first flight, [numbers of the flights]]; the flights of a run
lie side by side in the log. A line counts when its end is there: kill -9 in the middle of a write leaves a torn one,
and its batch counts as not processed.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass

from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.sandbox.quickstart.errors import QuickstartError
from legacy_consumer.sandbox.quickstart.flights import flight_number


@dataclass(frozen=True, slots=True)
class Run:
    """Flights that were read one after the other from one partition, by their running numbers."""

    partition: int
    first_offset: int
    flights: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Record:
    """All that one member wrote down, in its order; torn: the last line has no end and is left out."""

    runs: tuple[Run, ...]
    torn: bool = False

    @property
    def flights(self) -> int:
        """How many deliveries it tells of."""
        return sum(len(run.flights) for run in self.runs)


def encode_batch(messages: Iterable[Message]) -> bytes:
    """One line for one batch. Raises: ValueError for a message that is no flight."""
    runs: list[tuple[int, int, list[int]]] = []
    open_runs: dict[int, tuple[int, int, list[int]]] = {}
    for message in messages:
        partition, offset = message.partition(), message.offset()
        run = open_runs.get(partition)
        if run is None or offset != run[1] + len(run[2]):
            run = open_runs[partition] = (partition, offset, [])
            runs.append(run)
        run[2].append(flight_number(message.value() or b""))
    return json.dumps(runs, separators=(",", ":")).encode() + b"\n"


def decode_record(member: str, data: bytes) -> Record:
    """Read a member's file. Raises: QuickstartError if a complete line is not valid."""
    *lines, rest = data.split(b"\n")
    runs: list[Run] = []
    for number, line in enumerate(lines, 1):
        try:
            runs += [Run(int(p), int(first), tuple(map(int, flights))) for p, first, flights in json.loads(line)]
        except (ValueError, TypeError) as error:
            raise QuickstartError(f"line {number} of the record of {member} cannot be read: {error}") from error
    return Record(tuple(runs), torn=bool(rest))
