"""What a fetcher knows of one partition that is assigned to it."""

from __future__ import annotations

from dataclasses import dataclass

from legacy_consumer.wire.connection import BrokerAddress
from legacy_consumer.wire.protocol.fetch import FetchPartition


@dataclass(slots=True, eq=False)
class PartitionState:
    """One life of a partition: assigning it again begins another, and what was fetched for the old one is dropped.

    position: the next offset to ask the broker for; below 0 while it is being looked for.
    leader: whom to ask; None while that is being looked for.
    larger_bytes: set while a message waits that is larger than the fetch size.
    failures: errors since something came, so that it is not asked for without a pause.
    asked: as it was asked for last, to be used again while it is the same.
    """

    life: int
    position: int
    is_placed: bool
    leader: BrokerAddress | None = None
    larger_bytes: int = 0
    failures: int = 0
    not_before: float = 0.0
    asked: FetchPartition | None = None
