"""Joins and leaves in one process leave nothing behind; `make long-lived` runs for half an hour."""

import logging
from dataclasses import replace

import pytest

from tests.chaos.long_lived import WARM_UP_ROUNDS, Count, LongLived, judge

MINUTES = 0.4


@pytest.mark.kafka
@pytest.mark.slow
def test_connectors_that_come_and_go_in_one_process_leave_nothing_behind(caplog):
    caplog.set_level(logging.CRITICAL)  # listeners that raise and sessions that end are meant
    with LongLived() as lived:
        figures = lived.run(MINUTES)
    assert figures["left_behind"] == []
    assert figures["metrics"]["wrong"] == []
    assert figures["metrics"]["scrapes"] > figures["rounds"]
    assert figures["rounds"] > WARM_UP_ROUNDS + 1, "too few rounds to show anything"
    assert figures["messages"] > 0


REST = Count(10.0, 12, 20, 60, 90_000, 100, 14, 8, 5)
LATER = replace(REST, after_s=60.0, joins=112)


def judged(last=LATER, before=(9, 30), after=(9, 30), longest_shutdown_s=1.0):
    return judge([REST, last], before, after, longest_shutdown_s)


def test_nothing_is_complained_of_when_all_returns():
    assert judged() == []


@pytest.mark.parametrize("name", ["threads", "descriptors", "znodes", "ephemerals", "watches", "connections"])
def test_every_kind_of_leftover_is_named(name):
    (complaint,) = judged(replace(LATER, **{name: getattr(REST, name) + 1}))
    assert complaint.startswith(f"{name}: ")


def test_memory_that_grows_with_every_join_is_named():
    assert judged(replace(LATER, memory_kb=REST.memory_kb + 12_000)) == []
    (complaint,) = judged(replace(LATER, memory_kb=REST.memory_kb + 13_000))
    assert complaint.startswith("memory: ")


def test_thread_or_descriptor_that_outlives_the_last_member_is_named():
    assert [text.partition(":")[0] for text in judged(after=(10, 31))] == [
        "threads of the process",
        "descriptors of the process",
    ]


def test_shutdown_beyond_its_deadline_is_named():
    assert judged(longest_shutdown_s=60.0) == ["shutdown() took 60.0 s"]
