"""Among the members of one process: who moves goes first, and who joins waits for those that are about to."""

import gc
from functools import partial

import pytest

from rebalance.machine import Phase
from rebalance.precedence import GATHER_MS, LONGEST_GATHER_MS, WAIT_MS, Precedence, Turn, precedence_in
from tests.support.group_members import FakeClock, Group
from zk_layout.model import TopicPartition


def partitions(*numbers):
    return [TopicPartition("t", n) for n in numbers]


@pytest.fixture
def group():
    return Group({"t": 8})


@pytest.fixture
def process():
    return Precedence()


def lists_read(member):
    return member.coordinator._reader.lists_read


def joined(group, names, process):
    members = [group.join(name, {"t": 1}, precedence=process) for name in names]
    group.pass_time(1.0)
    return members


def leave(group, member):
    member.coordinator.close(5)
    while not member.coordinator.is_closed:
        member.coordinator.turn()
    member.store.close()
    group.members.remove(member)


def test_a_lone_member_looks_at_once(group, process):
    (a,) = joined(group, "a", process)
    (b,) = joined(group, "b", Precedence())
    leave(group, b)
    group.settle()
    assert a.owned == partitions(*range(8))


def test_who_moves_is_done_before_those_who_keep_what_they_have_have_looked(group, process):
    a, b, c, d, e = joined(group, "abcde", process)
    before = [lists_read(member) for member in (a, b, c, d)]
    leave(group, e)
    group.settle()
    assert d.owned == partitions(6, 7)
    # the first to hear of it looked for all
    assert [lists_read(member) for member in (a, b, c, d)] == [before[0] + 1, before[1], before[2], before[3] + 1]
    group.pass_time(WAIT_MS / 1000)
    assert [lists_read(member) for member in (b, c)] == [before[1] + 1, before[2] + 1]
    assert {member.phase for member in (a, b, c, d)} == {Phase.STABLE}


def test_who_waits_hears_of_what_changes_next(group, process):
    a, b, c, d, e = joined(group, "abcde", process)
    leave(group, e)
    group.settle()
    leave(group, d)
    group.pass_time(2 * WAIT_MS / 1000)
    assert [member.owned for member in (a, b, c)] == [partitions(0, 1, 2), partitions(3, 4, 5), partitions(6, 7)]


def test_a_look_that_never_ends_holds_nobody_up_for_long(group, process):
    a, b, c = joined(group, "abc", process)
    assert process.may_look("stuck", {}, 1 << 30, lambda: None, group.clock.now)
    leave(group, c)
    group.settle()
    assert (a.owned, b.owned) == (partitions(0, 1, 2), partitions(3, 4, 5))
    group.pass_time(WAIT_MS / 1000)
    assert (a.owned, b.owned) == (partitions(0, 1, 2, 3), partitions(4, 5, 6, 7))


def test_a_look_that_finds_nothing_lets_those_who_wait_look_for_themselves(process, group):
    rung = []
    assert process.may_look("a", {}, 0, lambda: None, group.clock.now)
    assert not process.may_look("b", {}, 0, lambda: rung.append("b"), group.clock.now)
    process.end_look("b")
    assert rung == []
    assert not process.may_look("b", {}, 0, lambda: rung.append("b"), group.clock.now)
    process.end_look("a")
    assert rung == ["b"]
    assert process.may_look("b", {}, 0, lambda: None, group.clock.now)


def test_who_has_just_joined_waits_for_those_that_are_about_to(group, process):
    for name in "ab":
        process.begin_arriving(f"g_{name}")
    a = group.join("a", {"t": 1}, precedence=process)
    group.settle()
    assert (a.phase, a.owned) == (Phase.JOINING, [])
    b = group.join("b", {"t": 1}, precedence=process)
    group.settle()
    assert (a.owned, b.owned) == (partitions(0, 1, 2, 3), partitions(4, 5, 6, 7))
    # claimed once, and nothing had to be given back
    assert [entry[0] for entry in a.delivery.log] == ["begin"]


def test_one_that_does_not_come_is_not_waited_for(group, process):
    for name in "abc":
        process.begin_arriving(f"g_{name}")
    a = group.join("a", {"t": 1}, precedence=process)
    group.settle()
    process.end_arriving("g_b")
    process.end_arriving("g_b")
    group.settle()
    assert a.phase is Phase.JOINING
    process.end_arriving("g_c")
    group.settle()
    assert a.owned == partitions(*range(8))


def test_one_that_is_stuck_is_waited_for_no_longer_than_an_arrival_may_take(group, process):
    for name in "ab":
        process.begin_arriving(f"g_{name}")
    a = group.join("a", {"t": 1}, precedence=process)
    group.pass_time(2 * GATHER_MS / 1000 + 0.01)
    assert a.owned == partitions(*range(8))


def test_arrivals_without_end_are_not_waited_for_without_end(group, process):
    process.begin_arriving("g_a")
    process.begin_arriving("stuck")
    a = group.join("a", {"t": 1}, precedence=process)
    group.settle()
    began = group.clock.now
    while a.phase is Phase.JOINING and group.clock.now < began + 60:
        process.begin_arriving("another")
        process.end_arriving("another")
        group.clock.now += GATHER_MS / 2000
        group.settle()
    assert LONGEST_GATHER_MS <= (group.clock.now - began) * 1000 <= LONGEST_GATHER_MS + GATHER_MS
    assert a.owned == partitions(*range(8))


def test_a_member_that_waits_for_others_and_is_stopped_leaves_at_once(group, process):
    process.begin_arriving("stuck")
    a = group.join("a", {"t": 1}, precedence=process)
    group.settle()
    assert a.phase is Phase.JOINING
    a.coordinator.close(5)
    while not a.coordinator.is_closed:
        a.coordinator.turn()
    assert group.admin.get_children("/consumers/g/ids") == ()
    process.end_arriving("stuck")


def test_a_session_that_ends_while_others_are_waited_for_is_followed_by_a_member_that_claims(group, process):
    process.begin_arriving("stuck")
    a = group.join("a", {"t": 1}, precedence=process)
    group.settle()
    group.server.expire(a.store.session_id)
    group.settle()
    process.end_arriving("stuck")
    group.settle()
    assert a.owned == partitions(*range(8))
    assert a.phase is Phase.STABLE


def test_only_members_of_one_group_of_one_ensemble_share():
    one = precedence_in("a:2181/x", "g")
    assert precedence_in("a:2181/x", "g") is one
    assert precedence_in("a:2181/y", "g") is not one
    assert precedence_in("a:2181/x", "h") is not one
    one.begin_arriving("m")
    del one
    gc.collect()
    assert precedence_in("a:2181/x", "g").gather("n", lambda: None) is False


class SharedTime:
    """A clock and stores that let the others take their turns while one waits for the event or for an answer."""

    def __init__(self, group, members):
        self.clock = group.clock
        self.members = members
        self._busy = set()
        for member in members:
            member.coordinator._turn._clock = self
            member.store.list_children = partial(self._list, member.store.list_children)

    def monotonic(self):
        return self.clock.monotonic()

    def turn(self, member):
        if member not in self._busy:
            self._busy.add(member)
            member.coordinator.turn()
            self._busy.discard(member)

    def turns(self, members):
        for _ in range(20):
            for member in members:
                self.turn(member)

    def wait(self, event, timeout_s):
        for _ in range(20):
            for member in self.members:
                if event.is_set():
                    return True
                self.turn(member)
        # those who are in the midst of a turn cannot go on before I return
        return False

    def _list(self, ask, path, watcher=None):
        if len(self._busy) == 1:
            # the others hear of it while the first one looks; the last one first, whose share is its neighbour's still
            for member in reversed(self.members):
                self.turn(member)
        return ask(path, watcher)


def all_move(precedences):
    """Four members of twelve partitions, all of whose shares change as the first of them leaves: what they did."""
    group = Group({"t": 12})
    first, *others = [
        group.join(name, {"t": 1}, precedence=precedence) for name, precedence in zip("abcd", precedences, strict=True)
    ]
    group.pass_time(1.0)
    log = []
    for member in others:
        note(log, member)
    time = SharedTime(group, others)
    leave(group, first)
    # the last one is told first: what is to be its own is its neighbour's still
    time.turns(others[::-1])
    group.settle()
    assert [member.owned for member in others] == [partitions(*range(n, n + 4)) for n in (0, 4, 8)]
    return log


def note(log, member):
    ownership, delivery = member.coordinator._reconciler._ownership, member.delivery
    claim, begin = ownership.claim, delivery.begin

    def noted_claim(wanted):
        log.append("tries to claim")
        claim(wanted)
        log.append("claims")

    def noted_begin(claimed, assignment):
        if claimed:
            log.append("begins")
        begin(claimed, assignment)

    ownership.claim, delivery.begin = noted_claim, noted_begin


def test_who_moves_claims_when_the_others_of_its_process_have_released(process):
    assert all_move([process] * 4).count("tries to claim") == 3
    assert all_move([Precedence() for _ in range(4)]).count("tries to claim") > 3


def test_who_has_released_waits_for_others_that_have_not_and_who_has_claimed_likewise(process):
    clock = WaitedFor()
    one, other = (Turn(process, name, clock, lambda: None) for name in ("one", "other"))
    assert not one.await_releases()
    one.move()
    other.move()
    for has_done, wait in ((Turn.has_released, Turn.await_releases), (Turn.has_claimed, Turn.await_claims)):
        has_done(one)
        wait(one)
        event, timeout_s = clock.waits.pop()
        assert (event.is_set(), timeout_s) == (False, WAIT_MS / 1000)
        has_done(other)
        assert event.is_set()
        wait(one)
        wait(other)
        assert clock.waits == []


def test_who_does_not_get_on_is_not_waited_for(process):
    clock = WaitedFor()
    one, other = (Turn(process, name, clock, lambda: None) for name in ("one", "other"))
    one.move()
    other.move()
    one.has_released()
    other.end()
    assert not one.await_releases()
    one.has_claimed()
    one.await_claims()
    assert clock.waits == []

    other.move()
    clock.now += WAIT_MS / 1000
    assert not one.await_releases(), "it has had its time"


class WaitedFor(FakeClock):
    """Notes who would wait for what, and how long."""

    def __init__(self):
        super().__init__()
        self.waits = []

    def wait(self, event, timeout_s):
        self.waits.append((event, pytest.approx(timeout_s)))
        return event.is_set()
