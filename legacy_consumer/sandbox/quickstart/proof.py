"""Compares the members' records with the produced messages and the log. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from legacy_consumer.sandbox.quickstart.record import Record

_MOST_CONTRADICTIONS = 5
_NOWHERE = (-1, -1)


@dataclass(frozen=True, slots=True)
class Verdict:
    """Counts of flights, each by its running number.

    delivered: at least once. lost: produced and not delivered. duplicated: delivered more than once.
    deliveries: with repetitions. duplicated_by_kill: of the duplicated, those that the killed member had processed and
    another member received again. by_member: deliveries of each.
    contradictions: where the records disagree with each other or with the log; empty if they hold.
    """

    flights: int
    delivered: int
    lost: int
    duplicated: int
    deliveries: int
    duplicated_by_kill: int
    by_member: Mapping[str, int]
    torn: tuple[str, ...]
    contradictions: tuple[str, ...]


def check_deliveries(
    records: Mapping[str, Record],
    flights: int,
    log: Mapping[int, tuple[int, int]],
    killed: str | None = None,
) -> Verdict:
    """Count deliveries by the flights' numbers, and check that each flight has one place in the log and no other.

    flights: how many were produced, numbered from 0. log: {partition: (offset of the first, offset after the last)}.
    killed: the member that was ended with -9.
    """
    places = [_NOWHERE] * flights
    counts: Counter[int] = Counter()
    contradictions: list[str] = []
    of_killed: set[int] = set()
    of_others: set[int] = set()
    for member, record in records.items():
        of_this = of_killed if member == killed else of_others
        for run in record.runs:
            counts.update(run.flights)
            of_this.update(run.flights)
            start, end = log.get(run.partition, (0, 0))
            if not start <= run.first_offset <= run.first_offset + len(run.flights) <= end:
                contradictions.append(
                    f"{member} read offset {run.first_offset} and {len(run.flights) - 1} more of partition "
                    f"{run.partition}, whose log has {start} to {end}"
                )
            for offset, flight in enumerate(run.flights, run.first_offset):
                place = (run.partition, offset)
                if not 0 <= flight < flights:
                    contradictions.append(f"{member} received a flight {flight} that was never produced")
                elif places[flight] is _NOWHERE:
                    places[flight] = place
                elif places[flight] != place:
                    contradictions.append(f"flight {flight} lies at {_spell(places[flight])} and at {_spell(place)}")
    taken = [place for place in places if place is not _NOWHERE]
    if len(set(taken)) != len(taken):
        contradictions.append("one place in the log gave two different flights")
    in_log = sum(end - start for start, end in log.values())
    if in_log != flights:
        contradictions.append(f"the log holds {in_log} messages, {flights} were produced")
    return Verdict(
        flights=flights,
        delivered=len(taken),
        lost=flights - len(taken),
        duplicated=sum(1 for count in counts.values() if count > 1),
        deliveries=sum(counts.values()),
        duplicated_by_kill=len(of_killed & of_others),
        by_member={member: record.flights for member, record in records.items()},
        torn=tuple(member for member, record in records.items() if record.torn),
        contradictions=tuple(contradictions[:_MOST_CONTRADICTIONS]),
    )


def _spell(place: tuple[int, int]) -> str:
    return f"partition {place[0]} offset {place[1]}"
