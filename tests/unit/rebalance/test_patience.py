"""Members that wait for members that left, over an in-memory ZooKeeper: which partitions move, to whom, and when."""

import pytest

from rebalance.assignors import ASSIGNORS
from rebalance.errors import AssignmentRefusedError
from rebalance.machine import Phase
from tests.support.group_members import GROUP, Group
from zk_layout.codecs import encode_registration
from zk_layout.memory_store import MemoryStore
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition

PATIENT = {"absence_ms": 30_000}


def partitions(*numbers):
    return [TopicPartition("t", n) for n in numbers]


@pytest.fixture
def group():
    return Group({"t": 6})


@pytest.fixture
def three(group):
    """Let a, b and c settle with two partitions each; their delivery logs are empty."""
    members = [group.join(name, {"t": 1}, **PATIENT) for name in "abc"]
    group.pass_time(2.0)
    for member in members:
        member.delivery.log.clear()
    return members


def leave(group, member):
    """Let a member leave in order, as after SIGTERM."""
    member.coordinator.close(5)
    while not member.coordinator.is_closed:
        member.coordinator.turn()
    group.members.remove(member)
    member.store.close()


def moved(member):
    """Return the calls of a member's delivery that name partitions."""
    return [entry for entry in member.delivery.log if entry[1]]


def owners(group):
    held = group.owners("t")
    return "".join(held.get(n, f"{GROUP}_.")[len(GROUP) + 1] for n in range(6))


def test_a_restart_under_the_same_id_moves_only_the_members_own_partitions(group, three):
    a, b, c = three
    leave(group, b)
    group.pass_time(20.0)
    assert owners(group) == "aa..cc"
    group.clock.now += 0.001
    b = group.join("b", {"t": 1}, **PATIENT)
    group.settle()
    assert owners(group) == "aabbcc"
    assert (moved(a), moved(c)) == ([], []), "what stays flows on"
    assert moved(b) == [("begin", tuple(partitions(2, 3)))]


def test_each_member_restarted_in_turn_moves_each_partition_once(group, three):
    for name in "abc":
        leave(group, next(member for member in group.members if member.consumer_id == f"{GROUP}_{name}"))
        group.pass_time(5.0)
        group.join(name, {"t": 1}, **PATIENT)
        group.pass_time(5.0)
    assert owners(group) == "aabbcc"
    assert {len(moved(member)) for member in group.members} == {1}


def test_a_killed_member_that_comes_back_under_its_id_gets_its_partitions_after_its_session(group, three):
    a, b, c = three
    group.members.remove(b)
    b = group.join("b", {"t": 1}, **PATIENT)
    group.pass_time(3.0)
    assert (b.phase, owners(group)) == (Phase.JOINING, "aabbcc"), "the dead one's session still holds the id"
    group.server.expire(three[1].store.session_id)
    group.settle()
    assert b.owned == partitions(2, 3)
    assert (moved(a), moved(c)) == ([], [])


def test_members_that_leave_one_after_another_take_no_partitions_from_each_other(group, three):
    for member in list(group.members):
        leave(group, member)
        group.pass_time(8.0)
        assert [moved(one) for one in group.members] == [[]] * len(group.members)
    assert owners(group) == "......"


@pytest.mark.parametrize("request_number", range(1, 6))
def test_a_member_that_leaves_while_another_reads_the_group_still_counts_as_waiting(group, three, request_number):
    a, b, c = three
    asked = []

    def fault(session_id, kind):
        if session_id == c.store.session_id:
            asked.append(kind)
            if len(asked) == request_number:
                leave(group, b)

    leave(group, a)
    group.server.fault = fault
    group.pass_time(20.0)
    assert len(asked) >= request_number
    assert owners(group) == "....cc"
    assert moved(c) == []


def test_partitions_of_a_member_that_stays_away_are_taken_over_after_the_delay_and_not_earlier(group, three):
    leave(group, three[1])
    group.pass_time(29.5)
    assert owners(group) == "aa..cc"
    assert all(member.phase is Phase.STABLE for member in group.members)
    group.pass_time(1.0)
    assert owners(group) == "aaaccc"


def test_another_departure_does_not_prolong_the_wait(group, three):
    leave(group, three[1])
    group.pass_time(25.0)
    leave(group, three[2])
    group.pass_time(4.5)
    assert owners(group) == "aa...."
    group.pass_time(1.0)
    assert owners(group) == "aaaaaa"


def test_a_new_member_in_the_place_of_one_that_left_ends_the_wait(group, three):
    leave(group, three[1])
    group.pass_time(5.0)
    group.join("d", {"t": 1}, **PATIENT)
    group.settle()
    assert owners(group) == "aaccdd"


def test_a_member_that_joins_while_others_wait_for_more_gets_its_share_at_once(group, three):
    leave(group, three[1])
    leave(group, three[2])
    group.pass_time(5.0)
    d = group.join("d", {"t": 1}, **PATIENT)
    group.settle()
    assert (d.phase, owners(group)) == (Phase.STABLE, "aa.ddd")
    group.pass_time(26.0)
    assert owners(group) == "aaaddd"


def test_a_member_whose_own_session_ends_does_not_wait_and_the_others_wait_for_it(group, three):
    a, b, c = three
    group.server.expire(b.store.session_id)
    group.settle()
    assert owners(group) == "aabbcc"
    assert (moved(a), moved(c)) == ([], [])


def test_a_member_that_loses_its_session_while_it_waits_takes_back_its_own_and_keeps_waiting(group, three):
    leave(group, three[1])
    group.settle()
    group.server.expire(three[0].store.session_id)
    group.settle()
    assert owners(group) == "aa..cc"
    group.pass_time(31.0)
    assert owners(group) == "aaaccc"


def test_when_all_sessions_end_at_once_everybody_takes_back_its_own(group, three):
    """As after a ZooKeeper outage longer than the sessions: the first member back takes no other's partitions."""
    for member in three:
        group.server.expire(member.store.session_id)
    for member in three:
        while member.coordinator.turn() == 0:
            pass
    group.settle()
    assert owners(group) == "aabbcc"
    assert [moved(member) for member in three] == [
        [("drop", tuple(partitions(*own))), ("begin", tuple(partitions(*own)))] for own in ((0, 1), (2, 3), (4, 5))
    ]


def test_a_member_that_comes_back_after_the_take_over_gets_its_share(group, three):
    a, b, c = three
    group.server.suspend(a.store)
    leave(group, b)
    group.server.expire(a.store.session_id)
    for _ in range(40):
        while c.coordinator.turn() == 0:
            pass
        group.clock.now += 1.0
    assert owners(group) == "cccccc"
    group.server.resume(a.store)
    group.settle()
    assert owners(group) == "aa.ccc"
    group.pass_time(31.0)
    assert owners(group) == "aaaccc"


def test_a_wait_that_ends_while_the_connection_is_lost_is_over_when_it_is_back(group, three):
    a, b, _c = three
    leave(group, b)
    group.pass_time(25.0)
    group.server.suspend(a.store)
    group.pass_time(10.0)
    group.server.resume(a.store)
    group.settle()
    assert owners(group) == "aaaccc"


def test_a_member_that_left_during_a_lost_connection_is_waited_for_from_the_return_on(group, three):
    a, b, _c = three
    group.server.suspend(a.store)
    leave(group, b)
    group.pass_time(2.0)
    group.server.resume(a.store)
    group.settle()
    assert owners(group) == "aa..cc"
    group.pass_time(31.0)
    assert owners(group) == "aaaccc"


def test_an_owner_znode_that_is_deleted_meanwhile_is_claimed_again(group, three):
    leave(group, three[1])
    group.settle()
    group.admin.delete(f"/consumers/{GROUP}/owners/t/0")
    group.pass_time(11.0)
    assert owners(group) == "aa..cc"


def test_partitions_added_meanwhile_are_assigned_as_if_no_member_had_left(group, three):
    leave(group, three[1])
    group.settle()
    group.add_partitions("t", 9)
    group.pass_time(1.0)
    held = group.owners("t")
    assert {n: owner[2] for n, owner in held.items()} == dict(zip((0, 1, 2, 6, 7, 8), "aaaccc", strict=True))
    group.pass_time(31.0)
    assert {n: owner[2] for n, owner in group.owners("t").items()} == dict(enumerate("aaaaacccc"))


def test_a_deleted_registration_made_again_is_no_departure_of_its_own(group, three):
    _a, b, _c = three
    group.admin.delete(f"/consumers/{GROUP}/ids/{b.consumer_id}")
    group.settle()
    assert owners(group) == "aabbcc"
    assert [moved(member) for member in three] == [[], [], []]


def test_a_member_without_the_setting_is_degraded_until_others_release_its_share(group):
    a, _, c = (group.join(name, {"t": 1}, **(PATIENT if name != "c" else {})) for name in "abc")
    group.pass_time(2.0)
    leave(group, a)
    group.pass_time(2.0)
    assert (c.phase, owners(group)) == (Phase.WAITING, "..bbcc")
    group.pass_time(10.0)
    assert (c.phase, owners(group)) == (Phase.DEGRADED, "..bbcc")
    group.pass_time(20.0)
    assert (c.phase, owners(group)) == (Phase.STABLE, "bbbccc")


class JvmMember:
    """A registration and owner znodes like a JVM member's. The test deletes the owner znodes by release()."""

    def __init__(self, group, name, *numbers):
        self.store = MemoryStore(group.server)
        self.store.start()
        self.name = name
        registration = ConsumerRegistration(SubscriptionPattern.STATIC, (("t", 1),), 1)
        self.store.create(f"/consumers/{GROUP}/ids/{GROUP}_{name}", encode_registration(registration), ephemeral=True)
        self.numbers = numbers

    def claim(self):
        for n in self.numbers:
            path = f"/consumers/{GROUP}/owners/t/{n}"
            self.store.create(path, f"{GROUP}_{self.name}-0".encode(), ephemeral=True)

    def release(self):
        for n in self.numbers:
            self.store.delete(f"/consumers/{GROUP}/owners/t/{n}")


def test_a_jvm_member_that_does_not_wait_gets_its_share_as_soon_as_it_shows_that(group):
    a, _b = (group.join(name, {"t": 1}, **PATIENT) for name in "ab")
    group.settle()
    jvm = JvmMember(group, "J", 0, 1)
    group.settle()
    jvm.claim()
    group.settle()
    assert owners(group) == "JJaabb"
    leave(group, a)
    group.settle()
    # the shares are now 0 1 2 for J and 3 4 5 for b; b owns nothing of J's share, and need not release anything
    assert owners(group) == "JJ..bb"


def test_a_jvm_members_share_is_released_when_it_has_released_its_own_partitions(group):
    c, d = (group.join(name, {"t": 1}, **PATIENT) for name in "cd")
    group.settle()
    jvm = JvmMember(group, "e", 4, 5)
    group.settle()
    jvm.claim()
    group.settle()
    assert owners(group) == "ccddee"
    leave(group, c)
    group.settle()
    # the shares are now 0 1 2 for d and 3 4 5 for e: d keeps 3 while e seems to wait
    assert owners(group) == "..ddee"
    jvm.release()
    group.settle()
    assert owners(group) == "..d...", "e may have 3 now"
    assert d.phase is Phase.STABLE


def test_a_member_of_the_jvm_that_owned_nothing_is_not_kept_waiting(group):
    """The JVM member would use up its tries. Without an owner znode to delete, it cannot show that it does not wait."""
    c, _d = (group.join(name, {"t": 1}, **PATIENT) for name in "cd")
    group.settle()
    JvmMember(group, "e", 4, 5)
    group.settle()
    leave(group, c)
    group.settle()
    assert owners(group) == "..d..."


def test_a_group_that_cannot_be_divided_is_tried_again_after_the_back_off_however_long_others_were_waited_for(
    group, monkeypatch
):
    a, b = [group.join(name, {"t": 1}, **PATIENT) for name in "ab"]
    group.pass_time(2.0)
    leave(group, b)
    group.pass_time(1.0)

    def refuse(group, version):
        raise AssignmentRefusedError("not this group")

    monkeypatch.setitem(ASSIGNORS, "range", refuse)
    group.add_partitions("t", 7)
    group.server.requests.clear()
    group.pass_time(60.0)
    assert a.phase is not Phase.STABLE
    assert len(group.server.requests) < 200
