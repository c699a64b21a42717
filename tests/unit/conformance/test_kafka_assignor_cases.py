"""Kafka's expectations of its assignors: every partition has exactly one owner.

Each member reads the group from ZooKeeper, with registrations spelled as Kafka's encoder spells them, and keeps only
its share of the assignment that it computes. Together the shares must make the whole assignment.
Cases: Kafka 0.10.2.2, PartitionAssignorTest. Its "unbalanced" scenario has the unfair groups.
"""

from __future__ import annotations

import json
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.errors import AssignmentRefusedError
from rebalance.group_strategy import CLASSIC_STRATEGIES, ClassicStrategy
from rebalance.plan import owned_by
from rebalance.reader import GroupReader
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

RANGE, *ROUNDROBINS = CLASSIC_STRATEGIES
UNIONS = [ClassicStrategy("roundrobin", "0.10.2"), ClassicStrategy("roundrobin", "1.0")]


def static(stream_counts):
    document = {"version": 1, "subscription": stream_counts, "pattern": "static", "timestamp": "1234"}
    return json.dumps(document, separators=(",", ":")).encode()


def white_list(regex, streams):
    document = {"version": 1, "subscription": {regex: streams}, "pattern": "white_list"}
    return json.dumps(document, separators=(",", ":")).encode()


def computed_by_each(topics, registrations, strategy):
    """Return {partition: thread}, merged from the share that each member computes. Shares must not overlap."""
    server = MemoryZooKeeper()
    admin = MemoryStore(server)
    admin.start()
    admin.ensure_path("/brokers/topics")
    admin.ensure_path("/consumers/g1/ids")
    for topic, count in topics.items():
        admin.create(f"/brokers/topics/{topic}", encode_topic(TopicAssignment(dict.fromkeys(range(count), (0,)))))
    for consumer_id, data in registrations.items():
        admin.create(f"/consumers/g1/ids/{consumer_id}", data, ephemeral=True)
    whole = {}
    for consumer_id in registrations:
        store = MemoryStore(server)
        store.start()
        group = GroupReader(store, "g1", exclude_internal_topics=True, on_change=lambda event: None).read()
        for tp, thread in owned_by(strategy.assign(group), consumer_id).items():
            assert tp not in whole, "has two owners"
            whole[tp] = thread
    return whole


def all_partitions(topics):
    return {TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)}


def spread(assignment):
    """Return the largest minus the smallest number of partitions of a thread; threads without any do not count."""
    counts = Counter(assignment.values()).values()
    return max(counts, default=0) - min(counts, default=0)


@st.composite
def topics_with_partitions(draw):
    count = draw(st.integers(0, 12))
    return {f"topic-{n}": draw(st.integers(8, 40)) for n in range(1, count + 1)}


CONSUMERS = st.integers(1, 10)
STREAMS = st.integers(1, 8)


@settings(max_examples=30)
@given(topics_with_partitions(), st.lists(STREAMS, min_size=1, max_size=10), st.sampled_from(ROUNDROBINS))
def test_members_that_take_every_topic_share_all_evenly_by_roundrobin(topics, streams, strategy):
    members = {f"g1c{n}": white_list(".*", count) for n, count in enumerate(streams, 1)}
    assignment = computed_by_each(topics, members, strategy)
    assert assignment.keys() == all_partitions(topics)
    assert spread(assignment) <= 1


@settings(max_examples=30)
@given(topics_with_partitions(), CONSUMERS, st.sampled_from(ROUNDROBINS))
def test_members_that_name_every_topic_share_all_evenly_by_roundrobin(topics, consumers, strategy):
    members = {f"g1c{n}": static(dict.fromkeys(topics, 1)) for n in range(1, consumers + 1)}
    assignment = computed_by_each(topics, members, strategy)
    assert assignment.keys() == all_partitions(topics)
    assert spread(assignment) <= 1


def unequal(consumers):
    """Return ten topics of ten partitions, and members; the n-th member leaves out the last n modulo 5 topics."""
    topics = {f"topic-{n}": 10 for n in range(1, 11)}
    members = {f"g1c{n}": static({f"topic-{t}": 3 for t in range(1, 11 - n % 5)}) for n in range(1, consumers + 1)}
    return topics, members


@pytest.mark.parametrize("consumers", [5, 7, 10])
@pytest.mark.parametrize("strategy", [RANGE, *UNIONS], ids=str)
def test_unequal_subscriptions_leave_no_partition_out_and_none_to_who_did_not_ask(consumers, strategy):
    topics, members = unequal(consumers)
    assignment = computed_by_each(topics, members, strategy)
    assert assignment.keys() == all_partitions(topics)
    for tp, thread in assignment.items():
        assert tp.topic in json.loads(members[thread.consumer_id])["subscription"]
        assert thread.thread < 3


@pytest.mark.parametrize("consumers", [5, 7, 10])
def test_unequal_subscriptions_are_refused_by_roundrobin_before_0_10_2(consumers):
    topics, members = unequal(consumers)
    with pytest.raises(AssignmentRefusedError):
        computed_by_each(topics, members, ClassicStrategy("roundrobin", "0.8.2"))


@settings(max_examples=30)
@given(topics_with_partitions(), CONSUMERS, st.data())
def test_range_covers_all_whatever_stream_counts_members_name(topics, consumers, data):
    members = {f"g1c{n}": static({topic: data.draw(STREAMS) for topic in topics}) for n in range(1, consumers + 1)}
    assignment = computed_by_each(topics, members, RANGE)
    assert assignment.keys() == all_partitions(topics)
    for topic in topics:
        assert spread({tp: thread for tp, thread in assignment.items() if tp.topic == topic}) <= 1
