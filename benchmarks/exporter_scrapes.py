"""The exporter at 100,000 partitions that all move: python -m benchmarks.exporter_scrapes [--groups N] [--seconds N]

There is no peer that reads groups in ZooKeeper, so this is no comparison and not in the table. 1,000 groups of 100
partitions, a member registered in each, and another process that commits every partition repeatedly. The exporter is
the command, in a process of its own. It is scraped twice a second, alternately packed, as Prometheus does, and as plain
text:

- at full speed: no limit to the reads, and the next refresh begins a tenth of a second after the last one, so that
  nearly every scrape meets a refresh;
- with the default limit: 20,000 reads a second.

For each: how long scrapes took, what a refresh read and cost, and the memory of the process.
"""

from __future__ import annotations

import argparse
import re
import statistics
import subprocess
import sys
import threading
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.describing import fill
from benchmarks.processes import own_program
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.sandbox.servers.jvm import ALL_COMPILERS
from zk_layout.codecs import encode_registration
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import ConsumerRegistration, SubscriptionPattern
from zk_layout.paths import ConsumerIdPath
from zk_layout.settings import ZkSettings
from zk_layout.store import CreateOp

_TOPIC = "benchmark"
_PARTITIONS = 100
_MESSAGES = 200_000
_PASS_S = 20.0
_SCRAPE_EVERY_S = 0.5
_READY_WITHIN_S = 120.0
_TICKS_PER_S = 100  # of /proc/PID/stat


@dataclass(frozen=True, slots=True)
class Mode:
    """The options of the exporter."""

    name: str
    arguments: tuple[str, ...]


_MODES = (
    Mode("full speed", ("--interval", "1", "--reads-per-second", "100000000")),
    Mode("20,000 reads/s", ("--interval", "1")),
)


@dataclass(slots=True)
class Seen:
    """The observations of one run. scrapes: {packed or plain: seconds each}. The rest covers the time of the
    scrapes."""

    scrapes: dict[str, list[float]] = field(default_factory=lambda: {"gzip": [], "plain": []})
    page_bytes: dict[str, int] = field(default_factory=dict)
    partitions: int = 0
    moved: int = 0
    seconds: float = 0.0
    refreshes: int = 0
    reads: int = 0
    batches: int = 0
    processor_s: float = 0.0
    peak_mb: float = 0.0


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.exporter_scrapes", description="Scrape the exporter of a busy cluster."
    )
    parser.add_argument("--groups", type=int, default=1000, metavar="N", help="of 100 partitions each (1000)")
    parser.add_argument("--seconds", type=float, default=40.0, metavar="N", help="how long in each mode (40)")
    options = parser.parse_args()
    with EmbeddedKafka("1.1.1", flags=ALL_COMPILERS) as kafka:
        kafka.create_topic(_TOPIC, _PARTITIONS)
        produce_all(
            _TOPIC,
            [(None, b"m", n % _PARTITIONS) for n in range(_MESSAGES)],
            {"bootstrap.servers": kafka.bootstrap_servers},
        )
        _make_groups(kafka.zookeeper_connect, options.groups)
        with _committing(kafka.zookeeper_connect, options.groups):
            found = [_run(mode, kafka.zookeeper_connect, options.seconds) for mode in _MODES]
    _print(_MODES, found)
    return 0


def _make_groups(zookeeper: str, groups: int) -> None:
    member = encode_registration(ConsumerRegistration(SubscriptionPattern.STATIC, ((_TOPIC, 1),), 1))
    store = KazooStore(ZkSettings(zookeeper))
    store.start()
    try:
        fill(store, groups)
        store.multi([CreateOp(ConsumerIdPath(f"group-{n:05d}", "member-1").path, member) for n in range(groups)])
    finally:
        store.close()


@contextmanager
def _committing(zookeeper: str, groups: int) -> Iterator[None]:
    command = own_program("commit_all", zookeeper, str(groups), _TOPIC, str(_PARTITIONS), str(_PASS_S))
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
        try:
            yield
        finally:
            assert process.stdin is not None
            process.stdin.close()


def _run(mode: Mode, zookeeper: str, seconds: float) -> Seen:
    command = [sys.executable, "-m", "legacy_consumer", "exporter", "--zookeeper", zookeeper, "--port", "0"]
    with subprocess.Popen([*command, *mode.arguments], stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            url = process.stderr.readline().split()[1]
            # read the later output, which would fill the pipe and stop the exporter
            threading.Thread(target=process.stderr.read, daemon=True).start()
            _await_refreshes(url, 2)
            return _scrape(url, process.pid, seconds)
        finally:
            process.terminate()


def _await_refreshes(url: str, count: int) -> None:
    deadline = time.monotonic() + _READY_WITHIN_S
    while _value(_get(url, packed=False)[0], "refreshes_total", outcome="done") < count:
        assert time.monotonic() < deadline, "the exporter does not refresh"
        time.sleep(_SCRAPE_EVERY_S)


def _scrape(url: str, pid: int, seconds: float) -> Seen:
    seen = Seen()
    first, _ = _get(url, packed=False)
    processor_s = _processor_s(pid)
    began = time.monotonic()
    while time.monotonic() - began < seconds:
        for kind in ("gzip", "plain"):
            asked = time.monotonic()
            page, took_s = _get(url, packed=kind == "gzip")
            seen.scrapes[kind].append(took_s)
            seen.page_bytes[kind] = len(page)
            time.sleep(max(0.0, _SCRAPE_EVERY_S - (time.monotonic() - asked)))
    last, _ = _get(url, packed=False)
    seen.seconds = time.monotonic() - began
    seen.processor_s = _processor_s(pid) - processor_s
    seen.refreshes = int(
        _value(last, "refreshes_total", outcome="done") - _value(first, "refreshes_total", outcome="done")
    )
    seen.reads = int(_value(last, "zookeeper_reads_total") - _value(first, "zookeeper_reads_total"))
    seen.batches = int(_value(last, "zookeeper_batches_total") - _value(first, "zookeeper_batches_total"))
    seen.partitions = int(_value(last, "partitions"))
    before, after = _committed(first), _committed(last)
    seen.moved = sum(before.get(partition) != offset for partition, offset in after.items())
    found = re.search(r"VmHWM:\s+(\d+) kB", Path(f"/proc/{pid}/status").read_text(encoding="ascii"))
    seen.peak_mb = int(found[1]) / 1024 if found else 0.0
    return seen


def _get(url: str, *, packed: bool) -> tuple[bytes, float]:
    """Return the page as the exporter sent it, and the seconds from the request to the last byte."""
    request = urllib.request.Request(url, headers={"Accept-Encoding": "gzip"} if packed else {})
    began = time.monotonic()
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.read(), time.monotonic() - began


def _value(page: bytes, name: str, **labels: str) -> float:
    wanted = "".join(f'{label}="{value}"' for label, value in labels.items())
    head = f"legacy_consumer_exporter_{name}" + (f"{{{wanted}}} " if wanted else " ")
    found = re.search(rf"^{re.escape(head)}(\S+)$".encode(), page, re.MULTILINE)
    return float(found[1]) if found else 0.0


def _committed(page: bytes) -> dict[bytes, bytes]:
    pattern = rb"^legacy_consumer_group_partition_committed_offset(\{[^}]*\}) (\S+)$"
    return dict(re.findall(pattern, page, re.MULTILINE))


def _processor_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / _TICKS_PER_S


def _print(modes: Sequence[Mode], found: Sequence[Seen]) -> None:
    def row(title: str, *cells: str) -> None:
        print("| " + " | ".join((title, *cells)) + " |")

    row("", *(mode.name for mode in modes))
    row("---", *("---" for _ in modes))
    row("partitions, and those whose offset moved meanwhile", *(f"{s.partitions:,}, {s.moved:,}" for s in found))
    row("refreshes in the time", *(f"{s.refreshes} in {s.seconds:.0f} s" for s in found))
    # the reads include a refresh that has begun, the refreshes do not
    row(
        "znodes and batches, for each refresh that ended",
        *(f"{s.reads // s.refreshes:,}, {s.batches // s.refreshes}" for s in found),
    )
    row("znodes a second", *(f"{s.reads / s.seconds:,.0f}" for s in found))
    row("processor time for a second", *(f"{s.processor_s / s.seconds:.2f} s" for s in found))
    for kind, title in (("gzip", "a packed scrape"), ("plain", "a plain scrape")):
        row(
            f"{title}: median, longest",
            *(
                f"{statistics.median(s.scrapes[kind]):.2f} s, {max(s.scrapes[kind]):.2f} s "
                f"({len(s.scrapes[kind])} of {s.page_bytes[kind] / 1e6:.1f} MB)"
                for s in found
            ),
        )
    row("memory at its highest", *(f"{s.peak_mb:.0f} MB" for s in found))


if __name__ == "__main__":
    sys.exit(main())
