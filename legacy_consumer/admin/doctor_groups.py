"""Examines every group: members that cannot work together, partitions that nobody reads, and what was left behind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

from legacy_consumer.admin.findings import Finding, Severity
from legacy_consumer.admin.group_list import list_groups
from legacy_consumer.admin.group_reads import read_apart
from legacy_consumer.admin.groups import (
    GroupDescription,
    GroupMember,
    Hold,
    PartitionLag,
    UnreadableMember,
    describe_groups,
)
from legacy_consumer.admin.offset_targets import LogTimes
from legacy_consumer.admin.pruning import GroupUse, find_unused, read_use
from legacy_consumer.admin.topic_partitions import list_topic_names
from legacy_consumer.errors import KafkaError
from legacy_consumer.fetcher import LogOffsets
from legacy_consumer.offsets.judgement import Verdict
from rebalance.group_warnings import GroupWarning
from zk_layout.model import TopicPartition
from zk_layout.paths import (
    ConsumerIdPath,
    GroupPath,
    OffsetPath,
    OffsetsPath,
    OwnerPath,
    OwnersPath,
    TopicOffsetsPath,
    TopicOwnersPath,
)
from zk_layout.store import ZkStore

DAY_MS = 86_400_000
STALL_MS = 300_000
"""A member that works commits more often: every minute, unless auto.commit.interval.ms says otherwise."""
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
    store: ZkStore,
    log_offsets: LogOffsets,
    *,
    now_ms: int,
    stale_after_ms: int = 30 * DAY_MS,
    times: LogTimes | None = None,
    looked: Counter[str] | None = None,
) -> Iterator[Finding]:
    """All groups; one with a znode that may not be read is named, and the others are examined.

    times: tells which messages are old; without it nobody is called stalled. looked: to what was looked at, the numbers
    of groups and partitions are added. Raises: ZooKeeperError.
    """
    names = list_groups(store)
    use, no_use = read_apart(names, lambda some: read_use(store, some))
    foreign, _ = read_apart([one.group for one in use], lambda some: list(_foreign_names(store, some)))
    moved = _moved(store, names)
    unused = [one for one in find_unused(use, now_ms=now_ms, older_than_ms=stale_after_ms) if one.group not in moved]
    quiet = moved | {one.group for one in unused}
    topics = set(list_topic_names(store))
    groups = describe_groups(store, log_offsets, names)
    if looked is not None:
        looked["group"] += len(groups)
        looked["partition"] += sum(len(found.partitions) for found in groups)
    for found in groups:
        problem = found.problem or (str(no_use[found.group]) if found.group in no_use else None)
        if problem is not None:
            yield Finding(
                Severity.ERROR,
                "not_permitted",
                found.group,
                f"group {found.group} cannot be examined: {problem}",
                "give the credentials of its members: --config with zookeeper.auth.digest or zookeeper.sasl.*",
            )
        yield from _of_group(found, topics, is_quiet=found.group in quiet)
        if times is not None:
            yield from _stalled(found, times, now_ms - STALL_MS)
    yield from _silent_logs(groups, topics)
    yield from foreign
    yield from _unused(unused, now_ms, stale_after_ms)


def _of_group(found: GroupDescription, topics: set[str], *, is_quiet: bool) -> Iterator[Finding]:
    yield from _of_warnings(found)
    yield from _permanent_members(found)
    yield from _unreadable(found, topics)
    yield from _holds(found)
    yield from _standing_reset(found)
    yield from _unowned(found)
    if not is_quiet:
        yield from _stopped(found, topics)
    yield from _outside(found, topics)
    gone = sorted({row.topic for row in found.partitions if row.topic not in topics and row.committed is not None})
    if gone:
        yield Finding(
            Severity.NOTE,
            "deleted_topic",
            found.group,
            f"group {found.group} keeps offsets of topics that do not exist: {_some(gone)}",
            "a topic that is made anew under that name would be read from the old offset by members of the JVM: "
            "remove them",
            tuple(_deletion(found, topic) for topic in gone),
        )


def _reset(found: GroupDescription, rows: Iterable[PartitionLag]) -> tuple[tuple[str, ...], ...]:
    """The command that puts just these partitions where their logs begin; none if the group's name cannot be typed."""
    by_topic: dict[str, list[int]] = {}
    for row in rows:
        by_topic.setdefault(row.topic, []).append(row.partition)
    chosen = [f"--topic={topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items()]
    live = ["--live"] if found.members else []
    return _typed("offsets", "reset", *chosen, "--to-earliest", *live, group=found.group)


def _deletion(found: GroupDescription, topic: str) -> tuple[str, ...]:
    typed = _typed("groups", "delete", f"--topic={topic}", group=found.group)
    return typed[0] if typed else ()


def _typed(*words: str, group: str) -> tuple[tuple[str, ...], ...]:
    # a name that begins with a dash would be taken for an option
    return ((*words, "--", group),) if group.isprintable() else ()


def _unreadable(found: GroupDescription, topics: set[str]) -> Iterator[Finding]:
    offsets = [row for row in found.partitions if row.judgement.verdict is Verdict.UNREADABLE]
    for rows, exists in (
        ([row for row in offsets if row.topic in topics], True),
        ([row for row in offsets if row.topic not in topics], False),
    ):
        if not rows:
            continue
        text = f"group {found.group}: offsets cannot be read: {_some([row.judgement.reason for row in rows], '; ')}"
        if exists:
            advice = "members of the JVM fail over them: write good ones, from the beginning of the log or elsewhere"
            commands = _reset(found, rows)
        else:
            advice = "their topics do not exist: remove them"
            commands = tuple(_deletion(found, topic) for topic in sorted({row.topic for row in rows}))
        yield Finding(Severity.ERROR, "unreadable_znode", found.group, text, advice, commands)
    owners = [row.error for row in found.partitions if row.error is not None and row not in offsets]
    if owners:
        yield Finding(
            Severity.ERROR,
            "unreadable_znode",
            found.group,
            f"group {found.group}: owners cannot be read: {_some(owners, '; ')}",
            "an owner goes with its session; delete one that is not ephemeral with ZooKeeper's own client",
        )


def _of_warnings(found: GroupDescription) -> Iterator[Finding]:
    """A few of each kind: anybody may register thousands of members."""
    by_code: dict[str, list[GroupWarning]] = {}
    for warning in found.warnings:
        by_code.setdefault(warning.code, []).append(warning)
    for code, warnings in by_code.items():
        for warning in warnings[:_SHOWN]:
            yield _of_warning(found.group, warning)
        if len(warnings) > _SHOWN:
            more = f"{len(warnings) - _SHOWN} more members or topics of which the same is true"
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
            f"group {found.group}: registrations that are not ephemeral stay when their member is gone: {_some(paths)}",
            "a reset and a deletion are refused for as long as they are there, and other members leave them a share: "
            "delete these znodes with ZooKeeper's own client, after making sure that no such process runs",
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


def _standing_reset(found: GroupDescription) -> Iterator[Finding]:
    if found.reset is not None:
        severity = Severity.NOTE if found.reset.is_running else Severity.ERROR
        code = "reset_under_way" if found.reset.heeded else "reset_of_nobody"
        yield Finding(severity, code, found.group, f"group {found.group}: {found.reset.text}", found.reset.advice)


def _unowned(found: GroupDescription) -> Iterator[Finding]:
    unowned = [f"{r.topic}/{r.partition}" for r in found.partitions if r.owner is None and r.topic in found.subscribed]
    if unowned:
        yield Finding(
            Severity.ERROR,
            "no_owner",
            found.group,
            f"group {found.group} has members, and yet nobody owns {_some(unowned)}",
            "look again in a minute, for it may be rebalancing; if it stays, see how many partitions each member has, "
            "and restart those that own too little",
            _typed("groups", "members", group=found.group),
        )


def _stopped(found: GroupDescription, topics: set[str]) -> Iterator[Finding]:
    """Messages wait for nobody. What members subscribe to and do not own is said as no_owner."""
    stopped = [
        row
        for row in found.partitions
        if row.owner is None and row.topic in topics - found.subscribed and row.lag is not None and row.lag > 0
    ]
    if stopped:
        many = sum(row.lag or 0 for row in stopped)
        yield Finding(
            Severity.ERROR,
            "stopped",
            found.group,
            f"group {found.group}: {many} messages wait, and no member reads "
            + _some([f"{row.topic}/{row.partition}" for row in stopped]),
            "start its members, or delete the group if nobody needs it any more",
        )


def _stalled(found: GroupDescription, times: LogTimes, since_ms: int) -> Iterator[Finding]:
    """One look is enough where old messages wait: what came in since then may just be on its way."""
    by_topic: dict[str, dict[TopicPartition, int]] = {}
    for row in found.partitions:
        old = row.committed_at_ms is not None and row.committed_at_ms < since_ms
        if row.owner_is_member and old and row.committed is not None and row.lag is not None and row.lag > 0:
            by_topic.setdefault(row.topic, {})[TopicPartition(row.topic, row.partition)] = row.committed
    stalled: list[str] = []
    for rows in by_topic.values():
        try:
            reached = times.at_times(dict.fromkeys(rows, since_ms))
        except KafkaError:
            continue  # messages without timestamps, or no broker answers, which is said elsewhere
        stalled += [f"{tp} at {offset}" for tp, offset in rows.items() if offset < reached.get(tp, 0)]
    if stalled:
        yield Finding(
            Severity.ERROR,
            "stalled",
            found.group,
            f"group {found.group}: members own partitions and have committed nothing for {STALL_MS // 60_000} minutes, "
            f"while older messages wait: {_some(stalled)}",
            "see what its handlers do, and restart members that hang; members that keep their offsets elsewhere "
            "(auto.commit.enable=false) look the same",
        )


def _outside(found: GroupDescription, topics: set[str]) -> Iterator[Finding]:
    """Offsets that are not in the log as it is."""
    for verdict, code, severity, what in _OUTSIDE:
        rows = [row for row in found.partitions if row.topic in topics and row.judgement.verdict is verdict]
        if rows:
            shown = [f"{row.topic}/{row.partition} at {row.judgement.offset} ({row.judgement.reason})" for row in rows]
            yield Finding(
                severity,
                code,
                found.group,
                f"group {found.group}: committed offsets are {verdict.value}: {_some(shown)}",
                what,
                _reset(found, rows),
            )


_OUTSIDE = (
    (
        Verdict.BEYOND_LOG,
        "beyond_the_log",
        Severity.ERROR,
        "the topic was made anew, or lost messages; where members go on auto.offset.reset says: better say so yourself",
    ),
    (
        Verdict.BEFORE_LOG,
        "before_the_log",
        Severity.WARNING,
        (
            "the log has lost what is between; members with auto.offset.reset=largest skip all that is there now: "
            "better say yourself where they go on"
        ),
    ),
    (
        Verdict.EARLIER_TOPIC,
        "earlier_topic",
        Severity.WARNING,
        (
            "members of legacy-consumer begin with the first message of the new topic, those of the JVM in the middle "
            "or where auto.offset.reset says: say yourself where they go on"
        ),
    ),
)


def _silent_logs(groups: Sequence[GroupDescription], topics: set[str]) -> Iterator[Finding]:
    """What was not looked at is not sound."""
    silent = sorted(
        {
            f"{row.topic}/{row.partition}"
            for found in groups
            for row in found.partitions
            if row.log_end is None and row.topic in topics
        }
    )
    if silent:
        reason = next((found.no_log_ends for found in groups if found.no_log_ends), None)
        why = "" if reason is None else f" ({reason})"
        yield Finding(
            Severity.WARNING,
            "log_ends_unknown",
            silent[0],
            f"no broker tells where {len(silent)} logs end, so no lag was looked at there: {_some(silent)}{why}",
            "see the findings about brokers and leaders",
        )


def _moved(store: ZkStore, groups: Sequence[str]) -> set[str]:
    """Groups that are on their way out of ZooKeeper, or gone: what stands here says nothing of their use."""
    stats = store.exists_many([f"{GroupPath(group).path}/migration" for group in groups])
    return {group for group, stat in zip(groups, stats, strict=True) if stat is not None}


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


def _unused(unused: Sequence[GroupUse], now_ms: int, stale_after_ms: int) -> Iterator[Finding]:
    if unused:
        oldest = max(now_ms - one.last_seen_ms for one in unused) // DAY_MS
        after = f"{stale_after_ms // DAY_MS}d" if stale_after_ms % DAY_MS == 0 else f"{stale_after_ms // 1000}s"
        yield Finding(
            Severity.NOTE,
            "stale_groups",
            unused[0].group,
            f"{len(unused)} groups have no members and committed nothing for up to {oldest} days: "
            + _some([one.group for one in unused]),
            "if nobody needs them, remove them; a backup of their offsets is written first",
            (("groups", "prune", "--older-than", after),),
        )


def _some(things: Iterable[str], between: str = ", ") -> str:
    names = list(things)
    return between.join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")
