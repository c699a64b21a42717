"""Decisions about an absence: for which members a group waits, until when, and who owns which partitions meanwhile."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.absence import GroupMemory, note_members, standing
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, SubscriptionPattern, TopicPartition


def members(names, born=0):
    return {name: ConsumerRegistration(SubscriptionPattern.STATIC, (("t", 1),), born) for name in names}


def assignment(text):
    """Return the assignment in text: for each partition one letter, the name of its owner; a dot for no owner."""
    owners = enumerate(text.replace(" ", ""))
    return {TopicPartition("t", n): ConsumerThreadId(name, 0) for n, name in owners if name != "."}


def looks(*readings):
    """Return the memory after these readings of the group, a name for each member."""
    known = GroupMemory()
    for names in readings:
        known = note_members(known, members(names))
    return known


def test_a_member_that_reads_the_group_for_the_first_time_does_not_wait():
    assert looks("ab") == GroupMemory(members("ab"))


@pytest.mark.parametrize("now", ["abc", "abcd", "abd"])
def test_a_group_as_big_as_before_does_not_wait(now):
    assert looks("abc", now) == GroupMemory(members(now))


def test_a_group_that_shrinks_waits_for_as_many_as_it_had():
    assert looks("abc", "ac") == GroupMemory(members("ac"), before=members("abc"))


def test_members_that_leave_meanwhile_are_waited_for_too():
    assert looks("abc", "ac", "c") == GroupMemory(members("c"), before=members("abc"))
    assert looks("abc", "ac", "c", "ac") == GroupMemory(members("ac"), before=members("abc"))


@pytest.mark.parametrize("now", ["abc", "acd", "cde", "abcd"])
def test_the_wait_ends_at_once_when_the_group_has_as_many_members_as_before(now):
    assert looks("abc", "ac", now) == GroupMemory(members(now))


def test_after_the_wait_the_group_is_as_big_as_it_is():
    known = replace(looks("abc", "ac"), impatient=frozenset("c")).after_the_wait()
    assert known == GroupMemory(members("ac"))
    assert note_members(known, members("ac")) == known


def test_a_departure_after_the_group_was_whole_again_has_a_wait_of_its_own():
    assert looks("abc", "ac", "acd", "ac").before == members("acd")


def test_a_member_that_came_back_under_the_same_id_is_not_one_that_waited():
    assert looks("abc", "a").companions(members("a") | members("b", born=7)) == {"a"}


@pytest.mark.parametrize(
    ("before", "now", "patient", "companions", "stands"),
    [
        pytest.param("aabbcc", "aaaccc", "ac", "ac", "aa..cc", id="what-b-left-has-no-owner-and-nothing-else-moves"),
        pytest.param("aabbcc", "aaaccc", "a", "ac", "aa.ccc", id="who-does-not-wait-gets-what-those-present-give-it"),
        pytest.param("aabbcc", "aaaccc", "c", "ac", "aaa.cc", id="what-is-due-to-one-who-does-not-wait-is-no-others"),
        pytest.param("abcabc", "acacac", "c", "ac", "a.acac", id="what-one-who-does-not-wait-gave-up-is-taken"),
        pytest.param("aabbcc", "aadddc", "ac", "ac", "aadddc", id="who-came-is-given-its-share-of-those-present"),
        pytest.param("aabbcc", "aaaaaa", "a", "a", "aa....", id="the-last-one-takes-nothing-over"),
        pytest.param("aabb.", "aaaab", "a", "a", "aa..b", id="what-nobody-had-waits-for-nobody"),
        pytest.param("aaccbb", "aacc", "ac", "ac", "aacc", id="what-is-no-more-is-nobodys"),
    ],
)
def test_standing(before, now, patient, companions, stands):
    assert standing(assignment(before), assignment(now), set(patient), set(companions)) == assignment(stands)


@given(before=st.text("abcd.", min_size=8, max_size=8), now=st.text("acde", min_size=8, max_size=8))
def test_while_all_remaining_members_wait_no_partition_moves(before, now):
    """b is away, and e has joined."""
    stayed = {"a", "c", "d"}
    stands = standing(assignment(before), assignment(now), stayed, stayed)
    for tp, thread in assignment(now).items():
        former = assignment(before).get(tp)
        if thread.consumer_id == "e" or former is None:
            assert stands[tp] == thread
        else:
            assert stands.get(tp) == (former if former.consumer_id != "b" else None)
