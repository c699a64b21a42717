"""The seam to the message path: callers assign partitions with positions, and poll batches.

One fetcher serves one stream. Any thread may assign and unassign partitions; only the stream's consuming thread
polls. A poll first applies all assignments made before it began, and none made later. So what a poll returns belongs
to the assignment at its beginning, and the stream's gate can check that. A batch may mix partitions, in runs; inside
one partition offsets ascend.

Two positions stand for the ends of a log, which are looked up when the partition's leader is found: EARLIEST and
LATEST. A third, NO_POSITION, stands for none: the partition waits until it is assigned at another position.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from zk_layout.model import TopicPartition

EARLIEST = -2
"""The position of the first offset of a log."""
LATEST = -1
"""The position of the end of a log."""
NO_POSITION = -3
"""The position of a partition without a place to begin. A poll raises NoCommittedOffsetError for it."""


class Message(Protocol):
    """One message, with the accessors of a confluent_kafka.Message, so that code for such messages works with it.

    With either fetcher it is true even if its value is empty, len() is the number of bytes of its value, it equals a
    message with the same fields, and it can be hashed, pickled and copied.
    """

    __slots__ = ()

    def topic(self) -> str:
        """Return the topic's name."""
        ...

    def partition(self) -> int:
        """Return the partition's number."""
        ...

    def offset(self) -> int:
        """Return the message's offset; the next to read is one more."""
        ...

    def key(self) -> bytes | None:
        """Return the key, None if it has none."""
        ...

    def value(self) -> bytes | None:
        """Return the value, None for a deletion in a compacted topic."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """Return (type, ms since 1970); type 1 = create time, 2 = log append time; (0, -1) = not available."""
        ...

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """Return the headers, None if there are none.

        The columnar fetcher puts replacement characters into a name that is not UTF-8.
        Raises: FetchError for such a name, with librdkafka.
        """
        ...

    def error(self) -> None:
        """Return None: a stream raises errors, and hands out none."""
        ...


class FetchedBatch(Protocol):
    """The result of one poll. Messages are made on demand, so a fetcher may keep columns instead."""

    def __len__(self) -> int:
        """Return the number of messages."""
        ...

    @property
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """The position of each partition in the batch once all is consumed: after its last message, or further.

        Further if records without messages for the user follow, such as the ends of transactions.
        """
        ...

    def messages(self) -> Sequence[Message]:
        """Return the messages, in order."""
        ...


class Fetcher(Protocol):
    """Fetches the partitions of one stream."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch each partition at its offset; one that is being fetched starts again there."""
        ...

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these partitions; unknown ones are ignored."""
        ...

    def poll(self, max_messages: int, timeout_s: float) -> FetchedBatch | None:
        """Return up to max_messages, or None if none came within timeout_s. Only from the consuming thread.

        A batch without messages has new positions in next_offsets: of partitions whose position was unknown or outside
        the log, and after records without messages for the user.

        Raises: FetchError (retriable ones are first retried inside). PositionError for a partition that must be
        assigned again; later polls repeat it until that is done. After an exception that is not the library's, such as
        Ctrl-C, the caller assigns all partitions again.
        """
        ...

    def wake(self) -> None:
        """End the waiting poll, or the next one, soon. From any thread, and from a signal handler: it takes no lock."""
        ...

    def close(self) -> None:
        """Stop, and close all connections; twice is harmless."""
        ...


class LogOffsets(Protocol):
    """Asks the brokers for first offsets and ends of logs, and for the offsets of times."""

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset of the first message of each log, without partitions for which no broker answers."""
        ...

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Return the offset after the last message of each log, without partitions for which no broker answers."""
        ...

    def at_time(self, partition: TopicPartition, time_ms: int) -> int | None:
        """Return the broker's offset for a time (ms since 1970, EARLIEST, LATEST); None if it has none.

        Raises: FetchError if a retry does not help, as for messages without timestamps; BrokersUnavailableError.
        """
        ...

    def before(self, partition: TopicPartition, time_ms: int, most: int) -> list[int]:
        """Return up to this many offsets before which all messages are older than a time, newest first.

        Raises: as at_time.
        """
        ...

    def close(self) -> None:
        """Close the connections; twice is harmless."""
        ...


class FetcherFactory(Protocol):
    """Makes the fetchers of one connector."""

    def check_access(self) -> None:
        """Check whether the brokers would accept this client, before it registers; takes 5 s at most.

        If no broker can be reached, that is no error: a member may join and wait for them.
        Raises: MissingListenerError, BrokerRefusedError; errors of ZooKeeper.
        """
        ...

    def fetcher(self) -> Fetcher:
        """Return a fetcher for one stream; no I/O before its first poll."""
        ...

    def log_offsets(self) -> LogOffsets:
        """Return the client for the ends of logs. Raises: BrokersUnavailableError, MissingListenerError."""
        ...

    def note_brokers(self, gone: Collection[int]) -> None:
        """Note that brokers registered or left; never wait. Any thread may call. gone: the ids of brokers that left.

        The columnar fetcher then looks for missing leaders and positions at once, and closes connections to brokers
        that left. librdkafka handles its connections itself, and positions are looked for after the usual pause.
        """
        ...

    def close(self) -> None:
        """Close the shared parts of the fetchers; twice is harmless."""
        ...
