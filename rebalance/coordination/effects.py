"""The effects of a request or of the time: answers and writes, in the order in which the shell carries them out.

A write stands before the answers that depend on it. If a write is refused, because another coordinator has written
meanwhile, the shell carries nothing out of what is behind it and gives that to Coordinator.resign().
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rebalance.coordination.codes import Code
from rebalance.coordination.requests import CommittedOffset, Leaving, Protocol
from rebalance.coordination.states import GroupEvent, GroupState
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class FoundCoordinator:
    """COORDINATOR_NOT_AVAILABLE, or NONE: this coordinator is the one."""

    code: Code


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """One member as the leader sees it."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The member is in this generation, or the code says why not. Only the leader gets the list of members."""

    code: Code
    member_id: str
    generation: int = -1
    protocol_type: str | None = None
    protocol: str = ""
    leader: str = ""
    members: tuple[JoinedMember, ...] = ()


@dataclass(frozen=True, slots=True)
class SyncAnswer:
    """The member's assignment."""

    code: Code
    assignment: bytes = b""


@dataclass(frozen=True, slots=True)
class HeartbeatAnswer:
    """REBALANCE_IN_PROGRESS tells the member to join again."""

    code: Code


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """code concerns the whole request; left holds each member of the request with its own code."""

    code: Code
    left: tuple[tuple[Leaving, Code], ...] = ()


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """A code for each partition of the request."""

    codes: Mapping[TopicPartition, Code]


@dataclass(frozen=True, slots=True)
class OffsetsAnswer:
    """The committed offsets; None where none is committed."""

    code: Code
    offsets: Mapping[TopicPartition, CommittedOffset | None]


Answer: TypeAlias = (
    FoundCoordinator | JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer | CommitAnswer | OffsetsAnswer
)


def refused(answer: Answer, code: Code) -> Answer:
    """The code instead of this answer."""
    match answer:
        case FoundCoordinator():
            return FoundCoordinator(code)
        case JoinAnswer():
            return JoinAnswer(code, answer.member_id)
        case SyncAnswer():
            return SyncAnswer(code)
        case HeartbeatAnswer():
            return HeartbeatAnswer(code)
        case LeaveAnswer():
            return LeaveAnswer(code, tuple((leaving, code) for leaving, _ in answer.left))
        case CommitAnswer():
            return CommitAnswer(dict.fromkeys(answer.codes, code))
        case OffsetsAnswer():
            return OffsetsAnswer(code, {})


@dataclass(frozen=True, slots=True)
class Reply:
    """Answer the request with this handle."""

    to: int
    answer: Answer


@dataclass(frozen=True, slots=True)
class StoredMember:
    """All that a successor has to know of a member."""

    member_id: str
    instance_id: str | None
    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A generation with its assignment; without members it is an empty group."""

    group: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: tuple[StoredMember, ...]


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Write the generation and its assignment in one piece, over the former one."""

    stored: StoredGroup


@dataclass(frozen=True, slots=True)
class StoreOffsets:
    """Write these committed offsets in one piece."""

    group: str
    offsets: Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """Remove what is stored of the group: it is empty and has no offsets."""

    group: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The group is in another state, for logs, metrics and people. The generation is that of the new state."""

    group: str
    state: GroupState
    generation: int
    why: GroupEvent


Effect: TypeAlias = StoreGroup | StoreOffsets | ForgetGroup | Moved | Reply
