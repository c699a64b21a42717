"""The driver's side of a stream: reads the cluster, decides by stream_plan, commits, and divides a batch.

Spark has processed everything before `start` of advance. Only advance commits it for the group, without partitions
that do not match the topics that the same reading found in ZooKeeper. Spark's own call of commit is ignored: it names
the same offsets later, after another reading, and Spark never makes it for the last batch.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import TypeVar

from spark_source.errors import LostLog
from spark_source.messages.batch import log_notes, report_loss
from spark_source.messages.cluster import Cluster, Topics
from spark_source.messages.group_claim import GroupClaim, refuse_members
from spark_source.messages.group_progress import GroupProgress
from spark_source.messages.lower_ends import look_until_reached
from spark_source.messages.offset_spec import OffsetKind
from spark_source.messages.options import LiveGroup, MessageOptions
from spark_source.messages.planned_znodes import Znodes, read_znodes
from spark_source.messages.positions import resolve
from spark_source.messages.ranges import OffsetRange
from spark_source.messages.stream_offsets import NOT_BEGUN, StreamOffsets, ranges_between
from spark_source.messages.stream_plan import (
    Found,
    Standing,
    is_of_earlier_topic,
    may_commit,
    plan_batch,
    sort_partitions,
)
from zk_layout.errors import ConnectionLostError, ConnectTimeoutError, SessionExpiredError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)

LOWER_END_S = 60.0
"""Seconds for which brokers are asked again if a log ends before the stream's position."""
_LEAST_WAIT_S = 0.1
"""Without a trigger interval Spark asks every 10 ms for new offsets; ZooKeeper and brokers are asked less often."""
_TRIES = 3
"""Tries of a step that cannot wait for the next trigger, while ZooKeeper does not answer."""

Offsets = dict[TopicPartition, int]
Answer = TypeVar("Answer")
_ZOOKEEPER_AWAY = (ConnectionLostError, ConnectTimeoutError, SessionExpiredError)


class StreamDriver:
    """The open connections of a stream, and its state between two batches. Used by one thread.

    cluster: another one than the options name, for tests.
    """

    def __init__(self, options: MessageOptions, cluster: Cluster | None = None) -> None:
        self._options = options
        self._cluster = cluster or Cluster(options)
        self._claim: GroupClaim | None = None
        self._progress: GroupProgress | None = None
        self._target: tuple[StreamOffsets, Offsets] | None = None
        self._ends: Offsets = {}
        self._absent: set[str] = set()
        self._idle_from: StreamOffsets | None = None
        self._asked_at = 0.0
        self._planned_at: float | None = None

    def open(self) -> None:
        """Connect, and register or check the group. Raises: LiveGroupError, ConfigError and the errors of Cluster."""
        options = self._options
        log_notes(options)
        try:
            self._cluster.open()
            self._cluster.check_access()
            group = options.group
            if group is not None:
                alone = options.live_group is LiveGroup.FAIL and not options.claim_ownership
                if options.claim_ownership:
                    self._claim = GroupClaim(self._cluster.store, group, options.config.consumer_id)
                    self._claim.hold(self._cluster.topics(must_exist=False).partitions)
                elif options.commits and alone:
                    refuse_members(self._cluster.store, group)
                if options.commits:
                    self._progress = GroupProgress(self._cluster.store, group, self._claim, alone=alone)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the group and close all connections."""
        try:
            if self._claim is not None:
                self._claim.release()
        finally:
            self._cluster.close()

    def stop_at_present(self) -> None:
        """From now on, read no later messages. Raises: as a batch read."""
        self._target = self._until_answered(self._present)

    def _present(self) -> tuple[StreamOffsets, Offsets]:
        topics = self._cluster.topics(must_exist=False)
        now = sort_partitions(NOT_BEGUN, topics)
        ends = self._cluster.log_ends(topics.partitions)
        return StreamOffsets(dict.fromkeys(ends, 0), now.marks), ends

    def advance(self, start: StreamOffsets, most: int | None) -> StreamOffsets:
        """Commit start, which is processed, and return the end of the next batch; start itself if there is nothing new.

        Without ZooKeeper no batch is planned: another member could own the partitions by now. Raises: as a batch read;
        DataLossError, by option; LiveGroupError, OwnershipLostError, CheckpointError.
        """
        clock = self._cluster.clock
        if start == self._idle_from:
            self._cluster.pause(max(0.0, self._asked_at + _LEAST_WAIT_S - clock.monotonic()))
        self._asked_at = clock.monotonic()
        if self._target is not None or not start.begun:
            end = self._until_answered(lambda: self._plan(start, most))
        else:
            try:
                end = self._plan(start, most)
            except _ZOOKEEPER_AWAY as error:
                logger.warning("no batch is planned now: %s", error)
                end = start
        self._idle_from = start if end == start else None
        return end

    def _until_answered(self, ask: Callable[[], Answer]) -> Answer:
        """Repeat a step while ZooKeeper does not answer, for a few session timeouts. Raises: then ZooKeeper's error."""
        tries_left = _TRIES
        while True:
            try:
                return ask()
            except _ZOOKEEPER_AWAY as error:
                tries_left -= 1
                if not tries_left:
                    raise
                logger.warning("planning is tried again: %s", error)
                self._cluster.pause(self._options.config.zookeeper_session_timeout_ms / 1000)

    def _plan(self, start: StreamOffsets, most: int | None) -> StreamOffsets:
        standing, begins, latest, fallen = self._look(start)
        if self._target is not None:
            target = self._target[1]
            # a broker may have reported too low an end for the target; the messages up to the present end existed then
            target.update({tp: end for tp, end in latest.items() if target[tp] < standing.going_on.get(tp, 0)})
            latest = {tp: min(end, target[tp]) for tp, end in latest.items()}
        goes_on = {**standing.going_on, **begins}
        with_news = [tp for tp, end in latest.items() if end != goes_on.get(tp)]
        earliest = self._cluster.log_begins(with_news, self._optional(start, standing))
        latest = {tp: end for tp, end in latest.items() if tp in earliest or end == goes_on.get(tp)}
        found = Found(earliest, latest, begins, fallen, dict(self._ends))
        if start.begun and self._is_too_little(start, standing, found):
            return start
        end, lost = plan_batch(start, standing, found, most)
        report_loss(self._options, lost)
        self._ends.update(latest)
        if end is not start:
            self._planned_at = self._cluster.clock.monotonic()
            if self._progress is not None:
                self._progress.forget({**standing.anew, **standing.gone})
        return end

    def _look(self, start: StreamOffsets) -> tuple[Standing, Offsets, Offsets, Offsets]:
        """Return the standing of the partitions, the begins of new ones, the log ends, and the shortened logs.

        Commits processed offsets. While a log ends before the stream's position, everything is read again, up to
        LOWER_END_S: the topic may have been created again meanwhile.
        """

        def look() -> tuple[tuple[Standing, Offsets, Offsets], Offsets, Offsets]:
            topics = self._cluster.topics({tp.topic for tp in start.offsets}, must_exist=not start.begun)
            self._report_absent(topics)
            if self._claim is not None:
                self._claim.hold(topics.partitions)
            standing = sort_partitions(start, self._up_to_target(topics))
            if self._progress is not None:
                self._progress.commit(may_commit(start, standing))
            begins = self._begins(start, standing)
            latest = self._cluster.log_ends(standing.read, self._optional(start, standing))
            positions = {**standing.going_on, **begins}
            latest |= self._cluster.undecided(positions, latest)
            return (standing, begins, latest), latest, positions

        seen, lowest = look_until_reached(look, LOWER_END_S, self._cluster.clock)
        return *seen, lowest

    def _optional(self, start: StreamOffsets, standing: Standing) -> Collection[TopicPartition]:
        """Return the partitions that a batch may leave out while they have no leader: the stream reads them later.

        None with a target, which the stream reaches now or never. Not new partitions, whose begins must be found at
        once. Not those of a checkpoint of version 1, which does not say which topic the kept offset is of.
        """
        return [] if self._target is not None else [tp for tp in standing.going_on if tp.topic in start.topics]

    def _report_absent(self, topics: Topics) -> None:
        """Log each named topic and partition that does not exist, once; a query that has begun continues without."""
        missing = self._options.topics.partitions.difference(topics.existing)
        absent = {f"topic {name}" for name in topics.names if name not in topics.origins}
        absent |= {f"partition {tp}" for tp in missing if tp.topic in topics.origins}
        for each in sorted(absent - self._absent):
            logger.warning("%s does not exist: nothing of it is read until it does", each)
        self._absent = absent

    def _up_to_target(self, topics: Topics) -> Topics:
        """Return the topics, with a target without partitions and topics that were created after it."""
        if self._target is None:
            return topics
        known = self._target[0]
        wanted = [
            tp
            for tp in topics.partitions
            if tp in known.offsets and not is_of_earlier_topic(known, tp, topics.origins[tp.topic])
        ]
        left = {tp.topic for tp in wanted}
        names = [name for name in topics.names if name in left or name not in topics.origins]
        return replace(topics, partitions=wanted, names=names)

    def _begins(self, start: StreamOffsets, standing: Standing) -> Offsets:
        """Return the first offsets to read of new partitions.

        The first partitions begin at startingOffsets. Partitions that the options or a filter added later begin at the
        group's offset, if it has one. Partitions that are missing in the result begin at the first offset of their log.
        """
        spec = self._options.starting
        fresh = sorted(standing.fresh)
        if not start.begun:
            logs = self._cluster.logs(fresh)
            return resolve("startingOffsets", spec, fresh, logs, self._cluster.stand(spec, fresh))
        known = {tp.topic for tp in start.offsets}
        are_named = bool(self._options.topics.partitions)
        # other partitions of a topic that is read already are new in the topic: only this query has offsets of them
        added = [tp for tp in fresh if are_named or tp.topic not in known]
        if not added or spec.kind is not OffsetKind.COMMITTED:
            return {}
        return dict(self._cluster.stand(spec, added).committed)

    def _is_too_little(self, start: StreamOffsets, standing: Standing, found: Found) -> bool:
        least, delay_ms = self._options.min_offsets_per_trigger, self._options.max_trigger_delay_ms
        if least is None or self._target is not None or self._planned_at is None:
            return False
        if (self._cluster.clock.monotonic() - self._planned_at) * 1000 >= delay_ms:
            return False
        return sum(each.size for each in ranges_between(start, plan_batch(start, standing, found, None)[0])) < least

    def log_ends(self) -> Mapping[TopicPartition, int]:
        """Return the ends of the logs when the last batch was planned."""
        return self._ends

    def tasks(self, start: StreamOffsets, end: StreamOffsets) -> tuple[list[OffsetRange], Znodes]:
        """Return the ranges of a batch, and the znodes that its executors need. All planned ranges are returned.

        Only ranges of a topic that was deleted since are left out. Raises: DataLossError, by option; ZooKeeperError.
        """
        return self._until_answered(lambda: self._tasks(start, end))

    def _tasks(self, start: StreamOffsets, end: StreamOffsets) -> tuple[list[OffsetRange], Znodes]:
        ranges = ranges_between(start, end)
        origins = self._cluster.origins([each.partition for each in ranges])
        lost = [
            LostLog(each.partition, each.start, each.end, again=each.partition.topic in origins)
            for each in ranges
            if is_of_earlier_topic(end, each.partition, origins.get(each.partition.topic))
        ]
        report_loss(self._options, lost)
        vanished = {each.partition for each in lost}
        left = [each for each in ranges if each.partition not in vanished]
        return left, read_znodes(self._cluster.store, [each.partition for each in left])
