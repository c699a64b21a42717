from dataclasses import replace
from datetime import datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from spark_source.errors import MissingOffsetsError, NoMessageAtTimeError
from spark_source.messages.offset_spec import COMMITTED, FROM_EARLIEST, TO_LATEST, OffsetKind, parse_offset_spec
from spark_source.messages.positions import Logs, Stand, resolve, to_ranges
from spark_source.messages.ranges import OffsetRange
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
LOGS = Logs({A: 10, B: 0}, {A: 100, B: 50})


@pytest.mark.parametrize(
    ("text", "kind", "time_ms"),
    [
        ("Committed", OffsetKind.COMMITTED, 0),
        (" earliest ", OffsetKind.EARLIEST, 0),
        ("latest", OffsetKind.LATEST, 0),
        ("1700000000000", OffsetKind.TIME, 1_700_000_000_000),
        ("2023-11-14T22:13:20Z", OffsetKind.TIME, 1_700_000_000_000),
        ("2023-11-15T00:13:20+02:00", OffsetKind.TIME, 1_700_000_000_000),
        ("2004-04-29T18:30:57.899Z", OffsetKind.TIME, 1_083_263_457_899),
        ("2023-11-14T22:13:20.000000001Z", OffsetKind.TIME, 1_700_000_000_001),
        ("2023-11-14T22:13:20,5Z", OffsetKind.TIME, 1_700_000_000_500),
        ("1969-12-31T23:00:00Z", OffsetKind.TIME, 0),
    ],
)
def test_a_place_is_a_word_or_a_time(text, kind, time_ms):
    spec = parse_offset_spec("startingOffsets", text)
    assert (spec.kind, spec.time_ms) == (kind, time_ms)


@given(st.integers(0, 253_402_300_799_999_999), st.sampled_from(["milliseconds", "microseconds"]))
def test_a_time_is_read_to_the_millisecond_and_rounded_up(us, precision):
    us -= us % 1000 if precision == "milliseconds" else 0
    text = (datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(microseconds=us)).isoformat(timespec=precision)
    assert parse_offset_spec("startingOffsets", text).time_ms == -(-us // 1000)


def test_json_names_an_offset_for_each_partition():
    assert parse_offset_spec("o", '{"t":{"1":-1,"0":5}}').given == ((A, 5), (B, -1))


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("begin", "must be committed, earliest, latest"),
        ("{", "is no JSON"),
        ("{}", "names no partition"),
        ('{"t":5}', "topic t must have"),
        ('{"t":{}}', "topic t must have"),
        ('{"t":{"x":5}}', "'x' of topic t is no partition"),
        ('{"t":{"0":-3}}', "-3 of t/0 is no offset"),
        ('{"t":{"0":true}}', "True of t/0 is no offset"),
        ('{"t":{"0":1,"0":2}}', "a name stands in it twice"),
        ('{"t":{"0":1,"00":2}}', "'00' of topic t is no partition"),
        ("2023-11-14T22:13:20", "says no time zone"),
        ("2023-99-14", "is no time"),
        ("-5", "must be committed"),
    ],
)
def test_an_invalid_position_is_refused_with_the_reason(text, complaint):
    with pytest.raises(ConfigError) as caught:
        parse_offset_spec("startingOffsets", text)
    assert caught.value.key == "startingOffsets"
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "stand", "expected"),
    [
        (FROM_EARLIEST, Stand(), {A: 10, B: 0}),
        (TO_LATEST, Stand(), {A: 100, B: 50}),
        (COMMITTED, Stand({A: 40}), {A: 40, B: 0}),
        (COMMITTED, Stand({A: 40}, reset_to=LATEST), {A: 40, B: 50}),
        (COMMITTED, Stand({A: 40}, outlived=[B], reset_to=LATEST), {A: 40, B: 0}),
        (parse_offset_spec("o", "5"), Stand(at_time={A: 70, B: LATEST}), {A: 70, B: 50}),
        (parse_offset_spec("o", "5"), Stand(at_time={A: 70, B: EARLIEST}), {A: 70, B: 0}),
        (parse_offset_spec("o", '{"t":{"0":-2,"1":9}}'), Stand(), {A: 10, B: 9}),
    ],
)
def test_positions_follow_from_the_state_of_the_cluster(spec, stand, expected):
    assert resolve("startingOffsets", spec, [B, A], LOGS, stand) == expected


def test_a_time_behind_all_messages_begins_at_the_end_or_is_refused():
    stand = Stand(at_time={A: 20, B: LATEST})
    spec = parse_offset_spec("startingOffsets", "1700000000000")
    assert resolve("startingOffsets", spec, [A, B], LOGS, stand) == {A: 20, B: 50}
    with pytest.raises(NoMessageAtTimeError, match="no message of this time or later is in t/1; "):
        resolve("startingOffsets", replace(spec, must_have_message=True), [A, B], LOGS, stand)


def test_json_for_other_partitions_than_there_are_is_refused():
    with pytest.raises(MissingOffsetsError) as caught:
        resolve("startingOffsets", parse_offset_spec("o", '{"t":{"0":1,"7":2}}'), [A, B], LOGS, Stand())
    assert (caught.value.missing, caught.value.unknown) == ((B,), (TopicPartition("t", 7),))


@pytest.mark.parametrize(
    ("start", "end", "range_read", "loss"),
    [
        (10, 100, (10, 100), None),
        (40, 40, None, None),
        (60, 40, None, None),
        (5, 20, (10, 20), "t/0: 5 offsets from 5 on are gone, the log holds 10 to 100"),
        (2, 8, None, "t/0: 6 offsets from 2 on are gone, the log holds 10 to 100"),
        (90, 120, (90, 100), "t/0: 20 before 120 are not there, the log holds 10 to 100"),
        (
            0,
            120,
            (10, 100),
            "t/0: 10 offsets from 0 on are gone and 20 before 120 are not there, the log holds 10 to 100",
        ),
        (150, 160, (10, 100), "t/0: 150 lies beyond its end, the log holds 10 to 100"),
        (150, 40, (10, 40), "t/0: 150 lies beyond its end, the log holds 10 to 100"),
        (100, 100, None, None),
    ],
)
def test_offsets_outside_the_log_are_reported_exactly(start, end, range_read, loss):
    ranges, lost = to_ranges({A: start}, {A: end}, LOGS)
    assert ranges == ([] if range_read is None else [OffsetRange(A, *range_read)])
    assert [str(each) for each in lost] == ([] if loss is None else [loss])
