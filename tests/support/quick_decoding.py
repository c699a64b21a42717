"""The two quick ways of decoding a record set: ahead, by a loop on a thread of its own, and joined, in one pass."""

from __future__ import annotations

from legacy_consumer.wire.joining import decode_joined
from legacy_consumer.wire.preparing import DONE, STATE, Preparer
from legacy_consumer.wire.records import decode_records, lay_out
from tests.support.record_sets import TP, arrow_rows, rows_of
from tests.support.waiting import eventually


class Ahead:
    """The loop that decodes ahead, without anybody who consumes."""

    def __init__(self):
        self.preparer = Preparer()

    def lay_out(self, data, position=0, *, read_committed=False):
        return lay_out(
            memoryview(bytearray(data)),
            TP,
            position,
            read_committed=read_committed,
        )

    def prepared(self, data, position=0, **options):
        """The columns, by way of the loop; None if the set is not laid out, or something is wrong with it."""
        plain = self.lay_out(data, position, **options)
        if plain is None:
            return None
        row = self.preparer.begin(plain)
        assert row is not None
        eventually(lambda: self.state(row) == DONE)
        return self.preparer.end(row)

    def state(self, row):
        return self.preparer._board[row, STATE]


def joined(data, position=0, *, read_committed=False):
    """The columns, their values joined; None if the set needs more, or something is wrong with it."""
    return decode_joined(
        memoryview(bytearray(data)),
        TP,
        position,
        read_committed=read_committed,
    )


def assert_same(columns, data, position=0, **options):
    """As decode_records() makes them, in each form that a user may ask for."""
    wanted = decode_records(data, TP, position, with_headers=True, **options)
    assert rows_of(columns) == rows_of(wanted)
    assert columns.cut_values(0, len(columns)) == wanted.cut_values(0, len(wanted))
    columns.to_arrow().validate(full=True)
    assert arrow_rows(columns) == arrow_rows(wanted)
    assert columns.next_offset == wanted.next_offset
    assert (columns.has_more, columns.incomplete_size) == (wanted.has_more, wanted.incomplete_size)
