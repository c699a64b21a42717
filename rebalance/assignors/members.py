"""The order of members, the subscribers of each topic, and the last owner of each partition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rebalance.assignors.java_hash import java_sort_key
from rebalance.assignors.seam import Subscriptions
from zk_layout.model import TopicPartition

NO_GENERATION = -1
"""The generation of a member that has had none."""


class Memory(NamedTuple):
    """The partitions that a member says it owned, and their generation."""

    owned: Sequence[TopicPartition] = ()
    generation: int = NO_GENERATION


def in_member_order(subscriptions: Subscriptions) -> list[str]:
    """Return static members first, by their instance ids, so that a restart keeps their places; then others by id."""

    def key(member: str) -> tuple[bool, str, str]:
        instance = subscriptions[member].instance_id
        return instance is None, java_sort_key(instance or ""), java_sort_key(member)

    return sorted(subscriptions, key=key)


def subscribers_by_topic(subscriptions: Subscriptions) -> dict[str, list[str]]:
    """Return {topic: its subscribers in the order of members}, topics sorted; also of topics that do not exist."""
    subscribers: dict[str, list[str]] = {}
    for member in in_member_order(subscriptions):
        for topic in subscriptions[member].topics:
            subscribers.setdefault(topic, []).append(member)
    return {topic: subscribers[topic] for topic in sorted(subscribers)}


def latest_owners(memories: Mapping[str, Memory]) -> dict[TopicPartition, str]:
    """Return the owner of each partition: the member that says so for the latest generation.

    If two members say so for the same generation, neither counts as the owner.
    """
    claims: dict[TopicPartition, dict[int, list[str]]] = {}
    for member, memory in memories.items():
        for partition in memory.owned:
            claims.setdefault(partition, {}).setdefault(memory.generation, []).append(member)
    latest = {partition: by_generation[max(by_generation)] for partition, by_generation in claims.items()}
    return {partition: members[0] for partition, members in latest.items() if len(members) == 1}
