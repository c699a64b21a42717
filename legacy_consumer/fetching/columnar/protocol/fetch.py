"""Fetch (1): record sets of several partitions of one broker.

    request   replica int32 = -1 | max wait ms int32 | min bytes int32 | v3: max bytes int32 | v4: isolation int8
              | v7: session id int32, session epoch int32
              | [topic string, [partition int32 | v9: current leader epoch int32 | offset int64
                                | v5: log start offset int64 | partition max bytes int32]]
              | v7: forgotten [topic string, [partition int32]]
    response  v1: throttle ms int32 | v7: error int16, session id int32
              | [topic string, [partition int32 | error int16 | high watermark int64
                                | v4: last stable offset int64 | v5: log start offset int64
                                | v4: aborted [producer id int64, first offset int64] | record set bytes]]

    version   broker     new                             message format at most
    0         0.8        no limit for the whole response 0
    1         0.9        throttle time                   0
    2         0.10.0                                     1
    3         0.10.1     a limit for the whole response  1
    4         0.11       transactions                    2
    7         1.1        incremental fetch sessions      2
    10        2.1        zstd                            2

A response may end in the middle of a batch of records. From version 3 on the broker sends the first batch of the first
partition with records whole, even if that exceeds all limits.

Sessions (KIP-227): a request with epoch 0 names all partitions and asks for a session. Later requests have the
session's id and the next epoch, and name only changed partitions; their responses name only partitions with news. A
broker that keeps no session answers with session id 0.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Mapping
from typing import NamedTuple

from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer
from zk_layout.model import TopicPartition

FIRST_WITH_TOTAL_LIMIT = 3
FIRST_WITH_SESSIONS = 7

_NO_REPLICA = -1
_NO_SESSION_EPOCH = -1
_UNKNOWN = -1
_ANSWER_HEAD = struct.Struct(">ihi")


class FetchPartition(NamedTuple):
    """The next offset to read of one partition, and the most bytes to return."""

    offset: int
    max_bytes: int


class FetchLimits(NamedTuple):
    """The settings of a whole request, in the order of its fields on the wire."""

    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    read_committed: bool


class FetchSession(NamedTuple):
    """The session and epoch of a request; (0, 0) asks for a new session, (0, -1) for none."""

    session_id: int = 0
    epoch: int = 0

    def next(self, session_id: int) -> FetchSession:
        """Return the session of the next request, after a response with this session id; 0: the broker keeps none."""
        if session_id == 0:
            return FetchSession()
        return FetchSession(session_id, self.epoch % (2**31 - 1) + 1)


class FetchedPartition(NamedTuple):
    """A broker's answer for one partition.

    aborted: ((producer id, first offset of the transaction), ...), for readers of committed messages.
    records: bytes of the frame, not copied; None and empty mean the same.
    """

    error: int
    high_watermark: int
    aborted: tuple[tuple[int, int], ...]
    records: memoryview | None


class FetchResponse(NamedTuple):
    """A broker's response. error, session_id: of the whole response."""

    throttle_ms: int
    error: int
    session_id: int
    partitions: Mapping[TopicPartition, FetchedPartition]


def encode_fetch(
    version: int,
    limits: FetchLimits,
    partitions: Mapping[TopicPartition, FetchPartition],
    session: FetchSession,
    forgotten: Collection[TopicPartition] = (),
) -> bytes:
    """Return the body of a request. It names each topic once, in the order of the topics' first partitions."""
    head = (_NO_REPLICA, *limits, *session)[: _head_fields(version)]
    writer = Writer(struct.pack(">iiiibii"[: 1 + len(head)], *head))
    topics = _by_topic(partitions)
    writer.int32(len(topics))
    for topic, numbers in topics.items():
        writer.string(topic)
        writer.int32(len(numbers))
        for number in numbers:
            wanted = partitions[TopicPartition(topic, number)]
            writer.int32(number)
            if version >= 9:
                writer.int32(_UNKNOWN)
            writer.int64(wanted.offset)
            if version >= 5:
                writer.int64(_UNKNOWN)
            writer.int32(wanted.max_bytes)
    if version >= FIRST_WITH_SESSIONS:
        topics = _by_topic(forgotten)
        writer.int32(len(topics))
        for topic, numbers in topics.items():
            writer.string(topic)
            writer.int32(len(numbers))
            for number in numbers:
                writer.int32(number)
    return writer.done()


def _head_fields(version: int) -> int:
    if version >= FIRST_WITH_SESSIONS:
        return 7
    if version >= 4:
        return 5
    return 4 if version >= FIRST_WITH_TOTAL_LIMIT else 3


def _by_topic(partitions: Iterable[TopicPartition]) -> dict[str, list[int]]:
    topics: dict[str, list[int]] = {}
    for topic, number in partitions:
        topics.setdefault(topic, []).append(number)
    return topics


def decode_fetch(version: int, frame: memoryview | bytes) -> FetchResponse:
    """Decode the body of a response. Raises: MalformedResponseError."""
    reader = Reader(frame, "Fetch")
    throttle_ms = error = session_id = 0
    if version >= FIRST_WITH_SESSIONS:
        throttle_ms, error, session_id = reader.numbers(_ANSWER_HEAD)
    elif version >= 1:
        throttle_ms = reader.int32()
    # after the high watermark: the last stable offset, where the first open transaction began a moment before the
    # broker read the log; then the log's first offset
    form = struct.Struct(">ihqqq"[: 4 + (version >= 4) + (version >= 5)])
    found: dict[TopicPartition, FetchedPartition] = {}
    for _ in range(reader.count(6)):
        topic = reader.string()
        for _ in range(reader.count(18)):
            number, code, high_watermark, *_ = reader.numbers(form)
            aborted: tuple[tuple[int, int], ...] = ()
            if version >= 4:
                aborted = tuple((reader.int64(), reader.int64()) for _ in range(reader.count(16)))
            partition = TopicPartition(topic, number)
            if partition in found:
                raise reader.malformed(f"{partition} comes twice")
            found[partition] = FetchedPartition(code, high_watermark, aborted, reader.nullable_bytes())
    if reader.left:
        raise reader.malformed(f"{reader.left} bytes follow its end")
    return FetchResponse(throttle_ms, error, session_id, found)
