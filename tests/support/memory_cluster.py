"""A cluster in memory, and commands of the command line that run over it: no server, no process.

ZooKeeper is zk_layout's in-memory store; the brokers are a table of logs in place of librdkafka's query handle.
"""

from __future__ import annotations

import logging
import time
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from typing import NamedTuple

from click.testing import CliRunner

from legacy_consumer.errors import FetchError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.librdkafka import factory
from legacy_consumer.operations.admin import reach
from legacy_consumer.operations.cli import main
from legacy_consumer.operations.cli.helpers import options
from zk_layout.errors import NotPermittedError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

BROKER = '{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'
TOPIC = '{"version":1,"partitions":{%s}}'
STATE = '{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
REGISTRATION = '{"version":1,"subscription":%s,"pattern":"%s","timestamp":"1"}'


def with_options(command, *options):
    """Add options to a command, at its end or before a --, which stands before names that begin with a dash."""
    end = command.index("--") if "--" in command else len(command)
    return [*command[:end], *options, *command[end:]]


class Done(NamedTuple):
    code: int
    out: str
    err: str


class GuardedStore(MemoryStore):
    """A store that refuses reads below the forbidden paths, as an ACL does.

    tells_existence: whether exists() finds such a znode. ZooKeeper 3.9 hides it, older versions do not.
    """

    def __init__(self, server, forbidden, *, tells_existence=True):
        super().__init__(server)
        self._forbidden = forbidden
        self._tells_existence = tells_existence

    def _check(self, *paths):
        for path in paths:
            if path.startswith(tuple(self._forbidden)):
                raise NotPermittedError(path)

    def get_data(self, path, watcher=None):
        self._check(path)
        return super().get_data(path, watcher)

    def get_children(self, path, watcher=None):
        self._check(path)
        return super().get_children(path, watcher)

    def exists(self, path, watcher=None):
        found = super().exists(path, watcher)
        if found is not None and not self._tells_existence:
            self._check(path)
        return found

    def exists_many(self, paths, watcher=None):
        found = super().exists_many(paths, watcher)
        if not self._tells_existence:
            self._check(*(path for path, stat in zip(paths, found, strict=True) if stat is not None))
        return found

    def get_data_many(self, paths, watcher=None):
        self._check(*paths)
        return super().get_data_many(paths, watcher)

    def get_children_many(self, paths):
        self._check(*paths)
        return super().get_children_many(paths)


class Handle:
    """The brokers' answers about logs. A question counts as creating a missing topic, as with old brokers."""

    def __init__(self, cluster):
        self._cluster = cluster

    def offsets_for_times(self, times, timeout_s):
        return {tp: self._answer(tp, time_ms) for tp, time_ms in times.items()}

    def _answer(self, tp, time_ms):
        if self._cluster.store.exists(f"/brokers/topics/{tp.topic}") is None:
            self._cluster.created.append(tp.topic)
        if tp not in self._cluster.logs:
            return FetchError(tp, "unknown partition")
        begin, end = self._cluster.logs[tp]
        return {EARLIEST: begin, LATEST: end}.get(time_ms, self._cluster.old_up_to.get(tp, begin))

    def close(self):
        pass


class MemoryCluster:
    """logs: {partition: (begin, end)}. forbidden: paths that an ACL closes; tells_existence: see GuardedStore.

    created: topics that a question created. ago_ms: how far ZooKeeper's clock is behind.
    old_up_to: {partition: the offset of its first message that is not old}.
    """

    zookeeper = "zk:2181/kafka"

    def __init__(self, monkeypatch):
        self.ago_ms = 0
        self.server = MemoryZooKeeper(wall_ms=lambda: time.time_ns() // 1_000_000 - self.ago_ms)
        self.old_up_to = {}
        self.logs = {}
        self.forbidden = []
        self.created = []
        self.store = self.new_store()
        self.put("/brokers/ids/0", BROKER)
        self.put("/brokers/topics")
        self.put("/controller", '{"version":1,"brokerid":0,"timestamp":"1"}')
        self.put("/consumers")
        self.tells_existence = True
        monkeypatch.setattr(
            options,
            "KazooStore",
            lambda _: GuardedStore(self.server, self.forbidden, tells_existence=self.tells_existence),
        )
        monkeypatch.setattr(factory, "QueryHandle", lambda *_, **__: Handle(self))
        monkeypatch.setattr(reach, "_try", lambda address, timeout_s: None)

    def new_store(self):
        store = MemoryStore(self.server)
        store.start()
        return store

    def put(self, path, data="", *, store=None, ephemeral=False):
        data = data if isinstance(data, bytes) else data.encode()
        (store or self.store).create(path, data, make_parents=True, ephemeral=ephemeral)

    def topic(self, name, *logs):
        """Create a topic. logs: (first offset, end) of each partition."""
        self.put(f"/brokers/topics/{name}", TOPIC % ",".join(f'"{n}":[0]' for n in range(len(logs))))
        for number, ends in enumerate(logs):
            self.put(f"/brokers/topics/{name}/partitions/{number}/state", STATE)
            self.logs[TopicPartition(name, number)] = ends

    def drop(self, name):
        for path in sorted(self.paths(f"/brokers/topics/{name}"), reverse=True):
            self.store.delete(path)

    def commit(self, group, topic, *offsets):
        """Commit offsets of partitions 0, 1, ...; None commits nothing."""
        for number, offset in enumerate(offsets):
            if offset is not None:
                self.put(f"/consumers/{group}/offsets/{topic}/{number}", str(offset))

    def join(self, group, name, subscription, *owned, pattern="static", ephemeral=True):
        """Register a member with its own session that owns (topic, partition), .... Returns: its store."""
        store = self.new_store()
        data = REGISTRATION % (subscription, pattern)
        self.put(f"/consumers/{group}/ids/{name}", data, store=store, ephemeral=ephemeral)
        for topic, number in owned:
            path = f"/consumers/{group}/owners/{topic}/{number}"
            self.put(path, f"{name}-0", store=store, ephemeral=ephemeral)
        return store

    def paths(self, top):
        """Return the path and all paths below it."""
        found = [top]
        for path in found:
            found += [f"{path}/{name}" for name in self.store.get_children(path)]
        return found

    def tree(self, top="/consumers"):
        return {path: self.store.get_data(path).data for path in self.paths(top)}

    def run(self, *args):
        """Run a command to its end."""
        with _logging_as_before():
            zookeeper = ["--zookeeper", self.zookeeper] if "--zookeeper" not in args else []
            end = args.index("--") if "--" in args else len(args)
            result = CliRunner().invoke(main, [*args[:end], *zookeeper, *args[end:]], prog_name="legacy-consumer")
        return Done(result.exit_code, result.stdout, result.stderr)

    def run_into(self, out, err, *args):
        """Run a command with these files as standard output and standard error. Returns: the exit code."""
        with _logging_as_before(), redirect_stdout(out), redirect_stderr(err):
            try:
                main([*args, "--zookeeper", self.zookeeper])
            except SystemExit as ended:
                return ended.code


@contextmanager
def _logging_as_before():
    root, kazoo = logging.getLogger(), logging.getLogger("kazoo")
    before = root.level, kazoo.level, list(root.handlers)
    yield
    root.setLevel(before[0])
    kazoo.setLevel(before[1])
    root.handlers[:] = before[2]


def cluster_of_unused_groups(monkeypatch, groups):
    """Return a cluster in which each of these groups committed 5 of 50 messages in t/0, five seconds ago."""
    made = MemoryCluster(monkeypatch)
    made.topic("t", (0, 50))
    made.ago_ms = 5000
    for group in groups:
        made.commit(group, "t", 5)
    made.ago_ms = 0
    return made
