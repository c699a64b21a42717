"""The context of one request or one tick of the coordinator."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

from rebalance.coordination.effects import Answer, Effect, Moved, Reply
from rebalance.coordination.group import Group, Member
from rebalance.coordination.states import GroupEvent
from rebalance.coordination.timers import Timers


class TimerKind(Enum):
    """The kind of a timer. A group has one JOIN and one EMPTY, a member one SESSION, an unused id one PENDING."""

    JOIN = "the delayed join"
    SESSION = "the delayed heartbeat"
    PENDING = "an id that nobody has joined with yet"
    EMPTY = "a group without members and offsets"


class TimerKey(NamedTuple):
    """A timer of one group, or of one member. member: empty for a timer of the group itself."""

    kind: TimerKind
    group: str
    member: str = ""


@dataclass(frozen=True, slots=True)
class Settings:
    """Times are in ms, with Kafka's names and defaults, except the initial delay, which is 3000 in Kafka.

    group_initial_rebalance_delay_ms: how long an empty group waits for more members after each new one.
    group_max_size: the largest number of members; None = no limit. offset_metadata_max_bytes: limits characters, in
    spite of its name. empty_group_ms: how long the coordinator keeps a group without members and offsets.
    """

    group_min_session_timeout_ms: int = 6_000
    group_max_session_timeout_ms: int = 1_800_000
    group_initial_rebalance_delay_ms: int = 0
    group_max_size: int | None = None
    offset_metadata_max_bytes: int = 4096
    empty_group_ms: int = 600_000


@dataclass(slots=True)
class Turn:
    """One call of the coordinator. Effects are collected in the order in which the shell carries them out."""

    now: int
    settings: Settings
    timers: Timers[TimerKey]
    new_suffix: Callable[[], str]
    effects: list[Effect] = field(default_factory=list)

    def reply(self, to: int | None, answer: Answer) -> None:
        """Answer a request; None = no client waits."""
        if to is not None:
            self.effects.append(Reply(to, answer))

    def move(self, group: Group, event: GroupEvent) -> None:
        """Move the group to its next state, and add the effect that reports it."""
        group.move(event)
        self.effects.append(Moved(group.name, group.state, group.generation, event))

    def keep_alive(self, group: Group, member: Member) -> None:
        """Restart the member's session timeout: the coordinator got a request of the member, or has answered one."""
        self.timers.set(TimerKey(TimerKind.SESSION, group.name, member.member_id), self.now, member.session_timeout_ms)

    def forget_session(self, group: Group, member_id: str) -> None:
        """Stop the member's session timeout."""
        self.timers.cancel(TimerKey(TimerKind.SESSION, group.name, member_id))
