"""The start, the wait and the end of a rebalance of one group, and the loss of members."""

from __future__ import annotations

from rebalance.coordination.codes import Code
from rebalance.coordination.effects import ForgetGroup, JoinAnswer, StoreGroup, SyncAnswer
from rebalance.coordination.group import Group, Member
from rebalance.coordination.states import GroupEvent, GroupState
from rebalance.coordination.turn import TimerKey, TimerKind, Turn


def begin_rebalance(turn: Turn, group: Group) -> None:
    """Begin a rebalance, because members changed; one that is being prepared includes the change."""
    if group.state is not GroupState.PREPARING_REBALANCE:
        was_empty = group.state is GroupState.EMPTY
        if group.state is GroupState.COMPLETING_REBALANCE:
            for member in group.members.values():
                _end_sync(turn, group, member, SyncAnswer(Code.REBALANCE_IN_PROGRESS))
        turn.timers.cancel(TimerKey(TimerKind.EMPTY, group.name))
        turn.move(group, GroupEvent.MEMBERS_CHANGED)
        delay_ms = turn.settings.group_initial_rebalance_delay_ms
        if was_empty and delay_ms > 0:
            _wait_for_more(turn, group, min(delay_ms, group.rebalance_timeout_ms))
            return
        turn.timers.set(TimerKey(TimerKind.JOIN, group.name), turn.now, group.rebalance_timeout_ms)
    complete_if_joined(turn, group)


def _wait_for_more(turn: Turn, group: Group, delay_ms: int) -> None:
    group.initial_delay_ends = turn.now + group.rebalance_timeout_ms
    group.grew = False
    turn.timers.set(TimerKey(TimerKind.JOIN, group.name), turn.now, delay_ms)


def complete_if_joined(turn: Turn, group: Group) -> None:
    """Begin the generation as soon as every known member has joined; an initial delay runs to its end."""
    if group.initial_delay_ends is None and group.everybody_joined:
        _complete_join(turn, group)


def join_timer_expired(turn: Turn, group: Group) -> None:
    """Handle the end of the rebalance timeout, or of an initial delay."""
    ends = group.initial_delay_ends
    if ends is not None:
        left_ms = ends - turn.now
        if group.grew and left_ms > 0:
            group.grew = False
            delay_ms = min(turn.settings.group_initial_rebalance_delay_ms, left_ms)
            turn.timers.set(TimerKey(TimerKind.JOIN, group.name), turn.now, delay_ms)
            return
    for member in [member for member in group.members.values() if member.join_reply is None]:
        if member.instance_id is None:
            turn.forget_session(group, member.member_id)
            group.remove(member)
    _complete_join(turn, group)


def _complete_join(turn: Turn, group: Group) -> None:
    """Begin the next generation with the members that have joined. An absent static member keeps its place."""
    group.initial_delay_ends = None
    if group.members and not _elect_leader(group):
        turn.timers.set(TimerKey(TimerKind.JOIN, group.name), turn.now, group.rebalance_timeout_ms)
        return
    turn.timers.cancel(TimerKey(TimerKind.JOIN, group.name))
    group.generation += 1
    if not group.members:
        group.protocol = group.leader = None
        turn.move(group, GroupEvent.NOBODY_JOINED)
        turn.effects.append(StoreGroup(group.stored()))
        turn.timers.set(TimerKey(TimerKind.EMPTY, group.name), turn.now, turn.settings.empty_group_ms)
        return
    group.protocol = group.choose_protocol()
    turn.move(group, GroupEvent.ALL_JOINED)
    for member in group.members.values():
        turn.reply(group.take_join(member), generation_answer(group, member))
        turn.keep_alive(group, member)


def _elect_leader(group: Group) -> bool:
    """Elect a leader among the joined members: the present leader if it has joined. Return False if none has joined."""
    leader = group.members.get(group.leader or "")
    if leader is None or leader.join_reply is None:
        joined = next((member for member in group.members.values() if member.join_reply is not None), None)
        if joined is None:
            return False
        group.leader = joined.member_id
    return True


def generation_answer(group: Group, member: Member) -> JoinAnswer:
    """Return the current generation for one member."""
    return JoinAnswer(
        Code.NONE,
        member.member_id,
        group.generation,
        group.protocol_type,
        group.protocol or "",
        group.leader or "",
        group.member_list() if group.leader == member.member_id else (),
    )


def take_assignment(turn: Turn, group: Group) -> None:
    """Take the leader's assignment: write it with its generation, then answer the waiting requests."""
    turn.move(group, GroupEvent.LEADER_SYNCED)
    turn.effects.append(StoreGroup(group.stored()))
    for member in group.members.values():
        _end_sync(turn, group, member, SyncAnswer(Code.NONE, member.assignment))


def _end_sync(turn: Turn, group: Group, member: Member, answer: SyncAnswer) -> None:
    if member.sync_reply is not None:
        turn.reply(member.sync_reply, answer)
        member.sync_reply = None
        turn.keep_alive(group, member)


def remove_member(turn: Turn, group: Group, member: Member, code: Code = Code.UNKNOWN_MEMBER_ID) -> None:
    """Remove a member that has left or is lost, and rebalance. Its waiting request is answered with the code."""
    dismiss(turn, group, member, code)
    turn.forget_session(group, member.member_id)
    group.remove(member)
    if group.state in (GroupState.STABLE, GroupState.COMPLETING_REBALANCE):
        begin_rebalance(turn, group)
    elif group.state is GroupState.PREPARING_REBALANCE:
        complete_if_joined(turn, group)


def dismiss(turn: Turn, group: Group, member: Member, code: Code) -> None:
    """Answer the member's waiting requests with the code; the member stays in the group."""
    turn.reply(group.take_join(member), JoinAnswer(code, member.member_id))
    turn.reply(member.sync_reply, SyncAnswer(code))
    member.sync_reply = None


def session_expired(turn: Turn, group: Group, member: Member) -> None:
    """Remove a member that sent nothing for its session timeout; not one that waits for an answer and cannot send."""
    if member.is_waiting:
        turn.keep_alive(group, member)
    else:
        remove_member(turn, group, member)


def drop_pending(turn: Turn, group: Group, member_id: str) -> None:
    """Drop a member id with which no member has joined."""
    group.pending.discard(member_id)
    turn.timers.cancel(TimerKey(TimerKind.PENDING, group.name, member_id))
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_if_joined(turn, group)


def drop_group(turn: Turn, group: Group, code: Code) -> None:
    """Answer all waiting requests with the code, and move the group to Dead: the coordinator no longer serves it."""
    for member in group.members.values():
        dismiss(turn, group, member, code)
    turn.move(group, GroupEvent.DROPPED)


def forget_if_unused(turn: Turn, group: Group) -> bool:
    """Mark an unused group as Dead and delete its stored data. Returns whether it is unused."""
    if group.state is not GroupState.EMPTY or group.offsets or group.pending:
        return False
    drop_group(turn, group, Code.UNKNOWN_MEMBER_ID)
    turn.effects.append(ForgetGroup(group.name))
    return True
