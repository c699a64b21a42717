"""Groups whose assignor takes longer than a rebalance may. The assignor itself moves the clock; without threads."""

from __future__ import annotations

import pytest

from rebalance.assignors.seam import Assignor, given
from rebalance.led.records import decode_generation, generation_path, leader_path
from tests.support.group_members import GROUP, Group

LONG_S = 60
"""How long an assignor works, in seconds; members of these groups may take 5 s to join."""
PARTITIONS = 12


class Slow(Assignor):
    """An assignor that gives out the partitions in turn. assigning: called before each assignment."""

    name = "slow"

    @staticmethod
    def assigning():
        pass

    def assign(self, cluster, subscriptions):
        Slow.assigning()
        members = sorted(subscriptions)
        return given({member: cluster.partitions("t")[n :: len(members)] for n, member in enumerate(members)})


STRATEGY = f"{__name__}:Slow"


class SlowGroup(Group):
    def add(self, name):
        return self.join(name, {"t": 1}, led=STRATEGY)

    @property
    def leader(self):
        name = self.admin.get_data(leader_path(GROUP)).data.decode()
        return next(member for member in self.members if member.consumer_id == name)

    @property
    def generation(self):
        path = generation_path(GROUP)
        return decode_generation(path, self.admin.get_data(path).data)

    def go_on_without(self, member, seconds=LONG_S):
        """Let the other members take turns while this member is in the middle of its turn."""
        self.members.remove(member)
        self.pass_time(seconds)
        self.members.append(member)

    def sizes(self):
        return sorted(len(member.owned) for member in self.members)

    def assert_divided(self, members):
        self.pass_time(20)
        assert self.sizes() == [PARTITIONS // members] * members
        assert len(self.owners("t")) == PARTITIONS


def once(action):
    """Return a function that runs the action at its first call only."""
    left = [action]
    return lambda: left.pop()() if left else None


@pytest.fixture
def group():
    group = SlowGroup({"t": PARTITIONS})
    for name in "abc":
        group.add(name)
    group.assert_divided(3)
    return group


def test_a_leader_whose_assignor_takes_a_minute_divides_for_all_that_have_joined(group, monkeypatch):
    leader, before, began = group.leader, group.generation, group.clock.now
    monkeypatch.setattr(Slow, "assigning", once(lambda: group.go_on_without(leader)))
    group.add("d")
    group.assert_divided(4)
    assert group.clock.now - began >= LONG_S
    assert group.leader is leader
    assert group.generation.number == before.number + 1


def test_a_member_that_joins_while_the_assignor_works_is_given_its_share_after_that(group, monkeypatch):
    leader, before = group.leader, group.generation

    def meanwhile():
        group.add("e")
        group.add("f")
        group.go_on_without(leader)
        assert group.generation == before

    monkeypatch.setattr(Slow, "assigning", once(meanwhile))
    group.add("d")
    group.assert_divided(6)
    assert group.generation.number == before.number + 2


def test_a_leader_whose_session_ends_while_its_assignor_works_writes_no_generation(group, monkeypatch):
    leader = group.leader
    seen = []

    def meanwhile():
        group.server.expire(leader.store.session_id)
        group.go_on_without(leader)
        seen.append((group.leader, group.generation))

    monkeypatch.setattr(Slow, "assigning", once(meanwhile))
    group.add("d")
    group.assert_divided(4)
    [(successor, generation)] = seen
    assert group.leader is successor is not leader
    assert len(generation.shares) == 3
    assert group.generation.number > generation.number


def test_a_member_whose_assignor_takes_a_minute_for_its_user_data_delays_no_member_and_comes_back(group, monkeypatch):
    slow = next(member for member in group.members if member is not group.leader)
    seen = []

    def meanwhile():
        group.go_on_without(slow)
        seen.append({share.consumer_id for share in group.generation.shares.values()})

    own = slow.led._own
    tell, first = own.offer, once(meanwhile)
    monkeypatch.setattr(own, "offer", lambda told: (first(), tell(told))[1])
    group.add("d")
    group.assert_divided(4)
    assert seen == [{member.consumer_id for member in group.members if member is not slow}]
