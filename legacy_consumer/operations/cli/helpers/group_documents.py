"""Groups as JSON and CSV. Programs rely on the names of the fields. No I/O."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict

from legacy_consumer.member.resets import StandingReset
from legacy_consumer.operations.admin.groups import GroupDescription, PartitionLag
from legacy_consumer.operations.admin.lag_verdict import Verdict
from legacy_consumer.operations.admin.lag_watch import judge_whole
from legacy_consumer.operations.admin.led_groups import CLASSIC, LedGroup
from zk_layout.model import TopicPartition

PARTITION_FIELDS = (
    "group",
    "topic",
    "partition",
    "committed",
    "committed_at_ms",
    "committed_age_ms",
    "log_begin",
    "log_end",
    "lag",
    "owner",
    "owner_is_member",
    "owned_since_ms",
    "owner_session",
    "hold",
    "verdict",
    "reason",
    "offset_is",
    "error",
)


def group_document(found: GroupDescription, verdicts: Mapping[TopicPartition, Verdict]) -> dict[str, object]:
    """Return all that is known of a group; unknown values of an unreadable group are null."""
    whole = judge_whole(found, verdicts)
    return {
        "group": found.group,
        "members": [{**asdict(member), "session_id": session(member.session_id)} for member in found.members],
        "unreadable": [{**asdict(member), "session_id": session(member.session_id)} for member in found.unreadable],
        "partitions": [_partition(row, verdicts) for row in found.partitions],
        "left": found.left_names,
        "no_log_ends": found.no_log_ends,
        "divides_by": list(found.divides_by),
        "warnings": [asdict(warning) for warning in found.warnings],
        "total_lag": found.total_lag,
        "unknown_lags": found.unknown_lags,
        "unowned": None if found.problem is not None else found.unowned,
        "verdict": whole.kind.value,
        "reason": found.problem or whole.reason,
        "problem": found.problem,
        "topic_problems": list(found.topic_problems),
        "reset": None if found.reset is None else _reset(found.reset),
        "coordination": None if found.problem is not None else coordination(found),
        "led": None if found.led is None else _led(found.led),
    }


def coordination(found: GroupDescription) -> str:
    """Return the rule by which the group's members take their shares now: leader or classic."""
    return CLASSIC if found.led is None else found.led.coordination


def _led(led: LedGroup) -> dict[str, object]:
    return {
        "leader": led.leader,
        "generation": led.generation,
        "strategy": led.strategy,
        "state": led.state,
        "members": led.members,
        "refused": dict(led.refused),
        "follow_no_leader": list(led.followers_of_none),
        "problem": led.problem,
    }


def partition_records(found: GroupDescription, verdicts: Mapping[TopicPartition, Verdict]) -> list[dict[str, object]]:
    """Return one flat record for each partition, with PARTITION_FIELDS."""
    return [{"group": found.group, **_partition(row, verdicts)} for row in found.partitions]


def _reset(reset: StandingReset) -> dict[str, object]:
    request = reset.request
    return {
        "path": reset.path,
        "session_id": session(reset.session_id),
        "since_ms": reset.since_ms,
        "state": None if request is None else request.state.value,
        "partitions": [] if request is None else [str(tp) for tp in sorted(request.partitions)],
        "holds": bool(reset.holds),
        "running": reset.is_running,
        "text": reset.text,
        "advice": reset.advice,
    }


def session(session_id: int | None) -> str | None:
    """Return a session id as ZooKeeper's own tools write it."""
    return None if session_id is None else f"0x{session_id & 0xFFFFFFFFFFFFFFFF:x}"


def _partition(row: PartitionLag, verdicts: Mapping[TopicPartition, Verdict]) -> dict[str, object]:
    # written out: dataclasses.asdict takes ten times as long, and a group may have a hundred thousand partitions
    verdict = verdicts.get(TopicPartition(row.topic, row.partition))
    return {
        "topic": row.topic,
        "partition": row.partition,
        "owner": row.owner,
        "owner_is_member": row.owner_is_member,
        "owned_since_ms": row.owned_since_ms,
        "owner_session": session(row.owner_session),
        "hold": None if row.hold is None else row.hold.value,
        "committed": row.committed,
        "committed_at_ms": row.committed_at_ms,
        "committed_age_ms": row.committed_age_ms,
        "log_begin": row.log_begin,
        "log_end": row.log_end,
        "lag": row.lag,
        "offset_is": row.judgement.verdict.value,
        "error": row.error,
        "verdict": None if verdict is None else verdict.kind.value,
        "reason": None if verdict is None else verdict.reason,
    }
