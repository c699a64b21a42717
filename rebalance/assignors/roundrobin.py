"""Round-robin: all partitions, in the order of their hashes, go to all threads in turn.

The dialect is the first Kafka version whose members behave so:

| dialect | members | partition's text, whose String.hashCode orders | threads |
|---|---|---|---|
| 0.8.2 | 0.8.2 to 0.10.1 | `[topic,partition]` | the one set that all topics have; else refused |
| 0.10.2 | 0.10.2 to 0.11 | `[topic,partition]` | union over all topics, those not subscribed are skipped |
| 1.0 | 1.0 to 1.1.1 | `topic-partition` | as 0.10.2 |

Members with different dialects in one group never agree, so the dialect is a setting and is never guessed.

Partitions with equal hashes (topics Ea and FB) are ordered by topic, then by number. In JVM members a hash map orders
them, which depends on the order of insertion: JVM members need not agree with each other either.

Source: Scala consumer, PartitionAssignor.scala, RoundRobinAssignor; KAFKA-2434, KAFKA-5822.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from itertools import cycle

from rebalance.assignors.java_hash import extend_hash, to_signed
from rebalance.assignors.kafka_roundrobin import RoundRobinAssignor
from rebalance.assignors.threads import Threads, in_java_order, partitions_of, threads_per_topic
from rebalance.dialects import Dialect
from rebalance.errors import AssignmentRefusedError
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.model import ConsumerThreadId, TopicPartition

# {dialect: (before the topic, between, after the partition)}
_PARTITION_TEXT: Mapping[Dialect, tuple[str, str, str]] = {
    "0.8.2": ("[", ",", "]"),
    "0.10.2": ("[", ",", "]"),
    "1.0": ("", "-", ""),
}

NEEDS_EQUAL_SUBSCRIPTIONS: tuple[str, Dialect] = (RoundRobinAssignor.name, "0.8.2")
"""The only strategy and dialect that refuse a group whose members subscribe differently."""


def roundrobin_assign(group: GroupSnapshot, dialect: Dialect) -> Assignment:
    """Assign all partitions of the group's topics to all its threads, one at a time.

    Returns: {TopicPartition: ConsumerThreadId}, each partition of a subscribed topic exactly once, sorted.
    A group that subscribes to nothing gets nothing, as from 0.9 on (0.8.2 fails there).
    Raises: AssignmentRefusedError in dialect 0.8.2 if two topics differ in their threads.
    """
    subscribers = threads_per_topic(group)
    if (RoundRobinAssignor.name, dialect) == NEEDS_EQUAL_SUBSCRIPTIONS:
        _require_equal_subscriptions(subscribers)
    topics = tuple((topic, group.partitions.get(topic, ())) for topic in subscribers)
    partitions, order = _in_order_of_dealing(topics, dialect)
    owners = _deal([partitions[index].topic for index in order], subscribers)
    owner_at = dict(zip(order, owners, strict=True))
    return {partition: owner_at[index] for index, partition in enumerate(partitions)}


def _in_order_of_dealing(
    topics: tuple[tuple[str, tuple[int, ...]], ...], dialect: Dialect
) -> tuple[tuple[TopicPartition, ...], tuple[int, ...]]:
    """Return all partitions, and their indexes in the order of assignment. Neither depends on a member."""
    partitions: list[TopicPartition] = []
    hashes: list[int] = []
    for topic, numbers in topics:
        partitions.extend(partitions_of(topic, numbers))
        hashes.extend(_hashes(topic, numbers, dialect))
    return tuple(partitions), tuple(sorted(range(len(partitions)), key=hashes.__getitem__))


def _require_equal_subscriptions(subscribers: Mapping[str, Threads]) -> None:
    first_topic, *others = subscribers or [""]
    for topic in others:
        if subscribers[topic] != subscribers[first_topic]:
            raise AssignmentRefusedError(
                *NEEDS_EQUAL_SUBSCRIPTIONS,
                "all members must subscribe to the same topics with one stream count each, but "
                f"{first_topic} has {_shown(subscribers[first_topic], subscribers[topic])} and {topic} has "
                f"{_shown(subscribers[topic], subscribers[first_topic])}",
            )


def _shown(threads: Threads, others: Threads) -> str:
    """Return the number of threads, and one that the other topic lacks."""
    surplus = sorted(set(threads) - set(others))
    return f"{len(threads)} threads" + (f" ({surplus[0]} among them)" if surplus else "")


def _deal(topics: Sequence[str], subscribers: Mapping[str, Threads]) -> Sequence[ConsumerThreadId]:
    """Return the thread for each partition, given the partitions' topics in the order of assignment."""
    distinct = {id(threads): threads for threads in subscribers.values()}
    if len(distinct) <= 1:
        turns = cycle(next(iter(distinct.values()), ()))
        return [next(turns) for _ in topics]
    circle = in_java_order({thread for threads in distinct.values() for thread in threads})
    place = {thread: index for index, thread in enumerate(circle)}
    places = {key: [place[thread] for thread in threads] for key, threads in distinct.items()}
    places_of = {topic: places[id(threads)] for topic, threads in subscribers.items()}
    owners = []
    turn = 0
    for topic in topics:
        # the next subscribed thread from the turn on, or the first; skipped threads lose their turn
        mine = places_of[topic]
        found = bisect_left(mine, turn)
        chosen = mine[found] if found < len(mine) else mine[0]
        owners.append(circle[chosen])
        turn = (chosen + 1) % len(circle)
    return owners


def _hashes(topic: str, numbers: Sequence[int], dialect: Dialect) -> Sequence[int]:
    """Return the signed hash of each partition's text."""
    before, between, after = _PARTITION_TEXT[dialect]
    begun = extend_hash(0, f"{before}{topic}{between}")
    return [to_signed(extend_hash(begun, f"{number}{after}")) for number in numbers]
