"""The strategy by which a group divides its partitions, as its owner znodes show it."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from rebalance.errors import AssignmentRefusedError
from rebalance.group_strategy import (
    CLASSIC_STRATEGIES,
    ClassicStrategy,
    find_mismatch,
    strategies_of_group,
    strategies_of_members,
    telling_partitions,
    tells_of_no_other,
)
from rebalance.snapshot import GroupSnapshot
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition

RANGE, RR_0_8_2, RR_0_10_2, RR_1_0 = CLASSIC_STRATEGIES


def snapshot(members, topics):
    return GroupSnapshot(
        "g",
        {
            name: ConsumerRegistration(SubscriptionPattern.STATIC, tuple(subscription.items()), 0)
            for name, subscription in sorted(members.items())
        },
        {topic: tuple(range(count)) for topic, count in sorted(topics.items())},
    )


def owners_by(strategy, group):
    return {tp: str(thread) for tp, thread in strategy.assign(group).items()}


# round-robin goes through the partitions in the order 10 11 0 1 ... 9 from 1.0 on, 0 1 ... 11 before
TELLING = snapshot({"g_a": {"topic-1": 1}, "g_b": {"topic-1": 1}, "g_c": {"topic-1": 1}}, {"topic-1": 12})


@pytest.mark.parametrize(
    ("strategy", "shown"),
    [
        (RANGE, (RANGE,)),
        (RR_0_8_2, (RR_0_8_2, RR_0_10_2)),
        (RR_0_10_2, (RR_0_8_2, RR_0_10_2)),
        (RR_1_0, (RR_1_0,)),
    ],
)
def test_a_settled_group_shows_how_it_divides(strategy, shown):
    assert strategies_of_group(TELLING, owners_by(strategy, TELLING)) == shown


def test_subscriptions_that_0_8_2_refuses_show_that_no_member_uses_it():
    group = snapshot({"g_a": {"t": 1, "u": 2}, "g_b": {"t": 1}}, {"t": 5, "u": 3})
    assert RR_0_8_2 not in strategies_of_group(group, owners_by(RR_0_10_2, group))
    assert RR_0_10_2 in strategies_of_group(group, owners_by(RR_0_10_2, group))


def test_a_small_group_shows_nothing_against_any_strategy():
    group = snapshot({"g_a": {"t": 1}}, {"t": 3})
    owners = owners_by(RANGE, group)
    assert strategies_of_group(group, owners) == CLASSIC_STRATEGIES
    assert all(find_mismatch(group, owners, ours) is None for ours in CLASSIC_STRATEGIES)


@pytest.mark.parametrize("missing", [[0], [11], list(range(12))])
def test_a_group_in_the_middle_of_a_rebalance_shows_no_strategy(missing):
    owners = {tp: text for tp, text in owners_by(RANGE, TELLING).items() if tp.partition not in missing}
    assert strategies_of_group(TELLING, owners) == ()
    assert find_mismatch(TELLING, owners, RR_1_0) is None


def test_owners_that_are_no_members_show_nothing():
    owners = owners_by(RANGE, TELLING) | {TopicPartition("topic-1", 0): "g_dead-0"}
    assert strategies_of_group(TELLING, owners) == ()


def test_owners_of_other_topics_and_of_partitions_that_are_no_more_do_not_matter():
    owners = owners_by(RANGE, TELLING) | {TopicPartition("old", 0): "g_a-0", TopicPartition("topic-1", 99): "g_a-0"}
    assert strategies_of_group(TELLING, owners) == (RANGE,)


def test_an_owner_without_thread_counts_for_its_member():
    owners = {tp: text.rpartition("-")[0] for tp, text in owners_by(RANGE, TELLING).items()}
    assert strategies_of_group(TELLING, owners) == (RANGE,)


def test_a_thread_that_is_not_the_strategys_is_no_fit():
    group = snapshot({"g_a": {"t": 2}}, {"t": 2})
    swapped = {TopicPartition("t", 0): "g_a-1", TopicPartition("t", 1): "g_a-0"}
    assert strategies_of_group(group, swapped) == ()


def test_a_mismatch_names_the_settings_to_change():
    error = find_mismatch(TELLING, owners_by(RR_0_10_2, TELLING), RR_1_0)
    assert str(error) == (
        "group 'g' divides its partitions by roundrobin 0.8.2 or roundrobin 0.10.2 and this member by roundrobin 1.0: "
        "set partition.assignment.strategy=roundrobin and partition.assignment.dialect=0.8.2 or 0.10.2, whichever its "
        "members have, or stop all members and start them alike; group.mismatch=warn joins all the same"
    )
    assert find_mismatch(TELLING, owners_by(RR_0_10_2, TELLING), RR_0_10_2) is None


def test_the_asking_member_may_own_nothing():
    """The others own their shares by range, computed with me as a member; by round-robin I could never get mine."""
    mine = {tp for tp, thread in RANGE.assign(TELLING).items() if thread.consumer_id == "g_b"}
    owners = {tp: text for tp, text in owners_by(RANGE, TELLING).items() if tp not in mine}
    assert find_mismatch(TELLING, owners, RR_1_0) is None
    assert find_mismatch(TELLING, owners, RR_1_0, without="g_b").shown == ("range",)
    assert find_mismatch(TELLING, owners, RANGE, without="g_b") is None


def test_members_with_different_strategies_are_distinguished():
    a_and_c = {tp: text for tp, text in owners_by(RANGE, TELLING).items() if "g_b" not in text}
    b = {tp: text for tp, text in owners_by(RR_1_0, TELLING).items() if "g_b" in text and tp not in a_and_c}
    shown = strategies_of_members(TELLING, a_and_c | b)
    assert (shown["g_a"], shown["g_c"]) == ((RANGE,), (RANGE,))
    assert RANGE not in shown["g_b"]
    assert strategies_of_group(TELLING, a_and_c | b) == ()


def test_a_member_without_partitions_shows_nothing():
    assert strategies_of_members(TELLING, {}) == {"g_a": (), "g_b": (), "g_c": ()}


def test_range_has_no_dialect():
    assert ClassicStrategy.of("range", "0.8.2") == RANGE
    assert ClassicStrategy.of("roundrobin", "0.8.2") == RR_0_8_2
    assert (str(RANGE), str(RR_0_8_2)) == ("range", "roundrobin 0.8.2")


SUBSCRIPTIONS = st.dictionaries(st.sampled_from(["t", "u", "topic-1"]), st.integers(1, 3), min_size=1)


@given(
    st.dictionaries(st.sampled_from(["g_a", "g_b", "g_c", "g_a-1"]), SUBSCRIPTIONS, min_size=1),
    st.dictionaries(st.sampled_from(["t", "u", "topic-1"]), st.integers(0, 13)),
    st.sampled_from(CLASSIC_STRATEGIES),
)
def test_no_member_is_refused_by_a_settled_group_of_its_own_strategy(members, topics, strategy):
    group = snapshot(members, topics)
    try:
        owners = owners_by(strategy, group)
    except AssignmentRefusedError:
        assume(False)
    assert find_mismatch(group, owners, strategy) is None
    assert all(strategy in shown for name, shown in strategies_of_members(group, owners).items() if shown)
    if owners:
        assert strategy in strategies_of_group(group, owners)


@given(
    st.dictionaries(st.sampled_from(["g_a", "g_b", "g_c", "g_a-1"]), SUBSCRIPTIONS, min_size=1),
    st.dictionaries(st.sampled_from(["t", "u", "topic-1"]), st.integers(0, 13)),
    st.sampled_from(CLASSIC_STRATEGIES),
    st.sampled_from(CLASSIC_STRATEGIES),
    st.sampled_from([None, "g_a", "g_c"]),
    st.data(),
)
def test_a_sample_of_owners_shows_the_same_strategy_as_all_owners(members, topics, strategy, ours, without, data):
    group = snapshot(members, topics)
    try:
        owners = owners_by(strategy, group)
    except AssignmentRefusedError:
        assume(False)
    for tp in sorted(owners):
        match data.draw(st.sampled_from(["stays", "stays", "stays", "missing", "another's", "no thread"])):
            case "missing":
                del owners[tp]
            case "another's":
                owners[tp] = data.draw(st.sampled_from(["g_a-0", "g_b-1", "g_x-0"]))
            case "no thread":
                owners[tp] = owners[tp].rpartition("-")[0]
    telling = telling_partitions(group, ours, without=without)
    if telling is not None and tells_of_no_other(telling, owners):
        assert find_mismatch(group, owners, ours, without=without) is None


def test_of_a_large_group_of_our_strategy_a_few_owners_tell_it_and_of_another_one_they_do_not():
    group = snapshot({f"g_{n:02}": {"topic-1": 1} for n in range(50)}, {"topic-1": 500})
    telling = telling_partitions(group, RANGE)
    assert len(telling) == 2, "for round-robin from 1.0 on, and before"
    assert tells_of_no_other(telling, owners_by(RANGE, group))
    assert tells_of_no_other(telling, {}), "a group that starts"
    for other in (RR_0_10_2, RR_1_0):
        assert not tells_of_no_other(telling, owners_by(other, group))
