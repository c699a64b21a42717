"""Both quick ways of decoding give what decode_records() gives, or nothing."""

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from legacy_consumer.errors import CorruptRecordsError
from legacy_consumer.wire import joining, preparing
from legacy_consumer.wire.records import decode_records
from tests.support.plain_sets import HEADERS, LONG, NEED_MORE, PLAIN, signed
from tests.support.quick_decoding import Ahead, assert_same, joined
from tests.support.record_encoder import Written, batch
from tests.support.record_sets import TP, arrow_rows, recorded

pytestmark = pytest.mark.skipif(
    not (preparing.IS_POSSIBLE and joining.IS_POSSIBLE), reason="here record sets are decoded in one way alone"
)


@pytest.fixture(scope="module", params=["ahead", "joined"])
def decoded(request):
    """One of the two; it asserts that values were made ready as well."""
    ahead = Ahead()
    decode, ready = {"ahead": (ahead.prepared, "packed_values"), "joined": (joined, "joined_values")}[request.param]

    def with_values(*arguments, **options):
        columns = decode(*arguments, **options)
        assert columns is None or getattr(columns, ready) is not None
        return columns

    yield with_values
    ahead.preparer.close()


@pytest.mark.parametrize("recording", recorded(), ids=lambda one: one.name)
def test_what_is_recorded_comes_as_it_would_without_or_is_left_alone(decoded, recording):
    asked = {"read_committed": recording.options["read_committed"]}
    columns = decoded(recording.data, **asked)
    if columns is not None:
        assert_same(columns, recording.data, **recording.options)


@pytest.mark.parametrize("position", range(41))
def test_from_every_position_comes_what_lies_there(decoded, position):
    columns = decoded(PLAIN, position)
    if position in range(7):
        assert_same(columns, PLAIN, position)
    else:
        assert columns is None  # batches before the position: a broker sends none that are whole


@pytest.mark.parametrize("data", [PLAIN, LONG], ids=["short", "long"])
@pytest.mark.parametrize("cut", [1, 11, 12, 60, 61, 200])
def test_a_last_batch_that_is_cut_is_left_out(decoded, data, cut):
    data = data + batch([Written(n, None, b"x" * 50) for n in range(2000, 2020)])[:cut]
    assert_same(decoded(data), data)


@pytest.mark.parametrize("length", [*range(101), 255, 256, 257, 767, 768, 769, 3071, 3072, 3073, 70_000])
def test_values_of_any_length_come_whole_and_checksums_match(decoded, length):
    data = batch([Written(0, None, b"v" * length), Written(1, b"k", None), Written(2, None, b"w" * length)])
    assert_same(decoded(data), data)


def test_headers_and_append_time_are_kept(decoded):
    data = batch([Written(n, b"k", b"v", 5, HEADERS) for n in range(4)], append_time=77)
    assert_same(decoded(data), data)


@pytest.mark.parametrize("data", NEED_MORE.values(), ids=NEED_MORE)
def test_what_needs_more_than_to_be_decoded_is_left_alone(decoded, data):
    assert decoded(data) is None


@pytest.mark.parametrize(
    ("data", "place"),
    [(PLAIN, place) for place in (21, 61, 70, 300, 900, -1)]
    + [(LONG, place) for place in (21, 61, 70, 300, 900, 4000, 20_000, -1)],
    ids=lambda one: "short" if one is PLAIN else "long" if one is LONG else None,
)
def test_what_does_not_match_its_checksum_is_left_to_decoding(decoded, data, place):
    data = bytearray(data)
    data[place] ^= 64
    assert decoded(data) is None


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from([PLAIN, LONG]),
    st.lists(st.tuples(st.integers(0, len(PLAIN) - 1), st.integers(0, 255)), max_size=4),
    st.booleans(),
    st.integers(0, len(PLAIN)),
)
@example(PLAIN, [(100, 1)], False, len(PLAIN))
def test_bytes_that_lie_are_never_taken_for_records_that_decoding_would_not_find(
    decoded, data, lies, is_signed, length
):
    data = bytearray(data)
    for place, octet in lies:
        data[place] = octet
    data = signed(data[:length]) if is_signed else bytes(data[:length])
    columns = decoded(data)
    if columns is None:
        return
    try:
        assert_same(columns, data)
    except CorruptRecordsError as error:
        pytest.fail(f"decoding says {error}")


@pytest.mark.parametrize(("start", "stop"), [(0, 40), (0, 1), (3, 3), (17, 31), (39, 40), (40, 40)])
def test_a_slice_has_rows_of_its_own_in_each_form(decoded, start, stop):
    ours, wanted = (columns.slice(start, stop) for columns in (decoded(PLAIN), decode_records(PLAIN, TP, 0)))
    count = stop - start
    assert ours.cut_values(0, count) == wanted.cut_values(0, count)
    ours.to_arrow().validate(full=True)
    assert arrow_rows(ours) == arrow_rows(wanted)
