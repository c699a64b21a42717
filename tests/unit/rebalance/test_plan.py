from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from rebalance.plan import make_plan, owned_by
from zk_layout.model import ConsumerThreadId, TopicPartition

C0, C1, D0 = ConsumerThreadId("c", 0), ConsumerThreadId("c", 1), ConsumerThreadId("d", 0)


def a(number: int) -> TopicPartition:
    return TopicPartition("a", number)


SHARES = st.dictionaries(
    st.builds(TopicPartition, st.sampled_from("ab"), st.integers(0, 12)), st.sampled_from([C0, C1]), max_size=12
)


def test_only_the_difference_moves():
    plan = make_plan({a(0): C0, a(1): C0}, {a(1): C0, a(2): C0})
    assert (plan.keep, plan.release, plan.claim) == ({a(1): C0}, {a(0): C0}, {a(2): C0})


def test_a_partition_that_changes_streams_is_released_and_claimed():
    plan = make_plan({a(0): C0}, {a(0): C1})
    assert (plan.keep, plan.release, plan.claim) == ({}, {a(0): C0}, {a(0): C1})


def test_nothing_to_do_moves_nothing():
    plan = make_plan({a(0): C0}, {a(0): C0})
    assert (plan.keep, plan.release, plan.claim) == ({a(0): C0}, {}, {})


@given(SHARES, SHARES)
def test_carrying_out_a_plan_gives_the_assignment(owned, assigned):
    plan = make_plan(owned, assigned)
    left = {tp: thread for tp, thread in owned.items() if tp not in plan.release}
    assert left == plan.keep
    assert not left.keys() & plan.claim.keys()
    assert {**left, **plan.claim} == assigned


@given(SHARES, SHARES)
def test_a_plan_is_sorted(owned, assigned):
    plan = make_plan(owned, assigned)
    for part in (plan.keep, plan.release, plan.claim):
        assert list(part) == sorted(part)


def test_a_member_owns_its_own_threads_partitions():
    assert owned_by({a(0): C0, a(1): D0, a(2): C1}, "c") == {a(0): C0, a(2): C1}


def test_each_member_gets_its_own_share_of_the_same_assignment():
    assignment = {a(0): C0, a(1): D0, a(2): C1}
    assert list(owned_by(assignment, "c").items()) == [(a(0), C0), (a(2), C1)]
    assert owned_by(assignment, "d") == {a(1): D0}
    assert owned_by(assignment, "e") == {}
