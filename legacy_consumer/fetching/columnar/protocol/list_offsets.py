"""ListOffsets (2): the first offset of a log (-2), its end (-1), or the offset of a time.

    request   replica int32 = -1 | v2: isolation int8
              | [topic string, [partition int32 | time int64 | v0: max offsets int32]]
    response  v2: throttle ms int32
              | [topic string, [partition int32 | error int16
                                | v0: offsets [int64] | v1: timestamp int64, offset int64]]

    version   broker   the offset of a time
    0         0.8      the first offsets of the segments that were last written to by then, newest first
    1         0.10.1   the first message with this timestamp or a later one; -1 = all are older
    2         0.11     the same; for readers of committed messages the log ends at the last stable offset

A broker answers with an error for each partition that it does not lead.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class ListedOffset:
    """offset: -1 if the broker has none for this time. earlier: in version 0 the offsets of older segments."""

    error: int
    offset: int
    earlier: tuple[int, ...] = ()


def encode_list_offsets(
    version: int, times: Mapping[TopicPartition, int], *, read_committed: bool, most: int = 1
) -> bytes:
    """Return the body of a request.

    times: ms since 1970; -2 = the log's first offset, -1 = its end. most: offsets for each partition, in version 0.
    """
    writer = Writer()
    writer.int32(-1)
    if version >= 2:
        writer.int8(1 if read_committed else 0)
    topics: dict[str, list[int]] = {}
    for topic, number in times:
        topics.setdefault(topic, []).append(number)
    writer.int32(len(topics))
    for topic, numbers in topics.items():
        writer.string(topic)
        writer.int32(len(numbers))
        for number in numbers:
            writer.int32(number)
            writer.int64(times[TopicPartition(topic, number)])
            if version == 0:
                writer.int32(most)
    return writer.done()


def decode_list_offsets(version: int, frame: memoryview | bytes) -> dict[TopicPartition, ListedOffset]:
    """Decode the body of a response. Raises: MalformedResponseError."""
    reader = Reader(frame, "ListOffsets")
    if version >= 2:
        reader.int32()
    found: dict[TopicPartition, ListedOffset] = {}
    for _ in range(reader.count(6)):
        topic = reader.string()
        for _ in range(reader.count(10)):
            number, error = reader.int32(), reader.int16()
            if version == 0:
                offsets = [reader.int64() for _ in range(reader.count(8))] or [-1]
            else:
                reader.int64()
                offsets = [reader.int64()]
            found[TopicPartition(topic, number)] = ListedOffset(error, offsets[0], tuple(offsets[1:]))
    return found
