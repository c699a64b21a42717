"""GatedStream: the messages of one stream, as batches or one by one, behind a gate that a rebalance can shut.

Each way of reading is a loop over hands (hand.py): take the next hand, and hand it out. hand_source.py brings the next
hand; gate.py decides which partitions flow, and shuts a hand from another thread.

A loop runs no code of ours between two messages: it takes them from the iterator of the hand, which counts. When that
iterator ends, or is shut, _next_turn continues with the next hand. So an exception may interrupt the consuming thread
anywhere (Ctrl-C, a soft time limit): a message was handed out and counted, or neither.

A check of the lease (rebalance.lease) costs more than a message, so it happens before each turn of the iterator. A turn
is one message, or more messages if the user's code handles many in a moment.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterable, Iterator, MutableSequence
from itertools import chain
from typing import TYPE_CHECKING, TypeVar

from legacy_consumer.errors import StreamInUseError
from legacy_consumer.fetching.arrow_batches import COLUMNS, LazyMessages, checked_columns, record_batch
from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.fetching.message_batch import MessageBatch
from legacy_consumer.member.arguments import checked_number, checked_seconds
from legacy_consumer.member.hand import Chunk, Hand
from legacy_consumer.member.hand_source import TAKEN_AT_ONCE, Demand, HandSource
from zk_layout.errors import ConfigError

if TYPE_CHECKING:
    import pyarrow as pa

Handed = TypeVar("Handed")

_TURN = 256
_TURN_S = 100e-6
"""The limits of a turn: a number of messages, and a time for the user's code at its last pace."""

_ONE_BY_ONE = Demand(TAKEN_AT_ONCE)


class _Turns:
    """The turns of one loop over messages. If the thread has changed since the last turn, the next is one message.

    Not a generator: when a second thread asks while the first waits in it, chain() drops the generator, and CPython
    would free it while the first thread still runs in it.
    """

    __slots__ = ("_next_turn", "began", "hand", "turn", "user")

    def __init__(self, next_turn: Callable[[_Turns], Iterable[Message]]) -> None:
        self._next_turn = next_turn
        self.hand: Hand | None = None
        self.turn = 1
        self.began = 0.0
        self.user: threading.Thread | None = None

    def __iter__(self) -> Iterator[Iterable[Message]]:
        return self

    def __next__(self) -> Iterable[Message]:
        return self._next_turn(self)


class GatedStream(HandSource):
    """A stream for the coordinator, for commits and, through KafkaStream, for the user's code."""

    # For users.

    def __iter__(self) -> Iterator[Message]:
        """See KafkaStream."""
        return chain.from_iterable(_Turns(self._next_turn))

    def _next_turn(self, loop: _Turns) -> Iterable[Message]:
        me = threading.current_thread()
        now = self._clock.monotonic()
        hand, turn = loop.hand, 1
        if loop.user is me:
            turn = min(_TURN, int(loop.turn * _TURN_S / max(now - loop.began, 1e-9)) or 1)
        loop.user = me
        while hand is None or not self._lets_through(hand, turn):
            hand = self._advance(_ONE_BY_ONE)
            if hand is None:
                raise StopIteration
            if loop.user is not me:
                raise StreamInUseError(loop.user.name)
        loop.hand, loop.turn, loop.began = hand, turn, now
        return hand.iterator

    def __next__(self) -> Message:
        """See KafkaStream."""
        while True:
            hand = self._ledger.hand
            if hand is None or hand.is_whole or not self._lets_through(hand, 1):
                if self._advance(_ONE_BY_ONE) is None:
                    raise StopIteration
                if self._rival is not None:
                    raise StreamInUseError(self._rival.name)
                continue
            before = hand.handed_out()
            try:
                for message in hand.iterator:
                    return message
            except BaseException:
                # the message may have left the iterator, and the caller does not get it
                self._put_back(hand, before)
                raise

    def batches(self, max_messages: int = 1000, timeout: float | None = None) -> Iterator[MutableSequence[Message]]:
        """See KafkaStream."""
        return self._checked_wholes(max_messages, timeout, _own_messages, as_columns=False)

    def arrow_batches(
        self,
        max_messages: int = 65536,
        timeout: float | None = None,
        columns: Collection[str] = COLUMNS,
    ) -> Iterator[pa.RecordBatch]:
        """See KafkaStream."""
        if self._acknowledgements is not None:
            msg = "acknowledges messages, and Arrow batches have none: use batches(), or another delivery.rule"
            raise ConfigError("delivery.rule", "acknowledged", msg)
        wanted = checked_columns(columns)

        def make(chunk: Chunk) -> pa.RecordBatch:
            return record_batch(chunk.columns(), wanted)

        return self._checked_wholes(max_messages, timeout, make, as_columns=True)

    def _checked_wholes(
        self, most: int, timeout: float | None, make: Callable[[Chunk], Handed], *, as_columns: bool
    ) -> Iterator[Handed]:
        # checked at the call, not at the request for the first batch
        count = checked_number(most, "max_messages")
        patience = None if timeout is None else checked_seconds(timeout)
        return self._wholes(Demand(count, patience, whole=True, as_columns=as_columns), make)

    def _wholes(self, demand: Demand, make: Callable[[Chunk], Handed]) -> Iterator[Handed]:
        # a generator, so that users can close it
        yield from chain.from_iterable(self._whole_turns(demand, make))

    def _whole_turns(self, demand: Demand, make: Callable[[Chunk], Handed]) -> Iterator[Iterable[Handed]]:
        while (hand := self._advance(demand)) is not None:
            made = make(hand.chunk)
            if not hand.chunk.messages:
                # nothing came in time, so nothing is in hand
                yield (made,)
            elif self._lets_through(hand, 1):
                yield hand.as_a_whole(made)

    def _lets_through(self, hand: Hand, most: int) -> bool:
        """Allow the calling thread this many more messages of the hand. Returns: False if the hand has none left.

        A batch counts as one.
        """
        self.check_process()
        if not (self._may_hand_out() and hand.iterator.allow(most)):
            return False
        hand.holder, self._last_user = self._holder(), threading.current_thread()
        return True


def _own_messages(chunk: Chunk) -> MutableSequence[Message]:
    """Return the messages as a list that the user's code may keep and change."""
    messages = chunk.messages
    return MessageBatch(messages if isinstance(messages, LazyMessages) else list(messages))
