"""Newcomers and new partitions of a led group: the members that join a round, and their join data. No threads."""

from dataclasses import replace

import pytest

from rebalance.assignors.seam import Subscription
from rebalance.coordination.requests import Protocol
from rebalance.led.records import (
    Round,
    decode_generation,
    decode_joining,
    decode_round,
    decode_subscription,
    encode_generation,
    encode_joining,
    encode_round,
    encode_subscription,
    generation_path,
    leader_path,
    member_path,
    round_path,
)
from tests.support.group_members import GROUP, Group
from zk_layout.errors import NotPermittedError
from zk_layout.store import CreateOp, DeleteOp, SetOp


class Led:
    def __init__(self, strategy):
        self.group = Group({"t": 6})
        self.strategy = strategy
        self.first = self.join_and_settle("a")

    def join(self, name):
        return self.group.join(name, {"t": 1}, led=self.strategy)

    def join_and_settle(self, name):
        member = self.join(name)
        self.group.settle()
        self.group.pass_time(0.25)
        return member

    def generation(self):
        return decode_generation("", self.group.admin.get_data(generation_path(GROUP)).data)

    def round(self):
        return decode_round("", self.group.admin.get_data(round_path(GROUP)).data).number

    def until(self, condition, *members):
        for _ in range(1000):
            if condition():
                return
            for member in members:
                member.coordinator.turn()
        raise AssertionError("it does not come to that")

    def told(self, member):
        path = member_path(GROUP, member.consumer_id)
        (offered,) = decode_joining(path, member.consumer_id, self.group.admin.get_data(path).data).protocols
        return decode_subscription(offered.metadata)

    def has_told(self, member):
        return self.group.admin.exists(member_path(GROUP, member.consumer_id)) is not None


def test_a_newcomer_that_a_generation_counts_in_does_not_join_its_round_once_more():
    led = Led("range")
    before = led.generation().number
    second, third = led.join("b"), led.join("c")
    asked = led.round()
    create = third.store.create

    def create_after_the_round(path, *args, **kwargs):
        # the third member has read the round, and has not written its offer yet
        if path == member_path(GROUP, third.consumer_id):
            led.until(lambda: led.round() > asked, led.first)
        return create(path, *args, **kwargs)

    third.store.create = create_after_the_round
    led.until(lambda: led.has_told(second), second)
    led.until(lambda: led.has_told(third), third)
    led.until(lambda: led.generation().number > before, led.first, second)
    assert {share.consumer_id for share in led.generation().shares.values()} == {
        member.consumer_id for member in led.group.members
    }
    led.group.pass_time(1)
    assert [len(member.owned) for member in led.group.members] == [2, 2, 2]
    assert led.generation().number == before + 1


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_every_member_and_the_leader_report_their_partitions_when_partitions_are_added(strategy):
    led = Led(strategy)
    for name in "bc":
        led.join(name)
        led.group.settle()
        led.group.pass_time(0.25)
    before = led.generation()
    led.group.add_partitions("t", 12)
    led.group.pass_time(2)
    assert led.generation().number == before.number + 1
    assert [led.told(member).generation for member in led.group.members] == [before.number] * 3
    assert [len(member.owned) for member in led.group.members] == [4, 4, 4]


def test_a_member_whose_next_words_a_stranger_wrote_before_it_gets_its_share_back():
    led = Led("range")
    second = led.join_and_settle("b")
    admin, path = led.group.admin, member_path(GROUP, second.consumer_id)
    number, told = led.generation().number, led.told(second)
    joining = decode_joining(path, second.consumer_id, admin.get_data(path).data)
    again = Protocol("range", encode_subscription(replace(told, generation=number)))
    # the leader's znodes go, so generation numbers begin anew and reach the number in the second member's offer
    admin.set_data(path, encode_joining(replace(joining, protocols=(again,))))
    admin.delete(leader_path(GROUP))
    admin.delete(generation_path(GROUP))
    led.group.pass_time(2)
    assert (led.generation().number, led.told(second).generation) == (number, number)
    assert [len(member.owned) for member in led.group.members] == [3, 3]


def test_a_member_in_whose_place_a_stranger_told_that_it_wants_nothing_gets_its_share_back():
    led = Led("range")
    second = led.join_and_settle("b")
    path = member_path(GROUP, second.consumer_id)
    joining = decode_joining(path, second.consumer_id, led.group.admin.get_data(path).data)
    nothing = Protocol("range", encode_subscription(Subscription(())))
    led.group.admin.set_data(path, encode_joining(replace(joining, protocols=(nothing,))))
    led.group.pass_time(2)
    assert led.told(second).topics == ("t",)
    assert [len(member.owned) for member in led.group.members] == [3, 3]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_leader_that_refuses_itself_for_a_strangers_words_leads_again_if_nobody_else_can(strategy, monkeypatch):
    led = Led(strategy)
    second = led.join_and_settle("b")
    write = second.store.multi

    def may_not_lead(ops, **how):
        if any(op.path in (round_path(GROUP), generation_path(GROUP)) for op in ops):
            raise NotPermittedError(round_path(GROUP))
        return write(ops, **how)

    monkeypatch.setattr(second.store, "multi", may_not_lead)
    path = member_path(GROUP, led.first.consumer_id)
    joining = decode_joining(path, led.first.consumer_id, led.group.admin.get_data(path).data)
    unknown = Protocol("", joining.protocols[0].metadata)
    led.group.admin.set_data(path, encode_joining(replace(joining, protocols=(unknown,))))
    led.group.pass_time(10)
    assert [len(member.owned) for member in led.group.members] == [3, 3]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_new_leader_of_a_member_in_whose_place_a_stranger_told_of_another_strategy_gets_on(strategy):
    """Regression: the leader loaded that member with the other strategy, was refused, and asked to join without end."""
    led = Led(strategy)
    second = led.join_and_settle("b")
    path = member_path(GROUP, second.consumer_id)
    joining = decode_joining(path, second.consumer_id, led.group.admin.get_data(path).data)
    unknown = Protocol("unknown", joining.protocols[0].metadata)
    # as if the last leader had died after it began a round
    asked = Round(
        led.round() + 1, frozenset(led.generation().shares[one].consumer_id for one in led.generation().shares)
    )
    ops = [
        SetOp(path, encode_joining(replace(joining, protocols=(unknown,)))),
        SetOp(round_path(GROUP), encode_round(asked)),
        DeleteOp(leader_path(GROUP)),
    ]
    led.group.admin.multi(ops)
    led.group.pass_time(10)
    assert [len(member.owned) for member in led.group.members] == [3, 3]


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_whose_last_words_name_other_topics_than_it_has_joins_anew(strategy):
    """Regression: another client had run under its id, and the leader assigned by an offer of that client's topics."""
    led = Led(strategy)
    mine, number = led.first.led._mine, led.generation().number
    mine.joined = replace(mine.joined, topics=())
    led.first.led.look()
    led.group.pass_time(2)
    assert mine.joined.topics == led.told(led.first).topics == ("t",)
    assert led.generation().number > number
    assert len(led.first.owned) == 6


def test_a_moment_without_a_leader_before_the_last_leader_does_not_count_when_that_one_leaves():
    """Regression: a refused member took the lead at once, although another member could have led."""
    led = Led("range")
    second = led.join("b")
    led.group.settle()
    election = second.led._election
    assert not election.is_vacant(None, 5000)
    led.join("c")
    led.group.pass_time(6)
    assert not election.is_vacant(None, 5000)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_that_comes_back_in_a_new_session_takes_no_share_of_its_former_session(strategy):
    led = Led(strategy)
    second = led.join_and_settle("b")
    number, share = led.generation().number, set(second.owned)
    led.group.server.expire(second.store.session_id)
    # the leader takes no turn meanwhile
    for _ in range(200):
        second.coordinator.turn()
    assert (led.generation().number, second.owned) == (number, [])
    led.group.pass_time(2)
    assert len(share) == len(second.owned) == 3


@pytest.mark.parametrize("forged", ["round", "generation"])
def test_a_leader_writes_again_what_a_stranger_deletes_and_creates_in_one_request(forged):
    """Regression: because of its version 0 the leader took the new znode for one read before its own last write."""
    led = Led("range")
    second = led.join_and_settle("b")
    if forged == "round":
        path, data = round_path(GROUP), encode_round(Round(led.round(), refused={second.consumer_id: "no"}))
    else:
        given = led.generation()
        shares = {member_id: replace(share, partitions=()) for member_id, share in given.shares.items()}
        path, data = generation_path(GROUP), encode_generation(replace(given, shares=shares))
    led.group.admin.multi([DeleteOp(path), CreateOp(path, data)])
    led.group.pass_time(2)
    assert led.group.admin.get_data(path).data != data
    assert [len(member.owned) for member in led.group.members] == [3, 3]


def test_a_refused_member_leads_where_a_znode_that_no_session_keeps_stands_in_the_leaders_place():
    """Regression: only refused members took such a znode for a leader's, so the group had no leader."""
    led = Led("range")
    path, refused = leader_path(GROUP), encode_round(Round(led.round(), refused={led.first.consumer_id: "no"}))
    ops = [DeleteOp(path), CreateOp(path, b"x"), SetOp(round_path(GROUP), refused)]
    led.group.admin.multi([*ops, CreateOp(member_path(GROUP, "nobody"), b"x")])
    led.group.pass_time(10)
    assert len(led.first.owned) == 6
