"""Infers a group's assignment strategy from its owner znodes.

ZooKeeper does not record a member's partition.assignment.strategy, nor the version of its round-robin, but the owners
show it. No member refuses another one with a different strategy: that member never gets its own idea of its share,
while the partitions that the others leave to it have no owner.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from rebalance.assignors import ASSIGNORS, DIALECTS, Dialect
from rebalance.assignors.strategies import STRATEGIES
from rebalance.errors import AssignmentRefusedError, StrategyMismatchError
from rebalance.snapshot import Assignment, GroupSnapshot
from zk_layout.model import ConsumerThreadId, TopicPartition


class ClassicStrategy(NamedTuple):
    """A value of partition.assignment.strategy, and of partition.assignment.dialect if the strategy has dialects."""

    name: str
    dialect: Dialect | None = None

    def __str__(self) -> str:
        return self.name if self.dialect is None else f"{self.name} {self.dialect}"

    @classmethod
    def of(cls, name: str, dialect: Dialect) -> ClassicStrategy:
        """Return the strategy that the two properties stand for."""
        return cls(name, dialect if STRATEGIES[name].dialects else None)

    def assign(self, group: GroupSnapshot) -> Assignment:
        """Divide the group. Raises: AssignmentRefusedError."""
        return ASSIGNORS[self.name](group, self.dialect or DIALECTS[-1])


CLASSIC_STRATEGIES = tuple(
    ClassicStrategy(name, dialect) for name in ASSIGNORS for dialect in STRATEGIES[name].dialects or (None,)
)


def strategies_of_members(
    group: GroupSnapshot, owners: Mapping[TopicPartition, str]
) -> dict[str, tuple[ClassicStrategy, ...]]:
    """Return {consumer id: the strategies that give it just what it owns}; none for a member that owns nothing.

    owners: {partition: text of the owner znode}. A text without thread, as other clients write it, counts for any
    thread of the member.
    """
    held = _held_by_members(group, owners)
    shown: dict[str, list[ClassicStrategy]] = {consumer_id: [] for consumer_id in group.members}
    for strategy, shares in _all_shares(group):
        for consumer_id in group.members:
            if held[consumer_id] and _fits(held[consumer_id], shares[consumer_id]):
                shown[consumer_id].append(strategy)
    return {consumer_id: tuple(strategies) for consumer_id, strategies in shown.items()}


def strategies_of_group(
    group: GroupSnapshot, owners: Mapping[TopicPartition, str], *, without: str | None = None
) -> tuple[ClassicStrategy, ...]:
    """Return the strategies that explain all owners and all partitions without an owner.

    A group in the middle of a rebalance shows none, nor does a group that owns nothing. without: a member whose own
    share proves nothing, owned or not: the asking member.
    """
    held = _held_by_members(group, owners)
    others = [consumer_id for consumer_id in group.members if consumer_id != without]
    if not any(held[consumer_id] for consumer_id in others):
        return ()
    return tuple(
        strategy
        for strategy, shares in _all_shares(group)
        if all(_fits(held[consumer_id], shares[consumer_id]) for consumer_id in others)
    )


def find_mismatch(
    group: GroupSnapshot, owners: Mapping[TopicPartition, str], ours: ClassicStrategy, *, without: str | None = None
) -> StrategyMismatchError | None:
    """Return the error for a member with this strategy if the group shows only other strategies.

    A strategy that would refuse the group as it is does not fit either.
    """
    held = _held_by_members(group, owners)
    if not any(held[consumer_id] for consumer_id in held if consumer_id != without):
        return None
    shown = strategies_of_group(group, owners, without=without)
    if not shown or ours in shown:
        return None
    return StrategyMismatchError(group.group, str(ours), tuple(map(str, shown)), _settings(shown))


def telling_partitions(
    group: GroupSnapshot, ours: ClassicStrategy, *, without: str | None = None
) -> tuple[tuple[TopicPartition, ConsumerThreadId], ...] | None:
    """Return a few partitions whose owners can prove that find_mismatch would find none, to avoid reading all owners.

    The result has, for each strategy that differs from ours, a partition and its owner by that strategy: see
    tells_of_no_other. None if one of them has no such partition, so that all owners must be read.
    """
    try:
        own = ours.assign(group)
    except AssignmentRefusedError:
        own = {}
    telling: dict[TopicPartition, ConsumerThreadId] = {}
    for strategy in CLASSIC_STRATEGIES:
        try:
            other = strategy.assign(group)
        except AssignmentRefusedError:
            continue
        if other == own or any(telling.get(tp) == other[tp] for tp in telling if tp in other):
            continue
        differ = (tp for tp, to in other.items() if to.consumer_id != without and own.get(tp) != to)
        found = next((tp for tp in differ if tp not in telling), None)
        if found is None:
            return None
        telling[found] = other[found]
    return tuple(telling.items())


def tells_of_no_other(
    telling: Iterable[tuple[TopicPartition, ConsumerThreadId]], owners: Mapping[TopicPartition, str]
) -> bool:
    """Return whether no partition has the owner that another strategy gives it: so the group shows none of these."""
    return all(owners.get(tp) not in (str(thread), thread.consumer_id) for tp, thread in telling)


def _settings(shown: tuple[ClassicStrategy, ...]) -> str:
    """Return the properties to set. If several dialects fit, the members' version of Kafka decides which."""
    by_name: dict[str, list[str]] = {}
    for strategy in shown:
        by_name.setdefault(strategy.name, []).extend(filter(None, [strategy.dialect]))
    words = [
        f"partition.assignment.strategy={name}"
        + (f" and partition.assignment.dialect={' or '.join(dialects)}" if dialects else "")
        for name, dialects in by_name.items()
    ]
    return " or ".join(words) + (", whichever its members have" if len(shown) > 1 else "")


_Shares = Mapping[str, Mapping[TopicPartition, ConsumerThreadId]]


def _all_shares(group: GroupSnapshot) -> Iterator[tuple[ClassicStrategy, _Shares]]:
    """Yield each strategy that does not refuse the group, with {consumer id: the member's share}."""
    for strategy in CLASSIC_STRATEGIES:
        try:
            assignment = strategy.assign(group)
        except AssignmentRefusedError:
            continue
        shares: dict[str, dict[TopicPartition, ConsumerThreadId]] = {name: {} for name in group.members}
        for tp, thread in assignment.items():
            shares[thread.consumer_id][tp] = thread
        yield strategy, shares


def _held_by_members(
    group: GroupSnapshot, owners: Mapping[TopicPartition, str]
) -> dict[str, dict[TopicPartition, str]]:
    """Return {consumer id: {partition: text}} of existing partitions and registered members."""
    held: dict[str, dict[TopicPartition, str]] = {consumer_id: {} for consumer_id in group.members}
    there = {topic: frozenset(group.partitions.get(topic, ())) for topic in {tp.topic for tp in owners}}
    for tp, text in owners.items():
        owner = owner_id(text)
        if owner in held and tp.partition in there[tp.topic]:
            held[owner][tp] = text
    return held


def owner_id(text: str) -> str:
    """Return the consumer id in an owner znode's text; clients other than the JVM's write it without a thread."""
    try:
        return ConsumerThreadId.parse(text).consumer_id
    except ValueError:
        return text


def _fits(held: Mapping[TopicPartition, str], share: Mapping[TopicPartition, ConsumerThreadId]) -> bool:
    return held.keys() == share.keys() and all(
        text in (str(share[tp]), share[tp].consumer_id) for tp, text in held.items()
    )
