"""Samples a member's lag: log ends and consumed offsets of one moment, read only when a client scrapes."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field

from legacy_consumer.offsets.progress import PartitionProgress
from rebalance.clock import Clock, SystemClock
from zk_layout.errors import LegacyConsumerError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.running_threads import LibraryThread, is_running
from zk_layout.signals import Flag

logger = safe_logger(__name__)

MAX_AGE_S = 10.0
ANSWER_S = 3.0
"""Seconds that a scrape waits for the brokers; Prometheus ends a scrape after ten seconds by default."""


@dataclass(frozen=True, slots=True)
class LagSample:
    """The log ends and the progress at one moment.

    progress: of the partitions that were owned. ends: {partition: offset after the last message}, of those for which a
    broker answered. taken_at: the clock's monotonic time.
    """

    taken_at: float
    progress: Mapping[TopicPartition, PartitionProgress] = field(default_factory=dict)
    ends: Mapping[TopicPartition, int] = field(default_factory=dict)

    def end(self, tp: TopicPartition, now: PartitionProgress) -> int | None:
        """Return the log's end; None if unknown, or if the partition had another epoch at the time of the sample."""
        then = self.progress.get(tp)
        return self.ends.get(tp) if then is not None and then.epoch == now.epoch else None

    def lag(self, tp: TopicPartition, now: PartitionProgress) -> int | None:
        """Return the number of messages that were not consumed at the time of the sample.

        None if end() is None, if no position was known, or if the position is beyond the end: auto.offset.reset, or the
        user's code, decides where the member continues from there.
        """
        end = self.end(tp, now)
        consumed = None if end is None else self.progress[tp].consumed
        return None if end is None or consumed is None or consumed > end else end - consumed

    def covers(self, progress: Mapping[TopicPartition, PartitionProgress]) -> bool:
        """Return whether the sample has all partitions owned now, and each position known now."""
        return all(
            (then := self.progress.get(tp)) is not None
            and then.epoch == now.epoch
            and (now.consumed is None or then.consumed is not None)
            for tp, now in progress.items()
        )


class LagSampler:
    """Takes a sample if the last one is older than max_age_s or lacks a partition, and waits for it briefly.

    Positions are read before the brokers are asked, so a lag can only be too large, by the messages consumed since.
    If no broker answers, the sample is empty: an old end beside a new position would look like no lag.
    progress: returns the progress of owned partitions. ask: connector.log_ends.
    """

    def __init__(
        self,
        progress: Callable[[], Mapping[TopicPartition, PartitionProgress]],
        ask: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
        *,
        max_age_s: float = MAX_AGE_S,
        answer_s: float = ANSWER_S,
        clock: Clock | None = None,
    ) -> None:
        self._progress = progress
        self._ask = ask
        self._max_age_s = max_age_s
        self._answer_s = answer_s
        self._clock = clock or SystemClock()
        self._sample: LagSample | None = None
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None
        self._taken: Flag | None = None
        """Set once the running request has its answer; None if there was no request."""

    def read(self) -> LagSample | None:
        """Return a sample no older than max_age_s plus the wait of a scrape; None if the brokers answer later."""
        with self._lock:
            sample = self._sample
            if sample is not None and self.age_s(sample) < self._max_age_s and sample.covers(self._progress()):
                return sample
            if self._taken is None or not is_running(self._thread):
                self._taken = Flag()
                self._thread = LibraryThread(target=self._take, args=(self._taken,), name="lag-sample")
                self._thread.start()
            taken = self._taken
        self._clock.wait(taken, self._answer_s)
        sample = self._sample
        if sample is None or self.age_s(sample) >= self._max_age_s + self._answer_s:
            # beside a present position it would be wrong by all messages consumed and produced since
            return None
        return sample

    def age_s(self, sample: LagSample) -> float:
        """Return the age of a sample in seconds."""
        return self._clock.monotonic() - sample.taken_at

    def _take(self, taken: Flag) -> None:
        began = self._clock.monotonic()
        sample = LagSample(began)
        try:
            sample = LagSample(began, self._progress())
            if sample.progress:
                sample = LagSample(began, sample.progress, dict(self._ask(list(sample.progress))))
        except LegacyConsumerError as error:
            logger.debug("no log ends for metrics: %s", error)
        except Exception:
            logger.exception("no log ends for metrics")
        finally:
            with self._lock:
                self._sample, self._taken = sample, None
            taken.set()
