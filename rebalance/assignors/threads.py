"""The existing partitions, and the subscribed threads of each topic: the input of the two classic assignors."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TypeAlias

from rebalance.assignors.java_hash import java_sort_key
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import consumer_threads, subscribed_topics
from zk_layout.model import ConsumerThreadId, SubscriptionPattern, TopicPartition

Threads: TypeAlias = tuple[ConsumerThreadId, ...]
_Subscription: TypeAlias = tuple[SubscriptionPattern, tuple[tuple[str, int], ...]]


def threads_per_topic(group: GroupSnapshot, *, as_partitions: bool = False) -> dict[str, Threads]:
    """Return {topic: every thread that subscribes to it}, for each topic that has one.

    as_partitions: of each member no more threads than the topic has partitions, since range gives the rest nothing.

    Topics are sorted, threads as Java sorts text. A topic that does not exist is included if a static subscription
    names it. Topics with the same subscribers share one tuple, and all topics share the thread ids.
    """
    # most members have the same subscription, so the loop computes each subscription only once
    cohorts: dict[_Subscription, list[str]] = {}
    for consumer_id, registration in group.members.items():
        cohorts.setdefault((registration.pattern, registration.subscription), []).append(consumer_id)
    subscribers: dict[str, list[tuple[int, int, int | None]]] = {}
    for index, consumer_ids in enumerate(cohorts.values()):
        subscription = subscribed_topics(
            group.members[consumer_ids[0]],
            group.partitions,
            exclude_internal_topics=group.exclude_internal_topics,
        )
        for topic, streams in subscription.items():
            most = max(1, len(group.partitions.get(topic, ()))) if as_partitions else None
            useful = None if most is None or most >= streams else most
            subscribers.setdefault(topic, []).append((index, streams, useful))
    members = list(cohorts.values())
    merged: dict[tuple[tuple[int, int, int | None], ...], Threads] = {}
    threads = {}
    for topic in sorted(subscribers):
        key = tuple(subscribers[topic])
        if key not in merged:
            merged[key] = in_java_order(
                thread
                for index, streams, useful in key
                for member in members[index]
                for thread in consumer_threads(member, streams, useful)
            )
        threads[topic] = merged[key]
    return threads


def in_java_order(threads: Iterable[ConsumerThreadId]) -> Threads:
    """Return the threads sorted by their whole text: `c-1-0` of member c-1 comes before `c-2` of member c."""
    return tuple(sorted(threads, key=lambda thread: java_sort_key(str(thread))))


def partitions_of(topic: str, numbers: tuple[int, ...]) -> tuple[TopicPartition, ...]:
    """Return the topic's partitions with these numbers, in their order."""
    return tuple(TopicPartition(topic, number) for number in numbers)
