"""Fields that are cut all at once are those that slicing gives."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_consumer.wire.records.columns import Spans
from legacy_consumer.wire.records.cutting import cut

LENGTHS = st.one_of(st.sampled_from([-1, 0, 1, 255, 256, 257, 65_536]), st.integers(-1, 300))


def spans(starts: list[int], lengths: list[int]) -> Spans:
    return Spans(np.array(starts, np.int32), np.array(lengths, np.int32))


@given(st.lists(st.tuples(st.integers(0, 9), LENGTHS), max_size=30))
def test_fields_are_those_that_slicing_gives(layout: list[tuple[int, int]]):
    starts, lengths, at = [], [], 0
    for gap, length in layout:
        starts.append(at + gap)
        lengths.append(length)
        at += gap + max(length, 0)
    data = bytes(number * 7 % 256 for number in range(at))
    wanted = tuple(None if n < 0 else data[s : s + n] for s, n in zip(starts, lengths, strict=True))
    assert cut(memoryview(data), spans(starts, lengths)) == wanted


@pytest.mark.parametrize(("start", "length"), [(0, 11), (10, 1), (-1, 1), (2**31 - 1, 1), (0, 2**31 - 1)])
def test_field_outside_of_the_buffer_is_an_error(start: int, length: int):
    with pytest.raises(ValueError, match="outside"):
        cut(memoryview(bytes(10)), spans([0, start], [1, min(length, 2**20)]))
