"""Examines a group's offsets: whether messages wait, and whether the offsets are right."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from legacy_consumer.errors import KafkaError
from legacy_consumer.offsets.judgement import Verdict
from legacy_consumer.operations.admin.findings import Finding, Severity, about_group, some
from legacy_consumer.operations.admin.groups import GroupDescription, PartitionLag
from legacy_consumer.operations.admin.offset_targets import LogTimes
from zk_layout.model import TopicPartition
from zk_layout.paths import OffsetPath

STALL_MS = 300_000
"""A working member commits more often: every minute, unless auto.commit.interval.ms is set otherwise."""


def offsets_of_group(found: GroupDescription, topics: set[str], *, is_quiet: bool) -> Iterator[Finding]:
    """Report what is wrong with the group's offsets.

    topics: the topics of the cluster. is_quiet: the group is known as unused or migrated; waiting messages are not
    reported.
    """
    used = _used(found, topics)
    yield from _unreadable(found, used)
    if not is_quiet:
        yield from _stopped(found, topics)
    yield from _left_topics(found, topics - {row.topic for row in used})
    yield from _outside(found, used)
    yield from _fragile(found, used)
    yield from _deleted_topics(found, topics)
    yield from _deleted_partitions(found, topics)


def _used(found: GroupDescription, topics: set[str]) -> list[PartitionLag]:
    """Return the existing partitions, without topics that all members have left; a topic with an owner is not left."""
    owned = {row.topic for row in found.partitions if row.owner is not None}
    there = [row for row in found.partitions if row.topic in topics and _tp(row) not in found.gone]
    return [row for row in there if row.topic in owned or _tp(row) not in found.left]


def _tp(row: PartitionLag) -> TopicPartition:
    return TopicPartition(row.topic, row.partition)


def _reset(found: GroupDescription, rows: Iterable[PartitionLag], *target: str) -> tuple[tuple[str, ...], ...]:
    """Return the command that resets just these partitions; none if a shell cannot take the group's name."""
    by_topic: dict[str, list[int]] = {}
    for row in rows:
        by_topic.setdefault(row.topic, []).append(row.partition)
    chosen = [f"--topic={topic}:{','.join(map(str, numbers))}" for topic, numbers in by_topic.items()]
    live = ["--live"] if found.members else []
    return about_group(found.group, "offsets", "reset", *chosen, *target, *live)


def _deletions(found: GroupDescription, topics: Iterable[str]) -> tuple[tuple[str, ...], ...]:
    """Return the commands that delete the group's znodes of these topics, and nothing else."""
    typed = [about_group(found.group, "groups", "delete", f"--topic={topic}") for topic in topics]
    return tuple(command for commands in typed for command in commands)


def _kept(rows: Iterable[PartitionLag]) -> tuple[list[str], str]:
    """Return the topics of these rows that have offsets, and a text about offsets that cannot be read."""
    kept = [row for row in rows if row.committed is not None or row.judgement.verdict is Verdict.UNREADABLE]
    bad = [row.judgement.reason for row in kept if row.judgement.verdict is Verdict.UNREADABLE]
    return sorted({row.topic for row in kept}), f"; these cannot be read: {some(bad, '; ')}" if bad else ""


def _unreadable(found: GroupDescription, used: Sequence[PartitionLag]) -> Iterator[Finding]:
    rows = [row for row in used if row.judgement.verdict is Verdict.UNREADABLE]
    if rows:
        yield Finding(
            Severity.ERROR,
            "unreadable_znode",
            found.group,
            f"group {found.group}: offsets cannot be read: {some([row.judgement.reason for row in rows], '; ')}",
            "JVM members fail over them: overwrite them, with the beginning of the log or another offset",
            _reset(found, rows, "--to-earliest"),
        )


def _deleted_topics(found: GroupDescription, topics: set[str]) -> Iterator[Finding]:
    gone, unreadable = _kept(row for row in found.partitions if row.topic not in topics)
    if gone:
        yield Finding(
            Severity.NOTE,
            "deleted_topic",
            found.group,
            f"group {found.group} keeps offsets of topics that do not exist: {some(gone)}{unreadable}",
            "if a topic of that name is created again, JVM members begin at the old offset: remove the offsets",
            _deletions(found, gone),
        )


def _deleted_partitions(found: GroupDescription, topics: set[str]) -> Iterator[Finding]:
    """Report partitions of topics that were created again with fewer partitions."""
    gone = [str(OffsetPath(found.group, *tp).path) for tp in sorted(found.gone) if tp.topic in topics]
    if gone:
        yield Finding(
            Severity.NOTE,
            "deleted_partition",
            found.group,
            f"group {found.group} keeps offsets or owners of partitions that their topics do not have: {some(gone)}",
            "if such a partition is added, JVM members begin at that offset: delete the znodes with ZooKeeper's own "
            "client, or reset the offsets when the partition exists",
        )


def _left_topics(found: GroupDescription, unused: set[str]) -> Iterator[Finding]:
    left, unreadable = _kept(row for row in found.partitions if row.topic in unused and _tp(row) not in found.gone)
    if left:
        yield Finding(
            Severity.NOTE,
            "left_topic",
            found.group,
            f"group {found.group} keeps offsets of topics that all its members have left: {some(left)}{unreadable}",
            "a member that subscribes again continues from there; otherwise stop the members and remove the offsets",
            _deletions(found, left),
        )


def _stopped(found: GroupDescription, topics: set[str]) -> Iterator[Finding]:
    """Report messages that no member reads. The finding no_owner covers topics that members subscribe to."""
    stopped = [
        row
        for row in found.consumed
        if row.owner is None and row.topic in topics - found.subscribed and _waiting(row) > 0
    ]
    if stopped:
        many = sum(map(_waiting, stopped))
        yield Finding(
            Severity.ERROR,
            "stopped",
            found.group,
            f"group {found.group}: {many} messages wait, and no member reads "
            + some([f"{row.topic}/{row.partition}" for row in stopped]),
            "start its members, or delete the group if it is not needed any more",
        )


def _waiting(row: PartitionLag) -> int:
    """Return how many messages of the log the group has not read: all of them if it never committed."""
    behind = (row.in_log if row.judgement.verdict is Verdict.NONE else row.lag) or 0
    return behind if row.in_log is None else min(behind, row.in_log)


def stalled(found: GroupDescription, times: LogTimes, now_ms: int) -> Iterator[Finding]:
    """Report owned partitions with old messages and old commits. One look is enough: newer messages do not count.

    now_ms: by this machine's clock; ZooKeeper's clock cannot be read without a write.
    """
    since_ms = now_ms - STALL_MS
    by_topic: dict[str, dict[TopicPartition, int]] = {}
    for row in found.partitions:
        old = row.committed_at_ms is not None and row.committed_at_ms < since_ms
        if row.owner_is_member and old and row.committed is not None and row.lag is not None and row.lag > 0:
            by_topic.setdefault(row.topic, {})[TopicPartition(row.topic, row.partition)] = row.committed
    old_ones: list[str] = []
    for rows in by_topic.values():
        try:
            reached = times.at_times(dict.fromkeys(rows, since_ms))
        except KafkaError:
            continue  # messages without timestamps, or no broker answers, which another finding reports
        old_ones += [f"{tp} at {offset}" for tp, offset in rows.items() if offset < reached.get(tp, 0)]
    if old_ones:
        yield Finding(
            Severity.ERROR,
            "stalled",
            found.group,
            f"group {found.group}: members own partitions and have committed nothing for {STALL_MS // 60_000} minutes, "
            f"while older messages wait: {some(old_ones)}",
            "see what the handlers do, and restart members that hang; members that keep their offsets elsewhere "
            "(auto.commit.enable=false) look the same",
        )


def _outside(found: GroupDescription, used: Sequence[PartitionLag]) -> Iterator[Finding]:
    """Report offsets that do not lie in the present log."""
    for verdict, code, severity, what in _OUTSIDE:
        rows = [row for row in used if row.judgement.verdict is verdict]
        if rows:
            shown = [f"{row.topic}/{row.partition} at {row.judgement.offset} ({row.judgement.reason})" for row in rows]
            yield Finding(
                severity,
                code,
                found.group,
                f"group {found.group}: committed offsets are {verdict.value}: {some(shown)}",
                what,
                _reset(found, rows, "--to-earliest"),
            )


def _fragile(found: GroupDescription, used: Sequence[PartitionLag]) -> Iterator[Finding]:
    inside = {Verdict.VALID, Verdict.UNKNOWN}
    rows = [row for row in used if row.judgement.is_fragile and row.judgement.verdict in inside]
    if rows:
        shown = [f"{row.topic}/{row.partition} at {row.judgement.offset}" for row in rows]
        yield Finding(
            Severity.WARNING,
            "older_than_its_topic",
            found.group,
            f"group {found.group}: committed offsets are older than their topics, as after a copy of ZooKeeper; as "
            f"soon as any topic is deleted, they count as offsets of earlier topics: {some(shown)}",
            "write them once more, as they are; running members of legacy-consumer do so with their next commit",
            _reset(found, rows, "--shift-by=0"),
        )


_OUTSIDE = (
    (
        Verdict.BEYOND_LOG,
        "beyond_the_log",
        Severity.ERROR,
        "the topic was created again or lost messages; members continue where auto.offset.reset points: set the offset",
    ),
    (
        Verdict.BEFORE_LOG,
        "before_the_log",
        Severity.WARNING,
        (
            "the messages in between are deleted; members with auto.offset.reset=largest skip the whole log: set the "
            "offset"
        ),
    ),
    (
        Verdict.EARLIER_TOPIC,
        "earlier_topic",
        Severity.WARNING,
        (
            "members of legacy-consumer begin with the first message of the new topic, JVM members in the middle or "
            "where auto.offset.reset points: set the offset"
        ),
    ),
)


def silent_logs(groups: Sequence[GroupDescription], topics: set[str]) -> Iterator[Finding]:
    """Report partitions whose log end is unknown: their lag was not examined."""
    silent = sorted(
        {
            f"{row.topic}/{row.partition}"
            for found in groups
            for row in found.partitions
            if row.log_end is None
            and row.topic in topics
            and TopicPartition(row.topic, row.partition) not in found.gone
        }
    )
    if silent:
        reason = next((found.no_log_ends for found in groups if found.no_log_ends), None)
        why = "" if reason is None else f" ({reason})"
        yield Finding(
            Severity.WARNING,
            "log_ends_unknown",
            silent[0],
            f"no broker reports the end of {'1 log' if len(silent) == 1 else f'{len(silent)} logs'}, "
            f"so their lag was not examined: {some(silent)}{why}",
            "see the findings about brokers and leaders",
        )
