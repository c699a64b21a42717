"""The lease: for how long a member may hand out messages without another answer from ZooKeeper."""

import pytest

from rebalance.lease import Lease
from tests.support.group_members import FakeClock
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper


class Rig:
    """A store whose session lasts six seconds, and the member's lease."""

    def __init__(self):
        self.clock = FakeClock()
        self.server = MemoryZooKeeper(monotonic=self.clock.monotonic)
        self.store = MemoryStore(self.server, session_timeout_ms=6000)
        self.store.start()
        self.session_id = self.store.session_id
        self.lease = Lease(self.store, lambda: self.session_id, self.clock)

    def holds_after(self, seconds):
        self.clock.now += seconds
        return self.lease.holds()


@pytest.fixture
def rig():
    return Rig()


def test_heartbeats_alone_prolong_a_lease_and_nothing_is_asked_for_it(rig):
    requests = rig.server.requests.total()
    assert all(rig.holds_after(5) for _ in range(10))
    assert rig.server.requests.total() == requests


def test_a_process_that_stood_still_for_longer_than_its_session_may_hand_out_nothing(rig):
    """Regression: a stopped process woke after others had taken its partitions, and handed out its fetched messages."""
    assert rig.lease.holds()
    rig.server.stall(rig.store)
    rig.clock.now += 6
    rig.server.expire(rig.session_id)
    rig.server.wake(rig.store)
    assert not rig.lease.holds()


def test_a_shorter_standstill_changes_nothing(rig):
    assert rig.lease.holds()
    rig.server.stall(rig.store)
    rig.clock.now += 5
    assert rig.lease.holds()
    rig.server.wake(rig.store)
    assert rig.holds_after(1)


def test_a_lease_ends_before_the_session_can_and_begins_again_with_the_servers_next_answer(rig):
    assert rig.lease.holds()
    rig.server.suspend(rig.store)
    assert rig.holds_after(5)
    assert not rig.holds_after(0.9)
    rig.server.resume(rig.store)
    assert rig.lease.holds()


def test_a_new_session_is_no_lease_on_partitions_claimed_in_the_old_one(rig):
    assert rig.lease.holds()
    rig.server.stall(rig.store)
    rig.clock.now += 7
    rig.server.expire(rig.session_id)
    rig.server.wake(rig.store)
    rig.server.deliver_all()
    assert rig.store.session_id not in (0, rig.session_id)
    assert not rig.lease.holds()
    rig.session_id = rig.store.session_id
    assert rig.lease.holds()
