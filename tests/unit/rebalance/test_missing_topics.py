"""What the log says of topics that members name and that do not exist."""

import logging

import pytest

from rebalance.events import CloseRequested
from tests.support.group_members import Group
from zk_layout.model import SubscriptionPattern


def missing(caplog):
    """The lines, as (level, text)."""
    return [(record.levelname, record.message) for record in caplog.records if "not exist" in record.message]


@pytest.mark.parametrize(
    ("subscription", "absence"),
    [
        ({"t": 1, "nope": 1}, "topic nope does not exist"),
        ({"t": 1, "nope": 1, "nor": 1}, "topics nope, nor do not exist"),
        ({"t": 1, **dict.fromkeys(("a", "b", "c", "d", "e"), 1)}, "topics a, b, c and 2 more do not exist"),
    ],
)
def test_all_topics_that_do_not_exist_are_one_warning_with_what_to_check(caplog, subscription, absence):
    group = Group({"t": 2})
    with caplog.at_level(logging.WARNING):
        group.join("a", subscription)
        group.settle()
    advice = "the streams wait; check the name, and the chroot of zookeeper.connect"
    assert missing(caplog) == [("WARNING", f"group g: {absence}: {advice}")]


def test_it_is_told_once_however_often_the_group_is_read(caplog):
    group = Group({"t": 2})
    with caplog.at_level(logging.WARNING):
        a = group.join("a", {"t": 1, "nope": 1})
        group.settle()
        b = group.join("b", {"t": 1, "nope": 1})
        group.settle()
        b.coordinator.post(CloseRequested(1000))
        group.settle()
        group.server.expire(a.store.session_id)
        group.pass_time(120)
    assert len(missing(caplog)) == 2, "each member told of it once"


def test_each_new_name_is_told(caplog):
    group = Group({"t": 2})
    group.join("a", {"t": 1, "nope": 1})
    group.settle()
    caplog.clear()
    with caplog.at_level(logging.WARNING):
        group.join("b", {"t": 1, "nor": 1})
        group.settle()
    texts = [text for _, text in missing(caplog)]
    assert len(texts) == 2
    assert [text for text in texts if "topic nor does not exist" in text], "a knew of nope already"


def test_a_topic_that_was_deleted_is_told_as_deleted_only(caplog):
    group = Group({"t": 2, "u": 1})
    group.join("a", {"t": 1, "u": 1})
    group.settle()
    with caplog.at_level(logging.WARNING):
        group.admin.delete("/brokers/topics/t")
        group.settle()
    assert missing(caplog) == []
    assert "topic t was deleted" in caplog.text


def test_a_topic_filter_that_matches_nothing_misses_no_topic(caplog):
    group = Group({"t": 2})
    with caplog.at_level(logging.WARNING):
        group.join("a", {"nope.*": 1}, pattern=SubscriptionPattern.WHITE_LIST)
        group.settle()
    assert missing(caplog) == []
