"""The group of a chaos run: six members and a producer, on servers that faults can reach."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

from legacy_consumer.errors import ServerStartError
from legacy_consumer.sandbox.servers.waiting import wait_for
from rebalance.led.records import generation_path, leader_path, round_path
from tests.chaos.history import HistoryFile, Tail
from tests.chaos.observing import Observer
from tests.chaos.producing import NumberingProducer
from tests.chaos.servers import THROUGH_PROXIES, Servers
from tests.chaos.telling import BY
from tests.support.jvm_member import JvmMember, JvmPrograms, LineProcess, Subscription, between_looks
from zk_layout.codecs import decode_partition_state
from zk_layout.codecs.cluster import decode_controller
from zk_layout.errors import ZooKeeperError
from zk_layout.paths import ControllerPath, OffsetPath, PartitionStatePath

ROOT = Path(__file__).parents[2]
GROUP = TOPIC = "chaos"
SESSION_TIMEOUT_S = 3.0
AUDIT_S = 1.0
FLOW_TIMEOUT_S = 90.0
LEAVE_TIMEOUT_S = 60.0
FILLED = 100
"""The number of messages of a burst after which a member counts as being in the middle of it."""

PROPERTIES = {
    "group.id": GROUP,
    "auto.offset.reset": "smallest",
    "auto.commit.interval.ms": 500,
    "zookeeper.session.timeout.ms": round(1000 * SESSION_TIMEOUT_S),
    "zookeeper.connection.timeout.ms": 30_000,
    # a JVM member that has used up its tries owns nothing until the group changes again
    "rebalance.max.retries": 40,
    "rebalance.backoff.ms": 500,
}


COLUMNAR, LIBRDKAFKA, BOTH = "columnar", "librdkafka", "both"
FETCHERS = {COLUMNAR: (COLUMNAR,), LIBRDKAFKA: (LIBRDKAFKA,), BOTH: (COLUMNAR, LIBRDKAFKA)}
"""{name: the fetchers of the Python members, in turn}."""
KAFKA = ("1.1.1", "2.8.2", "3.9.1")
"""Versions of the brokers."""
ISOLATION = ("read_committed", "read_uncommitted")
"""The isolation levels of the Python members, in turn."""
HOW = ("each", "batches", "arrow")
"""The ways in which the Python members take messages, in turn; see member.py."""
ON = ("main", "thread")
"""The threads on which the Python members consume, in turn; see user.py."""
THROUGH = ({"zookeeper"}, {"brokers"}, {"brokers"}, set())
"""The connections through proxies of each of the first Python members."""


class NoFlowError(AssertionError):
    """A partition does not flow again in time."""


def patiently(action, timeout_s=FLOW_TIMEOUT_S):
    """Repeat an action of the runner while ZooKeeper is away, or has no such znode yet."""
    deadline = time.monotonic() + timeout_s
    while True:
        try:
            return action()
        except (ZooKeeperError, ServerStartError):
            if time.monotonic() > deadline:
                raise
            between_looks()


@dataclass(frozen=True)
class Plan:
    """The parts of a run besides its faults.

    conflict: commit.conflict of the Python members. fetchers: one of FETCHERS. rate: messages a second for each
    partition. codec: of the compressed partitions. transactions: whether the producer writes some partitions in
    transactions; Kafka's Scala consumer cannot read these (its fetcher thread ends at a marker), so then there are no
    JVM members. led: the strategy of a led group, without JVM members; None for a classic group. kafka: the brokers'
    version.
    """

    partitions: int = 12
    python: int = 4
    jvm: int = 2
    rate: float = 25.0
    conflict: str = "adopt"
    fetchers: str = BOTH
    codec: str = "lz4"
    transactions: bool = False
    led: str | None = None
    kafka: str = "1.1.1"


@dataclass
class Member:
    """A living member. through: its connections through proxies. fetcher, how, on, isolation: of a Python member."""

    name: str
    kind: str
    process: LineProcess
    through: frozenset[str] = field(default_factory=frozenset)
    fetcher: str = ""
    how: str = ""
    on: str = ""
    isolation: str = ""
    frozen: bool = False

    @property
    def consumer_id(self):
        return f"{GROUP}_{self.name}"

    def is_ready(self):
        """Return whether the member has said that it has joined."""
        return any("ready" in line for line in self.process.lines)


class RecordedJvmMember(JvmMember):
    """A JVM member; this process reads the deliveries from its output and writes them to the history."""

    def __init__(self, *arguments, history, who):
        self._history = history
        self._who = who
        super().__init__(*arguments)

    def take(self, line):
        at = time.monotonic()
        super().take(line)
        what, _, rest = line.partition(" ")
        if what == "message":
            _, partition, offset = rest.split(" ")
            self._history.write(
                "delivered", at, self._who, partition=int(partition), first=int(offset), last=int(offset), seq=None
            )
            del self.consumed[:]
        elif line.startswith("event ready"):
            self._history.write("joined", at, self._who, id=self.consumer_id)


class World:
    """Servers, producer, observer and members; a context manager. folder: of the history."""

    def __init__(self, folder, plan, random):
        self.folder = folder
        self.plan = plan
        self.random = random
        self.partitions = plan.partitions
        self.members: dict[str, Member] = {}
        self.history = HistoryFile(folder, "runner")
        self.acks = HistoryFile(folder, "producer")
        self.servers = Servers(folder, plan.kafka)
        self._seen = HistoryFile(folder, "observer")
        self._tail = Tail(folder)
        self._delivered: dict[int, int] = {}
        self._faults = 0
        self._names = {"python": 0, "jvm": 0}
        self._lock = threading.Lock()
        self._stack = contextlib.ExitStack()
        self.workers = ThreadPoolExecutor(4)
        self.repairs = []

    def __enter__(self):
        with contextlib.ExitStack() as stack:
            stack.callback(self._close_files)
            stack.enter_context(self.servers)
            self.kafka = self.servers.kafka
            self.kafka.create_topic(TOPIC, self.partitions, 3)
            self.observer = Observer(self.servers.ensemble.connect, GROUP, TOPIC, self.partitions, self._seen)
            stack.callback(self.observer.close)
            self.observer.start()
            self.producer = NumberingProducer(
                self.kafka.bootstrap_servers,
                TOPIC,
                self.partitions,
                self.acks,
                self.plan.rate,
                self.plan.codec,
                transactions=self.plan.transactions,
            )
            stack.callback(self.producer.end, 1.0)
            self.producer.start()
            stack.callback(self.kill_everybody)
            self.programs = JvmPrograms(self.folder)
            stack.callback(self.workers.shutdown, cancel_futures=True)
            for _ in range(self.plan.python):
                self.join("python")
            for _ in range(self.plan.jvm):
                self.join("jvm")
            for member in self.members.values():
                member.process.wait_until(member.is_ready, "joining")
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error):
        self._stack.close()

    def _close_files(self):
        for file in (self.history, self.acks, self._seen):
            file.close()

    # Members.

    def join(self, kind, instead_of=None):
        """Start a member, and do not wait. instead_of: a member whose traits it gets; None: the next traits in turn."""
        with self._lock:
            number = self._names[kind] = self._names[kind] + 1
        name = f"{kind[0]}{number}"
        if kind == "jvm":
            self.history.write("member", name=name, kind=kind, id=f"{GROUP}_{name}")
            member = self.members[name] = Member(name, kind, self._start_jvm(name))
            return member
        if instead_of is not None:
            traits = {name: getattr(instead_of, name) for name in ("through", "fetcher", "how", "on", "isolation")}
        else:
            fetchers = FETCHERS[self.plan.fetchers]
            traits = {
                "through": frozenset(THROUGH[number - 1] if number <= len(THROUGH) else ()),
                "fetcher": fetchers[(number - 1) % len(fetchers)],
                "how": HOW[(number - 1) % len(HOW)],
                "on": ON[(number - 1) % len(ON)],
                # the same for two members in a row, so that each fetcher reads with each isolation level
                "isolation": ISOLATION[(number - 1) // 2 % len(ISOLATION)],
            }
        told = {name: traits[name] for name in ("fetcher", "how", "on", "isolation")}
        self.history.write("member", name=name, kind=kind, id=f"{GROUP}_{name}", **told)
        member = self.members[name] = Member(name, kind, self._start_python(name, **traits), **traits)
        return member

    def _start_python(self, name, through, fetcher, how, on, isolation):
        properties = {
            **PROPERTIES,
            "consumer.id": name,
            "zookeeper.connect": self.servers.ensemble.connect,
            "audit.interval.ms": round(1000 * AUDIT_S),
            "commit.conflict": self.plan.conflict,
            "fetcher": fetcher,
            "isolation.level": isolation,
        }
        if self.plan.led is not None:
            properties |= {"group.coordination": "leader", "partition.assignment.strategy": self.plan.led}
            properties[BY.name] = name
        if "zookeeper" in through:
            properties["zookeeper.connect"] = self.servers.proxied_ensemble
        if "brokers" in through:
            properties.update(THROUGH_PROXIES)
        pairs = [f"{key}={value}" for key, value in properties.items()]
        command = [sys.executable, "-m", "tests.chaos.member", str(self.folder), name, TOPIC, how, on, *pairs]
        return LineProcess(name, command, self.folder, {"PYTHONPATH": str(ROOT)})

    def _start_jvm(self, name):
        properties = {**PROPERTIES, "consumer.id": name, "zookeeper.connect": self.servers.ensemble.connect}
        subscription = Subscription("static", f"{TOPIC}:1")
        return RecordedJvmMember(self.programs, "1.1.1", name, subscription, properties, history=self.history, who=name)

    def awake(self, kind=None):
        """Return the members that are not frozen, all or of one kind."""
        return [m for m in list(self.members.values()) if not m.frozen and (kind is None or m.kind == kind)]

    def kill(self, member):
        """Kill the member with SIGKILL, and remove it from the members."""
        del self.members[member.name]
        member.process.kill()
        self.history.write("killed", name=member.name)

    def kill_everybody(self):
        for member in list(self.members.values()):
            member.process.kill()

    def leave(self, member):
        """Make a member leave in order; do not wait."""
        with contextlib.suppress(OSError):
            member.process.tell("shutdown")

    def await_left(self, member):
        """Wait until the process of a leaving member has ended."""
        code = member.process.await_end(LEAVE_TIMEOUT_S)
        self.history.write("ended", name=member.name, code=code)

    def fill(self, member, count):
        """Produce `count` messages to each of a member's partitions, and wait until it is in the middle of them."""
        prefix = f"{member.consumer_id}-"
        mine = [p for p, owner in dict(self.observer.owners).items() if owner.startswith(prefix)]
        ends = {partition: self.producer.log_end(partition) for partition in mine}
        self.producer.burst(mine, count)

        def in_the_midst():
            self._read_tail()
            return not mine or any(self._delivered.get(p, -1) > end + FILLED for p, end in ends.items())

        wait_for(in_the_midst, FLOW_TIMEOUT_S, lambda: NoFlowError(f"{member.name} takes no more\n{self.logs()}"))

    def have_done(self, member, command):
        """Give a command to a Python member's user, and wait until it is done or the process has ended."""
        done = member.process.lines.count("done")
        with contextlib.suppress(OSError):
            member.process.tell(command)
        wait_for(
            lambda: member.process.lines.count("done") > done or not member.process.is_running,
            FLOW_TIMEOUT_S,
            lambda: NoFlowError(f"{member.name} does not {command}\n{self.logs([member.name])}"),
        )

    def own_by_now(self, kind=None):
        """Return the partitions whose owner znodes name a living member that is not frozen, all or of one kind."""
        ids = {member.consumer_id for member in self.awake(kind)}
        return {p for p, owner in dict(self.observer.owners).items() if owner.rpartition("-")[0] in ids}

    # Time.

    def note_fault(self, fault, target, phase, number):
        self.history.write("fault", fault=fault, target=target, phase=phase, number=number)

    def next_fault(self):
        with self._lock:
            self._faults += 1
            return self._faults

    def pause(self, seconds):
        """Let a fault last."""
        threading.Event().wait(seconds)

    def await_flow(self, since, timeout_s=FLOW_TIMEOUT_S):
        """Wait until every partition has a living owner that has handed out a message acknowledged after `since`.

        Raises: NoFlowError.
        """
        missing = {}

        def flows():
            missing.clear()
            self._read_tail()
            owned = self.own_by_now()
            for partition, offset in self.producer.first_acked_after(since).items():
                if partition not in owned:
                    missing[partition] = f"owned by {self.observer.owners.get(partition)}"
                elif offset is None:
                    missing[partition] = "nothing is acknowledged"
                elif self._delivered.get(partition, -1) < offset:
                    missing[partition] = f"delivered to {self._delivered.get(partition)}, acknowledged {offset}"
            return not missing

        def owners():
            ids = {self.observer.owners.get(partition, "").rpartition("-")[0] for partition in missing}
            return [name for name, member in self.members.items() if member.consumer_id in ids]

        wait_for(
            flows, timeout_s, lambda: NoFlowError(f"no flow after {timeout_s:g} s: {missing}\n{self.logs(owners())}")
        )
        self.history.write("flows")

    def _read_tail(self):
        for event in self._tail.fresh():
            if event.what == "delivered":
                self._delivered[event["partition"]] = max(self._delivered.get(event["partition"], -1), event["last"])

    def await_all_delivered(self, timeout_s=FLOW_TIMEOUT_S):
        """Wait until members have handed out the last acknowledged offset of each partition. Raises: NoFlowError."""
        ends = {p: self.producer.log_end(p) for p in range(self.partitions)}

        def done():
            self._read_tail()
            return all(self._delivered.get(p, -1) + 1 >= end for p, end in ends.items())

        wait_for(done, timeout_s, lambda: NoFlowError(f"not all was delivered within {timeout_s:g} s\n{self.logs()}"))

    def logs(self, first=()):
        """Return the last output and log of each member, and of Python members the stacks of their threads.

        first: the names of members whose logs come first, because a long text is cut at its end.
        """
        for member in self.members.values():
            if member.kind != "jvm":
                member.process.write_stacks()
        order = sorted(self.members.values(), key=lambda member: member.name not in first)
        return "\n".join(f"=== {m.name}\n{m.process.log_tail()}" for m in order)

    # The state of servers.

    def controller(self):
        path = ControllerPath().path
        data = patiently(lambda: self.observer.store.get_data(path).data)
        return decode_controller(path, data).broker_id

    def group_leader(self):
        """Return the leader of the led group; None if there is none, or if it is dead or frozen."""
        znode = patiently(lambda: self.observer.store.get_data_many([leader_path(GROUP)]))[0]
        name = b"" if znode is None else znode.data or b""
        return next((member for member in self.awake() if member.consumer_id.encode() == name), None)

    def coordination_znodes(self):
        """Return the versions of the znodes round and generation, which each rebalance writes in this order."""
        paths = [round_path(GROUP), generation_path(GROUP)]
        return [-1 if znode is None else znode.stat.version for znode in self.observer.store.get_data_many(paths)]

    def await_full_replicas(self, timeout_s=FLOW_TIMEOUT_S):
        """Wait until repairs are done and all three brokers are in sync: only then may the next broker fail."""
        self.finish_repairs()
        paths = [PartitionStatePath(TOPIC, p).path for p in range(self.partitions)]

        def in_sync():
            states = zip(paths, patiently(lambda: self.observer.store.get_data_many(paths)), strict=True)
            return all(znode is not None and len(decode_partition_state(p, znode.data).isr) == 3 for p, znode in states)

        wait_for(in_sync, timeout_s, lambda: NoFlowError("the replicas do not catch up"))

    def finish_repairs(self):
        """Wait until all servers that are starting again have started."""
        repairs, self.repairs = self.repairs, []
        for repair in repairs:
            repair.result()

    def repair_later(self, what, start):
        """Start a server again, in another thread, during the next faults."""

        def repair():
            patiently(start)
            self.history.write("repaired", target=what)

        self.repairs.append(self.workers.submit(repair))

    # The end.

    def end(self):
        """Stop the producer, wait until all is delivered, let all members leave, and record what they left behind."""
        self.finish_repairs()
        unacked = self.producer.end()
        assert unacked == 0, f"{unacked} messages were never acknowledged"
        self.await_all_delivered()
        self.history.write("leaving")
        for member in self.members.values():
            self.leave(member)
        for member in self.members.values():
            self.await_left(member)
        self.observer.look()
        store = self.observer.store
        paths = [OffsetPath(GROUP, TOPIC, p).path for p in range(self.partitions)]
        offsets = {p: int(znode.data) for p, znode in enumerate(store.get_data_many(paths)) if znode is not None}
        self.history.write("final", owners=self.observer.owners, offsets=offsets, ids=sorted(self.observer.ids))
        self.members.clear()
