"""The cost of assignments of many topics and partitions; counts comparisons, so it needs no clock."""

import pytest

from rebalance.assignors.checked import divide_group, keep_shares
from rebalance.assignors.seam import Cluster, MemberAssignment, RebalanceProtocol, Subscription
from rebalance.assignors.strategies import make_assignor
from rebalance.led import cluster
from rebalance.led.cluster import threads_of
from rebalance.led.records import Share
from rebalance.mailbox import Errand
from rebalance.snapshot import GroupSnapshot
from tests.support.group_members import Group
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition

SIZES = (100, 400)


class Compared:
    """Makes numbers and names, and counts their comparisons."""

    def __init__(self):
        self.times = 0
        counter = self

        class Number(int):
            def __eq__(self, other):
                counter.times += 1
                return int(self) == other

            __hash__ = int.__hash__

        class Name(str):
            __slots__ = ()

            def __eq__(self, other):
                counter.times += 1
                return str(self) == other

            __hash__ = str.__hash__

        self.number, self.name = Number, Name


def threads(size, compared):
    told = ConsumerRegistration(SubscriptionPattern.STATIC, (("t", 1),), 0)
    snapshot = GroupSnapshot("g", {"g_a": told}, {"t": tuple(map(compared.number, range(size)))})
    share = Share("g_a", tuple(TopicPartition("t", number) for number in range(size)))
    assert len(threads_of({"g_a-1": share}, snapshot)) == size


def topics_and_names(size, compared):
    names = [f"t{number}" for number in range(size)]
    topics = tuple(map(compared.name, names))
    members = {"a": Subscription(topics), "b": Subscription(topics)}
    return Cluster.of_counts(dict.fromkeys(names, 1)), members


def division(size, compared):
    assert (
        len(divide_group(make_assignor("range", {}), RebalanceProtocol.EAGER, *topics_and_names(size, compared))) == 2
    )


def kept(size, compared):
    of, members = topics_and_names(size, compared)
    before = {"a": tuple(TopicPartition(topic, 0) for topic in of.topics)}
    assert keep_shares(RebalanceProtocol.EAGER, of, members, before)["b"] == MemberAssignment()


@pytest.mark.parametrize("work", [threads, division, kept])
def test_a_division_of_four_times_as_much_compares_no_more_than_eight_times_as_often(work):
    times = []
    for size in SIZES:
        compared = Compared()
        work(size, compared)
        times.append(compared.times)
    assert 0 < times[1] <= 8 * times[0], "with one comparison each it is 4 times, and 16 if all are compared with all"


def test_a_leader_matches_topic_filters_once_for_each_reading_of_the_group(monkeypatch):
    asked = []
    real = cluster.subscribed_topics
    monkeypatch.setattr(
        cluster, "subscribed_topics", lambda told, *a, **o: (asked.append(told), real(told, *a, **o))[1]
    )
    group = Group({"t": 4})
    members = [
        group.join(name, {"t.*": 1}, pattern=SubscriptionPattern.WHITE_LIST, led="range") for name in ("a", "b", "c")
    ]
    group.settle()
    group.pass_time(2)
    leader = next(one for one in members if one.led._election.leads)
    asked.clear()
    for _ in range(5):
        leader.coordinator.post(Errand(leader.led.look))
        group.settle()
    assert not asked
