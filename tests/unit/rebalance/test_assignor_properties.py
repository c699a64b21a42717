"""Properties of every strategy and every group, with made-up groups."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.assignors import evener
from rebalance.assignors.checked import divide_group
from rebalance.assignors.even_shares import divide_by_topic
from rebalance.assignors.seam import Cluster, RebalanceProtocol, Subscription
from rebalance.assignors.strategies import STRATEGIES, make_assignor
from tests.support.assignor_cases import divide, holders, unevenness
from zk_layout.model import TopicPartition

EVERY = pytest.mark.parametrize("strategy", list(STRATEGIES))
SOME = settings(max_examples=25)
TOPICS = ("s", "t", "u")
MEMBERS = ("a", "b", "c", "d")


@st.composite
def groups(draw, most_partitions=7, members=MEMBERS):
    """Draw (cluster, subscriptions); some members state owned partitions that cannot be theirs."""
    counts = draw(st.dictionaries(st.sampled_from(TOPICS), st.integers(0, most_partitions), min_size=1))
    partition = st.builds(TopicPartition, st.sampled_from((*TOPICS, "gone")), st.integers(0, most_partitions))
    subscription = st.builds(
        Subscription,
        topics=st.lists(st.sampled_from(TOPICS), unique=True).map(tuple),
        owned=st.lists(partition, max_size=6).map(tuple),
        generation=st.none() | st.integers(3, 5),
        instance_id=st.none() | st.sampled_from("ij"),
    )
    return Cluster.of_counts(counts), draw(st.dictionaries(st.sampled_from(members), subscription, min_size=1))


def partitions_of(cluster, subscriptions):
    topics = {topic for subscription in subscriptions.values() for topic in subscription.topics}
    return {str(tp) for topic in topics for tp in cluster.partitions(topic)}


def after(subscriptions, assignment):
    """Return the subscriptions with which the members join the next generation."""
    return {
        name: Subscription(told.topics, owned=assignment[name].partitions, generation=9, instance_id=told.instance_id)
        for name, told in subscriptions.items()
    }


@EVERY
@SOME
@given(group=groups())
def test_every_partition_goes_to_one_subscriber(strategy, group):
    cluster, subscriptions = group
    answer = divide(make_assignor(strategy, {}), cluster, subscriptions)
    assert answer.keys() == partitions_of(cluster, subscriptions)
    assert all(tp.rpartition("/")[0] in subscriptions[name].topics for tp, name in answer.items())


@EVERY
@SOME
@given(group=groups(), random=st.randoms(use_true_random=False))
def test_the_order_in_which_members_are_told_changes_nothing(strategy, group, random):
    cluster, subscriptions = group
    names = list(subscriptions)
    random.shuffle(names)
    shuffled = {name: subscriptions[name] for name in names}
    first = divide_group(make_assignor(strategy, {}), RebalanceProtocol.EAGER, cluster, subscriptions)
    assert divide_group(make_assignor(strategy, {}), RebalanceProtocol.EAGER, cluster, shuffled) == first


@pytest.mark.parametrize("strategy", ["roundrobin", "sticky", "cooperative-sticky"])
@SOME
@given(group=groups(), topics=st.lists(st.sampled_from(TOPICS), unique=True, min_size=1))
def test_members_that_subscribe_alike_differ_by_one_partition_at_most(strategy, group, topics):
    cluster, subscriptions = group
    alike = {name: Subscription(tuple(topics), owned=told.owned) for name, told in subscriptions.items()}
    answer = list(divide(make_assignor(strategy, {}), cluster, alike).values())
    sizes = [answer.count(name) for name in alike]
    assert max(sizes) - min(sizes) <= 1


def kept(subscriptions, answer):
    """Return how many partitions stay with the member that states them as owned.

    Only a partition of a topic that the member subscribes to, and that no other member states, counts.
    """
    claims = [tp for told in subscriptions.values() for tp in set(told.owned) if tp.topic in told.topics]
    return sum(
        answer.get(str(tp)) == name and claims.count(tp) == 1
        for name, told in subscriptions.items()
        for tp in set(told.owned)
    )


@SOME
@given(group=groups(most_partitions=2, members=("a", "b", "c")))
def test_sticky_is_the_best_of_all_divisions_that_there_are(group):
    cluster, told = group
    subscriptions = {name: Subscription(one.topics, owned=one.owned) for name, one in told.items()}
    partitions = sorted(partitions_of(cluster, subscriptions))
    takers = [
        [name for name, one in subscriptions.items() if partition.rpartition("/")[0] in one.topics]
        for partition in partitions
    ]
    divisions = [dict(zip(partitions, names, strict=True)) for names in product(*takers)]
    best = min((unevenness(division), -kept(subscriptions, division)) for division in divisions)
    answer = divide(make_assignor("sticky", {}), cluster, subscriptions)
    assert (unevenness(answer), -kept(subscriptions, answer)) == best


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
@SOME
@given(group=groups())
def test_a_group_that_does_not_change_moves_nothing(strategy, group):
    cluster, subscriptions = group
    first = divide_group(make_assignor(strategy, {}), RebalanceProtocol.EAGER, cluster, subscriptions)
    joined_again = after(subscriptions, first)
    assert divide_group(make_assignor(strategy, {}), RebalanceProtocol.EAGER, cluster, joined_again) == first


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
@SOME
@given(group=groups(members=("a", "b", "c", "d", "e")))
def test_members_that_stay_keep_their_partitions_when_another_one_leaves(strategy, group):
    cluster, told = group
    subscriptions = {name: Subscription(TOPICS) for name in (*told, "leaver")}
    first = divide_group(make_assignor(strategy, {}), RebalanceProtocol.EAGER, cluster, subscriptions)
    stay = {name: one for name, one in after(subscriptions, first).items() if name != "leaver"}
    second = divide_group(make_assignor(strategy, {}), RebalanceProtocol.EAGER, cluster, stay)
    assert all(set(first[name].partitions) <= set(second[name].partitions) for name in stay)


@SOME
@given(group=groups())
def test_a_cooperative_group_gives_nothing_to_two_and_settles_after_the_second_generation(group):
    cluster, subscriptions = group
    assignor = make_assignor("cooperative-sticky", {})
    first = divide_group(assignor, RebalanceProtocol.COOPERATIVE, cluster, subscriptions)
    claimed = {}
    for name, told in subscriptions.items():
        for tp in told.owned:
            claimed.setdefault(tp, set()).add(name)
    # the first generation gives a partition that exactly one member states as owned to no other member
    for name, share in first.items():
        assert all(len(claimed.get(tp, ())) != 1 or claimed[tp] == {name} for tp in share.partitions)
    joined_again = after(subscriptions, first)
    second = divide_group(assignor, RebalanceProtocol.COOPERATIVE, cluster, joined_again)
    assert holders(second).keys() == partitions_of(cluster, subscriptions)
    assert divide_group(assignor, RebalanceProtocol.COOPERATIVE, cluster, after(joined_again, second)) == second


def test_a_chain_of_moves_balances_members_that_no_single_move_can_balance(monkeypatch):
    """b gives u/0 to a, and a gives s/0 to c. A search cut short finds no such chain, but assigns all partitions."""
    had = {
        "a": (("s", "u"), ["s/0"]),
        "b": (("t", "u"), ["t/1", "u/0"]),
        "c": (("s",), []),
        "d": (("t",), ["t/0", "t/2"]),
    }
    subscriptions = {
        name: Subscription(topics, owned=tuple(TopicPartition(one[0], int(one[2])) for one in owned))
        for name, (topics, owned) in had.items()
    }
    cluster = Cluster.of_counts({"s": 1, "t": 3, "u": 1})
    assert divide(make_assignor("sticky", {}), cluster, subscriptions) == {
        "s/0": "c", "t/0": "d", "t/1": "b", "t/2": "d", "u/0": "a",
    }  # fmt: skip
    monkeypatch.setattr(evener, "_MOST_ARCS", 0)
    assert divide(make_assignor("sticky", {}), cluster, subscriptions) == {
        partition: name for name, (_, owned) in had.items() for partition in owned
    }


def test_a_group_ten_times_as_large_does_not_take_ten_times_the_rounds(monkeypatch):
    rounds = {}
    search = evener.Evener._find_cycle
    for size in (5, 50):
        looks = []
        monkeypatch.setattr(evener.Evener, "_find_cycle", lambda self, looks=looks: looks.append(1) or search(self))
        subscriptions = {
            f"m{at:02}": Subscription(tuple(f"t{n}" for n in range(size) if n % 3 <= at % 3)) for at in range(size)
        }
        divide(make_assignor("sticky", {}), Cluster.of_counts({f"t{n}": 20 for n in range(size)}), subscriptions)
        rounds[size] = len(looks)
    assert 1 <= rounds[5] <= rounds[50] <= 3 * rounds[5]


def test_the_subscribers_of_topics_that_have_the_same_ones_are_looked_through_once_for_each_move(monkeypatch):
    smallest, looks = evener.Evener._smallest, []
    monkeypatch.setattr(evener.Evener, "_smallest", lambda *asked: looks.append(1) or smallest(*asked))
    topics = [f"t{number:02}" for number in range(20)]
    partitions = {topic: [TopicPartition(topic, number) for number in range(20)] for topic in topics}
    members = [f"m{number:02}" for number in range(20)]
    # ten of the twenty members own all; beside the 1000 partitions of the other member that looks even at first
    owners = {tp: members[tp.partition % 10] for some in partitions.values() for tp in some}
    partitions["large"] = [TopicPartition("large", number) for number in range(1000)]
    subscribers = dict.fromkeys(topics, members) | {"large": ["lone"]}
    shares = divide_by_topic(partitions, subscribers, owners)
    assert {len(shares[member]) for member in members} == {20}
    assert len(looks) < 1000 + 3 * 200, "the large topic is handed out, and 200 partitions move"
