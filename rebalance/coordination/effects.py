"""The effects of a request or a timer: answers and writes, in the order in which the shell carries them out.

A write comes before the answers that depend on it. If the store refuses a write, because another coordinator has
written meanwhile, the shell carries out no later effect, and passes them to Coordinator.resign().
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
    """NONE if this coordinator serves the group, otherwise COORDINATOR_NOT_AVAILABLE."""

    code: Code


@dataclass(frozen=True, slots=True)
class JoinedMember:
    """One member, in the list that the leader gets."""

    member_id: str
    instance_id: str | None
    metadata: bytes


@dataclass(frozen=True, slots=True)
class JoinAnswer:
    """The member is in this generation, or the code is the reason why not. Only the leader gets the list of members."""

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
    """With REBALANCE_IN_PROGRESS the member has to join again."""

    code: Code


@dataclass(frozen=True, slots=True)
class LeaveAnswer:
    """code: of the whole request. left: each member of the request with its own code."""

    code: Code
    left: tuple[tuple[Leaving, Code], ...] = ()


@dataclass(frozen=True, slots=True)
class CommitAnswer:
    """A code for each partition of the request."""

    codes: Mapping[TopicPartition, Code]


@dataclass(frozen=True, slots=True)
class OffsetsAnswer:
    """{partition: its committed offset}; None if there is none."""

    code: Code
    offsets: Mapping[TopicPartition, CommittedOffset | None]


Answer: TypeAlias = (
    FoundCoordinator | JoinAnswer | SyncAnswer | HeartbeatAnswer | LeaveAnswer | CommitAnswer | OffsetsAnswer
)


def refused(answer: Answer, code: Code) -> Answer:
    """Return the same kind of answer, with this code."""
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
    """The data of a member that the next coordinator needs."""

    member_id: str
    instance_id: str | None
    client_id: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    assignment: bytes


@dataclass(frozen=True, slots=True)
class StoredGroup:
    """A generation with its assignment. Without members the group is empty."""

    group: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    members: tuple[StoredMember, ...]


@dataclass(frozen=True, slots=True)
class StoreGroup:
    """Write the generation and its assignment in one piece, over the last one."""

    stored: StoredGroup


@dataclass(frozen=True, slots=True)
class StoreOffsets:
    """Write these committed offsets in one piece."""

    group: str
    offsets: Mapping[TopicPartition, CommittedOffset]


@dataclass(frozen=True, slots=True)
class ForgetGroup:
    """Delete the stored data of the group: it is empty and has no offsets."""

    group: str


@dataclass(frozen=True, slots=True)
class Moved:
    """The group has changed its state; for logs, metrics and people. generation: that of the new state."""

    group: str
    state: GroupState
    generation: int
    why: GroupEvent


Effect: TypeAlias = StoreGroup | StoreOffsets | ForgetGroup | Moved | Reply
