"""A led member's readings of the cluster, for the leader's assignor and for its own streams."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping

from rebalance.assignors.seam import Assignor, Broker, Cluster, PartitionPlace
from rebalance.assignors.strategies import STRATEGIES
from rebalance.led.records import Share
from rebalance.snapshot import Assignment, GroupSnapshot
from rebalance.subscription import consumer_threads, subscribed_topics
from zk_layout.closed_znodes import read_each
from zk_layout.codecs import decode_broker, decode_partition_state
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.paths import BrokerIdPath, BrokerIdsPath, PartitionStatePath, broker_ids
from zk_layout.store import ZkStore, Znode


def topics_of(consumer_id: str, snapshot: GroupSnapshot) -> tuple[str, ...]:
    """Return the existing topics to which a member subscribes; none if the member is not registered."""
    told = snapshot.members.get(consumer_id)
    if told is None:
        return ()
    excludes = snapshot.exclude_internal_topics
    return tuple(sorted(subscribed_topics(told, snapshot.partitions, exclude_internal_topics=excludes)))


def subscribed_counts(snapshot: GroupSnapshot) -> dict[str, int]:
    """Return {topic: partitions} of existing topics to which the group's members subscribe."""
    topics = {topic for consumer_id in snapshot.members for topic in topics_of(consumer_id, snapshot)}
    return {topic: len(snapshot.partitions[topic]) for topic in sorted(topics) if snapshot.partitions.get(topic)}


_LOOK_AT_NUMBERS = frozenset(strategy.assignor for strategy in STRATEGIES.values())
"""Assignors that look at no leader and no rack. A class that a user derives from one of them may look."""


def read_cluster(store: ZkStore, counts: Mapping[str, int], assignor: Assignor | None) -> Cluster:
    """Return these topics as a Cluster. Read their leaders and racks only if this assignor may look at them."""
    if assignor is None or type(assignor) in _LOOK_AT_NUMBERS:
        return Cluster.of_counts(counts)
    tps = [TopicPartition(topic, number) for topic, count in counts.items() for number in range(count)]
    places: dict[str, list[PartitionPlace]] = {topic: [] for topic in counts}
    paths = [PartitionStatePath(*tp).path for tp in tps]
    for tp, path, znode in zip(tps, paths, read_each(store, paths), strict=True):
        leader = None
        if isinstance(znode, Znode):
            try:
                state = decode_partition_state(path, znode.data)
                leader = state.leader if state.leader >= 0 else None
            except MalformedZnodeError:
                pass
        places[tp.topic].append(PartitionPlace(leader))
    brokers: dict[int, Broker] = {}
    there = store.get_children_many([BrokerIdsPath().path])[0] or ()
    ids = broker_ids(there)
    for number, znode in zip(ids, read_each(store, [BrokerIdPath(n).path for n in ids]), strict=True):
        if znode is not None:
            brokers[number] = Broker(number)
        if isinstance(znode, Znode):
            with contextlib.suppress(MalformedZnodeError):
                brokers[number] = Broker(number, decode_broker(BrokerIdPath(number).path, znode.data).rack)
    return Cluster({topic: tuple(found) for topic, found in places.items()}, brokers)


def threads_of(shares: Mapping[str, Share], snapshot: GroupSnapshot) -> Assignment:
    """Return the thread of each partition: a member's partitions of a topic go to its streams in ranges.

    The result leaves out missing members and missing partitions.
    """
    topics = {tp.topic for share in shares.values() for tp in share.partitions}
    there = {topic: frozenset(snapshot.partitions.get(topic, ())) for topic in topics}
    found: dict[TopicPartition, ConsumerThreadId] = {}
    for share in shares.values():
        told = snapshot.members.get(share.consumer_id)
        if told is None:
            continue
        streams = subscribed_topics(told, snapshot.partitions, exclude_internal_topics=snapshot.exclude_internal_topics)
        by_topic: dict[str, list[TopicPartition]] = {}
        for tp in sorted(share.partitions):
            if tp.topic in streams and tp.partition in there[tp.topic]:
                by_topic.setdefault(tp.topic, []).append(tp)
        for topic, partitions in by_topic.items():
            threads = consumer_threads(share.consumer_id, streams[topic], len(partitions))
            found.update((tp, threads[n * len(threads) // len(partitions)]) for n, tp in enumerate(partitions))
    return dict(sorted(found.items()))
