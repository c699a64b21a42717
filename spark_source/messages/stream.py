"""The streaming read of zk_messages.

Spark runs one Python worker on the driver for as long as a query runs, in which a reader plans batch after batch; it
keeps its connections. Another one is made only to be pickled to the executors, which read as in a batch query.

A batch is done when Spark asks for the next one: `start` of latestOffset is the end of what was processed. That is
when it becomes the group's committed offset; Spark's own call of commit comes a batch later, for the last one never.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping, Sequence

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)

from spark_source.broker_access import check_access
from spark_source.errors import LiveGroupError, Lost, LostLog
from spark_source.messages.batch import log_notes, plan_tasks, read_range, report_loss
from spark_source.messages.cluster import Cluster
from spark_source.messages.columns import WantedColumn
from spark_source.messages.group_claim import GroupClaim, living_members
from spark_source.messages.group_progress import GroupProgress
from spark_source.messages.options import LiveGroup, MessageOptions
from spark_source.messages.planned_znodes import read_znodes
from spark_source.messages.positions import resolve, to_ranges
from spark_source.messages.ranges import limit_ends
from spark_source.messages.stream_offsets import JsonOffsets, Reported, from_json, report, to_json
from spark_source.messages.worker_exit import be_undisturbed, exit_in_order
from zk_layout.errors import ConnectionLostError, ConnectTimeoutError, SessionExpiredError
from zk_layout.model import TopicPartition

logger = logging.getLogger(__name__)

_LEAST_WAIT_S = 0.1
"""Without a trigger interval Spark asks every 10 ms for something new; ZooKeeper and brokers are asked less often."""

_Offsets = dict[TopicPartition, int]


class ZkMessagesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads messages batch by batch, from where the group stands or the checkpoint says.

    Its methods run on the driver in one process, read on the executors from a pickled copy that never planned anything.
    """

    def __init__(self, options: MessageOptions, columns: tuple[WantedColumn, ...]) -> None:
        self._options = options
        self._columns = columns
        self._driver: StreamDriver | None = None

    def _plan(self) -> StreamDriver:
        if self._driver is None:
            exit_in_order(self.stop)
            self._driver = StreamDriver(self._options)
            self._driver.open()
        return self._driver

    def initialOffset(self) -> JsonOffsets:  # noqa: N802 - Spark's name
        """Where a query without a checkpoint begins. Raises: what planning a batch read does; LiveGroupError."""
        return to_json(self._plan().initial())

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """What maxOffsetsPerTrigger says."""
        most = self._options.max_offsets_per_trigger
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """From now on nothing that comes later is read."""
        self._plan().stop_at_present()

    def latestOffset(self, start: JsonOffsets, limit: ReadLimit) -> JsonOffsets:  # noqa: N802
        """Where the next batch ends. All before start was processed, so it is committed."""
        most = limit.max_rows if isinstance(limit, ReadMaxRows) else None
        return to_json(self._plan().advance(from_json(start), most))

    def reportLatestOffset(self) -> Reported:  # noqa: N802
        """For the progress of the query: where the logs end, and the lag behind the batch that was just planned."""
        return self._plan().report()

    def partitions(self, start: JsonOffsets, end: JsonOffsets) -> Sequence[InputPartition]:
        """The tasks of a batch. Raises: DataLossError, BrokersUnavailableError."""
        if start == end:
            return []
        return self._plan().tasks(from_json(start), from_json(end))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read one range. Runs on an executor."""
        return read_range(self._options, self._columns, partition)

    def commit(self, end: JsonOffsets) -> None:
        """Spark is done with all before end."""
        self._plan().commit(from_json(end))

    def stop(self) -> None:
        """Release what was claimed, and free the connections; twice is harmless."""
        be_undisturbed()
        driver, self._driver = self._driver, None
        if driver is not None:
            driver.close()


class StreamDriver:
    """What the driver does for a stream; all that is open, and all that is remembered between two batches."""

    def __init__(self, options: MessageOptions) -> None:
        self._options = options
        self._cluster = Cluster(options)
        self._claim: GroupClaim | None = None
        self._progress: GroupProgress | None = None
        self._target: _Offsets | None = None
        self._ends: _Offsets = {}
        self._planned: _Offsets = {}
        self._known: list[TopicPartition] = []
        self._created: dict[str, int] = {}
        self._gone: set[TopicPartition] = set()
        self._asked_from: _Offsets = {}
        self._asked_at = 0.0

    def open(self) -> None:
        """Connect, and see to the group. Raises: LiveGroupError, ConfigError and what Cluster raises."""
        options = self._options
        log_notes(options)
        try:
            self._cluster.open()
            check_access(options.config, self._cluster.brokers())
            group = options.group
            if group is not None:
                if options.claim_ownership:
                    self._claim = GroupClaim(self._cluster.store, group, options.config.consumer_id)
                    self._claim.hold(self._partitions())
                elif options.commit_offsets and options.live_group is LiveGroup.FAIL:
                    members = living_members(self._cluster.store, group)
                    if members:
                        raise LiveGroupError(group, members)
                if options.commit_offsets:
                    self._progress = GroupProgress(self._cluster.store, group, self._claim)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Leave the group and free everything."""
        try:
            if self._claim is not None:
                self._claim.release()
        except (ConnectionLostError, ConnectTimeoutError) as error:
            logger.warning("group %s: not released, the session's end will do it: %s", self._options.group, error)
        finally:
            self._cluster.close()

    def initial(self) -> _Offsets:
        """Where to begin without a checkpoint. Raises: as a batch read."""
        partitions = self._cluster.partitions()
        logs = self._cluster.logs(partitions)
        spec = self._options.starting
        return resolve("startingOffsets", spec, partitions, logs, self._cluster.stand(spec, partitions))

    def stop_at_present(self) -> None:
        """Read nothing that comes later than now."""
        self._target = self._cluster.log_ends(self._partitions())

    def advance(self, start: Mapping[TopicPartition, int], most: int | None) -> _Offsets:
        """Where the next batch ends, whose start everything has been processed up to.

        Partitions that are new begin at 0. Those of a topic that is gone keep their offsets. Another log of the same
        name goes back to 0 in a batch of its own, which reads nothing of it: an end before the start says so, also to
        who repeats the batch. Raises: DataLossError, by option.
        """
        if start == self._planned and start == self._asked_from:
            time.sleep(max(0.0, self._asked_at + _LEAST_WAIT_S - time.monotonic()))
        self._asked_from, self._asked_at = dict(start), time.monotonic()
        partitions = self._partitions()
        if self._claim is not None:
            self._claim.hold(partitions)
        ends = self._cluster.log_ends(partitions) if self._target is None else self._target
        starts = {**dict.fromkeys(ends, 0), **start}
        begun_anew, lost = self._see_losses(start, ends)
        # what was read of a log that is gone is nothing to a group that will read its successor
        self.commit({tp: offset for tp, offset in start.items() if tp not in begun_anew | self._gone})
        report_loss(self._options, lost)
        if begun_anew and self._target is not None:
            self._target = ends = {**ends, **self._cluster.log_ends(begun_anew)}
        self._ends = dict(ends)
        going_on = {tp: end for tp, end in ends.items() if tp not in begun_anew}
        self._planned = {
            **starts,
            **(going_on if most is None else limit_ends(starts, going_on, most)),
            **dict.fromkeys(begun_anew, 0),
        }
        return self._planned

    def _partitions(self) -> list[TopicPartition]:
        """Those there are now; while ZooKeeper does not answer, those there were."""
        try:
            self._known = self._cluster.partitions(must_exist=False)
        except (ConnectionLostError, ConnectTimeoutError) as error:
            if not self._known:
                raise
            logger.warning("new partitions are not looked for: %s", error)
        return self._known

    def _see_losses(
        self, start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]
    ) -> tuple[set[TopicPartition], list[Lost | LostLog]]:
        """Which of the partitions read so far have another log by now, and what was lost with these and with topics
        that are gone.
        """
        # what is gone is remembered: it may come back
        former, self._created = self._created, dict(self._cluster.created)
        another = {tp for tp in start.keys() & ends.keys() if _is_another(tp, former, self._created)}
        lost: list[Lost | LostLog] = [LostLog(tp, start[tp], self._ends.get(tp), again=True) for tp in sorted(another)]
        beyond = {tp: start[tp] for tp, end in ends.items() if end < start.get(tp, 0) and tp not in another}
        if beyond:
            # asked again: a new leader may be behind for a moment
            logs = self._cluster.logs(beyond, may_vanish=True)
            still = {tp: at for tp, at in beyond.items() if tp in logs.latest and logs.latest[tp] < at}
            lost += to_ranges(still, still, logs)[1]
            another |= still.keys()
        unseen = start.keys() - ends.keys() - self._gone
        gone = unseen.difference(self._cluster.still_there(unseen))
        lost += [LostLog(tp, start[tp], self._ends.get(tp)) for tp in sorted(gone)]
        self._gone = (self._gone | gone) - ends.keys()
        return another, lost

    def report(self) -> Reported:
        """Log ends and lag as of the last batch planned."""
        return report(self._ends, self._planned)

    def tasks(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> Sequence[InputPartition]:
        """What is read of one batch: nothing outside of it, whatever became of the logs since it was planned.

        Raises: DataLossError, by option; BrokersUnavailableError.
        """
        starts = {**dict.fromkeys(end, 0), **start}
        moved = {tp: offset for tp, offset in end.items() if offset > starts[tp]}
        logs = self._cluster.logs(moved, may_vanish=True)
        created = self._cluster.created_now(logs.latest)
        same = {tp for tp in logs.latest if not _is_another(tp, self._created, created)}
        lost: list[Lost | LostLog] = [
            LostLog(tp, starts[tp], moved[tp], again=tp in logs.latest) for tp in sorted(moved.keys() - same)
        ]
        found, outside = to_ranges(starts, {tp: end for tp, end in moved.items() if tp in same}, logs)
        # a log that ends before its start is another one, which the next batch begins with
        ranges = [each for each in found if each.start >= starts[each.partition]]
        lost += [each for each in outside if each.partition in start or each.start > 0]
        report_loss(self._options, lost)
        znodes = read_znodes(self._cluster.store, [each.partition for each in ranges])
        return plan_tasks(self._options, ranges, znodes)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> None:
        """Make these the group's offsets. A ZooKeeper that does not answer now is asked again with the next batch."""
        if self._progress is None:
            return
        try:
            self._progress.commit(offsets)
        except (ConnectionLostError, ConnectTimeoutError, SessionExpiredError) as error:
            logger.warning("group %s: offsets are not committed yet: %s", self._options.group, error)


def _is_another(tp: TopicPartition, former: Mapping[str, int], now: Mapping[str, int]) -> bool:
    """Whether the topic was created again; what was never seen before is not."""
    return tp.topic in former and former[tp.topic] != now.get(tp.topic)
