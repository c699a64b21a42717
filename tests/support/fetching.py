"""Polls a fetcher until it has brought what is expected, and checks what every batch promises."""

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
    """Messages by partition in the order they came, and where each partition stands by next_offsets."""

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
    """Poll until count messages came, or until says so; fails when nothing comes for patience_s."""
    fetched = Fetched()
    deadline = time.monotonic() + patience_s
    is_done = until or (lambda so_far: so_far.count >= count)
    while not is_done(fetched):
        assert time.monotonic() < deadline, f"{fetched.count} of {count} messages in {patience_s} s"
        poll_into(fetched, fetcher, max_messages)
    return fetched


def poll_into(fetched: Fetched, fetcher: Fetcher, max_messages: int = 500, timeout_s: float = 0.1) -> int:
    """One poll; the number of messages it brought."""
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
        # further where what follows holds no messages for the user, as the end of a transaction
        assert all(batch.next_offsets[tp] > offset for tp, offset in last.items())
    else:
        fetched.moves.append(dict(batch.next_offsets))
    fetched.positions.update(batch.next_offsets)
    return len(messages)


def is_silent(fetcher: Fetcher, for_s: float = 1.0) -> bool:
    """Return whether nothing comes for so long; there is no other way to see that something does not happen."""
    fetched = Fetched()
    deadline = time.monotonic() + for_s
    while time.monotonic() < deadline:
        if poll_into(fetched, fetcher):
            return False
    return True
