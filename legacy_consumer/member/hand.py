"""Fetched messages that are not consumed yet: waiting chunks, and the hand whose messages are being handed out.

A *chunk* is the result of a poll of the fetcher, or a part of it. Chunks wait until the consuming thread asks for
messages; then one becomes the *hand*, and its messages are handed out. The ledger holds both, and every change of it is
one assignment.

The progress in the hand is one number, which its iterator counts. Any thread can shut the iterator between two
messages; then the number no longer changes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

from legacy_consumer.fetching.arrow_batches import LazyMessages
from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.fetching.message_iterator import ListIterator, MessageIterator
from zk_layout.model import TopicPartition

Handed = TypeVar("Handed")


class Life:
    """One run of fetching a partition; a new one whenever fetching begins elsewhere. Compared by identity."""

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
        """Return the position of each partition after the messages from start to before stop."""
        if stop == len(self.messages):
            return self.next_offsets
        return _next_offsets(self.messages[start:stop])

    def first(self, count: int) -> Chunk:
        """Return a chunk of the first messages."""
        if count == len(self.messages):
            return self
        return Chunk(self.messages[:count], self.offsets(0, count), self.lives)

    def after(self, count: int) -> Chunk:
        """Return a chunk of all messages but the first ones."""
        return Chunk(self.messages[count:], self.next_offsets, self.lives) if count else self

    def without(self, gone: Collection[TopicPartition]) -> Chunk:
        """Return a chunk without the messages of these partitions."""
        # not the positions in the kept columns: next_offsets also names partitions without a message here
        ends = {tp: offset for tp, offset in self.next_offsets.items() if tp not in gone}
        if isinstance(self.messages, LazyMessages):
            return Chunk(LazyMessages(self.messages.columns.without(gone)), ends, self.lives)
        return Chunk([message for message in self.messages if partition_of(message) not in gone], ends, self.lives)

    def columns(self) -> Sequence[Message]:
        """Return the messages in the form that record_batch() converts fastest."""
        return self.messages.columns if isinstance(self.messages, LazyMessages) else self.messages

    def iterator(self) -> MessageIterator:
        """Return an iterator that hands the messages out one by one."""
        return self.messages.iterator() if isinstance(self.messages, LazyMessages) else ListIterator(self.messages)


class Hand:
    """A chunk that is being handed out, by its iterator: one message after the other, or as a whole.

    barred: the partitions in hand for which the coordinator waits. noted: the number of messages noted in Progress.
    """

    __slots__ = ("_seen", "_seen_at", "_whole", "barred", "chunk", "holder", "is_whole", "iterator", "noted")

    def __init__(self, chunk: Chunk, holder: object, *, whole: bool, now: float = 0.0) -> None:
        self.chunk = chunk
        self.holder = holder
        self.is_whole = whole
        self._whole: list[Any] = [None]
        self.iterator: MessageIterator = ListIterator(self._whole) if whole else chunk.iterator()
        self.barred: set[TopicPartition] = set()
        self.noted = 0
        # the number of messages handed out when idle_since() last saw it grow, and the time of that
        self._seen, self._seen_at = 0, now

    def as_a_whole(self, made: Handed) -> Iterable[Handed]:
        """Hand out `made`, which was made of all the messages, instead of them; return the iterator."""
        self._whole[0] = made
        return cast("Iterable[Handed]", self.iterator)

    def idle_since(self, now: float) -> float:
        """Return the time since which the user's code has not asked for more, as earlier calls of this saw it."""
        count = self.handed_out()
        if count != self._seen:
            # the first message, or a batch, was handed out when the hand was made
            self._seen_at = now if self._seen or (count > 1 and not self.is_whole) else self._seen_at
            self._seen = count
        return self._seen_at

    def handed_out(self) -> int:
        """Return how many messages were handed out."""
        count = self.iterator.handed_out
        return count * len(self.chunk.messages) if self.is_whole else count

    def shut(self) -> int:
        """Hand out nothing more; return how many messages were handed out."""
        self.iterator.shut()
        return self.handed_out()

    def done(self) -> int:
        """Return how many messages the user's code has certainly finished: not the last one, or the batch, in hand."""
        return 0 if self.is_whole else max(0, self.handed_out() - 1)

    def partitions_out(self) -> Collection[TopicPartition]:
        """Return the partitions of the message or batch in hand. Call it only while the hand is shut."""
        count = self.handed_out()
        if not count:
            return ()
        if self.is_whole:
            # chunk.next_offsets also names partitions whose last message was in an earlier hand
            return _next_offsets(self.chunk.messages).keys()
        return (partition_of(self.chunk.messages[count - 1]),)


@dataclass(slots=True)
class Ledger:
    """Fetched messages that are not consumed yet: the hand, and the waiting chunks. Never changed."""

    hand: Hand | None = None
    waiting: tuple[Chunk, ...] = ()


def partition_of(message: Message) -> TopicPartition:
    """Return where a message comes from."""
    return TopicPartition(message.topic(), message.partition())


def _next_offsets(messages: Sequence[Message]) -> Mapping[TopicPartition, int]:
    if isinstance(messages, LazyMessages):
        return messages.next_offsets
    return {partition_of(message): message.offset() + 1 for message in messages}
