"""A member leaves, or another client has its id: changes that happen meanwhile, and the znodes that remain."""

import pytest

from rebalance.events import CloseRequested
from rebalance.led.own_znode import OwnZnode
from rebalance.led.records import decode_generation, ephemeral_paths, generation_path, leader_path, member_path
from rebalance.led.watched import WatchedZnodes
from rebalance.machine import Phase
from tests.support.group_members import GROUP, Group
from zk_layout.codecs import encode_topic
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import Fault, MemoryStore, Refusal
from zk_layout.model import TopicAssignment, TopicPartition

TP = TopicPartition("t", 0)
ID = f"/consumers/{GROUP}/ids/g_x"
LED = [None, "range", "cooperative-sticky"]
TOO_LATE = [Refusal(ConnectionLostError("no answer in time"), carried_out=True), Fault.LOSE_REPLY]


def create_again(group):
    group.admin.delete("/brokers/topics/t")
    group.admin.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})))


@pytest.mark.parametrize("led", LED)
@pytest.mark.parametrize("is_away", [True, False], ids=["with the connection lost", "while it drains"])
def test_a_member_that_leaves_commits_nothing_for_a_topic_that_was_deleted_and_created_again(led, is_away):
    group = Group({"t": 1})
    member = group.join("x", {"t": 1}, led=led)
    group.pass_time(3.0)
    member.delivery.in_hand = {TP}
    if is_away:
        group.server.suspend(member.store)
        member.delivery.in_hand = set()
    member.coordinator.post(CloseRequested(9000))
    group.settle()
    assert member.phase is Phase.LEAVING
    create_again(group)
    if is_away:
        group.server.resume(member.store)
    group.settle()
    assert member.phase is Phase.CLOSED
    assert ("bury", (TP,)) in member.delivery.log
    assert not [partitions for what, partitions in member.delivery.log if what == "end" and partitions]


def test_a_member_that_leaves_in_haste_commits_nothing_for_a_topic_that_was_deleted_and_created_again():
    group = Group({"t": 1})
    member = group.join("x", {"t": 1})
    group.settle()
    group.server.suspend(member.store)
    member.coordinator.post(CloseRequested(500))
    group.settle()
    create_again(group)
    no_answer = Refusal(ConnectionLostError("no answer in time"))
    group.server.fault = lambda session, _kind: no_answer if session == member.store.session_id else None
    group.server.resume(member.store)
    group.settle()
    assert member.phase is Phase.LEAVING
    group.server.fault = None
    group.clock.now += 0.5
    group.settle()
    assert member.phase is Phase.CLOSED
    assert ("bury", (TP,)) in member.delivery.log
    assert not [partitions for what, partitions in member.delivery.log if what == "end" and partitions]


@pytest.mark.parametrize("number", range(1, 4))
def test_a_member_that_leaves_looks_at_all_that_is_its_own_in_the_request_before_it_deletes_it(number):
    group = Group({"t": 2})
    member = group.join("x", {"t": 1}, led="range")
    group.pass_time(3.0)
    asked = []

    def steal(session, kind):
        if session == member.store.session_id:
            asked.append(kind)
            if len(asked) == number:
                group.server.fault = None
                group.admin.delete(f"/consumers/{GROUP}/owners/t/1")
                group.admin.create(f"/consumers/{GROUP}/owners/t/1", b"thief", ephemeral=True)
                group.server.fault = lambda session, kind: (
                    asked.append(kind) if session == member.store.session_id else None
                )

    group.server.fault = steal
    member.coordinator.post(CloseRequested(9000))
    group.settle()
    assert asked == ["multi_read", "multi"]
    assert group.admin.exists(f"/consumers/{GROUP}/owners/t/1") if number == 1 else True


@pytest.mark.parametrize("fate", TOO_LATE, ids=["answered too late", "reply lost"])
@pytest.mark.parametrize("led", LED[1:])
def test_a_led_member_whose_last_request_is_answered_too_late_does_not_join_again(led, fate):
    group = Group({"t": 6})
    leader, *others = [(group.join(name, {"t": 1}, led=led), group.pass_time(3.0))[0] for name in "xyz"]
    assert group.admin.get_data(leader_path(GROUP)).data == b"g_x"
    no_answer = Refusal(ConnectionLostError("no answer in time"))
    # the first multi takes effect but its answer is late or lost, and the next request fails
    fates, asked = [no_answer, fate], []

    def fail(session, kind):
        if session != leader.store.session_id:
            return None
        asked.append(kind)
        return fates.pop() if fates and (kind == "multi" or len(fates) == 1) else None

    group.server.fault = fail
    leader.coordinator.post(CloseRequested(9000))
    seen = set()
    for _ in range(16):
        group.settle()
        generation = decode_generation("", group.admin.get_data(generation_path(GROUP)).data)
        seen.add(tuple(sorted(share.consumer_id for share in generation.shares.values())))
        assert not any(map(group.admin.exists, [ID, ephemeral_paths(GROUP, "g_x")[1]]))
        group.clock.now += 0.25
    assert not fates
    assert not {"create", "set_data"} & set(asked), "it wrote again what it had deleted"
    assert leader.coordinator.has_left_nothing
    assert seen <= {("g_x", "g_y", "g_z"), ("g_y", "g_z")}
    assert sorted(len(member.owned) for member in others) == [3, 3]


@pytest.mark.parametrize("led", LED)
@pytest.mark.parametrize("is_alone", [True, False], ids=["alone", "with another member"])
def test_a_member_whose_id_another_session_has_leaves_its_group_to_that_one(led, is_alone):
    group = Group({"t": 6})
    first = group.join("x", {"t": 1}, led=led)
    group.pass_time(3.0)
    if not is_alone:
        group.join("y", {"t": 1}, led=led)
    second = group.join("x", {"t": 1}, led=led)
    group.pass_time(3.0)
    assert (len(first.owned), len(second.owned)) == ((6, 0) if is_alone else (3, 0))
    # the second member takes its turn first, and so hears of the deletion first
    group.members.remove(second)
    group.members.insert(0, second)
    group.admin.delete(ID)
    for _ in range(5):
        second.coordinator.turn()
    group.pass_time(10.0)
    assert (len(first.owned), len(second.owned)) == ((0, 6) if is_alone else (0, 3))
    assert len(group.owners("t")) == 6
    second.coordinator.post(CloseRequested(1000))
    group.pass_time(10.0)
    assert len(first.owned) == (6 if is_alone else 3), "it takes part again"


@pytest.mark.parametrize("led", LED)
@pytest.mark.parametrize("names", ["xy", "yx"])
def test_a_member_whose_id_a_stranger_has_taken_leaves_its_group_to_the_others(led, names):
    group = Group({"t": 6})
    members = {name: (group.join(name, {"t": 1}, led=led), group.pass_time(3.0))[0] for name in names}
    group.admin.delete(ID)
    group.admin.create(ID, b"{}", ephemeral=True)
    group.pass_time(20.0)
    assert (len(members["x"].owned), len(members["y"].owned)) == (0, 6)


def test_a_led_member_that_stays_out_deletes_no_znode_that_another_session_has_taken():
    group = Group({})
    store = MemoryStore(group.server)
    store.start()
    own = OwnZnode(store, WatchedZnodes(store, lambda: None), GROUP, "g_x")
    path = member_path(GROUP, "g_x")
    assert own.write(b"mine", store.session_id)
    group.admin.delete(path)
    group.admin.create(path, b"another's", ephemeral=True)
    own.delete(store.session_id)
    assert group.admin.get_data(path).data == b"another's"
    group.admin.delete(path)
    assert not own.stands(store.session_id)
    assert own.write(b"mine", store.session_id)
    own.delete(store.session_id)
    assert group.admin.exists(path) is None
