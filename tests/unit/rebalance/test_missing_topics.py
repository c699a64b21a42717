"""A member logs which topics of its own subscription do not exist."""

import logging

import pytest

from rebalance.events import CloseRequested
from tests.support.group_members import Group
from zk_layout.model import SubscriptionPattern

ADVICE = "its streams wait; check the name, and the chroot of zookeeper.connect"


@pytest.fixture(autouse=True)
def warnings_alone(caplog):
    caplog.set_level(logging.WARNING)


def missing(caplog):
    """Return the log lines about missing topics, as (level, text)."""
    return [(record.levelname, record.message) for record in caplog.records if "there is no topic" in record.message]


@pytest.mark.parametrize(
    ("subscription", "names"),
    [
        ({"t": 1, "nope": 1}, "nope"),
        ({"t": 1, "nope": 1, "nor": 1}, "nope, nor"),
        ({"t": 1, **dict.fromkeys("abcdefgh", 1)}, "a, b, c and 5 more"),
    ],
)
def test_all_topics_that_do_not_exist_are_one_warning_with_what_to_check(caplog, subscription, names):
    group = Group({"t": 2})
    group.join("a", subscription)
    group.settle()
    assert missing(caplog) == [("WARNING", f"g_a: there is no topic {names}: {ADVICE}")]


def test_it_is_told_once_however_often_the_group_is_read(caplog):
    group = Group({"t": 2})
    a = group.join("a", {"t": 1, "nope": 1})
    group.settle()
    b = group.join("b", {"t": 1})
    group.settle()
    b.coordinator.post(CloseRequested(1000))
    group.settle()
    group.server.expire(a.store.session_id)
    group.pass_time(120)
    assert len(missing(caplog)) == 1


def test_only_the_member_that_names_it_tells_of_it(caplog):
    """Other clients may write any names, line ends included, into their registrations; a member logs none of these."""
    group = Group({"t": 2})
    group.join("a", {"t": 1})
    group.settle()
    group.join("b", {"nope": 1})
    group.join("c", {"evil\nCRITICAL root: all is lost": 1})
    group.settle()
    assert [text.split(":")[0] for _, text in missing(caplog) if "CRITICAL" not in text] == ["g_b"]
    assert not [text for _, text in missing(caplog) if text.startswith("g_a")]


def test_a_topic_that_was_deleted_is_told_as_deleted_only(caplog):
    group = Group({"t": 2, "u": 1})
    group.join("a", {"t": 1, "u": 1})
    group.settle()
    group.admin.delete("/brokers/topics/t")
    group.settle()
    assert missing(caplog) == []
    assert "topic t was deleted" in caplog.text


def test_a_topic_that_was_deleted_while_the_session_was_gone_is_told(caplog):
    group = Group({"t": 2, "u": 1})
    a = group.join("a", {"t": 1, "u": 1})
    group.settle()
    group.server.suspend(a.store)
    group.server.expire(a.store.session_id)
    group.admin.delete("/brokers/topics/u")
    group.pass_time(5)
    group.server.resume(a.store)
    group.pass_time(10)
    assert missing(caplog) == [("WARNING", f"g_a: there is no topic u: {ADVICE}")]


def test_a_topic_that_comes_and_goes_is_told_each_time(caplog):
    group = Group({"t": 2})
    group.join("a", {"t": 1, "nope": 1})
    group.settle()
    group.create_topic("nope", 1)
    group.settle()
    group.admin.delete("/brokers/topics/nope")
    group.settle()
    assert len(missing(caplog)) == 1
    assert caplog.text.count("topic nope was deleted") == 1


def test_a_topic_filter_that_matches_nothing_misses_no_topic(caplog):
    group = Group({"t": 2})
    group.join("a", {"nope.*": 1}, pattern=SubscriptionPattern.WHITE_LIST)
    group.settle()
    assert missing(caplog) == []
