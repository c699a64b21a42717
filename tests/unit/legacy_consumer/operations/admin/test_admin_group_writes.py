"""Plans of many groups, carried out together over the in-memory store, and other clients that stop one of them."""

import random

import pytest

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.errors import OffsetsChangedError, TopicMadeAnewError
from legacy_consumer.operations.admin.group_table import read_group_partitions
from legacy_consumer.operations.admin.group_writes import write_plans
from legacy_consumer.operations.admin.offset_plans import make_plan, standing_of
from legacy_consumer.operations.admin.offset_writes import write_plan
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

TOPICS = ("t", "u")
ALL = [TopicPartition(topic, number) for topic in TOPICS for number in (0, 1)]
DOCUMENT = b'{"version":1,"partitions":{"0":[0],"1":[0]}}'


class World:
    """A ZooKeeper with two topics, and the groups that a test writes."""

    def __init__(self, **options):
        self.server = MemoryZooKeeper(**options)
        self.store = MemoryStore(self.server)
        self.store.start()
        for topic in TOPICS:
            self.put(f"/brokers/topics/{topic}", DOCUMENT)

    def put(self, path, data=None):
        self.store.create(path, data, make_parents=True)

    def commit(self, group, offset, partition=0):
        self.put(f"/consumers/{group}/offsets/t/{partition}", b"%d" % offset)

    def plans(self, after):
        """Return the plans to write after, {group: {partition: offset}}, over the present offsets."""
        once = TopicsOnce(self.store)
        rows = read_group_partitions(self.store, sorted(after), cluster=once)
        stands = {group: {} if self.store.exists(f"/consumers/{group}") else None for group in after}
        for row in rows:
            stands[row.group][TopicPartition(row.topic, row.partition)] = standing_of(row)
        return [make_plan(self.store, group, stands[group], after[group], topics=once) for group in sorted(after)]

    def tree(self, path="/consumers"):
        """Return {path: data} of this znode and all below it."""
        if self.store.exists(path) is None:
            return {}
        found = {path: self.store.get_data(path).data}
        for name in self.store.get_children(path):
            found |= self.tree(f"{path}/{name}")
        return found

    def make_anew(self, topic):
        self.store.delete(f"/brokers/topics/{topic}")
        self.put(f"/brokers/topics/{topic}", DOCUMENT)

    def offsets(self, *groups):
        paths = [f"/consumers/{group}/offsets/t/0" for group in groups]
        return [znode and znode.data for znode in self.store.get_data_many(paths)]

    def before_each_multi(self, happens):
        """Return a store that calls happens() right before each multi."""

        class Interrupted(MemoryStore):
            def multi(self, ops, **options):
                happens()
                return super().multi(ops, **options)

        store = Interrupted(self.server)
        store.start()
        return store


def names(plans):
    return [plan.group for plan in plans]


@pytest.fixture
def world():
    return World()


def same_offset(groups, offset=9):
    return {f"g{n:03}": {ALL[0]: offset} for n in range(groups)}


def given_before(store, plans, error):
    """Carry the plans out until this error. Returns: the groups reported before it, and the text of the error."""
    given, written = [], write_plans(store, plans)

    def take_all():
        while True:
            given.append(next(written).group)

    with pytest.raises(error) as caught:
        take_all()
    return given, str(caught.value)


def test_an_offset_that_was_deleted_and_made_again_since_the_plans_stands_and_ends_them(world):
    for group in same_offset(3):
        world.commit(group, 5)
    plans = world.plans(same_offset(3))
    world.store.delete("/consumers/g001/offsets/t/0")
    world.commit("g001", 7)
    given, said = given_before(world.store, plans, OffsetsChangedError)
    assert given == ["g000"]
    assert "nothing was written for group 'g001': another client wrote the offset of t/0" in said
    assert world.offsets("g000", "g001", "g002") == [b"9", b"7", b"5"]


@pytest.mark.parametrize("seed", range(30))
@pytest.mark.parametrize("most_bytes", [1_000_000, 3000])
def test_together_or_one_by_one_the_same_is_written(seed, most_bytes):
    trees = []
    for one_by_one in (True, False):
        rng = random.Random(seed)
        world = World(max_multi_bytes=most_bytes)
        groups = [f"g{n}" for n in range(rng.randrange(1, 9))]
        for group in groups:
            for tp in ALL:
                if rng.random() < 0.4:
                    world.put(f"/consumers/{group}/offsets/{tp.topic}/{tp.partition}", rng.choice((b"5", b"9", b"x")))
            if rng.random() < 0.5:
                world.store.ensure_path(f"/consumers/{group}/ids")
        after = {
            group: {tp: rng.choice((5, 9, None)) for tp in rng.sample(ALL, rng.randrange(1, 5))} for group in groups
        }
        plans = world.plans(after)
        if one_by_one:
            for plan in plans:
                write_plan(world.store, plan)
        else:
            assert names(write_plans(world.store, plans)) == [plan.group for plan in plans if plan.to_write]
        trees.append(world.tree())
    assert trees[0] == trees[1]


def test_hundreds_of_groups_take_as_many_requests_as_a_few(world):
    taken = []
    for offset in (9, 10):
        for groups in (2, 400):
            plans = world.plans(same_offset(groups, offset))
            world.server.requests.clear()
            assert len(list(write_plans(world.store, plans))) == len([plan for plan in plans if plan.to_write])
            taken.append(dict(world.server.requests))
    assert taken[0] == taken[1]
    assert taken[2] == taken[3]
    assert taken[0]["multi"] == 1


def test_more_groups_than_a_request_holds_are_written_in_several(world):
    small = World(max_multi_bytes=20_000)
    plans = small.plans(same_offset(100))
    small.server.requests.clear()
    assert len(list(write_plans(small.store, plans))) == 100
    assert 2 < small.server.requests["multi"] < 20
    assert set(small.offsets(*names(plans))) == {b"9"}


def test_a_group_with_members_stops_the_write_and_is_named(world):
    plans = world.plans(same_offset(3))
    world.put("/consumers/g001/ids/g001_host-1-a", b"{}")
    given, problem = given_before(world.store, plans, ActiveGroupError)
    assert (given, world.offsets("g000", "g001", "g002")) == (["g000"], [b"9", None, None])
    assert "g001" in problem
    assert names(write_plans(world.store, world.plans(same_offset(3)), force=True)) == ["g001", "g002"]


def test_a_member_that_joins_in_the_moment_of_the_write_stops_it(world):
    plans = world.plans(same_offset(2))

    def join():
        if world.store.exists("/consumers/g001/ids/g001_late") is None:
            world.put("/consumers/g001/ids/g001_late", b"{}")

    given, problem = given_before(world.before_each_multi(join), plans, ActiveGroupError)
    assert (given, world.offsets(*given, "g001")) == (["g000"], [b"9", None])
    assert "g001_late" in problem


def test_an_offset_that_was_committed_since_the_plan_stops_the_write(world):
    for group in ("g000", "g001", "g002"):
        world.commit(group, 5)
    plans = world.plans(same_offset(3))
    world.store.set_data("/consumers/g001/offsets/t/0", b"6")
    given, problem = given_before(world.store, plans, OffsetsChangedError)
    assert (given, world.offsets("g000", "g001", "g002")) == (["g000"], [b"9", b"6", b"5"])
    assert "g001" in problem


def test_nothing_is_written_for_a_topic_that_was_made_anew_since_the_plan(world):
    plans = world.plans(same_offset(2))
    world.make_anew("t")
    given, problem = given_before(world.store, plans, TopicMadeAnewError)
    assert (given, world.offsets("g000", "g001")) == ([], [None, None])
    assert "nothing was written for group 'g000': topic 't'" in problem


def test_offsets_that_came_to_stand_in_a_topic_made_in_that_moment_go_again(world):
    plans = world.plans({"a": {ALL[0]: 7}, "b": {ALL[0]: 8, ALL[2]: 8}, "c": {ALL[2]: 9}})
    given, problem = given_before(world.before_each_multi(lambda: world.make_anew("t")), plans, TopicMadeAnewError)
    assert given == ["a", "b", "c"]
    assert world.offsets("a", "b") == [None, None]
    assert "the command removed its offsets again" in problem
    assert world.store.get_data("/consumers/c/offsets/u/0").data == b"9"


def test_a_topic_made_in_that_moment_of_which_nothing_is_written_is_no_error(world):
    groups = ("g", "h")
    for group in groups:
        world.commit(group, 5)
        world.put(f"/consumers/{group}/offsets/u/0", b"9")
    plans = world.plans({group: {ALL[0]: 9, TopicPartition("u", 0): 9} for group in groups})
    store = world.before_each_multi(lambda: world.make_anew("u"))
    assert names(write_plans(store, plans)) == ["g", "h"]
    assert world.offsets(*groups) == [b"9", b"9"]


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_REPLY])
def test_after_a_lost_connection_it_is_known_whether_the_offsets_were_written(world, fault):
    plans = world.plans(same_offset(3))
    world.server.fault = lambda _, kind: fault if kind == "multi" else None
    if fault is Fault.LOSE_REPLY:
        assert names(write_plans(world.store, plans)) == ["g000", "g001", "g002"]
        assert world.offsets("g000", "g001", "g002") == [b"9"] * 3
    else:
        assert given_before(world.store, plans, ConnectionLostError)[0] == []
        assert world.offsets("g000", "g001", "g002") == [None] * 3
