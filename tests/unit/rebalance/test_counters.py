"""The counters of a coordinator, and the signs that it is alive."""

from __future__ import annotations

import pytest

from rebalance.events import Expired
from rebalance.machine import Phase
from tests.support.group_members import Group


@pytest.fixture
def group():
    return Group({"t": 4})


def test_rebalances_are_counted_by_whether_partitions_moved(group):
    first = group.join("a", {"t": 1})
    group.settle()
    assert first.coordinator.counters.rebalances == {"moved": 1}
    group.join("b", {"t": 1})
    group.settle()
    assert first.coordinator.counters.rebalances["moved"] == 2
    assert sum(first.coordinator.counters.durations) == 2
    group.join("c", {"u": 1})  # c subscribes to another topic, so nothing moves
    group.settle()
    assert first.coordinator.counters.rebalances["moved"] == 2
    assert first.coordinator.counters.rebalances["unchanged"] >= 1


def test_owners_in_the_way_are_conflicts_and_giving_up_is_counted_once(group):
    group.admin.create("/consumers/g/owners/t/0", b"g_other-0", make_parents=True)
    member = group.join("a", {"t": 1})
    group.settle()
    conflicts = member.coordinator.counters.conflicts
    assert (conflicts > 0, member.phase) == (True, Phase.WAITING)
    group.pass_time(60.0)
    counters = member.coordinator.counters
    assert (member.phase, counters.rebalances["degraded"]) == (Phase.DEGRADED, 1)
    assert counters.conflicts > conflicts
    group.admin.delete("/consumers/g/owners/t/0")
    group.settle()
    assert (member.phase, counters.rebalances["moved"]) == (Phase.STABLE, 1)
    # the rebalance lasts from its first step to its last
    assert counters.duration_sum_s >= 60.0


def test_the_end_of_a_session_is_counted(group):
    member = group.join("a", {"t": 1})
    group.settle()
    group.server.expire(member.store.session_id)
    group.settle()
    events = member.coordinator.counters.session_events
    assert events["expired"] >= 1
    assert member.phase is Phase.STABLE


def test_the_duration_of_a_rebalance_leaves_out_the_time_without_a_session(group):
    group.admin.create("/consumers/g/owners/t/0", b"g_other-0", make_parents=True)
    member = group.join("a", {"t": 1})
    group.settle()
    assert member.phase is Phase.WAITING
    member.coordinator.post(Expired())
    group.settle()
    assert member.phase is Phase.EXPIRED
    group.clock.now += 3600.0
    group.admin.delete("/consumers/g/owners/t/0")
    group.server.expire(member.store.session_id)
    group.settle()
    assert member.phase is Phase.STABLE
    assert member.coordinator.counters.duration_sum_s < 1.0


def test_a_coordinator_without_its_thread_does_not_run(group):
    member = group.join("a", {"t": 1})
    group.settle()
    vitals = member.coordinator.vitals
    assert (vitals.runs, vitals.busy_s, vitals.connected) == (False, 0.0, True)
