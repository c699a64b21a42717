"""Handles JoinGroup, by the state of the group, the member and the request."""

from __future__ import annotations

from dataclasses import replace

from rebalance.coordination.codes import Code
from rebalance.coordination.effects import JoinAnswer, StoreGroup
from rebalance.coordination.group import Group, Member
from rebalance.coordination.rebalancing import begin_rebalance, complete_if_joined, dismiss, generation_answer
from rebalance.coordination.requests import NO_MEMBER, JoinGroup
from rebalance.coordination.states import GroupState
from rebalance.coordination.turn import TimerKey, TimerKind, Turn


def refusal_of(turn: Turn, group: Group | None, request: JoinGroup) -> Code:
    """Return why the request is refused in any state of the group; NONE if it is not."""
    settings = turn.settings
    shortest, longest = settings.group_min_session_timeout_ms, settings.group_max_session_timeout_ms
    if not shortest <= request.session_timeout_ms <= longest:
        return Code.INVALID_SESSION_TIMEOUT
    if group is None:
        if request.member_id != NO_MEMBER:
            return Code.UNKNOWN_MEMBER_ID
        fits = bool(request.protocol_type and request.protocols)
        return Code.NONE if fits else Code.INCONSISTENT_GROUP_PROTOCOL
    if _is_one_too_many(turn, group, request):
        return Code.GROUP_MAX_SIZE_REACHED
    if not group.fits(request.protocol_type, request.protocols):
        return Code.INCONSISTENT_GROUP_PROTOCOL
    return Code.NONE


def _is_one_too_many(turn: Turn, group: Group, request: JoinGroup) -> bool:
    known = request.member_id in group.members or request.instance_id in group.static
    most = turn.settings.group_max_size
    return most is not None and not known and len(group.members) >= most


def join(turn: Turn, group: Group, request: JoinGroup) -> None:
    """Handle a request that refusal_of() does not refuse."""
    if request.member_id == NO_MEMBER:
        _join_without_id(turn, group, request)
    elif request.member_id in group.pending:
        turn.timers.cancel(TimerKey(TimerKind.PENDING, group.name, request.member_id))
        _add(turn, group, request, request.member_id)
    else:
        _join_again(turn, group, request)


def _join_without_id(turn: Turn, group: Group, request: JoinGroup) -> None:
    member_id = f"{request.instance_id or request.client_id}-{turn.new_suffix()}"
    if request.instance_id is not None and request.instance_id in group.static:
        _replace(turn, group, request, member_id)
    elif request.id_first and request.instance_id is None:
        # the reply may be lost: the client would join again without an id, and the group would wait for its first id
        group.pending.add(member_id)
        key = TimerKey(TimerKind.PENDING, group.name, member_id)
        turn.timers.set(key, turn.now, request.session_timeout_ms)
        turn.reply(request.reply_to, JoinAnswer(Code.MEMBER_ID_REQUIRED, member_id))
    else:
        _add(turn, group, request, member_id)


def _add(turn: Turn, group: Group, request: JoinGroup, member_id: str) -> None:
    if not group.members:
        group.protocol_type = request.protocol_type
    member = Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.session_timeout_ms,
        request.rebalance_timeout_ms,
        request.protocols,
    )
    group.grew = True
    group.add(member)
    group.await_join(member, request.reply_to)
    turn.keep_alive(group, member)
    begin_rebalance(turn, group)


def _replace(turn: Turn, group: Group, request: JoinGroup, member_id: str) -> None:
    """A static member has restarted. If the protocol stays the same, it gets its old assignment without a rebalance."""
    assert request.instance_id is not None
    old = group.members[group.static[request.instance_id]]
    former_leader = group.leader
    dismiss(turn, group, old, Code.FENCED_INSTANCE_ID)
    turn.forget_session(group, old.member_id)
    member = group.replace(old, member_id)
    _take_over(group, member, request)
    turn.keep_alive(group, member)
    # as in brokers, also if the subscription has changed: a client whose assignment does not fit joins again
    if group.state is GroupState.STABLE and group.choose_protocol() == group.protocol:
        # a restarted leader gets its old id as the leader's, so it does not assign again, but asks for its assignment
        turn.effects.append(StoreGroup(group.stored()))
        answer = generation_answer(group, member)
        turn.reply(request.reply_to, replace(answer, leader=former_leader or "", members=()))
        return
    group.await_join(member, request.reply_to)
    begin_rebalance(turn, group)


def _join_again(turn: Turn, group: Group, request: JoinGroup) -> None:
    member = group.members.get(request.member_id)
    code = identity_error(group, request.member_id, request.instance_id)
    if member is None or code is not Code.NONE:
        turn.reply(request.reply_to, JoinAnswer(code, request.member_id))
        return
    unchanged = member.protocols == request.protocols
    # a leader joins a stable group again to assign again; any other member that repeats a join has missed the answer
    repeats = group.state is GroupState.COMPLETING_REBALANCE or (
        group.state is GroupState.STABLE and group.leader != member.member_id
    )
    _take_over(group, member, request)
    turn.keep_alive(group, member)
    if unchanged and repeats:
        turn.reply(request.reply_to, generation_answer(group, member))
        return
    former = group.await_join(member, request.reply_to)
    turn.reply(former, JoinAnswer(Code.REBALANCE_IN_PROGRESS, member.member_id))
    if group.state is GroupState.PREPARING_REBALANCE:
        complete_if_joined(turn, group)
    else:
        begin_rebalance(turn, group)


def _take_over(group: Group, member: Member, request: JoinGroup) -> None:
    group.offer(member, request.protocols)
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = request.rebalance_timeout_ms
    member.client_id = request.client_id


def identity_error(group: Group, member_id: str, instance_id: str | None) -> Code:
    """Return NONE for a known member, UNKNOWN_MEMBER_ID, or FENCED_INSTANCE_ID if a newer process has replaced it."""
    if instance_id is not None and instance_id in group.static and group.static[instance_id] != member_id:
        return Code.FENCED_INSTANCE_ID
    if member_id not in group.members or (instance_id is not None and instance_id not in group.static):
        return Code.UNKNOWN_MEMBER_ID
    return Code.NONE
