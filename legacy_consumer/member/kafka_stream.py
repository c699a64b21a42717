"""KafkaStream: the messages of one consumer thread id, as users see them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, MutableSequence
from typing import TYPE_CHECKING

from legacy_consumer.fetching.arrow_batches import COLUMNS
from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.member.arguments import checked_position
from legacy_consumer.member.gate import Pause
from legacy_consumer.member.stream import GatedStream
from zk_layout.model import TopicPartition

if TYPE_CHECKING:
    import pyarrow as pa


class KafkaStream:
    """The messages of one consumer thread id. Iterate over it, or over batches().

    One thread at a time: a second thread that asks while the first waits for messages gets a StreamInUseError. Threads
    may take turns, with next(stream) or with an iterator each; a request for the next message marks the previous one as
    done. A signal handler that interrupts a call of this stream or of its connector gets a CallInProgressError.
    """

    __slots__ = ("__weakref__", "_check_not_inside", "_stream")

    def __init__(self, stream: GatedStream, check_not_inside: Callable[[], None]) -> None:
        """check_not_inside: raises CallInProgressError inside a call of this stream or of its connector."""
        self._stream = stream
        self._check_not_inside = check_not_inside

    def __iter__(self) -> Iterator[Message]:
        """Return an iterator over the messages, one by one, until the connector is shut down or unsubscribes.

        An iterator belongs to one thread. If another thread continues with it, the stream may notice that late: up to
        255 messages, no more than the user's code handled in 0.1 ms, still count as in hand of the first thread. If two
        threads ask one iterator at once, both get a StreamInUseError.

        Raises: ConsumerTimeoutError if none came within consumer.timeout.ms (-1 = wait for ever); FetchError;
        with auto.offset.reset=none PositionError for a partition that waits for a seek; StreamInUseError if another
        thread is waiting for messages of this stream.

        The stream is sound after an error, but the iterator that raised it is over: go on with another `for` over the
        stream, or with next(stream), which may be called again after any error as the next() of a Java iterator may.
        """
        return iter(self._stream)

    def __next__(self) -> Message:
        """Return the next message; see __iter__.

        A waiting call also raises when another thread asks: after asyncio.wait_for(to_thread(next, stream)) timed out,
        no code takes the message of the thread that still waits.

        If an exception such as Ctrl-C interrupts the return of this call, the message counts as handed out, although
        the caller does not have it. That cannot happen in a loop over the stream.
        """
        return next(self._stream)

    def batches(self, max_messages: int = 1000, timeout: float | None = None) -> Iterator[MutableSequence[Message]]:
        """Yield lists of up to max_messages messages, until the connector is shut down.

        The batch belongs to the user's code, which may change it; it counts as a whole in any case. Threads may take
        turns with one iterator of batches; a second thread that asks it while the first waits gets a ValueError.

        timeout: seconds to wait for a batch; if none came, an empty one is handed out, so that the caller can do other
        work. None = consumer.timeout.ms decides.
        Raises: as __iter__; at the call TypeError and ValueError.
        """
        return self._stream.batches(max_messages, timeout)

    def arrow_batches(
        self, max_messages: int = 65536, timeout: float | None = None, columns: Collection[str] = COLUMNS
    ) -> Iterator[pa.RecordBatch]:
        """Yield Arrow record batches of up to max_messages messages, until the connector is shut down.

        Columns: key, value (binary), topic (dictionary of strings), partition (int32), offset (int64), timestamp (ms,
        UTC, null if there is none), timestampType (int32); name them to get fewer, or "headers" too. A batch is as
        large as what a broker sent of a partition, about fetch.message.max.bytes. With the columnar fetcher this is the
        fastest way to read: see docs/fetching.md.

        timeout: as for batches; then a batch without rows is handed out.
        Raises: as batches; ValueError for an unknown column, or none at all; ConfigError if pyarrow is not installed.
        """
        return self._stream.arrow_batches(max_messages, timeout, columns)

    def seek(self, tp: TopicPartition, offset: int) -> None:
        """Move a partition of this stream to another offset: see ConsumerConnector.seek."""
        position = checked_position(tp, offset)
        self._check()
        self._stream.seek(tp, position)

    def pause(self) -> None:
        """Hand out no messages of any partition, also of later ones, until resume(); from any thread.

        Messages in hand count as usual. A thread that asks for messages waits (consumer.timeout.ms).
        """
        self._check()
        self._stream.pause(Pause.USER)

    def resume(self) -> None:
        """Undo pause; partitions that the connector has paused stay so."""
        self._check()
        self._stream.resume(Pause.USER)

    def _check(self) -> None:
        self._stream.check_process()
        self._check_not_inside()
