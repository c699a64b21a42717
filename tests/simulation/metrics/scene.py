"""A scene: a group, its servers, an exporter and a Prometheus that scrapes them, in time that only the scene moves.

The members are real connectors without threads; the exporter and its pages are real. The scene itself produces and
consumes messages and sees every commit and every owner, so judges can compare each scrape with the truth.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field

from legacy_consumer.operations.admin.lag_verdict import Judging
from legacy_consumer.operations.metrics.exporter import ClusterJudge, ClusterReader, CountedReads, Exporter, Selection
from legacy_consumer.operations.metrics.exporter.exporter import ExporterSettings
from rebalance.led.records import decode_generation, generation_path, leader_path
from tests.simulation.metrics.brokers import ANSWER_S, BROKERS, Brokers, Client
from tests.simulation.metrics.member import Member
from tests.simulation.zookeeper import OFFSETS, SESSION_TIMEOUT_MS, SimulatedZooKeeper
from tests.support.group_members import FakeClock
from tests.support.metrics_pages import collected, exported
from zk_layout.codecs import encode_offset, encode_topic
from zk_layout.errors import LegacyConsumerError, NotPermittedError
from zk_layout.memory_store import MemoryStore
from zk_layout.model import TopicAssignment, TopicPartition
from zk_layout.paths import PartitionStatePath

SESSION_S = SESSION_TIMEOUT_MS / 1000
NOTICE_S = SESSION_S * 2 / 3
"""Seconds until a client notices that no packet comes back."""
REQUEST_S = 10.0
"""Seconds after which a request of the exporter to a silent ZooKeeper ends."""


class CountingStore(MemoryStore):
    """The exporter's store: counts reads as the real one does, and for the comparison.

    is_forbidden: an ACL lets the exporter list the groups, and read nothing of them.
    """

    is_forbidden = False

    def __init__(self, server, reads):
        super().__init__(server)
        self.reads = reads
        self.znodes = self.batches = 0

    def _count(self, *paths):
        self.reads.note(len(paths))
        self.znodes += len(paths)
        self.batches += 1
        for path in paths:
            if self.is_forbidden and path.startswith("/consumers/"):
                raise NotPermittedError(path)

    def get_children(self, path, watcher=None):
        self._count(path)
        return super().get_children(path, watcher)

    def get_data(self, path, watcher=None):
        self._count(path)
        return super().get_data(path, watcher)

    def exists(self, path, watcher=None):
        self._count(path)
        return super().exists(path, watcher)

    def get_data_many(self, paths, watcher=None):
        self._count(*paths)
        return super().get_data_many(paths, watcher)

    def get_children_many(self, paths):
        self._count(*paths)
        return super().get_children_many(paths)


@dataclass
class Look:
    """The truth at one moment.

    ids: {registered member: its topics, None if its registration is unreadable}. owners: {partition: the id in its
    owner znode}. offsets: {partition: (offset, time of the commit, its zxid)}, also of deleted topics. topics: {topic:
    (number of partitions, zxid of its creation)}. folders: topics for which the group has a folder. begins, ends: {log:
    its first offset, its end}. seen: the partitions whose broker answers the exporter. leader, generation: of a led
    group. is_forbidden: the exporter may not read the group, and the other fields are empty.
    """

    at: float
    ids: dict[str, frozenset[str] | None] = field(default_factory=dict)
    owners: dict[TopicPartition, str] = field(default_factory=dict)
    offsets: dict[TopicPartition, tuple[int, float, int]] = field(default_factory=dict)
    topics: dict[str, tuple[int, int]] = field(default_factory=dict)
    folders: frozenset[str] = frozenset()
    begins: dict[TopicPartition, int] = field(default_factory=dict)
    ends: dict[TopicPartition, int] = field(default_factory=dict)
    seen: frozenset[TopicPartition] = frozenset()
    brokers_answer: bool = True
    leader: str | None = None
    generation: int = 0
    is_forbidden: bool = False

    @property
    def consumed_topics(self):
        """The existing topics of all subscriptions; without members, or with an unreadable one, of the folders."""
        said = set(self.ids.values())
        if not said or None in said:
            return self.folders & self.topics.keys()
        return frozenset().union(*said) & self.topics.keys()

    @property
    def wanted(self):
        """The partitions whose ends the exporter asks for: all of the consumed topics, and of topics with a folder."""
        topics = self.consumed_topics | self.folders & self.topics.keys()
        return {TopicPartition(topic, n) for topic in topics for n in range(self.topics[topic][0])}


def counting_offset(offsets, topics, tp):
    """Return the committed offset; None if it is for an earlier topic of the name. See Look for the arguments."""
    offset, _, zxid = offsets.get(tp, (None, 0.0, 0))
    return None if tp.topic in topics and zxid < topics[tp.topic][1] else offset


class Scene:
    """topics: {name: partitions}. rate: messages a second to each partition. judges: called with each scrape."""

    def __init__(self, topics, *, judges=(), rate=2.0, refresh_s=30.0, patience_s=120.0, **properties):
        self.clock = FakeClock()
        self.judges = judges
        self.ids = {}
        self.owners = {}
        self.offsets = {}
        self.subscribed = {}
        self._folders = set()
        self.brokers = Brokers(self.clock)
        self.rate = rate
        self.properties = properties
        self.topics = {}
        self.members = []
        self.held_by_id = {}
        """{consumer id: the most partitions that it may hold for a live reset}."""
        self.zookeeper_is_frozen = False
        self.is_exporter_up = True
        self._names = 0
        self._owed = {}
        self._by_session = {}
        self._ends_of_sessions = {}
        self._unnoticed = {}
        self._due_refresh = self.clock.now
        self._hangs_until = None
        self.refresh_s = refresh_s
        self.refreshes = {"done": 0, "failed": 0}
        self.up = {"zookeeper": False, "brokers": False}
        self.read = self.told = None
        """The Looks of the last refresh that read ZooKeeper, and of the last refresh that brokers answered."""
        self.zookeeper = SimulatedZooKeeper(
            clock=self.clock,
            record=self._record,
            before_request=lambda store: None,
            fault=None,
            max_multi_bytes=1_000_000,
        )
        self.admin = self.zookeeper.connect("operator")
        for topic, partitions in topics.items():
            self.create_topic(topic, partitions)
        reads = CountedReads()
        self.exporter_client = Client(self.brokers)
        self.exporter_store = CountingStore(self.zookeeper, reads)
        self.zookeeper.actors[self.exporter_store] = "exporter"
        self.exporter = Exporter(
            self.exporter_store,
            self.exporter_client,
            reads,
            reader=ClusterReader(Selection(idle_every=1)),
            judge=ClusterJudge(Judging(patience_ms=round(patience_s * 1000))),
            settings=ExporterSettings(interval_s=refresh_s),
            clock=self.clock,
        )

    # Events.

    def create_topic(self, topic, partitions):
        self.brokers.create(topic, partitions)
        data = encode_topic(TopicAssignment(dict.fromkeys(range(partitions), (0,))))
        self.admin.create(f"/brokers/topics/{topic}", data, make_parents=True)
        self.topics[topic] = (partitions, self.zookeeper.tree.zxid)
        for number in range(partitions):
            state = {"controller_epoch": 1, "leader": number % BROKERS, "version": 1, "leader_epoch": 0, "isr": [0]}
            path = PartitionStatePath(topic, number).path
            self.admin.create(path, json.dumps(state).encode(), make_parents=True)
        for member in self.members:
            member.note_topic_made_anew(topic)

    def delete_topic(self, topic):
        del self.topics[topic]
        self.brokers.delete(topic)
        self._delete_tree(f"/brokers/topics/{topic}")

    def _delete_tree(self, path):
        for name in self.admin.get_children(path):
            self._delete_tree(f"{path}/{name}")
        self.admin.delete(path)

    def join(self, topics=None, *, name=None, **properties):
        self._names += 1
        name = name or f"m{self._names}"
        self.subscribed[f"g_{name}"] = frozenset(topics or self.topics)
        member = Member(self, name, topics or sorted(self.topics), **{**self.properties, **properties})
        self.members.append(member)
        return member

    def note_session(self, member):
        """Note that writes of the store's present session are this member's."""
        self._by_session[member.store.server_session_id] = member

    def leave(self, member):
        member.leave()
        self.members.remove(member)

    def kill(self, member):
        """Kill the member's process; its session lives on for a while."""
        self.members.remove(member)
        member.client.pass_time()
        self.zookeeper._stores.remove(member.store)
        member.store.linked = False
        self._unnoticed.pop(member.store, None)
        self._ends_of_sessions[member.store.server_session_id] = self.clock.now + SESSION_S

    def cut_from_zookeeper(self, store, *, session_ends=True):
        """Drop all packets of a store. session_ends: False if all servers are frozen, which then end no session."""
        self.zookeeper.suspend(store)
        self._unnoticed[store] = self.clock.now + NOTICE_S
        if session_ends:
            self._ends_of_sessions[store.server_session_id] = self.clock.now + SESSION_S
        for member in self.members:
            if member.store is store:
                member.cut_at = self.clock.now
                member.troubles += 1

    def heal(self, store):
        self._ends_of_sessions.pop(store.server_session_id, None)
        self._unnoticed.pop(store, None)
        self.zookeeper.resume(store)
        for member in self.members:
            if member.store is store:
                member.cut_at = None
                self.note_session(member)

    def freeze_zookeeper(self):
        self.zookeeper_is_frozen = True
        for store in (*(member.store for member in self.members), self.exporter_store):
            if store.linked:
                self.cut_from_zookeeper(store, session_ends=False)

    def thaw_zookeeper(self):
        self.zookeeper_is_frozen = False
        for store in (*(member.store for member in self.members), self.exporter_store):
            if not store.linked:
                self.heal(store)

    def freeze(self, member):
        member.is_frozen = True
        member.troubles += 1
        self.zookeeper.stall(member.store)
        self._ends_of_sessions[member.store.server_session_id] = self.clock.now + SESSION_S

    def thaw(self, member):
        member.is_frozen = False
        self._ends_of_sessions.pop(member.store.server_session_id, None)
        self.zookeeper.wake(member.store)
        self.note_session(member)

    def commit_by_hand(self, tp, offset):
        """Write an offset, as another client does."""
        for member in self.members:
            if tp in member.lives:
                member.foreign += 1
        path = f"{OFFSETS}/{tp.topic}/{tp.partition}"
        if tp in self.offsets:
            self.admin.set_data(path, encode_offset(offset))
        else:
            self.admin.create(path, encode_offset(offset), make_parents=True)

    def trim(self, tp, share=1.0):
        """Delete the beginning of a log, as retention does."""
        begin, end = self.brokers.begins[tp], self.brokers.ends[tp]
        self.brokers.begins[tp] = begin + int((end - begin) * share)

    # Time.

    def run(self, seconds, *, step=1.0, scrape_every=15.0):
        """Let time pass; scrapes are at multiples of scrape_every. Returns self."""
        end = self.clock.now + seconds
        while self.clock.now < end - 1e-9:
            before, self.clock.now = self.clock.now, min(end, self.clock.now + step)
            self._tick(self.clock.now - before)
            if int(self.clock.now / scrape_every) > int(before / scrape_every):
                self.scrape()
        return self

    def _tick(self, seconds):
        now = self.clock.now
        for tp in self.brokers.ends:
            owed = self._owed.get(tp, 0.0) + self.rate * seconds
            self.brokers.ends[tp] += int(owed)
            self._owed[tp] = owed % 1
        for session_id, due in list(self._ends_of_sessions.items()):
            if due <= now:
                del self._ends_of_sessions[session_id]
                self.zookeeper.reason = "expired"
                self.zookeeper.expire(session_id)
                self.zookeeper.reason = "closed"
        self._settle()
        for member in self.members:
            member.client.pass_time(now)
            member.use(seconds)
        self._settle()
        self._refresh_if_due()

    def _settle(self):
        """Deliver events and let every member take its turns, until nothing more is due now."""
        for _ in range(1000):
            for store in list(self.zookeeper.pending()):
                if self._unnoticed.get(store, 0.0) <= self.clock.now:
                    self._unnoticed.pop(store, None)
                    store.deliver()
            for member in list(self.members):
                member.turn()
            if not any(self._unnoticed.get(s, 0.0) <= self.clock.now for s in self.zookeeper.pending()):
                return
        raise AssertionError("the group never comes to rest")

    # Led groups.

    @property
    def is_led(self):
        """Whether members follow a leader."""
        return self.properties.get("group_coordination") == "leader"

    def led_by(self):
        """Return the consumer id in the leader's znode; None without a leader."""
        data = self._data(leader_path("g"))
        return None if data is None else data.decode()

    def generation(self):
        """Return the number of the last generation; 0 if there is none."""
        path = generation_path("g")
        data = self._data(path)
        return 0 if data is None else decode_generation(path, data).number

    def _data(self, path):
        return self.admin.get_data(path).data if self.admin.exists(path) is not None else None

    # Writes in ZooKeeper, as the server sees them.

    def _record(self, kind, *details):
        session_id, what, *more = (*details, None, None)
        member = self._by_session.get(session_id)
        if kind == "id+":
            self.ids[what] = self.subscribed.get(what)
        elif kind == "id-":
            self.ids.pop(what, None)
        elif kind == "owner+":
            self._folders.add(what.topic)
            self.owners[what] = more[0].rpartition("-")[0]
            if member is not None:
                member.note_claimed(what, self.counting_offset(what))
        elif kind == "owner-":
            self.owners.pop(what, None)
            if member is not None and more[0] != "session ended":
                member.note_released(what)
        elif kind == "offset":
            if member is not None:
                member.note_committed(what, more[0])
            self._folders.add(what.topic)
            self.offsets[what] = (more[0], self.clock.now, self.zookeeper.tree.zxid)

    def counting_offset(self, tp):
        """Return the committed offset; None if there is no such topic, or if the offset is for an earlier one."""
        return counting_offset(self.offsets, self.topics, tp) if tp.topic in self.topics else None

    # The exporter, and Prometheus.

    def _refresh_if_due(self):
        now = self.clock.now
        if now < self._due_refresh:
            return
        if self._hangs_until is None:
            # the requests of a refresh may take long; scrapes do not wait for them
            blind = not self.exporter_store.linked and self.exporter._thread is None
            late_s = REQUEST_S if blind else ANSWER_S if self.exporter_client.waits else 0.0
            self._hangs_until = now + late_s
        if now < self._hangs_until:
            return
        self._hangs_until = None
        self._due_refresh = now + self.refresh_s
        look = Look(now, is_forbidden=True) if self.exporter_store.is_forbidden else self.look()
        try:
            self.exporter.refresh()
        except LegacyConsumerError:
            self.refreshes["failed"] += 1
            self.up["zookeeper"] = False
            return
        self.read, self.up["zookeeper"] = look, True
        self.up["brokers"] = look.brokers_answer if look.wanted else None
        self.refreshes["failed" if self.up["brokers"] is False else "done"] += 1
        if self.up["brokers"]:
            self.told = look

    def scrape(self):
        """Scrape all instances that answer now: {instance: {(name, labels): value}}."""
        pages = {}
        look = self.look()
        for member in self.members:
            if not member.is_frozen:
                member.clock._waited = 0.0
                pages[member.name] = collected(member.collector)
        if self.is_exporter_up:
            pages["exporter"] = exported(self.exporter)
        for judge in self.judges:
            judge(self, look, pages)

    # Looking.

    def look(self):
        """Return the truth of this moment that the exporter or members could export."""
        client = self.exporter_client
        return Look(
            self.clock.now,
            dict(self.ids),
            dict(self.owners),
            dict(self.offsets),
            dict(self.topics),
            frozenset(self._folders),
            dict(self.brokers.begins),
            dict(self.brokers.ends),
            frozenset(tp for tp in self.brokers.ends if client.sees(tp)),
            not client.is_cut and len(self.brokers.dead | self.brokers.frozen) < BROKERS,
            self.led_by(),
            self.generation(),
        )

    def end(self):
        """End the waiting questions of all clients."""
        self.exporter_client.pass_time()
        for member in self.members:
            member.client.pass_time()
