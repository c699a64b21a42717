"""Received record sets that are not handed out yet, with errors between them. Each is decoded when it is needed."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from legacy_consumer.fetching.columnar.core import Failed, Records
from legacy_consumer.fetching.columnar.records import Ahead, Columns
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition


@dataclass(slots=True)
class _Waiting:
    what: Records | Failed
    end: int
    """The number of bytes received up to its end; the count starts again when nothing waits."""
    ahead: Ahead | None = None
    """Set while another thread decodes it, or has decoded it."""

    @property
    def nbytes(self) -> int:
        return len(self.what.records) if isinstance(self.what, Records) else 0


class Backlog:
    """First in, first out. is_live: returns whether a life of a partition is current; others are dropped.

    An error waits in line like records: the user's code continues after the offset of an error, and would skip the
    records before it.
    decode_ahead: lets other threads decode the first waiting record sets before the poll; None at their limit.
    """

    def __init__(
        self,
        decode: Callable[[Records], Columns],
        decode_ahead: Callable[[Records], Ahead | None],
        is_live: Callable[[TopicPartition, int], bool],
    ) -> None:
        self._decode = decode
        self._decode_ahead = decode_ahead
        self._is_live = is_live
        self._waiting: deque[_Waiting] = deque()
        self._current: Records | None = None
        self._columns: Columns | None = None
        self._at = 0
        self.positions: Mapping[TopicPartition, int] = {}
        """The position of each partition after the last take, also after records without messages for the user."""

    @property
    def nbytes(self) -> int:
        """The bytes that were received and not decoded."""
        # computed each time: an exception between two changes would leave a counter wrong for ever
        waiting = self._waiting
        return waiting[-1].end - waiting[0].end + waiting[0].nbytes if waiting else 0

    @property
    def is_empty(self) -> bool:
        """Whether there is nothing to take."""
        return self._columns is None and not self._waiting

    def holds(self, tp: TopicPartition, life: int) -> bool:
        """Return whether something of this life of the partition was not taken yet."""
        current = [self._current] if self._columns is not None and self._current is not None else []
        waiting = [one.what for one in self._waiting]
        return any(_about(one) == (tp, life) for one in (*current, *waiting))

    def add(self, what: Records | Failed) -> None:
        """Append records or an error. An error is dropped if one about the same waits already, since it comes again."""
        if isinstance(what, Failed) and any(
            isinstance(one.what, Failed) and _about(one.what) == _about(what) for one in self._waiting
        ):
            return
        waiting = _Waiting(what, self._waiting[-1].end if self._waiting else 0)
        waiting.end += waiting.nbytes
        self._waiting.append(waiting)
        self._begin_ahead()

    def take(self, most: int, enough: int | None = None, enough_bytes: int = sys.maxsize) -> list[Columns]:
        """Take up to this many records, and no more record sets than `enough` records, or bytes, need.

        Raises: the first error in the queue, or the error of decoding the first record set. Then nothing is taken, and
        drop_first removes it.
        """
        runs: list[Columns] = []
        positions: dict[TopicPartition, int] = {}
        self.positions = positions
        room = most
        least = 0 if enough is None else max(most - enough, 0)
        size = 0
        while room > least and size < enough_bytes:
            columns = self._columns
            if columns is None:
                if not self._waiting or (runs and room * 4 < most):
                    break
                try:
                    self._decode_next()
                except LegacyConsumerError:
                    if positions:
                        break  # the next call raises it
                    raise
                continue
            current = self._current
            if current is None or not self._is_live(current.partition, current.life):
                self._columns = self._current = None
                continue
            at, count = self._at, len(columns)
            if count - at <= room:
                run = columns if at == 0 else columns.slice(at, count)
                self._columns = None
            else:
                run = columns.slice(at, at + room)
                self._at = at + room
            if len(run) or run.next_offset > current.position:
                positions[current.partition] = run.next_offset
            if len(run):
                runs.append(run)
                room -= len(run)
                size += run.nbytes
        return runs

    def drop_first(self) -> Records | Failed:
        """Remove and return the record set that could not be decoded, or the error that was raised."""
        return self._waiting.popleft().what

    def clear(self) -> None:
        """Drop everything."""
        self._waiting.clear()
        self._current = self._columns = None

    def _decode_next(self) -> None:
        first = self._waiting[0]
        records = first.what
        partition, life = _about(records)
        if isinstance(partition, TopicPartition) and not self._is_live(partition, life):
            self.drop_first()
            return
        if isinstance(records, Failed):
            raise records.error.with_traceback(None)
        following = self._waiting[1].ahead if len(self._waiting) > 1 else None
        columns = self._decode(records) if first.ahead is None else first.ahead.result(following)
        if columns.has_more and columns.next_offset > records.position:
            self._waiting[0] = _Waiting(replace(records, position=columns.next_offset), first.end)
        else:
            self.drop_first()
        self._columns, self._current, self._at = columns, records, 0
        del first
        self._begin_ahead()

    def _begin_ahead(self) -> None:
        for waiting in self._waiting:
            if isinstance(waiting.what, Failed):
                continue
            if waiting.ahead is None:
                waiting.ahead = self._decode_ahead(waiting.what)
            if waiting.ahead is None:
                break


def _about(one: Records | Failed) -> tuple[object, int]:
    return (one.about if isinstance(one, Failed) else one.partition), one.life
