"""The metrics of members, computed when a client scrapes them: consuming costs nothing for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from legacy_consumer.member.connector import ConsumerConnector
from legacy_consumer.offsets.progress import PartitionProgress
from legacy_consumer.operations.metrics import catalogue
from legacy_consumer.operations.metrics.catalogue import Kind, Metric
from legacy_consumer.operations.metrics.health import judge_liveness
from legacy_consumer.operations.metrics.lag_sample import LagSampler
from rebalance.clock import Clock
from rebalance.counters import BUCKETS_S
from rebalance.led.standing import LedState, Standing
from rebalance.machine import Phase
from zk_layout.model import TopicPartition

_EVENTS = ("connected", "suspended", "expired", "auth_failed")
_OUTCOMES = ("moved", "unchanged", "degraded")


class MemberCollector(Collector):
    """Collects for all members of a process; register it in any registry of prometheus_client.

    A member that was shut down shows its last counters for as long as it is in `connectors`.
    """

    def __init__(self, connectors: Iterable[ConsumerConnector], *, clock: Clock | None = None) -> None:
        self.connectors = list(connectors)
        self._samplers = {
            id(connector): LagSampler(_progress_of(connector), connector.log_ends, clock=clock)
            for connector in self.connectors
        }

    def collect(self) -> Iterator[Family]:
        """Return one family for each metric of the catalogue, with the samples of all members."""
        families = _Families()
        for connector in self.connectors:
            self._read(connector, families)
        return iter(families.all())

    def describe(self) -> Sequence[Family]:
        """Return the families without samples, so that a registration reads no member."""
        return _Families().all()

    def _read(self, connector: ConsumerConnector, families: _Families) -> None:
        who = (connector.config.group_id, connector.consumer_id)
        # progress first: reading it makes the streams count the consumed messages, which the counters then include
        progress = connector.progress
        status, vitals, counted = connector.status, connector.vitals, connector.counters
        # without a lease the session may have ended at the server, and other members may own the partitions
        owns = vitals.leased
        families.mark(catalogue.PHASE, who, (phase.value for phase in Phase), status.phase.value)
        families.add(catalogue.ALIVE, who, judge_liveness(status, vitals).holds)
        families.add(catalogue.CONNECTED, who, vitals.connected)
        families.add(catalogue.SETTLED_AT, who, status.settled_at_ms / 1000)
        families.add(catalogue.LEASED, who, owns)
        families.count(catalogue.OWNED, who, Counter(tp.topic for tp in status.owned) if owns else {})
        families.add(catalogue.HELD, who, len(status.held))
        families.add(catalogue.IN_HAND, who, vitals.in_hand_s)
        families.add(catalogue.UNASKED, who, vitals.unasked_s)
        families.count(catalogue.REBALANCES, who, counted.member.rebalances, _OUTCOMES)
        families.histogram(catalogue.REBALANCE_SECONDS, who, counted.member.durations, counted.member.duration_sum_s)
        families.add(catalogue.REBALANCE_FAILURES, who, counted.member.failures)
        families.add(catalogue.CONFLICTS, who, counted.member.conflicts)
        families.count(catalogue.SESSION_EVENTS, who, counted.member.session_events, _EVENTS)
        families.count(catalogue.CONSUMED, who, counted.consumed)
        families.count(catalogue.COMMITTED, who, counted.committed)
        families.count(catalogue.COMMITS, who, {"done": counted.commits, "failed": counted.failed_commits})
        families.add(catalogue.FOREIGN_COMMITS, who, counted.foreign_commits)
        families.add(catalogue.FETCH_ERRORS, who, counted.fetch_errors)
        families.add(catalogue.LISTENER_ERRORS, who, counted.listener_errors)
        families.add(catalogue.UNEXPECTED_ERRORS, who, counted.member.unexpected_errors)
        self._read_led(status.led, who, families)
        if not owns:
            return
        sampler = self._samplers[id(connector)]
        sample = sampler.read() if progress else None
        if sample is not None:
            families.add(catalogue.LAG_AGE, who, sampler.age_s(sample))
        for tp, known in progress.items():
            where = (*who, tp.topic, str(tp.partition))
            for metric, value in (
                (catalogue.CONSUMED_OFFSET, known.consumed),
                (catalogue.COMMITTED_OFFSET, known.committed.offset),
                (catalogue.LOG_END_OFFSET, sample.end(tp, known) if sample is not None else None),
                (catalogue.LAG, sample.lag(tp, known) if sample is not None else None),
            ):
                if value is not None:
                    families.add(metric, where, value)

    def _read_led(self, led: Standing | None, who: Sequence[str], families: _Families) -> None:
        families.add(catalogue.COORDINATION, (*who, "classic" if led is None else led.coordination), 1)
        if led is None:
            return
        families.mark(catalogue.LED_STATE, who, (state.value for state in LedState), led.state.value)
        families.add(catalogue.GENERATION, who, led.generation)
        families.add(catalogue.LEADS, who, led.group is not None)
        if led.group is not None:
            families.add(catalogue.GROUP_STATE, (*who, led.group), 1)


def _progress_of(connector: ConsumerConnector) -> Callable[[], Mapping[TopicPartition, PartitionProgress]]:
    return lambda: connector.progress


class _Families:
    """The families of one scrape, in the order of the catalogue."""

    def __init__(self) -> None:
        self._made: dict[str, CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily] = {
            metric.name: _family(metric) for metric in catalogue.MEMBER_METRICS
        }

    def all(self) -> list[Family]:
        return list(self._made.values())

    def add(self, metric: Metric, labels: Sequence[str], value: float) -> None:
        family = self._made[metric.name]
        assert not isinstance(family, HistogramMetricFamily)
        family.add_metric(labels, float(value))

    def count(
        self, metric: Metric, labels: Sequence[str], counts: Mapping[str, int], always: Iterable[str] = ()
    ) -> None:
        """Add one sample for each key; the keys in always exist from the start, so that a rate sees the first event."""
        for key in dict.fromkeys((*always, *counts)):
            self.add(metric, (*labels, key), counts.get(key, 0))

    def mark(self, metric: Metric, labels: Sequence[str], keys: Iterable[str], marked: str) -> None:
        for key in keys:
            self.add(metric, (*labels, key), key == marked)

    def histogram(self, metric: Metric, labels: Sequence[str], counts: Sequence[int], sum_s: float) -> None:
        """Add a histogram. counts: one for each bucket and one for values above all buckets."""
        family = self._made[metric.name]
        assert isinstance(family, HistogramMetricFamily)
        names = [*map(str, BUCKETS_S), "+Inf"]
        running = [sum(counts[: n + 1]) for n in range(len(names))]
        family.add_metric(labels, list(zip(names, running, strict=True)), sum_s)


def _family(metric: Metric) -> CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily:
    match metric.kind:
        case Kind.COUNTER:
            return CounterMetricFamily(metric.family, metric.meaning, labels=metric.labels)
        case Kind.HISTOGRAM:
            return HistogramMetricFamily(metric.family, metric.meaning, labels=metric.labels)
        case _:
            return GaugeMetricFamily(metric.family, metric.meaning, labels=metric.labels)
