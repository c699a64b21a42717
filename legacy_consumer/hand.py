"""What a stream has fetched and its user has not consumed: chunks that wait, and the hand that is being handed out.

A *chunk* is what a poll of the fetcher brought, or a part of it. Chunks wait until the user asks for messages; then one
is the *hand*, and its messages are handed out. The ledger holds both, and every change of it is one assignment.

Handing out is one step of the interpreter as well. A loop's turn runs no code of ours: it takes from an iterator in C
(portions), and what that iterator has left says what was handed out. A batch is handed out as one message is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from legacy_consumer.arrow_batches import LazyMessages
from legacy_consumer.fetcher import Message
from legacy_consumer.portions import ListPortion, Portion, left
from zk_layout.model import TopicPartition


class Life:
    """A partition as it is being fetched; a new one whenever fetching begins elsewhere. Compared by identity."""

    __slots__ = ("epoch", "start")

    def __init__(self, epoch: int, start: int) -> None:
        self.epoch = epoch
        self.start = start


@dataclass(slots=True)  # frozen ones take three times as long to make
class Chunk:
    """Messages that were fetched, and the lives that partitions had as their poll began. Never changed.

    next_offsets: the position of each partition once all are consumed; it may name partitions without any message here.
    """

    messages: Sequence[Message]
    next_offsets: Mapping[TopicPartition, int]
    lives: Mapping[TopicPartition, Life]

    def offsets(self, start: int, stop: int) -> Mapping[TopicPartition, int]:
        """The positions after the messages from start to before stop."""
        if stop == len(self.messages):
            return self.next_offsets
        return _next_offsets(self.messages[start:stop])

    def first(self, count: int) -> Chunk:
        """The first messages of it."""
        if count == len(self.messages):
            return self
        return Chunk(self.messages[:count], self.offsets(0, count), self.lives)

    def after(self, count: int) -> Chunk:
        """All but the first messages of it."""
        return Chunk(self.messages[count:], self.next_offsets, self.lives) if count else self

    def without(self, gone: Collection[TopicPartition]) -> Chunk:
        """All but the messages of these partitions."""
        if isinstance(self.messages, LazyMessages):
            kept = self.messages.columns.without(gone)
            return Chunk(LazyMessages(kept), kept.next_offsets, self.lives)
        messages = [message for message in self.messages if partition_of(message) not in gone]
        ends = {tp: offset for tp, offset in self.next_offsets.items() if tp not in gone}
        return Chunk(messages, ends, self.lives)

    def columns(self) -> Sequence[Message]:
        """The messages as what record_batch is quickest with."""
        return self.messages.columns if isinstance(self.messages, LazyMessages) else self.messages


class Hand:
    """A chunk that is being handed out: one message after the other, or as a whole."""

    __slots__ = ("barred", "chunk", "holder", "noted", "portion", "portions", "seen", "seen_at", "whole")

    def __init__(self, chunk: Chunk, holder: object, *, whole: bool, now: float = 0.0) -> None:
        self.chunk = chunk
        self.holder = holder
        self.whole = whole
        self.portions: Sequence[Portion] | None = None if whole else _portions(chunk.messages)
        self.portion = 0
        self.barred: set[TopicPartition] = set()
        self.noted = 0
        self.seen = 0
        """How many messages had been handed out at seen_at: since then nobody has come back."""
        self.seen_at = now

    def idle_since(self, now: float) -> float:
        """Since when the user has not come back, as far as looks at it tell."""
        pulled = self.pulled()
        if pulled != self.seen:
            # the first message of a run, or a batch, was handed out when the hand was made
            self.seen_at = now if self.seen or (pulled > 1 and not self.whole) else self.seen_at
            self.seen = pulled
        return self.seen_at

    def pulled(self) -> int:
        """How many messages were handed out."""
        count = len(self.chunk.messages)
        if self.portions is None:
            return 0
        still = sum(map(left, self.portions))
        return count - still if not self.whole else 0 if still else count

    def left_in_portion(self) -> int:
        """How many are left of the messages that the last run is of."""
        return left(self.portions[self.portion]) if self.portions is not None else 0

    def given(self) -> int:
        """How many of them the user is done with for sure: not the last one, or the batch, which is in hand."""
        return 0 if self.whole else max(0, self.pulled() - 1)

    def partitions_out(self) -> Collection[TopicPartition]:
        """The partitions of the message or the batch that is in hand; only while the gate is shut."""
        pulled = self.pulled()
        if not pulled:
            return ()
        if self.whole:
            # the chunk's own also name partitions whose last message an earlier hand had
            return _next_offsets(self.chunk.messages).keys()
        return (partition_of(self.chunk.messages[pulled - 1]),)

    def run(self, most: int) -> tuple[list[object], Iterator[Message]] | None:
        """A gate, and the next messages, at most so many, as far as it lets them through; None if none is left."""
        portions = self.portions or ()
        for number in range(self.portion, len(portions)):
            portion = portions[number]
            count = left(portion)
            if count > 0:
                self.portion = number
                gate = [portion.token] * min(most, count)
                return gate, portion.through(iter(gate))
        return None


@dataclass(slots=True)
class Ledger:
    """What was fetched and is not consumed yet: what is being handed out, and what waits. Never changed."""

    hand: Hand | None = None
    waiting: tuple[Chunk, ...] = ()


def _portions(messages: Sequence[Message]) -> Sequence[Portion]:
    return messages.portions() if isinstance(messages, LazyMessages) else (ListPortion(messages),)


def partition_of(message: Message) -> TopicPartition:
    """Where a message comes from."""
    return TopicPartition(message.topic(), message.partition())


def _next_offsets(messages: Sequence[Message]) -> Mapping[TopicPartition, int]:
    if isinstance(messages, LazyMessages):
        return messages.next_offsets
    return {partition_of(message): message.offset() + 1 for message in messages}
