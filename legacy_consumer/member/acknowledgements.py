"""Messages of a stream that were handed out and not yet acknowledged, with delivery.rule=acknowledged. Pure.

Messages are acknowledged in any order. The consumed position is the offset of the first message that is not
acknowledged.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.member.hand import partition_of
from zk_layout.model import TopicPartition


@dataclass(slots=True)
class _Handed:
    """One partition in one epoch.

    order: the offsets handed out; consumed() drops acknowledged ones from its front. waiting: the unacknowledged
    offsets. end: the position after all messages handed out.
    """

    epoch: int
    end: int
    order: deque[int] = field(default_factory=deque)
    waiting: set[int] = field(default_factory=set)

    @property
    def first(self) -> int:
        return self.order[0] if self.order else self.end


class Acknowledgements:
    """The acknowledgements of one stream, used under its lock. Messages of another epoch do not count."""

    def __init__(self) -> None:
        self._partitions: dict[TopicPartition, _Handed] = {}

    def hand_out(
        self, messages: Iterable[Message], ends: Mapping[TopicPartition, int], epochs: Mapping[TopicPartition, int]
    ) -> dict[TopicPartition, int]:
        """Note messages as handed out, up to ends; return the consumed position of each partition."""
        known = {tp: end for tp, end in ends.items() if tp in epochs}
        for tp, end in known.items():
            handed = self._partitions.get(tp)
            if handed is None or handed.epoch != epochs[tp]:
                self._partitions[tp] = _Handed(epochs[tp], end)
            else:
                handed.end = end
        for message in messages:
            handed = self._partitions[partition_of(message)]
            handed.order.append(message.offset())
            handed.waiting.add(message.offset())
        return {tp: self._partitions[tp].first for tp in known}

    def forget(self, partitions: Iterable[TopicPartition]) -> None:
        """Wait for no message of these partitions that was handed out so far."""
        for tp in partitions:
            self._partitions.pop(tp, None)

    def acknowledge(self, tp: TopicPartition, epoch: int, offset: int) -> bool:
        """Note an acknowledgement; return False if the message was not waiting for one."""
        handed = self._of(tp, epoch)
        if handed is None or offset not in handed.waiting:
            return False
        handed.waiting.remove(offset)
        return True

    def consumed(self, tp: TopicPartition, epoch: int) -> int | None:
        """Return the consumed position; None if nothing was handed out."""
        handed = self._of(tp, epoch)
        if handed is None:
            return None
        while handed.order and handed.order[0] not in handed.waiting:
            handed.order.popleft()
        return handed.first

    def is_any_waiting(self, tp: TopicPartition, epoch: int, begin: int) -> bool:
        """Return whether some message of the partition from this offset on is not acknowledged."""
        handed = self._of(tp, epoch)
        return handed is not None and any(offset >= begin for offset in handed.waiting)

    def position(self, tp: TopicPartition, epoch: int) -> int | None:
        """Return the position after the last message handed out; None if there is none."""
        handed = self._of(tp, epoch)
        return None if handed is None else handed.end

    def _of(self, tp: TopicPartition, epoch: int) -> _Handed | None:
        handed = self._partitions.get(tp)
        return handed if handed is not None and handed.epoch == epoch else None
