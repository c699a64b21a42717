"""Shares that are as even as possible, and of these the ones that move the fewest partitions.

Both functions promise, in this order: every partition once; no division is more even (the sum of the squares of the
shares is the least that subscriptions allow); of all divisions as even as this, none moves fewer partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from rebalance.assignors.evener import Evener
from zk_layout.model import TopicPartition

Shares = dict[str, list[TopicPartition]]


def divide_alike(
    partitions: Sequence[TopicPartition], members: Sequence[str], owners: Mapping[TopicPartition, str]
) -> Shares:
    """Divide among members that all subscribe to the same topics: no two shares differ by more than one.

    owners: the present owner of each partition. The other partitions go, in order, to the members in turn.
    """
    kept: Shares = {member: [] for member in members}
    for partition in partitions:
        if partition in owners:
            kept[owners[partition]].append(partition)
    least, extra = divmod(len(partitions), len(members))
    # the members with the most partitions keep one more than the others, so that no partition has to move for it
    fullest = sorted(members, key=lambda member: -len(kept[member]))[:extra]
    shares = {member: kept[member][: least + (member in fullest)] for member in members}
    settled = {partition for share in shares.values() for partition in share}
    waiting = iter([partition for partition in partitions if partition not in settled])
    _deal(waiting, {member: shares[member] for member in members}, least)
    _deal(waiting, {member: shares[member] for member in fullest}, least + 1)
    return shares


def _deal(waiting: Iterable[TopicPartition], shares: Shares, size: int) -> None:
    """Give one partition to each share in turn, until all have `size`."""
    hungry = [share for share in shares.values() if len(share) < size]
    waiting = iter(waiting)
    while hungry:
        for share in hungry:
            share.append(next(waiting))
        hungry = [share for share in hungry if len(share) < size]


def divide_by_topic(
    partitions: Mapping[str, Sequence[TopicPartition]],
    subscribers: Mapping[str, Sequence[str]],
    owners: Mapping[TopicPartition, str],
) -> Shares:
    """Divide among members that subscribe to different topics; each topic has a subscriber.

    A quick division comes first, then every exchange that makes it more even, or saves moves with the same evenness.
    """
    evener = Evener(partitions, subscribers, owners)
    evener.share_out()
    evener.level()
    evener.improve()
    return evener.shares
