"""A member of a led group that nobody hears, step by step, without threads."""

import pytest

from rebalance.led.records import generation_path, leader_path, member_path
from tests.support.group_members import GROUP, Group
from zk_layout.errors import NotPermittedError


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
