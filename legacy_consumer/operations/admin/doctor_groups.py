"""Examines every group: members that cannot work together, and partitions that no member can own.

doctor_offsets.py examines the offsets, and doctor_leftovers.py unused groups and foreign znodes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from legacy_consumer.fetching.fetcher import LogOffsets
from legacy_consumer.offsets.judgement import Verdict
from legacy_consumer.offsets.topic_partitions import is_topic_name, list_topic_names
from legacy_consumer.operations.admin.doctor_leftovers import DAY_MS, foreign_names, unused_groups
from legacy_consumer.operations.admin.doctor_offsets import offsets_of_group, silent_logs, stalled
from legacy_consumer.operations.admin.findings import Finding, Severity, about_group, not_permitted, some
from legacy_consumer.operations.admin.group_acls import mixed_acls
from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.admin.group_reads import read_apart
from legacy_consumer.operations.admin.groups import (
    GroupDescription,
    GroupMember,
    Hold,
    UnreadableMember,
    describe_groups,
)
from legacy_consumer.operations.admin.offset_targets import LogTimes
from legacy_consumer.operations.admin.pruning import find_unused, read_use
from rebalance.group_warnings import GroupWarning
from zk_layout.model import TopicPartition
from zk_layout.paths import (
    ConsumerIdPath,
    OwnerPath,
)
from zk_layout.store import ZkStore

_SHOWN = 3
_ADVICE = {
    "foreign_member": "stop it, or give it a group of its own",
    "unreadable_member": "stop the client that registered it; if none runs, delete the znode with ZooKeeper's client",
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
    store: ZkStore,
    log_offsets: LogOffsets,
    *,
    now_ms: int,
    stale_after_ms: int = 30 * DAY_MS,
    times: LogTimes | None = None,
    looked: Counter[str] | None = None,
) -> Iterator[Finding]:
    """Examine all groups. A group with a znode that an ACL hides is reported, and the others are examined.

    times: returns the offsets of times; without it no group is reported as stalled. looked: the counter to which the
    numbers of examined groups and partitions are added. Raises: ZooKeeperError.
    """
    names = list_groups(store)
    use, no_use = read_apart(names, lambda group_names: read_use(store, group_names))
    foreign, _ = read_apart([one.group for one in use], lambda group_names: list(foreign_names(store, group_names)))
    unused = find_unused(use, now_ms=now_ms, older_than_ms=stale_after_ms)
    quiet = {one.group for one in [*unused, *(one for one in use if one.is_migrated or one.open_migration is not None)]}
    # no broker takes other names, so no offset of such a topic can be reset
    topics = {name for name in list_topic_names(store) if is_topic_name(name)}
    groups = describe_groups(store, log_offsets, names)
    if looked is not None:
        looked["group"] += len(groups)
        looked["partition"] += sum(len(found.partitions) for found in groups)
    for found in groups:
        problem = found.problem or (str(no_use[found.group]) if found.group in no_use else None)
        if problem is not None:
            yield not_permitted(found.group, f"group {found.group} cannot be examined: {problem}")
        yield from _of_members(found)
        yield from offsets_of_group(found, topics, is_quiet=found.group in quiet)
        if times is not None:
            yield from stalled(found, times, now_ms)
    yield from silent_logs(groups, topics)
    with_offsets = {
        found.group: [TopicPartition(row.topic, row.partition) for row in found.partitions if row.committed is not None]
        for found in groups
        if found.problem is None
    }
    yield from mixed_acls(store, with_offsets)
    yield from foreign
    yield from unused_groups(unused, now_ms, stale_after_ms)


def _of_members(found: GroupDescription) -> Iterator[Finding]:
    yield from _of_warnings(found)
    yield from _permanent_members(found)
    yield from _unreadable_owners(found)
    yield from _holds(found)
    yield from _standing_reset(found)
    yield from _unowned(found)


def _of_warnings(found: GroupDescription) -> Iterator[Finding]:
    """Report at most _SHOWN warnings of each kind: any client may register thousands of members."""
    by_code: dict[str, list[GroupWarning]] = {}
    for warning in found.warnings:
        by_code.setdefault(warning.code, []).append(warning)
    for code, warnings in by_code.items():
        for warning in warnings[:_SHOWN]:
            yield _of_warning(found.group, warning)
        if len(warnings) > _SHOWN:
            more = f"the same is true of {len(warnings) - _SHOWN} more members or topics"
            yield _of_warning(found.group, GroupWarning(code, more))


def _of_warning(group: str, warning: GroupWarning) -> Finding:
    severe = warning.code in {"unreadable_member", "foreign_member", "strategy_mismatch"}
    return Finding(
        Severity.ERROR if severe else Severity.WARNING,
        warning.code,
        group,
        f"group {group}: {warning.text}",
        _ADVICE.get(warning.code, "see `legacy-consumer groups describe`"),
    )


def _permanent_members(found: GroupDescription) -> Iterator[Finding]:
    members: list[GroupMember | UnreadableMember] = [*found.members, *found.unreadable]
    paths = [ConsumerIdPath(found.group, member.consumer_id).path for member in members if not member.session_id]
    if paths:
        yield Finding(
            Severity.ERROR,
            "permanent_member",
            found.group,
            f"group {found.group}: registrations that are not ephemeral stay when their member is gone: {some(paths)}",
            "while they exist, resets and deletions are refused, and the other members leave them a share: make sure "
            "that no such process runs, then delete the znodes with ZooKeeper's own client",
        )


def _unreadable_owners(found: GroupDescription) -> Iterator[Finding]:
    owners = [
        row.error
        for row in found.partitions
        if row.error is not None and row.judgement.verdict is not Verdict.UNREADABLE
    ]
    if owners:
        yield Finding(
            Severity.ERROR,
            "unreadable_znode",
            found.group,
            f"group {found.group}: owners cannot be read: {some(owners, '; ')}",
            "an ephemeral owner znode ends with its session; delete others with ZooKeeper's own client",
        )


def _holds(found: GroupDescription) -> Iterator[Finding]:
    permanent = [row for row in found.partitions if row.hold is Hold.PERMANENT]
    if permanent:
        paths = [OwnerPath(found.group, row.topic, row.partition).path for row in permanent]
        yield Finding(
            Severity.ERROR,
            "permanent_owner",
            found.group,
            f"group {found.group}: owner znodes that are not ephemeral block their partitions for ever: {some(paths)}",
            "make sure that no member consumes these partitions, then delete the znodes with ZooKeeper's own client",
        )
    lost = [row for row in found.partitions if row.hold in {Hold.GONE, Hold.OTHER}]
    if lost:
        held = some([f"{row.topic}/{row.partition} by {row.owner}" for row in lost])
        yield Finding(
            Severity.WARNING,
            "owner_of_the_past",
            found.group,
            f"group {found.group}: partitions are held by sessions of no living member: {held}",
            "they become free when those sessions expire; if they do not, a process still holds them: stop it",
        )


def _standing_reset(found: GroupDescription) -> Iterator[Finding]:
    if found.reset is not None:
        severity = Severity.NOTE if found.reset.is_running else Severity.ERROR
        code = "reset_under_way" if found.reset.heeded else "reset_of_nobody"
        yield Finding(severity, code, found.group, f"group {found.group}: {found.reset.text}", found.reset.advice)


def _unowned(found: GroupDescription) -> Iterator[Finding]:
    unowned = [f"{r.topic}/{r.partition}" for r in found.consumed if r.owner is None and r.topic in found.subscribed]
    if unowned:
        yield Finding(
            Severity.ERROR,
            "no_owner",
            found.group,
            f"group {found.group} has members, but no member owns {some(unowned)}",
            "look again in a minute, for it may be rebalancing; if it stays, see that all members have the same "
            "partition.assignment.strategy, and restart the members that own too few partitions",
            about_group(found.group, "groups", "members"),
        )
