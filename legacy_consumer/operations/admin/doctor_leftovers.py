"""Examines leftovers: znodes that stand for no partition, and unused groups."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from legacy_consumer.operations.admin.findings import Finding, Severity, some
from legacy_consumer.operations.admin.pruning import GroupUse
from zk_layout.paths import OffsetPath, OffsetsPath, OwnerPath, OwnersPath, TopicOffsetsPath, TopicOwnersPath
from zk_layout.store import ZkStore

DAY_MS = 86_400_000


def foreign_names(store: ZkStore, groups: Sequence[str]) -> Iterator[Finding]:
    """Report children of the offsets and owners folders that no member of Kafka would write."""
    parents = [path for group in groups for path in (OffsetsPath(group).path, OwnersPath(group).path)]
    topics = [
        f"{parent}/{topic}"
        for parent, names in zip(parents, store.get_children_many(parents), strict=True)
        for topic in names or ()
    ]
    for folder, names in zip(topics, store.get_children_many(topics), strict=True):
        odd = [name for name in names or () if not _is_known(f"{folder}/{name}")]
        if odd:
            found = TopicOffsetsPath.parse(folder) or TopicOwnersPath.parse(folder)
            group = found.group if found is not None else folder
            yield Finding(
                Severity.WARNING,
                "foreign_znode",
                group,
                f"{folder} holds znodes that are no partitions: {some(odd)}",
                "pykafka and Kafka 0.7 use such names: if such a client runs in this group, give it a group of its "
                "own; otherwise delete the znodes with ZooKeeper's own client",
            )


def _is_known(path: str) -> bool:
    return OffsetPath.parse(path) is not None or OwnerPath.parse(path) is not None


def unused_groups(unused: Sequence[GroupUse], now_ms: int, stale_after_ms: int) -> Iterator[Finding]:
    """Report the groups that an operator could delete."""
    if unused:
        oldest = max(now_ms - one.last_seen_ms for one in unused) // DAY_MS
        after = f"{stale_after_ms // DAY_MS}d" if stale_after_ms % DAY_MS == 0 else f"{stale_after_ms // 1000}s"
        yield Finding(
            Severity.NOTE,
            "stale_groups",
            unused[0].group,
            f"{len(unused)} groups have no members and committed nothing for up to {oldest} days: "
            + some([one.group for one in unused]),
            "remove the groups that are not needed; the command writes a backup of their offsets first",
            (("groups", "prune", "--older-than", after),),
        )
