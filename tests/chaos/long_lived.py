"""Members that join and leave in one process for any time, and a check that they leave nothing behind.

One member stays in the group. Several others in the same process join, consume and leave at the same time, again and
again: in order, twice, from another thread, from inside their own listener, after ending their streams, with a listener
that raises, and with a session that the server has ended. Between rounds, when only the staying member is left, the
test counts all that the others could leave behind: threads and file descriptors of this process, its memory, and the
server's znodes, watches and connections.

Meanwhile it scrapes the metrics of the staying member and of an exporter, and compares them with the produced messages.

    python -m tests.chaos.long_lived --minutes 30 --json long_lived.json
"""

from __future__ import annotations

import argparse
import contextlib
import ctypes
import gc
import json
import logging
import os
import random
import re
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path

from confluent_kafka import Producer

from legacy_consumer import ConsumerConfig, ConsumerConnector, Phase
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.sandbox.servers.waiting import wait_for
from legacy_consumer.sandbox.servers.zookeeper import four_letter_word
from tests.support.metrics_truth import MetricsTruth
from tests.support.stopwatch import Stopwatch
from tests.support.zk_wire import close_session
from zk_layout.kazoo_store import KazooStore

GROUP, TOPIC = "long-lived", "long-lived"
PARTITIONS = 12
COMPANIONS = 3
MESSAGES_A_ROUND = 10
"""The number of messages to each partition in a round."""
WARM_UP_ROUNDS = 4
DRAIN_TIMEOUT_MS = 2000
SHUTDOWN_LIMIT_S = 8.0
"""Seconds: drain.timeout.ms, and time for a last commit and a release on a busy machine."""
REST_TIMEOUT_S = 30.0
STILL_S = 2.0
MEMORY_SLACK_KB = 12 * 1024
MEMORY_SLACK_KB_A_JOIN = 1.0

SERVER_COUNTS = ("znode_count", "ephemerals_count", "watch_count", "num_alive_connections")
"""The ZooKeeper server's names for the last four fields of Count."""
WAYS = ("in order", "twice", "another thread", "its listener", "streams first", "listener raises", "session ended")


@dataclass(frozen=True)
class Count:
    """The counts at one moment. after_s: seconds since the start. joins: the number of joins so far."""

    after_s: float
    joins: int
    threads: int
    descriptors: int
    memory_kb: int
    znodes: int
    ephemerals: int
    watches: int
    connections: int


class Listener:
    """The listener of a member that leaves in this way: it raises, or shuts its member down once that must leave."""

    def __init__(self, way, connector):
        self.way = way
        self.connector = connector
        self.is_to_leave = False

    def before_releasing_partitions(self, partitions):
        if self.way == "listener raises":
            raise ValueError("a user's defect")
        if self.way == "its listener" and self.is_to_leave:
            self.connector.shutdown()

    def before_starting_fetchers(self, partitions, assignment):
        if self.way == "listener raises":
            raise ValueError("a user's defect")


class LongLived:
    """One cluster and one group, with all members in this process; a context manager."""

    def __init__(self, seed=1):
        self.random = random.Random(seed)
        self.joins = 0
        self.consumed = 0
        self.longest_shutdown_s = 0.0
        self.ways = dict.fromkeys(WAYS, 0)
        self._produced, self._acknowledged = (dict.fromkeys(range(PARTITIONS), 0) for _ in range(2))
        self._began = time.monotonic()
        self._lock = threading.Lock()
        self._zookeeper = EmbeddedZooKeeper()
        self._kafka = EmbeddedKafka("1.1.1", zookeeper=self._zookeeper)

    def __enter__(self):
        try:
            self._zookeeper.start()
            self._kafka.start()
            self._kafka.create_topic(TOPIC, PARTITIONS)
            self._producer = Producer({"bootstrap.servers": self._kafka.bootstrap_servers, "log_level": 0})
            self._produce(1)
            self._pool = ThreadPoolExecutor(COMPANIONS, thread_name_prefix="companion")
            # start all threads of the pool now, so that the first count has them
            meeting = threading.Barrier(COMPANIONS)
            list(self._pool.map(lambda _: meeting.wait(), range(COMPANIONS)))
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *error):
        self._pool.shutdown()
        self.close()

    def close(self):
        self._kafka.close()
        self._zookeeper.close()

    def run(self, minutes, say=lambda line: None):
        """Run for this time. Returns: the figures; "left_behind" lists counts that did not return to the first ones."""
        # with the first member, the libraries start threads that they keep for ever
        self._one_life("in order", 1)
        before = self.count_process()
        names = thread_names()
        stays, consuming = self._join_to_stay()
        deadline = time.monotonic() + 60 * minutes
        counts, rounds = [], 0
        with MetricsTruth(self._config(), TOPIC, self._produced, self._acknowledged) as truth:
            while time.monotonic() < deadline or rounds < WARM_UP_ROUNDS + 2:
                self._round()
                truth.scrape([stays])
                rounds += 1
                if rounds >= WARM_UP_ROUNDS and (not counts or self._is_time_to_count(counts[-1], deadline)):
                    counts.append(self._count_at_rest(stays))
                    truth.scrape([stays], rests=True)
                    say(f"{counts[-1]}; {truth}")
            counts.append(self._count_at_rest(stays))
            truth.scrape([stays], rests=True)
        stays.shutdown()
        consuming.join(REST_TIMEOUT_S)
        after = self._wait_for_process(before)
        return {
            "minutes": round((time.monotonic() - self._began) / 60, 2),
            "rounds": rounds,
            "joins": self.joins,
            "messages": self.consumed,
            "ways_to_leave": self.ways,
            "longest_shutdown_s": round(self.longest_shutdown_s, 3),
            "threads_and_descriptors": {"before": before, "after": after},
            "threads_left": sorted((thread_names() - names).elements()),
            "metrics": truth.figures(),
            "counts": [asdict(count) for count in counts],
            "left_behind": judge(counts, before, after, self.longest_shutdown_s),
        }

    # Members.

    def _config(self, **properties):
        return ConsumerConfig.load(
            overrides={
                "zookeeper.connect": self._kafka.zookeeper_connect,
                "group.id": GROUP,
                "auto.offset.reset": "smallest",
                "auto.commit.interval.ms": 200,
                "drain.timeout.ms": DRAIN_TIMEOUT_MS,
                "rebalance.backoff.ms": 500,
                "rebalance.max.retries": 20,
                **properties,
            }
        )

    def _join_to_stay(self):
        connector = ConsumerConnector(self._config(**{"consumer.id": "stays"}))
        (stream,) = connector.create_message_streams({TOPIC: 1})[TOPIC]
        consuming = threading.Thread(target=self._consume_for_ever, args=(stream,), name="stays", daemon=True)
        consuming.start()
        return connector, consuming

    def _consume_for_ever(self, stream):
        for batch in stream.batches(timeout=0.1):
            self._note(len(batch))

    def _note(self, messages):
        with self._lock:
            self.consumed += messages

    def _round(self):
        """Let all companions join, consume and leave once, at the same time."""
        self._produce(MESSAGES_A_ROUND)
        ways = [self.random.choice(WAYS) for _ in range(COMPANIONS)]
        streams = [self.random.choice([1, 2]) for _ in range(COMPANIONS)]
        list(self._pool.map(self._one_life, ways, streams))

    def _produce(self, count):
        for partition in range(PARTITIONS):
            self._produced[partition] += count
        for _ in range(count):
            for partition in range(PARTITIONS):
                self._producer.produce(TOPIC, b"x" * 200, partition=partition)
        assert self._producer.flush(30) == 0
        self._acknowledged.update(self._produced)

    def _one_life(self, way, streams):
        config = self._config()
        store = KazooStore(config.zk_settings())
        connector = ConsumerConnector(config, store=store)
        listener = Listener(way, connector)
        connector.set_rebalance_listener(listener)
        consumers = []
        for stream in connector.create_message_streams({TOPIC: streams})[TOPIC]:
            consumers.append(threading.Thread(target=self._consume_for_ever, args=(stream,), daemon=True))
            consumers[-1].start()
        with self._lock:
            self.joins += 1
            self.ways[way] += 1
        connector.wait_until(lambda status: status.phase is Phase.STABLE, 10)
        threading.Event().wait(0.05)
        if way == "session ended":
            close_session(("127.0.0.1", self._zookeeper.port), *store._session.client.client_id)
            connector.wait_until(lambda status: status.phase is not Phase.STABLE, 5)
        listener.is_to_leave = True
        with Stopwatch() as watch:
            self._leave(connector, way)
        for consumer in consumers:
            consumer.join(REST_TIMEOUT_S)
        with self._lock:
            self.longest_shutdown_s = max(self.longest_shutdown_s, watch.seconds)

    def _leave(self, connector, way):
        if way == "another thread":
            leaving = threading.Thread(target=connector.shutdown)
            leaving.start()
            leaving.join()
            return
        if way == "streams first":
            connector.end_streams()
        connector.shutdown()
        if way == "twice":
            connector.shutdown()

    # Counting.

    def _is_time_to_count(self, last, deadline):
        every_s = max(5.0, (deadline - self._began) / 30)
        return time.monotonic() - self._began - last.after_s > every_s

    def _count_at_rest(self, stays):
        """Count once the staying member owns all partitions, and has consumed and committed all messages."""

        def rests():
            status = stays.status
            done = {tp.partition: known.committed.offset for tp, known in stays.progress.items()}
            return status.phase is Phase.STABLE and len(status.owned) == PARTITIONS and done == self._produced

        wait_for(rests, REST_TIMEOUT_S, lambda: AssertionError(f"the one that stays does not rest: {stays.status}"))
        return self._count()

    def _count(self):
        """Return the counts once they have not changed for STILL_S: ended threads and sessions need a moment to go.

        A settled member watches its owner znodes only after a second without a change. On a busy machine the staying
        member may have lost its session without knowing: then wait until its znodes are there again.
        """
        before, since = None, time.monotonic()
        deadline = since + REST_TIMEOUT_S
        while time.monotonic() - since < STILL_S and time.monotonic() < deadline:
            mntr = dict(re.findall(r"^(\w+)\t(\d+)", four_letter_word(self._zookeeper.port, "mntr"), re.MULTILINE))
            now = (*self.count_process(), *(int(mntr[f"zk_{name}"]) for name in SERVER_COUNTS))
            at_home = int(mntr["zk_ephemerals_count"]) > PARTITIONS
            if now != before or not at_home:
                before, since = now, time.monotonic()
            threading.Event().wait(0.1)
        threads, descriptors, *server = now
        return Count(round(time.monotonic() - self._began, 1), self.joins, threads, descriptors, memory_kb(), *server)

    @staticmethod
    def count_process():
        """Return the numbers of threads and open file descriptors of this process."""
        return tuple(len(list(Path("/proc/self", name).iterdir())) for name in ("task", "fd"))

    def _wait_for_process(self, wanted, timeout_s=REST_TIMEOUT_S):
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            found = self.count_process()
            if all(now <= then for now, then in zip(found, wanted, strict=True)):
                break
            threading.Event().wait(0.1)
        return found


def thread_names():
    """Return how many threads of each name the system lists for this process."""
    names = Counter()
    for task in Path("/proc/self/task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            names[(task / "comm").read_text().strip()] += 1
    return names


def memory_kb():
    """Return the resident memory in kB, after the allocator has returned its free memory to the system."""
    gc.collect()
    ctypes.CDLL(None).malloc_trim(0)
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") // 1024


def judge(counts, before, after, longest_shutdown_s):
    """Return a text for each count that did not return to the first one, and for a shutdown() that took too long."""
    first, *_, last = counts
    found = [
        f"{name}: {getattr(last, name)}, {getattr(first, name)} after {first.joins} joins"
        for name in ("threads", "descriptors", "znodes", "ephemerals", "watches", "connections")
        if getattr(last, name) > getattr(first, name)
    ]
    allowed = MEMORY_SLACK_KB + MEMORY_SLACK_KB_A_JOIN * (last.joins - first.joins)
    if last.memory_kb - first.memory_kb > allowed:
        found.append(f"memory: {last.memory_kb} kB, {first.memory_kb} kB after {first.joins} joins")
    found += [
        f"{name} of the process: {now}, {then} before all others joined"
        for name, then, now in zip(("threads", "descriptors"), before, after, strict=True)
        if now > then
    ]
    if longest_shutdown_s > SHUTDOWN_LIMIT_S:
        found.append(f"shutdown() took {longest_shutdown_s:.1f} s")
    return found


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.chaos.long_lived",
        description="Joins and leaves in one process, and whether anything is left of them.",
        epilog="example: python -m tests.chaos.long_lived --minutes 30 --json long_lived.json",
    )
    parser.add_argument("--minutes", type=float, default=30.0, help="how long (default: 30)")
    parser.add_argument("--seed", type=int, default=1, help="who leaves in which way (default: 1)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures there")
    given = parser.parse_args()
    if given.minutes <= 0:
        parser.error("--minutes must be above 0")
    logging.disable(logging.CRITICAL)
    with LongLived(given.seed) as lived:
        figures = lived.run(given.minutes, lambda line: print(line, file=sys.stderr, flush=True))
    if given.json is not None:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    print(json.dumps({name: value for name, value in figures.items() if name != "counts"}, indent=1))
    return 1 if figures["left_behind"] or figures["metrics"]["wrong"] else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("interrupted; everything that was started has ended")
