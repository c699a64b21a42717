"""Which batches belong to aborted transactions.

Source: Kafka's Java consumer, Fetcher.PartitionRecords: a transaction begins at its first offset and ends with its
producer's next control batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class AbortedTransaction(NamedTuple):
    """A transaction that was aborted, as a Fetch response lists it: from this offset to the producer's next marker."""

    producer_id: int
    first_offset: int


class AbortedProducers:
    """The producers whose aborted transactions are open where a walk over the batches has come to."""

    def __init__(self, aborted: Sequence[AbortedTransaction]) -> None:
        self._waiting = sorted(aborted, key=lambda transaction: transaction.first_offset, reverse=True)
        self._open: set[int] = set()

    def come_to(self, last_offset: int) -> None:
        """The walk has come to a batch with this last offset."""
        while self._waiting and self._waiting[-1].first_offset <= last_offset:
            self._open.add(self._waiting.pop().producer_id)

    def has(self, producer_id: int) -> bool:
        """Whether this producer's transactional records are to be left out here."""
        return producer_id in self._open

    def end(self, producer_id: int) -> None:
        """The walk has met the marker that aborts the producer's transaction."""
        self._open.discard(producer_id)
