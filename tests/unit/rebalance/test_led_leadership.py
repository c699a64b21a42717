"""A new leader takes over from the znodes of the last leader; without threads."""

import tracemalloc

import pytest

from rebalance.assignors.seam import Subscription
from rebalance.assignors.strategies import make_assignors
from rebalance.coordination.requests import Protocol
from rebalance.errors import DeposedError
from rebalance.led.journal import Journal
from rebalance.led.leadership import Leadership
from rebalance.led.records import (
    LONGEST_WAIT_MS,
    NO_GENERATION,
    Generation,
    Joining,
    decode_generation,
    decode_round,
    encode_generation,
    encode_joining,
    encode_subscription,
    generation_path,
    leader_path,
    member_path,
    round_path,
)
from rebalance.led.watched import WatchedZnodes
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.store import CreateOp, DeleteOp, SetOp

COUNTS = {"t": 4, "u": 2}


class World:
    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.leaders, self.other = self.connect(), self.connect()

    def connect(self):
        store = MemoryStore(self.zookeeper)
        store.start()
        return store

    def tell(self, store, name, topics, strategy="range", rebalance_timeout_ms=1000):
        """Let a member join with these topics; its earlier znode goes."""
        path = member_path("g", name)
        if store.exists(path) is not None:
            store.delete(path)
        told = (Protocol(strategy, encode_subscription(Subscription(topics))),)
        asked = self.read(round_path, decode_round)
        joining = Joining(name, store.session_id, 0 if asked is None else asked.number, rebalance_timeout_ms, told)
        store.create(path, encode_joining(joining), ephemeral=True, make_parents=True)

    def lead(self, name="a", strategy="range", store=None):
        """Delete the last leader's znode. Returns: a new leader that has looked at the group once."""
        store = store or self.leaders
        if store.exists(leader_path("g")) is not None:
            store.delete(leader_path("g"))
        assignors = {one.name: one for one in make_assignors(strategy, {})}
        watched = WatchedZnodes(store, lambda: None)
        leadership = Leadership(store, watched, "g", name, assignors, store.session_id, initial_delay_ms=0)
        leadership.begin(0)
        self.look(leadership)
        return leadership

    def look(self, leadership, now=0):
        leadership.look(COUNTS, now)

    def read(self, path, decode):
        store, path = self.leaders, path("g")
        return None if store.exists(path) is None else decode(path, store.get_data(path).data)

    def generation(self):
        return self.read(generation_path, decode_generation)

    def round(self):
        return self.read(round_path, decode_round)


@pytest.fixture
def world():
    world = World()
    world.tell(world.leaders, "a", ("t", "u"))
    world.tell(world.other, "b", ("t",))
    world.lead()
    return world


def restore(world, leadership):
    return leadership.restore(*world.leaders.get_data_many([round_path("g"), generation_path("g")]))


def sizes(world):
    return sorted(len(share.partitions) for share in world.generation().shares.values())


def test_a_new_leader_keeps_the_generation_if_no_member_has_changed(world):
    before = world.generation()
    assert sizes(world) == [2, 4]
    world.lead()
    assert (world.generation(), world.round().number) == (before, before.round)


def test_a_new_leader_writes_no_generation_that_stands_so_that_no_member_reads_it_again(world):
    written = world.leaders.exists(generation_path("g")).mzxid
    world.lead("c", store=world.connect())
    assert world.leaders.exists(generation_path("g")).mzxid == written


def test_a_new_leader_assigns_anew_what_a_stranger_gave_to_a_member_under_another_name(world):
    before = world.generation()
    path = generation_path("g")
    data, stat = world.other.get_data(path)
    world.other.set_data(path, data.replace(b'"consumer":"b"', b'"consumer":"nobody"'), stat.version)
    assert world.generation() != before
    successor = world.lead("c", store=world.connect())
    world.tell(world.leaders, "a", ("t", "u"))
    world.look(successor)
    assert sorted(share.consumer_id for share in world.generation().shares.values()) == ["a", "b"]
    assert sizes(world) == [2, 4]


@pytest.mark.parametrize("topics", [{"t": 100_000}, {"t": 100_000, "u": -100_000}])
def test_a_new_leader_builds_no_partitions_that_a_generation_counts_and_gives_to_nobody(topics):
    world = World()
    world.tell(world.leaders, "a", ("t", "u"))
    forged = Generation(7, 3, "range", "nobody", {}, topics)
    world.other.create(generation_path("g"), encode_generation(forged), make_parents=True)
    tracemalloc.start()
    world.lead()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (sizes(world), world.generation().topics) == ([6], COUNTS)
    assert peak < 1_000_000


def test_a_generation_that_was_written_after_a_new_leader_read_the_last_one_is_not_lost(world, monkeypatch):
    written = []

    def write_late(journal, ops):
        if not written:
            path = generation_path("g")
            data, stat = world.other.get_data(path)
            written.append(world.other.set_data(path, data, stat.version))
        return write(journal, ops)

    write = Journal._write
    monkeypatch.setattr(Journal, "_write", write_late)
    with pytest.raises(DeposedError):
        world.lead("c", store=world.connect())
    assert world.leaders.exists(generation_path("g")).version == written[0].version


def test_a_generation_made_anew_in_the_same_version_while_a_leader_takes_over_is_written_again(world, monkeypatch):
    path = generation_path("g")

    def make_anew(journal, ops):
        monkeypatch.undo()
        data, stat = world.other.get_data(path)
        world.other.multi([DeleteOp(path), CreateOp(path, b"x"), *[SetOp(path, data)] * stat.version])
        assert world.other.exists(path).version == stat.version > 0
        return journal._write(ops)

    monkeypatch.setattr(Journal, "_write", make_anew)
    successor = world.lead("c", store=world.connect())
    assert restore(world, successor)
    assert not restore(world, successor)


def test_a_generation_that_a_stranger_wrote_before_the_leader_asked_for_a_round_is_written_again(world):
    leadership, before = world.lead(), world.generation()
    world.other.set_data(generation_path("g"), encode_generation(NO_GENERATION))
    world.tell(world.connect(), "c", ("t",))
    world.look(leadership)
    assert world.round().number == before.round + 1
    assert restore(world, leadership)
    assert world.generation() == before
    assert not restore(world, leadership)


def test_a_member_that_left_and_joined_in_one_session_without_a_leader_has_joined_anew(world):
    before = world.generation()
    # this creates the member's znode anew, with the same version and in the same session
    world.tell(world.other, "b", ("t", "u"))
    world.lead()
    assert world.round().number > before.round


def test_a_new_leader_ends_the_round_that_the_last_one_began_though_no_member_says_anything_else(world):
    before = world.generation()
    newcomer = world.connect()
    world.tell(newcomer, "c", ("t",))
    world.lead("d", store=world.connect())
    assert world.round().number == before.round + 1
    newcomer.close()
    successor = world.lead("e", store=world.connect())
    assert world.generation() == before
    # both join the round with their earlier offers
    world.tell(world.leaders, "a", ("t", "u"))
    world.look(successor)
    assert world.generation() == before
    world.tell(world.other, "b", ("t",))
    world.look(successor)
    after = world.generation()
    assert after.round == world.round().number
    assert sorted(share.consumer_id for share in after.shares.values()) == ["a", "b"]


def test_a_leader_that_was_replaced_and_does_not_know_it_writes_no_generation():
    world = World()
    world.tell(world.leaders, "a", ("t", "u"))
    first = world.lead()
    world.lead("c", store=world.connect())
    before = world.generation()
    # with one member the next generation needs no round, so the leader makes no other write
    world.tell(world.leaders, "a", ("t",))
    with pytest.raises(DeposedError):
        world.look(first)
    assert world.generation() == before


def test_a_leader_without_the_groups_strategy_keeps_all_shares(world, caplog):
    before = world.generation()
    leadership = world.lead("c", "failover", world.connect())
    # a changes its topics, and both members join the round that this leader begins
    world.tell(world.leaders, "a", ("t", "u"))
    world.look(leadership)
    world.tell(world.other, "b", ("t",))
    world.look(leadership)
    after = world.generation()
    assert after.number > before.number
    assert {id_: set(share.partitions) for id_, share in before.shares.items()} == {
        id_: set(share.partitions) for id_, share in after.shares.items()
    }
    assert "keep their shares: assignor range failed: the member that leads does not have it" in caplog.text


def test_a_rebalance_waits_ten_minutes_at_most_for_any_member():
    world = World()
    world.tell(world.leaders, "a", ("t",))
    world.tell(world.other, "silent", ("t",), rebalance_timeout_ms=2**31 - 1)
    leadership = world.lead()
    world.tell(world.connect(), "c", ("t",))
    world.look(leadership)
    before = world.generation()
    world.tell(world.leaders, "a", ("t",))
    world.look(leadership, LONGEST_WAIT_MS - 1)
    assert world.generation() == before, "it waits"
    world.look(leadership, LONGEST_WAIT_MS)
    assert sorted(share.consumer_id for share in world.generation().shares.values()) == ["a", "c"]
    assert LONGEST_WAIT_MS == 10 * 60_000


def test_a_member_is_not_refused_for_strategies_that_another_client_wrote_in_its_place():
    world = World()
    world.tell(world.leaders, "a", ("t", "u"), strategy="x" * 10_000)
    leadership = world.lead()
    world.tell(world.leaders, "a", ("t", "u"))
    world.look(leadership)
    assert world.round().refused == {}
    assert (world.generation().protocol, sizes(world)) == ("range", [6])


def test_the_reason_for_refusing_a_member_is_short_with_any_offers_of_others():
    world = World()
    world.tell(world.leaders, "a", ("t", "u"), strategy="x" * 100_000)
    leadership = world.lead()
    world.tell(world.other, "b", ("t",))
    world.look(leadership)
    assert 0 < len(world.round().refused["b"]) < 2000
