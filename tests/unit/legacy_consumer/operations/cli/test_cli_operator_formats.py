"""Kafka's own columns, topics, times and durations on the command line. No server."""

from __future__ import annotations

import re

import click
import pytest

from legacy_consumer.operations.admin.groups import GroupDescription, GroupMember, PartitionLag
from legacy_consumer.operations.cli.helpers.kafka_formats import KAFKA_FORMATS, kafka_lines
from legacy_consumer.operations.cli.helpers.times import parse_duration_s, parse_time_ms, shown_time
from legacy_consumer.operations.cli.helpers.topic_choices import parse_topics

OWNER = "tg_vm-1795257805578-9fb7aa21"


def row(topic, partition, committed, log_end, owner=f"{OWNER}-0"):
    lag = None if committed is None or log_end is None else log_end - committed
    return PartitionLag(topic, partition, owner, owner is not None, 1, committed, 1, 1, log_end, lag, None)


def group(*rows, idle=()):
    members = tuple(
        GroupMember(name, "static", (("a", 1), ("b", 1)), 2, 0, 1, "Kafka 0.8.1+") for name in (OWNER, *idle)
    )
    return GroupDescription("tg", members, (), rows)


def test_the_columns_of_1_1_are_those_that_kafka_printed():
    found = group(row("perf", 0, 500000, 500000), row("t1", 1, 251, 251))
    assert list(kafka_lines("1.1", found, {"perf", "t1"})) == [
        "",
        "TOPIC           PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG             CONSUMER-ID                  ",
        "perf            0          500000          500000          0               tg_vm-1795257805578-9fb7aa21 ",
        "t1              1          251             251             0               tg_vm-1795257805578-9fb7aa21 ",
    ]


def test_the_columns_of_0_10_2_are_those_that_kafka_printed():
    assert list(kafka_lines("0.10.2", group(row("perf", 0, 0, 0)), {"perf"})) == [
        "",
        (
            "TOPIC                          PARTITION  CURRENT-OFFSET  LOG-END-OFFSET  LAG        "
            "CONSUMER-ID                                       "
        ),
        (
            "perf                           0          0               0               0          "
            "tg_vm-1795257805578-9fb7aa21                      "
        ),
    ]


def test_the_columns_of_the_offset_checker_are_those_that_kafka_printed():
    found = group(row("perf", 0, 0, 0), row("t1", 1, None, 5, owner=None), row("t1", 2, 5, None))
    assert list(kafka_lines("checker", found, {"perf", "t1"})) == [
        "Group           Topic                          Pid Offset          logSize         Lag             Owner",
        (
            "tg              perf                           0   0               0               0               "
            "tg_vm-1795257805578-9fb7aa21-0"
        ),
        "tg              t1                             1   -1              5               unknown         none",
        "No broker for partition t1 - 2",
    ]


def test_the_columns_up_to_0_10_1_show_the_whole_owner():
    found = group(row("t", 0, 1, 3), row("t", 1, None, None, owner=None))
    assert list(kafka_lines("0.9", found, {"t"}))[1:] == [
        f"tg, t, 0, 1, 3, 2, {OWNER}-0",
        "tg, t, 1, unknown, unknown, unknown, none",
    ]
    assert list(kafka_lines("0.10.0", found, {"t"}))[2].split() == [
        "tg", "t", "1", "unknown", "unknown", "unknown", "none",
    ]  # fmt: skip


def test_a_member_without_partitions_has_a_line_for_each_of_its_topics():
    lines = list(kafka_lines("1.1", group(row("t", 0, 1, 3), idle=("tg_idle",)), {"t"}))
    assert [line.split() for line in lines[-2:]] == [["-", "-", "-", "-", "-", "tg_idle"]] * 2


@pytest.mark.parametrize("version", KAFKA_FORMATS)
def test_topics_that_were_never_owned_are_left_out(version):
    assert not [line for line in kafka_lines(version, group(row("committed", 0, 1, 3)), {"t"}) if "committed" in line]


@pytest.mark.parametrize(
    ("given", "topics"),
    [
        (("t",), {"t": None}),
        (("t:0,2",), {"t": {0, 2}}),
        (("t:0-3,7",), {"t": {0, 1, 2, 3, 7}}),
        (("t:1", "t:2", "u"), {"t": {1, 2}, "u": None}),
        (("t:1", "t"), {"t": None}),
        (("t", "t:1"), {"t": None}),
    ],
)
def test_topics_are_named_with_or_without_partitions(given, topics):
    assert parse_topics(given) == topics


@pytest.mark.parametrize("text", ["", "t:", "t:x", "t:1,", "t:-1", "t:1-", "t:0-9999999", ":1", "t:2-1", "t:,", "t: "])
def test_an_invalid_topic_is_misuse(text):
    with pytest.raises(click.UsageError):
        parse_topics((text,))


@pytest.mark.parametrize(
    ("text", "ms"),
    [
        ("1416392398000", 1416392398000),
        ("1970-01-01T00:00:01", 1000),
        ("1970-01-01T00:00:01Z", 1000),
        ("1970-01-01T01:00:01+01:00", 1000),
        ("1970-01-02", 86_400_000),
        ("1970-01-01T00:00:00.500000", 500),
    ],
)
def test_a_time_is_iso_or_milliseconds(text, ms):
    assert parse_time_ms(text) == ms


@pytest.mark.parametrize(
    ("text", "meant"),
    [
        ("1795348800", "write 1795348800000 for these seconds, 2026-11-22 12:00:00.000 UTC"),
        ("20261122", "write 2026-11-22 for the date"),
        ("20261122120000", "write 2026-11-22T12:00:00 for the date"),
        ("1795348800000000", "write 1795348800000 for these microseconds"),
        ("1795348800000000000", "write 1795348800000 for these nanoseconds"),
        ("0", "write 2026-11-21T14:30:00"),
        ("9" * 5000, "write 2026-11-21T14:30:00"),
        ("1969-12-31T23:59:59.999Z", "before 1970"),
    ],
)
def test_a_number_that_is_no_timestamp_of_kafka_is_refused_with_a_suggestion(text, meant):
    with pytest.raises(click.BadParameter, match=re.escape(meant)):
        parse_time_ms(text)


def test_a_time_is_shown_with_its_zone():
    assert shown_time(parse_time_ms("2026-11-22T13:00:00.007+01:00")) == "2026-11-22 12:00:00.007 UTC"


@pytest.mark.parametrize("text", ["", "now", "21.11.2026", "-5", "٣"])
def test_an_invalid_time_is_misuse(text):
    with pytest.raises(click.BadParameter):
        parse_time_ms(text)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("30d", 2_592_000), ("1d6h", 108_000), ("90s", 90), ("5m", 300), ("P1DT6H", 108_000), ("2w", 1_209_600)],
)
def test_a_duration_is_in_words_or_iso(text, seconds):
    assert parse_duration_s(text) == seconds


@pytest.mark.parametrize("text", ["", "0d", "5", "P", "PT", "5 minutes", "-1d", "٣d", "9999999999d", "9" * 5000 + "s"])
def test_an_invalid_duration_is_misuse(text):
    with pytest.raises(click.BadParameter):
        parse_duration_s(text)
