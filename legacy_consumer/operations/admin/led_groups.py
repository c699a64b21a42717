"""The state of led groups, as their znodes show it to any client."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from legacy_consumer.operations.admin.group_members import RegisteredMember
from rebalance.coordination.states import GroupState
from rebalance.led.member import LED
from rebalance.led.records import (
    NO_GENERATION,
    Generation,
    Round,
    decode_generation,
    decode_round,
    generation_path,
    leader_path,
    members_path,
    round_path,
)
from zk_layout.errors import MalformedZnodeError
from zk_layout.store import ZkStore, Znode

CLASSIC = "classic"


@dataclass(frozen=True, slots=True)
class LedGroup:
    """A group with members that have group.coordination=leader.

    coordination: leader, or classic while a member follows no leader. leader: None if the group has none. state:
    Empty, PreparingRebalance or Stable; CompletingRebalance is too short to be seen. members: the number that joined.
    refused: {consumer id: why}. followers_of_none: the members that follow no leader. problem: why a znode cannot be
    read.
    """

    coordination: str
    leader: str | None
    generation: int
    strategy: str
    state: str
    members: int
    refused: Mapping[str, str] = field(default_factory=dict)
    followers_of_none: tuple[str, ...] = ()
    problem: str | None = None


def read_led_groups(store: ZkStore, members: Sequence[RegisteredMember]) -> dict[str, LedGroup]:
    """Return {group: its state} for the groups with a member that follows a leader, in two batches of reads."""
    others: dict[str, list[str]] = {}
    groups = dict.fromkeys(one.group for one in members if follows_leader(one))
    if not groups:
        return {}
    for one in members:
        # led members ignore a member whose registration cannot be read
        if one.registration is not None and not follows_leader(one):
            others.setdefault(one.group, []).append(one.consumer_id)
    joined = store.get_children_many([members_path(group) for group in groups])
    paths = [path(group) for group in groups for path in (leader_path, round_path, generation_path)]
    znodes = store.get_data_many(paths)
    return {
        group: _led_group(group, names or (), znodes[3 * n : 3 * n + 3], others.get(group, ()))
        for n, (group, names) in enumerate(zip(groups, joined, strict=True))
    }


def follows_leader(member: RegisteredMember) -> bool:
    """Return whether the member has group.coordination=leader."""
    return member.registration is not None and member.registration.coordination == LED


def _led_group(
    group: str,
    joined: Collection[str],
    znodes: Sequence[Znode | None],
    others: Sequence[str],
) -> LedGroup:
    leader, asked, given = znodes
    generation, latest, problem = NO_GENERATION, Round(), None
    try:
        if given is not None:
            generation = decode_generation(generation_path(group), given.data)
        if asked is not None:
            latest = decode_round(round_path(group), asked.data)
    except MalformedZnodeError as error:
        problem = str(error)
    return LedGroup(
        CLASSIC if others else LED,
        None if leader is None else (leader.data or b"").decode("utf-8", "replace"),
        generation.number,
        generation.protocol,
        _state(joined, latest, generation).value,
        len(joined),
        latest.refused,
        tuple(others),
        problem,
    )


def _state(joined: Collection[str], asked: Round, given: Generation) -> GroupState:
    there = set(joined) - asked.refused.keys()
    if not there:
        return GroupState.EMPTY
    has_all = there == {share.consumer_id for share in given.shares.values()}
    return GroupState.STABLE if has_all and asked.number <= given.round else GroupState.PREPARING_REBALANCE
