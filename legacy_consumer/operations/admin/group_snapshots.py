"""Snapshots of groups as their own members see them, for commands that read many groups at once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from legacy_consumer.offsets.topic_partitions import TopicsOnce, is_topic_name
from legacy_consumer.operations.admin.group_members import RegisteredMember, needs_cluster_topics
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import subscribed_topics
from zk_layout.store import ZkStore


def read_snapshots(
    store: ZkStore, members: Sequence[RegisteredMember], cluster: TopicsOnce | None = None
) -> dict[str, GroupSnapshot]:
    """Return {group: its snapshot} for the groups that have members. Two requests at most for any number of groups.

    members: from group_members.read_members. cluster: what the caller has read of the topics already.
    Raises: ZooKeeperError.
    """
    by_group: dict[str, list[RegisteredMember]] = {}
    for member in members:
        by_group.setdefault(member.group, []).append(member)
    cluster = cluster or TopicsOnce(store)
    cluster_topics = cluster.names() if needs_cluster_topics(members) else ()
    wanted = {group: _topics(found, cluster_topics) for group, found in by_group.items()}
    lives = cluster.lives(set().union(*wanted.values()))
    return {
        group: GroupSnapshot(
            group=group,
            members={m.consumer_id: m.registration for m in found if m.registration is not None},
            partitions={topic: lives[topic].partitions for topic in sorted(wanted[group]) if topic in lives},
            unreadable={m.consumer_id: m.problem for m in found if m.problem is not None},
            kinds={m.consumer_id: m.kind for m in found},
            created={topic: lives[topic].czxid for topic in sorted(wanted[group]) if topic in lives},
        )
        for group, found in by_group.items()
    }


def consumed_topics(snapshot: GroupSnapshot | None) -> frozenset[str] | None:
    """Return the existing topics that the members subscribe to. All members have left any other topic of the group.

    None if the group has no members, or a registration cannot be read.
    """
    if snapshot is None or not snapshot.members or snapshot.unreadable:
        return None
    return frozenset(snapshot.partitions)


def _topics(members: Iterable[RegisteredMember], cluster_topics: Collection[str]) -> set[str]:
    topics: set[str] = set()
    for member in members:
        if member.registration is not None:
            topics |= set(subscribed_topics(member.registration, cluster_topics))
    return {topic for topic in topics if is_topic_name(topic)}
