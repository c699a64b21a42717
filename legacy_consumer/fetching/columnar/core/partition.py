"""What the core knows of one partition that is assigned."""

from __future__ import annotations

from dataclasses import dataclass

from legacy_consumer.fetching.columnar.core.address import BrokerAddress


@dataclass(slots=True, eq=False)
class Partition:
    """life: changes whenever a user or an error moves the position; what was asked in an earlier life counts no more.

    position: the next offset to ask the broker for; while is_placed is False it is what the search begins with.
    leader: the broker to ask; None while it is being looked for.
    larger_bytes: the size of a batch that waits, where that is larger than the fetch size; else 0.
    failures: errors since the broker last answered without one.
    not_before: not to be asked for earlier.
    """

    life: int
    position: int
    is_placed: bool
    leader: BrokerAddress | None = None
    larger_bytes: int = 0
    failures: int = 0
    not_before: float = 0.0
