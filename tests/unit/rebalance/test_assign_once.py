"""The members of one process compute an assignment once."""

import threading
from dataclasses import replace

import pytest

from rebalance.assignors import range_assign
from rebalance.assignors.once import assign_once
from rebalance.snapshot import GroupSnapshot
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition


def registration(streams=1):
    return ConsumerRegistration(SubscriptionPattern.STATIC, (("t", streams),), 0)


class Counting:
    """An assignor that counts how often it is asked; each has answers of its own."""

    def __init__(self):
        self.calls = 0

    def __call__(self, group, dialect):
        self.calls += 1
        return range_assign(group)


def group_of(*names):
    return GroupSnapshot("g", {name: registration() for name in names}, {"t": (0, 1, 2, 3)})


def test_members_that_see_the_same_group_share_one_answer():
    assign = Counting()
    answers = [assign_once(assign, "1.0", group_of("a", "b")) for _ in range(5)]
    assert assign.calls == 1
    assert all(answer == range_assign(group_of("a", "b")) for answer in answers)


@pytest.mark.parametrize(
    "other",
    [
        group_of("a", "b", "c"),
        group_of("b", "a"),
        replace(group_of("a", "b"), partitions={"t": (0, 1)}),
        replace(group_of("a", "b"), group="h"),
        replace(group_of("a", "b"), exclude_internal_topics=False),
        replace(group_of("a", "b"), members={"a": registration(2), "b": registration()}),
    ],
)
def test_another_group_is_another_question(other):
    assign = Counting()
    assign_once(assign, "1.0", group_of("a", "b"))
    assign_once(assign, "1.0", other)
    assert assign.calls == 2


def test_dialects_and_assignors_do_not_share():
    assign, another = Counting(), Counting()
    for dialect in ("1.0", "0.10"):
        assign_once(assign, dialect, group_of("a"))
    assign_once(another, "1.0", group_of("a"))
    assert (assign.calls, another.calls) == (2, 1)


def test_what_nobody_can_tell_apart_is_not_told_apart():
    assign = Counting()
    assign_once(assign, "1.0", group_of("a"))
    assign_once(assign, "1.0", replace(group_of("a"), created={"t": 7}, unreadable={"x": "why"}))
    assert assign.calls == 1


def test_nobody_can_change_the_answer_that_others_get():
    answer = assign_once(Counting(), "1.0", group_of("a"))
    with pytest.raises(TypeError, match="does not support item assignment"):
        answer[TopicPartition("t", 0)] = None


def test_a_refusal_is_not_remembered():
    refusals = []

    def refuse(group, dialect):
        refusals.append(group)
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError, match="no"):
            assign_once(refuse, "1.0", group_of("a"))
    assert len(refusals) == 2


def test_members_that_ask_together_compute_once():
    assign = Counting()
    threads = [threading.Thread(target=assign_once, args=(assign, "1.0", group_of("a", "b"))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert assign.calls == 1
