"""Splits a commit into requests that ZooKeeper accepts, and keeps the parts that each commit needs again."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import TypeVar

from zk_layout.model import TopicPartition
from zk_layout.store import Op, multi_size

Value = TypeVar("Value")


class OfPartitions(dict[TopicPartition, Value]):
    """{partition: a path or an operation}, each made at its first use: every commit needs hundreds of them again."""

    def __init__(self, make: Callable[[TopicPartition], Value]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, tp: TopicPartition) -> Value:
        found = self[tp] = self._make(tp)
        return found


def in_requests(
    max_bytes: int,
    partitions: Collection[TopicPartition],
    guard: Sequence[Op],
    ops_of: Callable[[TopicPartition], Sequence[Op]],
) -> Iterator[list[TopicPartition]]:
    """Yield the partitions, in order, in lists that fit in one request if all were as long as the longest.

    guard: the operations at the front of each request. ops_of: returns the longest operations for a partition.
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
