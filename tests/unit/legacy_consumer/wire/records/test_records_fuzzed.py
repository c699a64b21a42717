"""Recorded record sets, mutated: never a crash, an index outside of an array, or a promise broken."""

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given, settings

from tests.support.record_checked_loops import checked_loops, plain_functions
from tests.support.record_encoder import varint
from tests.support.record_fuzz import options_of, outcome
from tests.support.record_sets import recorded

RECORDED = [recording.data for recording in recorded() if len(recording.data) < 4000]
PLAIN = plain_functions()
NUMBERS = st.sampled_from([-(2**63), -(2**31), -2, -1, 0, 1, 2, 127, 128, 2**15, 2**31 - 1, 2**32, 2**63 - 1])


@st.composite
def mutants(draw):
    """A recording with some bytes replaced, by any or by those of a number, taken out, doubled, or of another one."""
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


@given(mutants(), st.integers(0, 30), st.integers(0, 255).map(options_of))
@settings(max_examples=40)
def test_compiled_loops_do_what_they_do_as_python_that_checks_every_index(data, position, options):
    compiled = outcome(data, position, **options)
    with checked_loops(PLAIN):
        assert outcome(data, position, **options) == compiled


@pytest.mark.parametrize("data", RECORDED[::9])
def test_no_index_is_outside_on_what_brokers_sent_nor_on_any_beginning_of_it(data):
    with checked_loops(PLAIN):
        for cut in (len(data), len(data) - 1, len(data) // 2):
            outcome(data[:cut], 0, with_headers=True)


def test_an_index_outside_would_be_noticed():
    [measure] = [function for _, name, function in PLAIN if name == "measure"]

    two, one = np.ones(2, np.int32), np.zeros(1, np.int32)
    with pytest.raises(AssertionError, match="outside"):
        measure(np.zeros(3, np.uint8), two, two, one, np.zeros(1, np.uint8))


@pytest.mark.slow
def test_a_coverage_guided_fuzzer_finds_nothing(fuzzer):
    code = fuzzer.wait(110)
    said = fuzzer.said.read_text()
    assert code == 0, said[-3000:]
    assert "Done" in said
