"""Polls a fetcher until the expected messages have come, and checks that every batch keeps its promises."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field

from legacy_consumer.fetching.fetcher import Fetcher, Message
from zk_layout.model import TopicPartition

PATIENCE_S = 60.0


@dataclass
class Fetched:
    """Messages by partition in the order in which they came, and each partition's last next_offsets."""

    messages: dict[TopicPartition, list[Message]] = field(default_factory=lambda: defaultdict(list))
    positions: dict[TopicPartition, int] = field(default_factory=dict)
    moves: list[dict[TopicPartition, int]] = field(default_factory=list)
    """next_offsets of the batches without messages."""

    @property
    def count(self) -> int:
        return sum(map(len, self.messages.values()))

    def offsets(self, tp: TopicPartition) -> list[int]:
        return [message.offset() for message in self.messages[tp]]


def fetch(
    fetcher: Fetcher,
    count: int,
    *,
    until: Callable[[Fetched], bool] | None = None,
    max_messages: int = 500,
    patience_s: float = PATIENCE_S,
) -> Fetched:
    """Poll until `count` messages have come, or until() is true; fail after patience_s."""
    fetched = Fetched()
    deadline = time.monotonic() + patience_s
    is_done = until or (lambda so_far: so_far.count >= count)
    while not is_done(fetched):
        assert time.monotonic() < deadline, f"{fetched.count} of {count} messages in {patience_s} s"
        poll_into(fetched, fetcher, max_messages)
    return fetched


def poll_into(fetched: Fetched, fetcher: Fetcher, max_messages: int = 500, timeout_s: float = 0.1) -> int:
    """Poll once. Returns: the number of messages that came."""
    batch = fetcher.poll(max_messages, timeout_s)
    if batch is None:
        return 0
    messages = batch.messages()
    assert len(batch) == len(messages) <= max_messages
    last: dict[TopicPartition, int] = {}
    for message in messages:
        tp = TopicPartition(message.topic(), message.partition())
        assert message.offset() > last.get(tp, -1)
        last[tp] = message.offset()
        fetched.messages[tp].append(message)
    if messages:
        # larger than offset + 1 if records follow that are no messages for the user, such as a transaction's end
        assert all(batch.next_offsets[tp] > offset for tp, offset in last.items())
    else:
        fetched.moves.append(dict(batch.next_offsets))
    fetched.positions.update(batch.next_offsets)
    return len(messages)


def is_silent(fetcher: Fetcher, for_s: float = 1.0) -> bool:
    """Return whether no message comes for for_s; only waiting can show that nothing happens."""
    fetched = Fetched()
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        if poll_into(fetched, fetcher):
            return False
    return True
