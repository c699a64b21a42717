"""The requests of members to a group coordinator. Times are milliseconds.

reply_to: the shell's handle for the answer; the coordinator only returns it in a Reply.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from zk_layout.model import TopicPartition

NO_MEMBER = ""
"""The member id of a member that has none yet."""
NO_GENERATION = -1
"""The generation of a commit by a tool that is no member."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One assignment protocol that a member offers, with the member's subscription in that protocol's encoding."""

    name: str
    metadata: bytes


@dataclass(frozen=True, slots=True)
class Leaving:
    """One member that leaves. member_id may be NO_MEMBER if instance_id names a static member."""

    member_id: str
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class CommittedOffset:
    """The next offset to read, and the member's metadata for it."""

    offset: int
    metadata: str = ""
    leader_epoch: int = -1


@dataclass(frozen=True, slots=True)
class FindCoordinator:
    """A client asks for the coordinator of this group."""

    reply_to: int
    group: str


@dataclass(frozen=True, slots=True)
class JoinGroup:
    """A member wants to be in the next generation.

    protocols: in the order of the member's preference. rebalance_timeout_ms: how long the others wait for this member
    to join again. id_first: a member without an id gets only an id and joins again with it (JoinGroup 4 and newer).
    """

    reply_to: int
    group: str
    member_id: str
    protocol_type: str
    protocols: tuple[Protocol, ...]
    session_timeout_ms: int
    rebalance_timeout_ms: int
    instance_id: str | None = None
    client_id: str = ""
    id_first: bool = False


@dataclass(frozen=True, slots=True)
class SyncGroup:
    """A member asks for its assignment. Only the leader sends assignments, for all members."""

    reply_to: int
    group: str
    member_id: str
    generation: int
    assignments: Mapping[str, bytes] = field(default_factory=dict)
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class Heartbeat:
    """A member reports that it lives, in this generation."""

    reply_to: int
    group: str
    member_id: str
    generation: int
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class LeaveGroup:
    """Members leave the group."""

    reply_to: int
    group: str
    leaving: tuple[Leaving, ...]


@dataclass(frozen=True, slots=True)
class CommitOffsets:
    """A member has consumed up to these offsets. With NO_GENERATION: a tool sets the offsets of an empty group."""

    reply_to: int
    group: str
    member_id: str
    generation: int
    offsets: Mapping[TopicPartition, CommittedOffset]
    instance_id: str | None = None


@dataclass(frozen=True, slots=True)
class FetchOffsets:
    """A client asks for committed offsets. partitions: None = all of the group's."""

    reply_to: int
    group: str
    partitions: tuple[TopicPartition, ...] | None


Request: TypeAlias = FindCoordinator | JoinGroup | SyncGroup | Heartbeat | LeaveGroup | CommitOffsets | FetchOffsets
