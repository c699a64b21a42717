"""Offsets of a time in many logs."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from legacy_consumer.fetching.fetcher import EARLIEST, LATEST, LogOffsets
from legacy_consumer.fetching.librdkafka import LibrdkafkaLogOffsets
from zk_layout.model import Broker, TopicPartition

_LAST_BY_SEGMENT = 3
"""The version of the registrations of 0.10.0 and 0.10.1."""


class BrokerLogTimes:
    """Implements offset_targets.LogTimes over the brokers: a few requests to each leader for any number of partitions.

    Brokers before 0.10.1 know only when a segment was last written, and return no offset if all segments are younger
    than the time; newer brokers return none if all messages are older. The first means the log's beginning, the second
    its end. Registrations of 0.10.0 and 0.10.1 look alike; for them no offset means the beginning, since that repeats
    messages and loses none.
    """

    def __init__(self, logs: LibrdkafkaLogOffsets, brokers: Sequence[Broker]) -> None:
        self._logs = logs
        self.may_go_by_segments = any(broker.version <= _LAST_BY_SEGMENT for broker in brokers)
        """Whether an offset for a time may lie before messages that are older than the time."""
        self.nothing = EARLIEST if self.may_go_by_segments else LATEST
        """The position for a time for which the brokers return no offset: EARLIEST or LATEST."""
        self._offsets: LogOffsets = logs

    def earliest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """As LogOffsets."""
        return self._offsets.earliest(partitions)

    def latest(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """As LogOffsets."""
        return self._offsets.latest(partitions)

    def at_times(self, times: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        """Return the first offset at or after each time, the log's end if all messages are older. Old brokers: earlier.

        Raises: FetchError if messages have no timestamps; BrokersUnavailableError.
        """
        nothing = self.earliest(list(times)) if self.nothing == EARLIEST else self.latest(list(times))
        found = self._logs.at_times({tp: time_ms for tp, time_ms in times.items() if tp in nothing})
        return {tp: nothing[tp] if offset is None else offset for tp, offset in found.items()}
