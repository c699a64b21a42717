"""Decides which offsets the next batch of a stream reads. No I/O, no clock.

    sort_partitions    the state of each partition since the last batch: going on, new, made anew, gone, not chosen
    plan_batch         the start and the end of each, and the lost ranges

A topic counts as another one only by its id or the zxid of its creation, see legacy_consumer.offsets.judgement. A log
that ends before the next offset is no evidence: a broker that has just started may report too low an end. The driver
asks again for a while. If the log is still short then, the stream continues at the lowest end that was reported,
since it has not read the messages after it.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from legacy_consumer.offsets.judgement import TopicOrigin, Verdict, judge, metadata_of, written_in_kafka
from spark_source.errors import CheckpointError, Lost, LostLog
from spark_source.messages.cluster import Topics
from spark_source.messages.ranges import limit_ends
from spark_source.messages.stream_offsets import StreamOffsets
from zk_layout.model import TopicPartition

Offsets = Mapping[TopicPartition, int]


@dataclass(frozen=True, slots=True)
class Standing:
    """The state of a stream's partitions.

    going_on, anew, fresh: chosen partitions. aside: existing partitions that are not, or no longer, chosen.
    gone: deleted with their topics, or missing in a topic that was created again. anew, gone: the offset up to which
    the earlier log was read. marks: the mark of each present topic.
    """

    going_on: Offsets
    anew: Offsets
    fresh: Collection[TopicPartition]
    aside: Offsets
    gone: Offsets
    marks: Mapping[str, str]

    @property
    def read(self) -> list[TopicPartition]:
        """Return the partitions to read, sorted."""
        return sorted([*self.going_on, *self.anew, *self.fresh])


def sort_partitions(start: StreamOffsets, topics: Topics) -> Standing:
    """Return the state of each partition. topics: a reading of the chosen topics and of the topics in start.

    Raises: CheckpointError if start names a partition that its topic never had.
    """
    wanted = set(topics.partitions)
    names = set(topics.names)
    going_on: dict[TopicPartition, int] = {}
    anew: dict[TopicPartition, int] = {}
    aside: dict[TopicPartition, int] = {}
    gone: dict[TopicPartition, int] = {}
    for tp, offset in start.offsets.items():
        origin = topics.origins.get(tp.topic)
        if tp.topic not in names:
            # a deleted topic that the query does not read any more is no loss
            if origin is not None:
                aside[tp] = offset
        elif origin is None:
            gone[tp] = offset
        elif is_of_earlier_topic(start, tp, origin):
            (anew if tp in wanted else gone)[tp] = offset
        elif tp in wanted:
            going_on[tp] = offset
        elif tp in topics.existing:
            aside[tp] = offset
        else:
            raise CheckpointError(f"names {tp}, a partition that the topic does not have")
    marks = {topic: start.topics[topic] for topic in {tp.topic for tp in aside} & start.topics.keys()}
    marks.update((topic, metadata_of(topics.origins[topic])) for topic in {tp.topic for tp in wanted})
    return Standing(going_on, anew, wanted - start.offsets.keys(), aside, gone, marks)


def is_of_earlier_topic(reached: StreamOffsets, tp: TopicPartition, now: TopicOrigin | None) -> bool:
    """Return whether the offset in `reached` is of a topic that was deleted since, even if the name exists again."""
    written = written_in_kafka(reached.offsets[tp], reached.topics.get(tp.topic, ""))
    return now is None or judge(written, now).verdict is Verdict.EARLIER_TOPIC


def may_commit(start: StreamOffsets, standing: Standing) -> Offsets:
    """Return the processed offsets to commit: none of an earlier topic, none of a partition that is no longer read.

    A checkpoint of version 1 does not say which topic its offsets are of; they are committed after the next batch.
    """
    return {tp: offset for tp, offset in standing.going_on.items() if tp.topic in start.topics}


@dataclass(frozen=True, slots=True)
class Found:
    """The answers of brokers and the group for the partitions to read, without topics that were deleted meanwhile.

    earliest: at least for logs that do not end at the stream's position. begins: first offsets to read of new
    partitions, if not earliest. fallen: {partition: the lowest end that a broker reported}, for logs that end before
    the stream's position even after repeated requests. known_ends: the last known ends of the logs.
    """

    earliest: Offsets
    latest: Offsets
    begins: Offsets
    fallen: Offsets
    known_ends: Offsets


def plan_batch(
    start: StreamOffsets, standing: Standing, found: Found, most: int | None
) -> tuple[StreamOffsets, list[Lost | LostLog]]:
    """Return the end of the next batch, start itself if there is nothing to do; and the lost ranges.

    most: the largest number of offsets, shared among the partitions in proportion to what there is to read.
    """
    lost: list[Lost | LostLog] = [
        LostLog(tp, offset, found.known_ends.get(tp), again=tp.topic in standing.marks)
        for tp, offset in sorted({**standing.gone, **standing.anew}.items())
    ]
    positions: dict[TopicPartition, int] = {}
    for tp in standing.read:
        if tp not in found.latest:
            continue
        earliest, latest = found.earliest.get(tp, 0), found.latest[tp]
        position = standing.going_on.get(tp, found.begins.get(tp, earliest))
        if tp in standing.anew:
            position = earliest
        elif tp in found.fallen:
            lost.append(Lost(tp, position, position, earliest, found.fallen[tp]))
            # an offset that may be of an earlier topic (checkpoint of version 1, or given) leads to the log's begin
            position = found.fallen[tp] if tp.topic in start.topics else earliest
        if position < earliest:
            lost.append(Lost(tp, position, earliest, earliest, latest))
            position = earliest
        positions[tp] = position
    ends = {tp: max(at, found.latest[tp]) for tp, at in positions.items()}
    reached = limit_ends(positions, ends, most) if most is not None else ends
    kept = {**standing.aside, **{tp: offset for tp, offset in standing.going_on.items() if tp not in positions}}
    end = StreamOffsets(
        {**kept, **reached},
        standing.marks,
        {tp: at for tp, at in positions.items() if start.offsets.get(tp) != at},
    )
    is_unchanged = start.begun and (end.offsets, end.topics) == (start.offsets, start.topics)
    return (start if is_unchanged else end), lost
