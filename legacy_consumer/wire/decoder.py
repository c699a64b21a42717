"""Decodes record sets when they are wanted, or has the next few decoded before that where it helps.

It helps whoever takes objects: they cost so much that the consuming thread is the one that all wait for. Who takes
columns spends no more on them than the receiving thread and the broker do, and two processors have no time left for
a third thread. For him they are made in one pass, when they are wanted (joining).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from legacy_consumer.errors import CorruptRecordsError, FetchError
from legacy_consumer.wire.backlog import RecordSet
from legacy_consumer.wire.batch import Wish
from legacy_consumer.wire.joining import decode_joined
from legacy_consumer.wire.preparing import MOST_AHEAD, Preparer
from legacy_consumer.wire.records import Columns, decode_records, lay_out
from legacy_consumer.wire.records.decoding import MAX_BATCH_BYTES

_LARGEST_BYTES = 4 * 1024 * 1024
"""Larger record sets are decoded when they are wanted, and only then copied: what is made ready takes memory twice."""


@dataclass(frozen=True, slots=True)
class _Ahead:
    """A record set that is being decoded, or could not be: then it has no row."""

    records: RecordSet
    row: int = -1


class Decoder:
    """For the consuming thread of one fetcher."""

    def __init__(self, wish: Wish, *, read_committed: bool, most_batch_bytes: int = MAX_BATCH_BYTES) -> None:
        """most_batch_bytes: what one batch may decompress to, if that is more than usual."""
        self._wish = wish
        self._most_batch_bytes = max(MAX_BATCH_BYTES, most_batch_bytes)
        self._read_committed = read_committed
        self._preparer = Preparer()
        self._ahead: list[_Ahead] = []

    def look_ahead(self, waiting: Iterable[RecordSet]) -> None:
        """What will be wanted, in this order; what was to be decoded and is not among the next is forgotten."""
        wanted = tuple(islice(waiting, MOST_AHEAD if self._wish.objects else 0))
        known: dict[int, _Ahead] = {}
        for one in self._ahead:
            if any(one.records is records for records in wanted):
                known[id(one.records)] = one
            elif one.row >= 0:
                self._preparer.forget(one.row)
        for records in wanted:
            if id(records) not in known and self._preparer.has_room:
                known[id(records)] = self._begin(records)
        self._ahead = list(known.values())

    def decode(self, records: RecordSet, position: int) -> Columns:
        """Raises: CorruptRecordsError, whatever a decoder raises: it is damage of that partition alone; FetchError."""
        try:
            return self._decode(records, position)
        except FetchError:
            raise
        except Exception as error:
            raise CorruptRecordsError(records.partition, position, f"they cannot be decoded: {error!r}") from error

    def _decode(self, records: RecordSet, position: int) -> Columns:
        for number, one in enumerate(self._ahead):
            if one.records is records:
                del self._ahead[number]
                columns = self._preparer.end(one.row) if one.row >= 0 else None
                if columns is not None:
                    return columns
                break
        if self._wish.joined_values and len(records.records) <= _LARGEST_BYTES:
            columns = decode_joined(
                records.records,
                records.partition,
                position,
                read_committed=self._read_committed,
            )
            if columns is not None:
                return columns
        return decode_records(
            records.records,
            records.partition,
            position,
            aborted=records.aborted,
            read_committed=self._read_committed,
            with_headers=True,
            max_batch_bytes=self._most_batch_bytes,
        )

    def close(self) -> None:
        """End the thread; twice is harmless."""
        self._preparer.close()

    def _begin(self, records: RecordSet) -> _Ahead:
        if len(records.records) > _LARGEST_BYTES:
            return _Ahead(records)
        plain = lay_out(
            records.records,
            records.partition,
            records.position,
            read_committed=self._read_committed,
        )
        row = self._preparer.begin(plain) if plain is not None else None
        return _Ahead(records) if row is None else _Ahead(records, row)
