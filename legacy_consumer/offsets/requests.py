"""Cuts a commit into as many requests as ZooKeeper needs."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from zk_layout.model import TopicPartition
from zk_layout.store import Op, multi_size


def in_requests(
    max_bytes: int,
    partitions: Collection[TopicPartition],
    guard: Sequence[Op],
    ops_of: Callable[[TopicPartition], Sequence[Op]],
) -> Iterator[list[TopicPartition]]:
    """Yield as many partitions, in order, as fit in a request if all were as long as the longest.

    guard: what stands at the front of each request. ops_of: the longest operations for a partition.
    """
    order = sorted(partitions)
    if not order:
        return
    # an exact sum would cost as much as the request itself
    longest = TopicPartition(
        max({tp.topic for tp in order}, key=lambda name: len(name.encode())), max(tp.partition for tp in order)
    )
    room = max_bytes - sum(map(multi_size, guard))
    fitting = max(1, room // sum(map(multi_size, ops_of(longest))))
    for start in range(0, len(order), fitting):
        yield order[start : start + fitting]
