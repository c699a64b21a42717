"""CommitOffsets and FetchOffsets of one group."""

from __future__ import annotations

from collections.abc import Mapping

from rebalance.coordination.codes import Code
from rebalance.coordination.effects import CommitAnswer, OffsetsAnswer, StoreOffsets
from rebalance.coordination.group import Group
from rebalance.coordination.membership import standing
from rebalance.coordination.requests import NO_GENERATION, CommitOffsets, FetchOffsets
from rebalance.coordination.states import GroupState
from rebalance.coordination.turn import Turn

COMMIT_CODES: Mapping[GroupState, Code] = {
    GroupState.EMPTY: Code.UNKNOWN_MEMBER_ID,
    GroupState.PREPARING_REBALANCE: Code.NONE,
    GroupState.COMPLETING_REBALANCE: Code.REBALANCE_IN_PROGRESS,
    GroupState.STABLE: Code.NONE,
    GroupState.DEAD: Code.UNKNOWN_MEMBER_ID,
}
"""{state: the answer to a commit of the current generation}. A member commits before it joins again."""


def commit(turn: Turn, group: Group, request: CommitOffsets) -> None:
    """Handle CommitOffsets: a member commits in its generation; other clients may write only to an empty group."""
    if request.generation < 0 and group.state is GroupState.EMPTY:
        code = Code.NONE
    else:
        code = standing(group, request.member_id, request.instance_id, request.generation)
        if code is Code.NONE:
            turn.keep_alive(group, group.members[request.member_id])
            code = COMMIT_CODES[group.state]
    codes = {tp: code or _metadata_code(turn, offset.metadata) for tp, offset in request.offsets.items()}
    written = {tp: offset for tp, offset in request.offsets.items() if codes[tp] is Code.NONE}
    if written:
        group.offsets.update(written)
        turn.effects.append(StoreOffsets(group.name, written))
    turn.reply(request.reply_to, CommitAnswer(codes))


def refuse_commit(turn: Turn, request: CommitOffsets, code: Code) -> None:
    """Answer with the same code for each partition."""
    turn.reply(request.reply_to, CommitAnswer(dict.fromkeys(request.offsets, code)))


def creates_group(request: CommitOffsets) -> bool:
    """Return whether the commit creates an unknown group: only a tool's commit does, which has no generation."""
    return request.generation <= NO_GENERATION


def fetch(turn: Turn, group: Group | None, request: FetchOffsets) -> None:
    """Handle FetchOffsets. An unknown group has no committed offsets."""
    known = group.offsets if group is not None else {}
    partitions = request.partitions if request.partitions is not None else tuple(sorted(known))
    turn.reply(request.reply_to, OffsetsAnswer(Code.NONE, {tp: known.get(tp) for tp in partitions}))


def _metadata_code(turn: Turn, metadata: str) -> Code:
    # brokers count Java's characters of 16 bits, not bytes
    too_large = len(metadata.encode("utf-16-le")) // 2 > turn.settings.offset_metadata_max_bytes
    return Code.OFFSET_METADATA_TOO_LARGE if too_large else Code.NONE
