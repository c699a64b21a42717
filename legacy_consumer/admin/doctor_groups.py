"""Examines every group: members that cannot work together, partitions that nobody reads, and what was left behind."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from legacy_consumer.admin.findings import Finding, Severity
from legacy_consumer.admin.group_list import list_groups
from legacy_consumer.admin.groups import GroupDescription, Hold, PartitionLag, describe_groups
from legacy_consumer.admin.pruning import GroupUse, find_unused, read_use
from legacy_consumer.admin.topic_partitions import list_topic_names
from legacy_consumer.fetcher import LogOffsets
from rebalance.group_warnings import GroupWarning
from zk_layout.errors import NotPermittedError
from zk_layout.paths import OffsetPath, OffsetsPath, OwnerPath, OwnersPath, TopicOffsetsPath, TopicOwnersPath
from zk_layout.store import ZkStore

DAY_MS = 86_400_000
_SHOWN = 3
_ADVICE = {
    "foreign_member": "stop it or give it a group of its own",
    "unreadable_member": "stop whoever registered it; if nobody did, delete its znode with ZooKeeper's client",
    "kafka_0_7_member": "give it a group of its own",
    "regex_escaped_twice": "write the filter without backslashes in all members",
    "regex_not_escaped": "write the filter without backslashes in all members",
    "several_patterns": "give that member one topic",
    "owner_without_thread": "stop that client before members of Kafka join",
    "strategy_mismatch": "give all members the same partition.assignment.strategy",
    "unequal_subscriptions": "give all members the same topics and stream counts, or use range",
    "missing_topic": "create the topic, or take it out of the subscription",
}


def examine_groups(
    store: ZkStore, log_offsets: LogOffsets, *, now_ms: int, stale_after_ms: int = 30 * DAY_MS
) -> Iterator[Finding]:
    """All groups; one with a znode that may not be read is named, and the others are examined. ZooKeeperError."""
    names = list_groups(store)
    try:
        yield from list(_examine(store, log_offsets, names, now_ms, stale_after_ms))
    except NotPermittedError:
        for name in names:
            try:
                yield from list(_examine(store, log_offsets, [name], now_ms, stale_after_ms))
            except NotPermittedError as error:
                yield Finding(
                    Severity.ERROR,
                    "not_permitted",
                    name,
                    f"group {name} cannot be examined: {error}",
                    "give the credentials of its members: --config with zookeeper.auth.digest or zookeeper.sasl.*",
                )


def _examine(
    store: ZkStore, log_offsets: LogOffsets, names: Sequence[str], now_ms: int, stale_after_ms: int
) -> Iterator[Finding]:
    use = read_use(store, names)
    topics = set(list_topic_names(store))
    present = [one.group for one in use]
    for found in describe_groups(store, log_offsets, present):
        yield from _of_group(found, topics)
    yield from _foreign_names(store, present)
    yield from _unused(find_unused(use, now_ms=now_ms, older_than_ms=stale_after_ms), now_ms)


def _of_group(found: GroupDescription, topics: set[str]) -> Iterator[Finding]:
    for warning in found.warnings:
        yield _of_warning(found.group, warning)
    for row in found.partitions:
        if row.error is not None:
            yield Finding(
                Severity.ERROR,
                "unreadable_znode",
                found.group,
                row.error,
                _mending(found.group, row, exists=row.topic in topics),
            )
    yield from _holds(found)
    yield from _unowned(found)
    yield from _beyond(found, topics)
    gone = sorted({row.topic for row in found.partitions if row.topic not in topics and row.committed is not None})
    if gone:
        yield Finding(
            Severity.NOTE,
            "deleted_topic",
            found.group,
            f"group {found.group} keeps offsets of topics that do not exist: {_some(gone)}",
            f"`legacy-consumer groups delete {found.group} --topic {gone[0]}` removes them; a topic that is made anew "
            "under that name would otherwise be read from the old offset by members of the JVM",
        )


def _mending(group: str, row: PartitionLag, *, exists: bool) -> str:
    if not exists:
        return f"its topic does not exist: `legacy-consumer groups delete {group} --topic {row.topic}` removes it"
    return (
        f"members of the JVM fail over it: `legacy-consumer offsets reset {group} --topic {row.topic}:{row.partition} "
        "--to-latest` writes a good offset; an owner goes with its session"
    )


def _of_warning(group: str, warning: GroupWarning) -> Finding:
    severe = warning.code in {"unreadable_member", "foreign_member", "strategy_mismatch"}
    return Finding(
        Severity.ERROR if severe else Severity.WARNING,
        warning.code,
        group,
        f"group {group}: {warning.text}",
        _ADVICE.get(warning.code, "see `legacy-consumer groups describe`"),
    )


def _holds(found: GroupDescription) -> Iterator[Finding]:
    permanent = [row for row in found.partitions if row.hold is Hold.PERMANENT]
    if permanent:
        paths = [OwnerPath(found.group, row.topic, row.partition).path for row in permanent]
        yield Finding(
            Severity.ERROR,
            "permanent_owner",
            found.group,
            f"group {found.group}: owner znodes that are not ephemeral block their partitions for ever: {_some(paths)}",
            "delete these znodes with ZooKeeper's own client, after making sure that nobody consumes there",
        )
    lost = [row for row in found.partitions if row.hold in {Hold.GONE, Hold.OTHER}]
    if lost:
        some = _some([f"{row.topic}/{row.partition} by {row.owner}" for row in lost])
        yield Finding(
            Severity.WARNING,
            "owner_of_the_past",
            found.group,
            f"group {found.group}: partitions are held by sessions of no living member: {some}",
            "they become free when those sessions expire; if they do not, a zombie holds them: stop that process",
        )


def _unowned(found: GroupDescription) -> Iterator[Finding]:
    subscribed = {topic for member in found.members if member.pattern == "static" for topic, _ in member.subscription}
    unowned = [f"{r.topic}/{r.partition}" for r in found.partitions if r.owner is None and r.topic in subscribed]
    if unowned:
        yield Finding(
            Severity.ERROR,
            "no_owner",
            found.group,
            f"group {found.group} has members, and yet nobody owns {_some(unowned)}",
            "look again in a minute, for it may be rebalancing; if it stays, restart the members that own too little "
            "(`legacy-consumer groups members` shows how many partitions each has)",
        )


def _beyond(found: GroupDescription, topics: set[str]) -> Iterator[Finding]:
    beyond = [r for r in found.partitions if r.lag is not None and r.lag < 0 and r.topic in topics]
    if beyond:
        yield Finding(
            Severity.ERROR,
            "beyond_the_log",
            found.group,
            f"group {found.group}: committed offsets lie beyond the end of the log: "
            + _some([f"{r.topic}/{r.partition} at {r.committed} of {r.log_end}" for r in beyond]),
            f"the topic was made anew, or lost messages: `legacy-consumer offsets reset {found.group} --topic "
            f"{beyond[0].topic} --to-earliest`",
        )


def _foreign_names(store: ZkStore, groups: Sequence[str]) -> Iterator[Finding]:
    """Children of offsets and owners that no member of Kafka would write."""
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
                f"{folder} holds znodes that are no partitions: {_some(odd)}",
                "pykafka and Kafka 0.7 name them so: if such a client runs in this group, give it a group of its own; "
                "otherwise delete them",
            )


def _is_known(path: str) -> bool:
    return OffsetPath.parse(path) is not None or OwnerPath.parse(path) is not None


def _unused(unused: Sequence[GroupUse], now_ms: int) -> Iterator[Finding]:
    if unused:
        oldest = max(now_ms - one.last_seen_ms for one in unused) // DAY_MS
        yield Finding(
            Severity.NOTE,
            "stale_groups",
            unused[0].group,
            f"{len(unused)} groups have no members and committed nothing for up to {oldest} days: "
            + _some([one.group for one in unused]),
            "`legacy-consumer groups prune --older-than 30d` shows and removes them, with a backup",
        )


def _some(things: Iterable[str]) -> str:
    names = list(things)
    return ", ".join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
