"""The metrics of members, read when they are scraped: consuming pays nothing for them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from legacy_consumer.connector import ConsumerConnector
from legacy_consumer.metrics import catalogue
from legacy_consumer.metrics.catalogue import Kind, Metric
from legacy_consumer.metrics.health import judge_liveness
from legacy_consumer.metrics.log_ends import LogEnds
from rebalance.counters import BUCKETS_S
from rebalance.machine import Phase

_EVENTS = ("connected", "suspended", "expired", "auth_failed")
_OUTCOMES = ("moved", "unchanged", "degraded")


class MemberCollector(Collector):
    """Register it in any registry of prometheus_client; one for all members of a process.

    A member that was shut down shows its last counters for as long as it is in `connectors`.
    """

    def __init__(self, connectors: Iterable[ConsumerConnector]) -> None:
        self.connectors = list(connectors)
        self._log_ends = {id(connector): LogEnds(connector.log_ends) for connector in self.connectors}

    def collect(self) -> Iterator[Family]:
        """One family for each metric of the catalogue, with the samples of all members."""
        families = _Families()
        for connector in self.connectors:
            self._read(connector, families)
        return iter(families.all())

    def describe(self) -> Sequence[Family]:
        """Nothing is collected when it is registered."""
        return _Families().all()

    def _read(self, connector: ConsumerConnector, families: _Families) -> None:
        who = (connector.config.group_id, connector.consumer_id)
        # progress first: it has the streams say how far their users have come, which the counters then know
        progress = connector.progress
        status, vitals, counted = connector.status, connector.vitals, connector.counters
        families.mark(catalogue.PHASE, who, (phase.value for phase in Phase), status.phase.value)
        families.add(catalogue.ALIVE, who, judge_liveness(status, vitals).holds)
        families.add(catalogue.CONNECTED, who, vitals.connected)
        families.add(catalogue.SETTLED_AT, who, status.settled_at_ms / 1000)
        families.count(catalogue.OWNED, who, Counter(tp.topic for tp in status.owned))
        families.add(catalogue.HELD, who, len(status.held))
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
        ends = self._log_ends[id(connector)].of(progress.keys()) if status.phase is not Phase.CLOSED else {}
        for tp, known in progress.items():
            where = (*who, tp.topic, str(tp.partition))
            end = ends.get(tp)
            for metric, value in (
                (catalogue.CONSUMED_OFFSET, known.consumed),
                (catalogue.COMMITTED_OFFSET, known.committed.offset),
                (catalogue.LOG_END_OFFSET, end),
                (catalogue.LAG, None if end is None or known.consumed is None else max(0, end - known.consumed)),
            ):
                if value is not None:
                    families.add(metric, where, value)


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
        """One sample for each key; those named in always are there from the start, so that a rate sees the first."""
        for key in dict.fromkeys((*always, *counts)):
            self.add(metric, (*labels, key), counts.get(key, 0))

    def mark(self, metric: Metric, labels: Sequence[str], keys: Iterable[str], marked: str) -> None:
        for key in keys:
            self.add(metric, (*labels, key), key == marked)

    def histogram(self, metric: Metric, labels: Sequence[str], counts: Sequence[int], sum_s: float) -> None:
        """counts: one for each bucket and one for what is longer than all."""
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
