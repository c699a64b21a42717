"""Join data of a led group that is deleted before the leader reads it, step by step, without threads."""

import pytest

from rebalance.led.records import member_path
from tests.support.group_members import GROUP, Group


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
