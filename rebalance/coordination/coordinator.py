"""The coordinator of many groups: it takes requests and the time, and returns answers and writes as effects.

It has no socket, thread, clock or store. A shell passes every request with the time, calls tick() at next_deadline(),
and carries out the effects in their order. Times are milliseconds of any clock that does not go back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from rebalance.coordination.codes import Code
from rebalance.coordination.effects import (
    Effect,
    FoundCoordinator,
    HeartbeatAnswer,
    JoinAnswer,
    LeaveAnswer,
    OffsetsAnswer,
    Reply,
    StoredGroup,
    SyncAnswer,
    refused,
)
from rebalance.coordination.group import Group
from rebalance.coordination.joining import join, refusal_of
from rebalance.coordination.membership import heartbeat, leave, sync
from rebalance.coordination.offsets import commit, creates_group, fetch, refuse_commit
from rebalance.coordination.rebalancing import (
    begin_rebalance,
    drop_group,
    drop_pending,
    forget_if_unused,
    join_timer_expired,
    session_expired,
)
from rebalance.coordination.requests import (
    CommitOffsets,
    CommittedOffset,
    FetchOffsets,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Request,
    SyncGroup,
)
from rebalance.coordination.states import COORDINATOR_TRANSITIONS, CoordinatorEvent, CoordinatorState, GroupState
from rebalance.coordination.timers import Timers
from rebalance.coordination.turn import Settings, TimerKey, TimerKind, Turn
from zk_layout.model import TopicPartition

_NOT_READY: Mapping[CoordinatorState, Code] = {
    CoordinatorState.DOWN: Code.NOT_COORDINATOR,
    CoordinatorState.CATCHING_UP: Code.COORDINATOR_LOAD_IN_PROGRESS,
}


class Coordinator:
    """It begins in state Down; the shell reports its election and the stored groups.

    new_suffix: returns the end of a new member id, which no member of any coordinator has had.
    """

    def __init__(self, new_suffix: Callable[[], str], settings: Settings | None = None) -> None:
        self.state = CoordinatorState.DOWN
        self._groups: dict[str, Group] = {}
        self._timers: Timers[TimerKey] = Timers()
        self._new_suffix = new_suffix
        self._settings = settings or Settings()

    @property
    def groups(self) -> Mapping[str, Group]:
        """The state of each group, read-only."""
        return self._groups

    @property
    def timer_operations(self) -> int:
        """The cost of the timers so far."""
        return self._timers.operations

    def elect(self) -> None:
        """Note that this coordinator is elected. Until load() it answers that it is loading."""
        self._move(CoordinatorEvent.ELECTED)

    def load(
        self,
        stored: Iterable[StoredGroup],
        offsets: Mapping[str, Mapping[TopicPartition, CommittedOffset]],
        now: int,
    ) -> None:
        """Continue from the groups and offsets that the last coordinator wrote.

        The groups are taken as stored: members that connect stay in their generation, and only a missing, new or
        changed member causes a rebalance. Each member has its session timeout to send a request.
        """
        self._move(CoordinatorEvent.CAUGHT_UP)
        turn = self._turn(now)
        for one in stored:
            group = self._groups[one.group] = Group.load(one)
            for member in group.members.values():
                turn.keep_alive(group, member)
        for name, committed in offsets.items():
            self._groups.setdefault(name, Group(name)).offsets.update(committed)
        for group in self._groups.values():
            if group.state is GroupState.EMPTY:
                self._remember(turn, group)

    def resign(self, now: int, undone: Iterable[Effect] = ()) -> tuple[Effect, ...]:
        """Refuse all waiting requests, so that clients look for the new coordinator. Called too if a write was refused.

        undone: the effects after the refused write. Clients still wait for their answers, which are not true any more.
        """
        if self.state is CoordinatorState.DOWN:
            return ()
        self._move(CoordinatorEvent.DEPOSED)
        turn = self._turn(now)
        for effect in undone:
            if isinstance(effect, Reply):
                turn.reply(effect.to, refused(effect.answer, Code.NOT_COORDINATOR))
        for group in self._groups.values():
            drop_group(turn, group, Code.NOT_COORDINATOR)
        self._groups = {}
        self._timers = Timers()
        return tuple(turn.effects)

    def next_deadline(self) -> int | None:
        """Return when tick() is due next; None = not before the next request."""
        return self._timers.next_deadline()

    def tick(self, now: int) -> tuple[Effect, ...]:
        """Run the timers that are due."""
        turn = self._turn(now)
        while (key := self._timers.take_due(now)) is not None:
            self._expire(turn, key, self._groups[key.group])
        return tuple(turn.effects)

    def handle(self, request: Request, now: int) -> tuple[Effect, ...]:
        """Answer a request, now or later. Timers that are due are left to tick()."""
        turn = self._turn(now)
        if isinstance(request, FindCoordinator):
            is_down = self.state is CoordinatorState.DOWN
            code = Code.COORDINATOR_NOT_AVAILABLE if is_down else Code.NONE
            turn.reply(request.reply_to, FoundCoordinator(code))
        elif self.state in _NOT_READY:
            _refuse(turn, request, _NOT_READY[self.state])
        elif not request.group and not isinstance(request, (CommitOffsets, FetchOffsets)):
            _refuse(turn, request, Code.INVALID_GROUP_ID)
        else:
            self._answer(turn, request)
        return tuple(turn.effects)

    def rebalance(self, name: str, now: int) -> tuple[Effect, ...]:
        """Let all members of a group join again without a change of a member. Brokers have no such request."""
        turn = self._turn(now)
        begin_rebalance(turn, self._groups[name])
        return tuple(turn.effects)

    def _answer(self, turn: Turn, request: Request) -> None:
        group = self._groups.get(request.group)
        match request:
            case JoinGroup():
                code = refusal_of(turn, group, request)
                if code is Code.NONE:
                    join(turn, group or self._create(turn, request.group), request)
                else:
                    _refuse(turn, request, code)
            case FetchOffsets():
                fetch(turn, group, request)
            case CommitOffsets() if group is not None or creates_group(request):
                commit(turn, group or self._create(turn, request.group), request)
            case CommitOffsets():
                _refuse(turn, request, Code.ILLEGAL_GENERATION)
            case LeaveGroup():
                leave(turn, group or Group(request.group), request)
            case SyncGroup() if group is not None:
                sync(turn, group, request)
            case Heartbeat() if group is not None:
                heartbeat(turn, group, request)
            case _:
                _refuse(turn, request, Code.UNKNOWN_MEMBER_ID)

    def _create(self, turn: Turn, name: str) -> Group:
        group = self._groups[name] = Group(name)
        self._remember(turn, group)
        return group

    def _remember(self, turn: Turn, group: Group) -> None:
        self._timers.set(TimerKey(TimerKind.EMPTY, group.name), turn.now, self._settings.empty_group_ms)

    def _expire(self, turn: Turn, key: TimerKey, group: Group) -> None:
        match key.kind:
            case TimerKind.JOIN:
                join_timer_expired(turn, group)
            case TimerKind.PENDING:
                drop_pending(turn, group, key.member)
            case TimerKind.SESSION:
                session_expired(turn, group, group.members[key.member])
            case TimerKind.EMPTY:
                if forget_if_unused(turn, group):
                    del self._groups[group.name]
                elif group.state is GroupState.EMPTY:
                    self._remember(turn, group)

    def _turn(self, now: int) -> Turn:
        return Turn(now, self._settings, self._timers, self._new_suffix)

    def _move(self, event: CoordinatorEvent) -> None:
        self.state = COORDINATOR_TRANSITIONS[self.state, event]


def _refuse(turn: Turn, request: Request, code: Code) -> None:
    match request:
        case JoinGroup():
            turn.reply(request.reply_to, JoinAnswer(code, request.member_id))
        case SyncGroup():
            turn.reply(request.reply_to, SyncAnswer(code))
        case Heartbeat():
            turn.reply(request.reply_to, HeartbeatAnswer(code))
        case LeaveGroup():
            turn.reply(request.reply_to, LeaveAnswer(code))
        case CommitOffsets():
            refuse_commit(turn, request, code)
        case FetchOffsets():
            turn.reply(request.reply_to, OffsetsAnswer(code, {}))
        case FindCoordinator():
            turn.reply(request.reply_to, FoundCoordinator(code))
