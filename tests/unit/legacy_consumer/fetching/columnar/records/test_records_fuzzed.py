"""Recorded record sets with random changes: the decoder never crashes, and keeps its promises."""

import hypothesis.strategies as st
from hypothesis import given, settings

from tests.support.record_encoder import varint
from tests.support.record_outcomes import options_of, outcome
from tests.support.record_sets import recorded

RECORDED = [recording.data for recording in recorded() if len(recording.data) < 4000]
NUMBERS = st.sampled_from([-(2**63), -(2**31), -2, -1, 0, 1, 2, 127, 128, 2**15, 2**31 - 1, 2**32, 2**63 - 1])


@st.composite
def mutants(draw):
    """Draw a recording with bytes replaced, removed, repeated or inserted, at random or from another recording."""
    data = bytearray(draw(st.sampled_from(RECORDED)))
    for _ in range(draw(st.integers(1, 4))):
        at = draw(st.integers(0, max(len(data) - 1, 0)) | st.integers(0, min(len(data) - 1, 80)))
        match draw(st.integers(0, 6)):
            case 0:
                data[at : at + 1] = draw(st.binary(min_size=1, max_size=1))
            case 1:
                size = draw(st.sampled_from([1, 2, 4, 8]))
                number = draw(NUMBERS) % (1 << 8 * size)
                data[at : at + size] = number.to_bytes(size, "big")
            case 2:
                new = varint(draw(NUMBERS))
                data[at : at + len(new)] = new
            case 3:
                del data[at : at + draw(st.integers(1, 40))]
            case 4:
                data[at:at] = data[at : at + draw(st.integers(1, 100))]
            case 5:
                other = draw(st.sampled_from(RECORDED))
                begin = draw(st.integers(0, len(other) - 1))
                data[at:at] = other[begin : begin + 200]
            case _:
                data[at:at] = draw(st.binary(max_size=12))
        if not data:
            break
    return bytes(data)


@given(mutants(), st.integers(0, 30), st.integers(0, 255).map(options_of))
@settings(max_examples=300)
def test_mutants_end_as_records_or_as_an_error_that_says_where(data, position, options):
    outcome(data, position, **options)
