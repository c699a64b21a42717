"""Members of a led group whose znode vanishes before the leader reads it, or that ACLs hinder; without threads."""

import pytest

from rebalance.errors import RebalanceError
from rebalance.led.records import generation_path, leader_path, member_path
from tests.support.group_members import GROUP, Group
from zk_layout.errors import NotPermittedError
from zk_layout.memory_store import Refusal


@pytest.mark.parametrize("strategy", ["range", "sticky", "cooperative-sticky"])
def test_a_newcomer_whose_znode_is_deleted_before_the_leader_reads_it_gets_its_share(strategy):
    group = Group({"t": 6})
    for name in ("a", "b"):
        group.join(name, {"t": 1}, led=strategy)
    group.settle()
    group.pass_time(0.25)
    newcomer = group.join("c", {"t": 1}, led=strategy)
    told = member_path(GROUP, newcomer.consumer_id)
    while group.admin.exists(told) is None:
        newcomer.coordinator.turn()
    group.admin.delete(told)
    group.pass_time(6)
    assert [len(member.owned) for member in group.members] == [2, 2, 2]


def test_a_member_that_is_refused_and_whose_next_request_fails_in_an_unknown_way_looks_again(monkeypatch):
    group = Group({"t": 6})
    group.join("a", {"t": 1}, led="range")
    group.settle()
    newcomer = group.join("b", {"t": 1}, led="range")
    read_many, exists, failed = newcomer.store.get_data_many, newcomer.store.exists, []

    def refuse(paths, *watchers):
        if generation_path(GROUP) in paths and "refused" not in failed:
            failed.append("refused")
            raise NotPermittedError(generation_path(GROUP))
        return read_many(paths, *watchers)

    def fail(path, *watchers):
        if path == leader_path(GROUP) and "unforeseen" not in failed:
            failed.append("unforeseen")
            raise OSError("unforeseen")
        return exists(path, *watchers)

    monkeypatch.setattr(newcomer.store, "get_data_many", refuse)
    monkeypatch.setattr(newcomer.store, "exists", fail)
    # the coordinator's thread logs it and goes on
    with pytest.raises(OSError, match="unforeseen"):
        group.settle()
    assert failed == ["refused", "unforeseen"]
    group.pass_time(10)
    assert [len(member.owned) for member in group.members] == [3, 3]


def test_a_led_member_from_which_an_acl_hides_the_generation_warns_once(monkeypatch, caplog):
    group = Group({"t": 4})
    for name in ("a", "b"):
        group.join(name, {"t": 1}, led="range")
    group.pass_time(5)
    path, store = generation_path(GROUP), group.members[1].store
    read_many = store.get_data_many

    def refuse(paths, *watchers):
        if path in paths:
            raise NotPermittedError(path)
        return read_many(paths, *watchers)

    monkeypatch.setattr(store, "get_data_many", refuse)
    group.admin.set_data(path, group.admin.get_data(path).data)
    group.pass_time(60)
    assert [text for text in caplog.messages if "does not get on" in text] == [
        f"g_b: does not get on in led group g: {NotPermittedError(path)}"
    ]


@pytest.mark.parametrize("path", [leader_path(GROUP), member_path(GROUP, "g_a")])
def test_a_led_member_says_that_it_deleted_a_permanent_znode_once_it_has(path, caplog):
    group = Group({"t": 4})
    member = group.join("a", {"t": 1}, led="range")
    refuse = Refusal(NotPermittedError(path))
    group.server.fault = lambda session, kind: (
        refuse if session == member.store.session_id and kind in ("delete", "multi") else None
    )
    group.admin.create(path, b"x", make_parents=True)
    group.pass_time(30)
    assert "not ephemeral" not in caplog.text
    group.server.fault = None
    group.pass_time(10)
    assert caplog.text.count("I have deleted it") == 1
    assert len(member.owned) == 4


def leader_and_follower():
    """Return a settled group of two members, the one that leads, and the other one."""
    group = Group({"t": 6})
    for name in ("a", "b"):
        group.join(name, {"t": 1}, led="range")
    group.pass_time(6)
    leader, follower = sorted(group.members, key=lambda member: not member.led._election.leads)
    return group, leader, follower


def test_a_leader_that_is_replaced_as_it_leaves_the_lead_deletes_no_other_members_znode(monkeypatch):
    group, former, other = leader_and_follower()
    # as if all this happened after its last look
    group.server.stall(former.store)
    group.admin.delete(leader_path(GROUP))
    while not other.led._election.leads:
        other.coordinator.turn()
    elected = group.admin.exists(leader_path(GROUP))
    # its assignor makes no offer any more, so it leaves the lead
    monkeypatch.setattr(former.led, "_failure", RebalanceError("its assignor fails"))
    former.led.look()
    group.settle(200)
    assert group.admin.exists(leader_path(GROUP)) == elected


def test_a_member_says_once_that_the_generation_is_unreadable(caplog):
    group, leader, other = leader_and_follower()
    group.server.stall(leader.store)
    group.admin.set_data(generation_path(GROUP), b"x")
    group.settle()
    for _ in range(5):
        other.led.look()
    assert len([text for text in caplog.messages if "continues with the records" in text]) == 1
    group.server.wake(leader.store)
    group.pass_time(6)
    assert [len(member.owned) for member in group.members] == [3, 3]
