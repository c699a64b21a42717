"""The seam to the message path: where partitions and positions go in and batches come out.

One fetcher serves one stream. Any thread may hand partitions in or take them away; only the stream's own consuming
thread polls. A poll applies what was handed in before it began, before it fetches anything, and nothing that is handed
in later: so what a poll returns belongs to the assignment that stood when it began, and the stream's gate can tell. A
batch may mix partitions, in runs; inside one partition offsets ascend.

Two positions stand for ends of the log that are looked up when the partition's leader is found: EARLIEST and LATEST.
A third, NO_POSITION, stands for none: the partition waits until it is assigned at another.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol

from zk_layout.model import TopicPartition

EARLIEST = -2
"""As a position: where the log begins."""
LATEST = -1
"""As a position: where the log ends."""
NO_POSITION = -3
"""As a position: nothing says where to begin. A poll raises NoCommittedOffsetError for it."""


class Message(Protocol):
    """One message, with the accessors of a confluent_kafka.Message, so that code for those works with it.

    With either fetcher it is true even if its value is empty, len() is the number of bytes of its value, it equals a
    message with the same fields, and it can be hashed, pickled and copied.
    """

    __slots__ = ()

    def topic(self) -> str:
        """The topic's name."""
        ...

    def partition(self) -> int:
        """The partition's number."""
        ...

    def offset(self) -> int:
        """The message's offset; the next to read is one more."""
        ...

    def key(self) -> bytes | None:
        """The key, None if it has none."""
        ...

    def value(self) -> bytes | None:
        """The value, None for a deletion in a compacted topic."""
        ...

    def timestamp(self) -> tuple[int, int]:
        """(type, ms since 1970); type 1 = create time, 2 = log append time; (0, -1) = not available."""
        ...

    def headers(self) -> list[tuple[str, bytes | None]] | None:
        """The headers, None if there are none.

        In a name that is not UTF-8 the columnar fetcher puts replacement characters.
        Raises: FetchError for such a name, with librdkafka.
        """
        ...

    def error(self) -> None:
        """None: a stream raises errors, and hands out none."""
        ...


class FetchedBatch(Protocol):
    """The result of one poll. Messages are made on demand, so a fetcher may keep columns instead."""

    def __len__(self) -> int:
        """The number of messages."""
        ...

    @property
    def next_offsets(self) -> Mapping[TopicPartition, int]:
        """The position of each partition in the batch once all is consumed: behind its last message, or further.

        Further if records without messages for the user follow, such as the ends of transactions.
        """
        ...

    def messages(self) -> Sequence[Message]:
        """The messages, in order."""
        ...


class Fetcher(Protocol):
    """Fetches the partitions of one stream."""

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch each partition at its offset; one that is being fetched starts again there."""
        ...

    def unassign(self, partitions: Collection[TopicPartition]) -> None:
        """Stop fetching these; unknown ones are ignored."""
        ...

    def poll(self, max_messages: int, timeout_s: float) -> FetchedBatch | None:
        """Return up to max_messages, or None if none came within timeout_s. Only from the consuming thread.

        A batch without messages carries, in next_offsets, new positions: of partitions whose position was unknown or
        outside the log, and behind records without messages for the user.

        Raises: FetchError (retriable ones are retried inside first). PositionError for a partition that waits to be
        assigned elsewhere, again with later polls until it is. After an exception that is not the library's, as Ctrl-C,
        the caller assigns all partitions again.
        """
        ...

    def wake(self) -> None:
        """End the poll that waits, or the next one, soon. From any thread, and a signal handler: it takes no lock."""
        ...

    def close(self) -> None:
        """Stop and free everything; twice is harmless."""
        ...


class LogOffsets(Protocol):
    """Asks the brokers where logs begin and end, and where a time begins in them."""

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset of the first message of each log. Partitions that no broker answers for are missing."""
        ...

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """The offset after the last message of each log. Partitions that no broker answers for are missing."""
        ...

    def at_time(self, partition: TopicPartition, time_ms: int) -> int | None:
        """Return the broker's offset for a time (ms since 1970, EARLIEST, LATEST); None if it knows none.

        Raises: FetchError if waiting does not help, as when messages have no timestamps; BrokersUnavailableError.
        """
        ...

    def before(self, partition: TopicPartition, time_ms: int, most: int) -> list[int]:
        """Return up to this many offsets before which all messages are older than a time, newest first.

        Raises: as at_time.
        """
        ...

    def close(self) -> None:
        """Free the connections; twice is harmless."""
        ...


class FetcherFactory(Protocol):
    """Makes the fetchers of one connector."""

    def check_access(self) -> None:
        """See whether the brokers would accept this client, before anything is registered; takes 5 s at most.

        That no broker can be reached is no failure: a member may join and wait for them.
        Raises: MissingListenerError, BrokerRefusedError; errors of ZooKeeper.
        """
        ...

    def fetcher(self) -> Fetcher:
        """A fetcher for one stream; no I/O before its first poll."""
        ...

    def log_offsets(self) -> LogOffsets:
        """The way to ask for the ends of logs. Raises: BrokersUnavailableError, MissingListenerError."""
        ...

    def note_brokers(self, gone: Collection[int]) -> None:
        """Brokers came or went in ZooKeeper; gone: the ids of brokers that left. From any thread, never waits.

        The fetcher looks again for missing leaders and positions at once, and closes connections to a broker that left.
        librdkafka handles its connections itself, and its positions are looked for with the usual pause.
        """
        ...

    def close(self) -> None:
        """Free the shared parts of the fetchers; twice is harmless."""
        ...
