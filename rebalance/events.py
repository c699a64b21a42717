"""The events of a member of a group; rebalance.machine decides what follows from them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from rebalance.absence import GroupMemory
from zk_layout.errors import LegacyConsumerError


@dataclass(frozen=True, slots=True)
class Started:
    """The connector wants to join."""


@dataclass(frozen=True, slots=True)
class Registered:
    """My id znode exists under my session."""


@dataclass(frozen=True, slots=True)
class RegistrationBlocked:
    """My id znode exists under another session."""


@dataclass(frozen=True, slots=True)
class IdTaken:
    """My id znode exists under another session, and I own partitions still."""


@dataclass(frozen=True, slots=True)
class Triggered:
    """Something that an assignment depends on may have changed."""

    reason: str


@dataclass(frozen=True, slots=True)
class Settled:
    """The member owns exactly its share, and all of it flows; when leaving: it owns nothing any more.

    kept, released, claimed: numbers of partitions since it was last settled.
    """

    kept: int = 0
    released: int = 0
    claimed: int = 0


@dataclass(frozen=True, slots=True)
class GroupNoted:
    """A reading of the group changed the member's memory of it: members came or left, or one does not wait."""

    memory: GroupMemory


@dataclass(frozen=True, slots=True)
class Draining:
    """Partitions to release are stopped, but the user's code still has messages of them in hand."""


@dataclass(frozen=True, slots=True)
class Unanswered:
    """The user's listener, or a broker, has not answered yet. Answered follows, or the member waits wait_ms at most."""

    wait_ms: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The user's listener, or a broker, has answered."""


@dataclass(frozen=True, slots=True)
class Blocked:
    """Another client owns a partition of this member's share. Unblocked follows once its owner znode may be gone."""

    error: LegacyConsumerError


@dataclass(frozen=True, slots=True)
class Overtaken:
    """The group changed while the member read it. The watch events wait in the mailbox, and become Triggered."""


@dataclass(frozen=True, slots=True)
class Deregistered:
    """My id znode was deleted: the list of members does not contain it, or another session has taken the id."""


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt, or the registration, ended in an error."""

    error: LegacyConsumerError


@dataclass(frozen=True, slots=True)
class Left:
    """The member has deleted its owner znodes and its id znode, unless an ACL forbids that."""


@dataclass(frozen=True, slots=True)
class Drained:
    """The user's code has finished the messages that a stream had in hand."""


@dataclass(frozen=True, slots=True)
class Unblocked:
    """A watched znode that was in this member's way may be gone."""


@dataclass(frozen=True, slots=True)
class Doubted:
    """An owner znode of mine may be gone, though I did not delete it."""


@dataclass(frozen=True, slots=True)
class Suspended:
    """The connection is lost, the session may live. since_s: the time of the loss, on the coordinator's clock."""

    since_s: float


@dataclass(frozen=True, slots=True)
class Connected:
    """The store is connected, in this session. step() turns a change into Reconnected or SessionStarted."""

    session_id: int


@dataclass(frozen=True, slots=True)
class Reconnected:
    """The connection is back, with the same session."""


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """There is a new session; the old one has expired, with or without an Expired event."""

    session_id: int


@dataclass(frozen=True, slots=True)
class Expired:
    """The session is gone, and with it my id and my owner znodes."""


@dataclass(frozen=True, slots=True)
class Refused:
    """ZooKeeper refuses the credentials: the session is gone, and there will be no other."""

    error: LegacyConsumerError


@dataclass(frozen=True, slots=True)
class CloseRequested:
    """The connector shuts down, in order if that takes no longer than timeout_ms."""

    timeout_ms: int


class Timer(Enum):
    """A timer of the machine. At most one of each kind runs; a second start replaces the first. Its end is an event."""

    GATHER = "gather"
    """The first claim has waited long enough for others to join."""
    BACKOFF = "back-off"
    """rebalance.backoff.ms ran out."""
    DRAIN = "drain"
    """drain.timeout.ms ran out."""
    ANSWER = "answer"
    """The user's listener, or a broker, is waited for no longer."""
    ABSENCE = "absence"
    """Members that left are waited for no longer."""
    QUIET = "quiet"
    """Nothing has moved for a while."""
    SUSPICION = "suspicion"
    """The connection has been away long enough for ZooKeeper to have expired the session."""
    CLOSE = "close"
    """The time for leaving in order ran out."""


Event: TypeAlias = (
    Started
    | Registered
    | RegistrationBlocked
    | IdTaken
    | Triggered
    | Settled
    | GroupNoted
    | Draining
    | Unanswered
    | Answered
    | Blocked
    | Overtaken
    | Deregistered
    | Failed
    | Left
    | Drained
    | Unblocked
    | Doubted
    | Suspended
    | Connected
    | Reconnected
    | SessionStarted
    | Expired
    | Refused
    | CloseRequested
    | Timer
)
SESSION_EVENTS = (Suspended, Connected, Expired, Refused)
"""The mailbox keeps each of these, in order; of equal other events it keeps one."""
