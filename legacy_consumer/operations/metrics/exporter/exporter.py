"""Refreshes the data of the cluster on a thread, and answers scrapes from that data without waiting.

If ZooKeeper does not answer, the exporter continues to serve the last data. Metrics that are made for each scrape
show the age of the data, and that its source does not answer. Log ends are served only in the refresh in which a
broker reported them: an old end beside a newer offset would look like no lag.
"""

from __future__ import annotations

import functools
import gzip
import importlib.metadata
import logging
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from legacy_consumer.fetching.fetcher import LogOffsets
from legacy_consumer.operations.metrics import catalogue
from legacy_consumer.operations.metrics.exporter.cluster_reader import ClusterReader, ReadCluster
from legacy_consumer.operations.metrics.exporter.counted_reads import CountedReads, Pace
from legacy_consumer.operations.metrics.exporter.judging import ClusterJudge, Logs
from legacy_consumer.operations.metrics.exporter.rendering import render_groups, render_samples
from legacy_consumer.operations.metrics.health import Judgement
from legacy_consumer.operations.metrics.http_server import Page, Pages
from rebalance.clock import Clock, SystemClock
from zk_layout.errors import LegacyConsumerError, NotPermittedError, ZooKeeperError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.running_threads import is_running
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_ZOOKEEPER, _BROKERS = "zookeeper", "brokers"
_STUCK_AFTER_S = 300.0
_GRACE_S = 10.0


@dataclass(frozen=True, slots=True)
class ExporterSettings:
    """interval_s: from the beginning of a refresh to the next. reads_per_second: of znodes, on average of a refresh.

    with_partitions: whether metrics of single partitions are served.
    """

    interval_s: float = 30.0
    reads_per_second: float = 20_000.0
    with_partitions: bool = True


@dataclass(slots=True)
class _State:
    """The last results of the refreshing thread. It replaces them one by one; scrapes read them."""

    body: tuple[bytes, bytes] = (b"", gzip.compress(b""))
    """The cached part of a page, plain and compressed; Prometheus asks for the compressed one."""
    groups: Mapping[str, int] = field(default_factory=dict)
    partitions: int | None = None
    unknown_ends: int | None = None
    up: dict[str, bool | None] = field(default_factory=lambda: {_ZOOKEEPER: False, _BROKERS: False})
    """None if the exporter had nothing to ask the source for."""
    read_at: dict[str, float] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    refreshes: Counter[str] = field(default_factory=Counter)
    busy_since: float | None = None
    problem: str = "no refresh has ended yet"


class Exporter:
    """Exports all groups. start() begins to refresh; a MetricsServer serves pages(); close() ends, twice is harmless.

    store: the first refresh connects it, and a failure to connect is retried like any other.
    """

    def __init__(
        self,
        store: ZkStore,
        log_offsets: LogOffsets,
        reads: CountedReads,
        *,
        reader: ClusterReader | None = None,
        judge: ClusterJudge | None = None,
        settings: ExporterSettings | None = None,
        clock: Clock | None = None,
    ) -> None:
        self._store = store
        self._log_offsets = log_offsets
        self._reads = reads
        self._reader = reader or ClusterReader()
        self._judge = judge or ClusterJudge()
        self._settings = settings or ExporterSettings()
        self._clock = clock or SystemClock()
        self._state = _State()
        self._complained = ""
        self._ended = threading.Event()
        self._thread: threading.Thread | None = None
        self.failure: LegacyConsumerError | None = None
        """Why the thread has ended before its first successful refresh."""
        self._pace = Pace(
            self._settings.reads_per_second,
            self._clock.monotonic,
            self._wait,
        )

    def start(self) -> None:
        """Refresh repeatedly, on a thread."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="exporter", daemon=True)
            self._thread.start()

    def close(self, timeout_s: float = 10.0) -> bool:
        """End the thread; return False if it still waits for an answer after timeout_s."""
        self._ended.set()
        if self._thread is not None:
            self._thread.join(timeout_s)
        return not is_running(self._thread)

    def pages(self) -> Pages:
        """Return the pages to serve."""
        return Pages(self.page, self.alive, self.ready)

    def page(self, takes_gzip: bool) -> Page:
        """Return the answer to a scrape: the metrics of this moment, and the cached part."""
        plain, packed = self._state.body
        head = self._render_head().encode()
        # two gzip members in a row are one valid gzip stream
        return Page((gzip.compress(head, 1), packed), "gzip") if takes_gzip else Page((head, plain))

    def alive(self) -> Judgement:
        """Return whether refreshes continue. A lost ZooKeeper does not count: a restart would not bring it back."""
        since = self._state.busy_since
        busy_s = 0.0 if since is None else self._clock.monotonic() - since
        if self._thread is not None and not is_running(self._thread):
            return Judgement(False, "the refreshing thread is dead")
        if busy_s > _STUCK_AFTER_S + self._settings.interval_s:
            return Judgement(False, f"a step of a refresh has been going on for {busy_s:.0f} s")
        return Judgement(True, f"alive; {self._state.problem or 'the last refresh was sound'}")

    def ready(self) -> Judgement:
        """Return whether there is data to serve."""
        if "render" not in self._state.seconds:
            return Judgement(False, self._state.problem)
        return Judgement(True, f"{sum(self._state.groups.values())} groups")

    def refresh(self) -> None:
        """Read, judge and render once. Raises: LegacyConsumerError if ZooKeeper cannot be read; the last data stays."""
        state = self._state
        state.busy_since = began = self._clock.monotonic()
        outcome = "failed"
        try:
            cluster = self._read_zookeeper()
            state.busy_since = asked_at = self._clock.monotonic()
            logs = self._read_logs(cluster)
            self._show(cluster, logs)
            # only now: the age is that of the served data, and must grow if newer data cannot be rendered
            state.read_at = {**state.read_at, _ZOOKEEPER: began, **({_BROKERS: asked_at} if state.up[_BROKERS] else {})}
            if state.up[_BROKERS] is not False:
                state.problem = self._complained = ""
                outcome = "done"
        except LegacyConsumerError as error:
            state.up[_ZOOKEEPER] = False
            state.problem = str(error)
            raise
        except Exception as error:
            state.problem = f"the last refresh failed: {type(error).__name__}: {error}"
            raise
        finally:
            state.busy_since = None
            state.refreshes[outcome] += 1

    def _complain(self, text: str) -> None:
        """Log a warning once, until a refresh succeeds: the same problem may appear in every refresh."""
        logger.log(logging.DEBUG if text == self._complained else logging.WARNING, "%s", text)
        self._complained = text

    def _wait(self, seconds: float) -> None:
        self._clock.wait(self._ended, seconds)

    def _run(self) -> None:
        while not self._ended.is_set():
            began = self._clock.monotonic()
            try:
                self.refresh()
            except LegacyConsumerError as error:
                if self._ended.is_set():
                    return
                if not error.retriable and not self._state.read_at:
                    # a wrong chroot or wrong credentials at the start: a retry does not help
                    self.failure = error
                    return
                served = "the last data is served" if self._state.read_at else "there is no data to serve yet"
                self._complain(f"ZooKeeper cannot be read, {served}: {error}")
            except Exception:
                # the next refresh may succeed; until then the age of the data grows
                logger.exception("a refresh failed")
            took_s = self._clock.monotonic() - began
            # pause also after a long refresh, so that reads do not load ZooKeeper without a break
            pause_s = max(self._settings.interval_s - took_s, self._settings.interval_s / 10)
            self._wait(pause_s)

    def _read_zookeeper(self) -> ReadCluster:
        began = self._clock.monotonic()
        self._store.start()
        self._pace.begin(self._reads.znodes)
        cluster = self._reader.read(self._store, self._pause)
        self._state.up[_ZOOKEEPER] = True
        self._state.seconds["zookeeper"] = self._clock.monotonic() - began
        return cluster

    def _pause(self) -> None:
        """Keep the pace between two steps of a refresh. The pause does not count as a step that hangs."""
        self._state.busy_since = None
        self._pace.keep(self._reads.znodes)
        self._state.busy_since = self._clock.monotonic()

    def _read_logs(self, cluster: ReadCluster) -> Logs:
        """Return the ends of the logs, and the first offsets of the logs that some group has not read to the end.

        Raises: ZooKeeperError if ZooKeeper, which names the brokers and the partitions, does not answer any more.
        """
        rows = [
            (tp, row.committed)
            for group in cluster.groups
            for row in group.partitions
            if (tp := TopicPartition(row.topic, row.partition)) in cluster.existing
        ]
        wanted = sorted({tp for tp, _ in rows})
        began = self._clock.monotonic()
        logs = Logs()
        try:
            if wanted:
                ends = dict(self._log_offsets.latest(wanted))
                behind = sorted({tp for tp, committed in rows if (committed or 0) < ends.get(tp, 0)})
                logs = Logs(dict(self._log_offsets.earliest(behind)) if behind else {}, ends)
        except LegacyConsumerError as error:
            if isinstance(error, ZooKeeperError) and not isinstance(error, NotPermittedError):
                raise
            self._complain(f"no broker tells where logs end, lags are unknown: {error}")
            self._state.problem = str(error)
            self._state.up[_BROKERS] = False
        else:
            self._state.up[_BROKERS] = True if wanted else None
        self._state.unknown_ends = len(wanted) - len(logs.ends)
        self._state.seconds["brokers"] = self._clock.monotonic() - began
        return logs

    def _show(self, cluster: ReadCluster, logs: Logs) -> None:
        began = self._clock.monotonic()
        groups = self._judge.judge(cluster, logs, int(began * 1000))
        judged = self._clock.monotonic()
        body = render_groups(groups, logs.ends, with_partitions=self._settings.with_partitions)
        state = self._state
        active = sum(one.read.members > 0 for one in groups)
        state.groups = {"active": active, "idle": len(groups) - active}
        state.partitions = sum(len(one.partitions) for one in groups)
        state.body = (body, gzip.compress(body, 1))
        state.seconds["judge"] = judged - began
        state.seconds["render"] = self._clock.monotonic() - judged

    def _render_head(self) -> str:
        state, now = self._state, self._clock.monotonic()
        up = {source: is_up for source, is_up in sorted(state.up.items()) if is_up is not None}
        ages = [((source,), now - at) for source, at in sorted(state.read_at.items()) if source in up]
        return "".join(
            (
                render_samples(catalogue.EXPORTER_INFO, [((_version(),), 1)]),
                render_samples(
                    catalogue.EXPORTER_UP,
                    [((source,), is_up and self._is_recent(source, now)) for source, is_up in up.items()],
                ),
                render_samples(catalogue.EXPORTER_AGE, ages),
                render_samples(catalogue.EXPORTER_UNKNOWN_ENDS, _known(state.unknown_ends)),
                render_samples(
                    catalogue.EXPORTER_REFRESHES,
                    [((outcome,), state.refreshes[outcome]) for outcome in ("done", "failed")],
                ),
                render_samples(
                    catalogue.EXPORTER_REFRESH_SECONDS, [((step,), s) for step, s in sorted(state.seconds.items())]
                ),
                render_samples(catalogue.EXPORTER_READS, [((), self._reads.znodes)]),
                render_samples(catalogue.EXPORTER_BATCHES, [((), self._reads.batches)]),
                render_samples(
                    catalogue.EXPORTER_GROUPS, [((name,), many) for name, many in sorted(state.groups.items())]
                ),
                render_samples(catalogue.EXPORTER_PARTITIONS, _known(state.partitions)),
                render_samples(catalogue.EXPORTER_PAGE_BYTES, [((), len(state.body[0]))]),
            )
        )

    def _is_recent(self, source: str, now: float) -> bool:
        """Return whether the source has answered recently: a refresh that hangs raises no error that would show it."""
        interval_s, took_s = self._settings.interval_s, sum(self._state.seconds.values())
        overdue_s = max(2 * interval_s, 2 * took_s + interval_s / 10) + _GRACE_S
        return now - self._state.read_at.get(source, float("-inf")) < overdue_s


def _known(value: int | None) -> list[tuple[tuple[()], int]]:
    """Return the sample of a metric without labels; none if the value is unknown."""
    return [] if value is None else [((), value)]


@functools.cache
def _version() -> str:
    try:
        return importlib.metadata.version("legacy-consumer")
    except importlib.metadata.PackageNotFoundError:
        return "unknown"
