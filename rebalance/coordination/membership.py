"""SyncGroup, Heartbeat and LeaveGroup of one group."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance.coordination.codes import Code
from rebalance.coordination.effects import HeartbeatAnswer, LeaveAnswer, SyncAnswer
from rebalance.coordination.group import Group
from rebalance.coordination.joining import identity_error
from rebalance.coordination.rebalancing import drop_pending, remove_member, take_assignment
from rebalance.coordination.requests import NO_MEMBER, Heartbeat, LeaveGroup, Leaving, SyncGroup
from rebalance.coordination.states import GroupState
from rebalance.coordination.turn import Turn

HEARTBEAT_CODES: Mapping[GroupState, Code] = {
    GroupState.EMPTY: Code.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING_REBALANCE: Code.REBALANCE_IN_PROGRESS,
    GroupState.COMPLETING_REBALANCE: Code.NONE,
    GroupState.STABLE: Code.NONE,
    GroupState.DEAD: Code.UNKNOWN_MEMBER_ID,
}
"""{state: the answer to a member of the current generation}. NONE while the leader assigns."""


def standing(group: Group, member_id: str, instance_id: str | None, generation: int) -> Code:
    """Return NONE for a member in the current generation, otherwise the error."""
    code = identity_error(group, member_id, instance_id)
    if code is Code.NONE and generation != group.generation:
        return Code.ILLEGAL_GENERATION
    return code


def sync(turn: Turn, group: Group, request: SyncGroup) -> None:
    """Handle SyncGroup: the leader's makes the group Stable; the others wait for it, or are answered at once."""
    code = standing(group, request.member_id, request.instance_id, request.generation)
    if code is Code.NONE and group.state is GroupState.PREPARING_REBALANCE:
        code = Code.REBALANCE_IN_PROGRESS
    if code is not Code.NONE:
        turn.reply(request.reply_to, SyncAnswer(code))
        return
    member = group.members[request.member_id]
    turn.keep_alive(group, member)
    if group.state is GroupState.STABLE:
        turn.reply(request.reply_to, SyncAnswer(Code.NONE, member.assignment))
        return
    turn.reply(member.sync_reply, SyncAnswer(Code.REBALANCE_IN_PROGRESS))
    member.sync_reply = request.reply_to
    if request.member_id == group.leader:
        for other in group.members.values():
            other.assignment = request.assignments.get(other.member_id, b"")
        take_assignment(turn, group)


def heartbeat(turn: Turn, group: Group, request: Heartbeat) -> None:
    """Handle Heartbeat: extend the member's session, and answer."""
    code = standing(group, request.member_id, request.instance_id, request.generation)
    if code is Code.NONE:
        turn.keep_alive(group, group.members[request.member_id])
        code = HEARTBEAT_CODES[group.state]
    turn.reply(request.reply_to, HeartbeatAnswer(code))


def leave(turn: Turn, group: Group, request: LeaveGroup) -> None:
    """Handle LeaveGroup, each member by itself. The answer comes first: the later effects concern other members."""
    left: list[tuple[Leaving, Code]] = []
    going: dict[str, None] = {}
    for leaving in request.leaving:
        member_id = _leaving_id(group, leaving)
        code = Code.UNKNOWN_MEMBER_ID if member_id in going else _leaving_code(group, leaving)
        left.append((leaving, code))
        if code is Code.NONE:
            going[member_id] = None
    turn.reply(request.reply_to, LeaveAnswer(Code.NONE, tuple(left)))
    for member_id in going:
        if member_id in group.pending:
            drop_pending(turn, group, member_id)
        else:
            remove_member(turn, group, group.members[member_id])


def _leaving_id(group: Group, leaving: Leaving) -> str:
    if leaving.member_id == NO_MEMBER and leaving.instance_id is not None:
        return group.static.get(leaving.instance_id, NO_MEMBER)
    return leaving.member_id


def _leaving_code(group: Group, leaving: Leaving) -> Code:
    member_id = _leaving_id(group, leaving)
    return Code.NONE if member_id in group.pending else identity_error(group, member_id, leaving.instance_id)
