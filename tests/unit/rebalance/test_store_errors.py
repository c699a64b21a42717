"""A member whose store fails: each request once, with each error of a store, whether the server did it or not."""

from __future__ import annotations

import itertools
import logging

import pytest

from rebalance.events import CloseRequested, Drained
from rebalance.led.records import ephemeral_paths, leader_path
from rebalance.machine import Phase
from rebalance.mailbox import Errand
from tests.support.group_members import GROUP, Group, Member, RecordingDelivery
from zk_layout.errors import (
    AuthenticationError,
    ConnectionLostError,
    MultiFailedError,
    NotPermittedError,
    SessionExpiredError,
    ZooKeeperError,
)
from zk_layout.memory_store import Fault, MemoryStore, Refusal
from zk_layout.model import SubscriptionPattern, TopicPartition
from zk_layout.store import CheckOp, SessionEvent, SessionKind, SetOp

IDS = f"/consumers/{GROUP}/ids"
ERRORS = {
    "request lost": Fault.LOSE_REQUEST,
    "reply lost": Fault.LOSE_REPLY,
    "no answer": Refusal(ConnectionLostError("no answer in time")),
    "no answer, but done": Refusal(ConnectionLostError("no answer in time"), carried_out=True),
    "session over": Refusal(SessionExpiredError("over")),
    "no ACL": Refusal(NotPermittedError("/consumers")),
    "quota": Refusal(ZooKeeperError("quota exceeded")),
    "unexpected": Refusal(OSError("injected")),
    "unexpected, but done": Refusal(OSError("injected"), carried_out=True),
}


def owner_znodes(group):
    """Return {(topic, partition): session id of the owner znode}."""
    found = {}
    for topic in group.admin.get_children(f"/consumers/{GROUP}/owners"):
        for number in group.admin.get_children(f"/consumers/{GROUP}/owners/{topic}"):
            stat = group.admin.exists(f"/consumers/{GROUP}/owners/{topic}/{number}")
            found[topic, int(number)] = stat.ephemeral_owner
    return found


def knows_what_it_owns(group, member):
    ownership = member.coordinator._ownership
    mine = {tp for tp, session in owner_znodes(group).items() if session == member.store.session_id}
    return mine <= {tuple(tp) for tp in (*ownership.owned, *ownership._doubtful)}


def settle(group):
    """Let all take turns until they are idle; an injected error stops no member, as in the coordinators' threads."""
    while True:
        try:
            return group.settle()
        except OSError as error:
            assert str(error) == "injected"  # noqa: PT017


class FailingWatches:
    """Fails each request of one session that sets watches on owner znodes."""

    def __init__(self, fault, session_id):
        self._fault = fault
        self._session_id = session_id

    def __call__(self, session_id, kind):
        return self._fault if (session_id, kind) == (self._session_id, "watch_many") else None


class Failing:
    """Fails the n-th request of one session."""

    def __init__(self, fault):
        self.fault = fault
        self.session_id = 0
        self.left = 10**9
        self.kinds = set()

    def __call__(self, session_id, kind):
        if session_id != self.session_id:
            return None
        self.left -= 1
        if self.left == 0:
            self.kinds.add(kind)
        return self.fault if self.left == 0 else None


@pytest.mark.parametrize("fault", ERRORS.values(), ids=ERRORS)
def test_after_any_failed_request_of_a_join_or_release_the_member_settles_and_knows_its_partitions(fault):
    for number in range(1, 60):
        group = Group({"t": 12, "u": 1})
        # a claim takes several requests
        group.server.max_multi_bytes = 600
        failing = group.server.fault = Failing(fault)
        # the n-th request falls into this member's join, or into its release of half when b joins
        member = group.join("a", {"t": 1, "u": 1})
        failing.session_id, failing.left = member.store.session_id, number
        settle(group)
        other = group.join("b", {"t": 1})
        for _ in range(30):
            settle(group)
            assert knows_what_it_owns(group, member)
            group.clock.now += 1.0
        assert (member.phase, other.phase) == (Phase.STABLE, Phase.STABLE)
        assert {tuple(tp) for tp in (*member.owned, *other.owned)} == owner_znodes(group).keys()
        assert len(owner_znodes(group)) == 13
        if failing.left > 0:
            return
    raise AssertionError("the fault never came to an end")


@pytest.mark.parametrize("error", ["reply lost", "no answer", "unexpected, but done"])
def test_after_any_failed_request_of_a_led_member_the_group_settles_and_divides_all(error):
    kinds = set()
    for number in range(1, 100):
        group = Group({"t": 4})
        failing = group.server.fault = Failing(ERRORS[error])
        # the leader, which is also the first member to write an offer and to read its share
        member = group.join("a", {"t": 1}, led="range")
        failing.session_id, failing.left, failing.kinds = member.store.session_id, number, kinds
        settle(group)
        other = group.join("b", {"t": 1}, led="range")
        for _ in range(12):
            settle(group)
            group.clock.now += 1.0
        assert knows_what_it_owns(group, member)
        assert (member.phase, other.phase) == (Phase.STABLE, Phase.STABLE)
        assert sorted((*member.owned, *other.owned)) == sorted(owner_znodes(group))
        assert len(owner_znodes(group)) == 4
        if failing.left > 0:
            break
    assert {"get_children", "set_data", "create", "multi", "multi_read"} <= kinds


@pytest.mark.parametrize("fault", ERRORS.values(), ids=ERRORS)
def test_a_member_that_could_not_watch_its_owner_znodes_deletes_none_that_is_anothers_by_now(fault):
    group = Group({"t": 2})
    member = group.join("a", {"t": 1})
    settle(group)
    group.server.fault = FailingWatches(fault, member.store.session_id)
    for _ in range(8):
        group.clock.now += 0.25
        settle(group)
    group.server.fault = None
    taken = f"/consumers/{GROUP}/owners/t/1"
    group.admin.delete(taken)
    group.admin.create(taken, b"g_b-0", ephemeral=True)
    # its join makes the member give the partition up
    group.join("b", {"t": 1})
    settle(group)
    assert owner_znodes(group)["t", 1] == group.admin.session_id


class CommittingDelivery(RecordingDelivery):
    """A delivery that commits in one request when partitions end."""

    def __init__(self, store):
        super().__init__()
        self.committed = set()
        self._store = store

    def end(self, partitions):
        if partitions:
            try:
                self._store.multi([CheckOp(f"{IDS}/g_a"), SetOp(f"/consumers/{GROUP}", b"", -1)])
            except MultiFailedError as error:
                raise SessionExpiredError("not registered any more") from error
            self.committed.update(partitions)
        yield from super().end(partitions)


class Outage:
    """Cuts the connection of one member at its n-th request."""

    def __init__(self, group, member, number):
        self.left = number
        self._group = group
        self._member = member

    def __call__(self, session_id, kind):
        if session_id != self._member.store.session_id:
            return None
        self.left -= 1
        if self.left == 0:
            self._group.server.suspend(self._member.store)
            return Refusal(ConnectionLostError("the connection was lost"))
        return None


def leaving(make_fault, led=None):
    """Let a member leave while its n-th request fails, for every n. Yields: (group, member, delivery) 5 s later.

    led: the strategies of a led group, which this member leads; None for a classic group.
    """
    for number in range(1, 30):
        group = Group({"t": 12, "u": 1})
        member = group.join("a", {"t": 1, "u": 1}, led=led)
        member.coordinator._runner._reconciler._delivery = delivery = CommittingDelivery(member.store)
        group.pass_time(1.0)
        assert len(member.owned) == 13
        assert led is None or group.admin.exists(leader_path(GROUP))
        # the release of its partitions takes several requests
        group.server.max_multi_bytes = 600 if led is None else 1000
        fault = group.server.fault = make_fault(group, member, number)
        member.coordinator.post(CloseRequested(9000))
        for _ in range(5):
            settle(group)
            group.clock.now += 1.0
        yield group, member, delivery
        if fault.left > 0:
            return
    raise AssertionError("the fault never came to an end")


def failing_with(fault):
    """Return what leaving() takes to let the n-th request fail with this fault."""

    def make(_group, member, number):
        failing = Failing(fault)
        failing.session_id, failing.left = member.store.session_id, number
        return failing

    return make


def has_left_in_order(group, member, delivery):
    return (
        member.phase is Phase.CLOSED
        and member.coordinator.has_left_nothing
        and len(delivery.committed) == 13
        and owner_znodes(group) == {}
        and not any(map(group.admin.exists, (f"{IDS}/g_a", *ephemeral_paths(GROUP, "g_a"))))
    )


@pytest.mark.parametrize("led", [None, "range"], ids=["classic", "led"])
@pytest.mark.parametrize("error", sorted(ERRORS.keys() - {"no ACL"}))  # an ACL would refuse each further try, too
def test_after_any_failed_request_of_leaving_the_member_tries_again_and_leaves_in_order(error, led):
    assert all(has_left_in_order(*left) for left in leaving(failing_with(ERRORS[error]), led))


def test_a_defect_that_stops_a_member_from_leaving_is_logged_once_with_its_traceback(caplog):
    caplog.set_level(logging.DEBUG, "rebalance.action_runner")
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    group.settle()

    def fail(_partitions):
        raise ValueError("injected")

    member.delivery.end = fail
    member.coordinator.post(CloseRequested(3000))
    group.pass_time(3.0)
    assert member.phase is Phase.CLOSED
    failed = [record for record in caplog.records if "injected" in (record.exc_text or "")]
    assert [record.levelname for record in failed if record.levelno > logging.DEBUG] == ["ERROR"]
    assert len(failed) > 2, "it tried again"


@pytest.mark.parametrize("is_away", [True, False], ids=["with the connection lost", "by its watch"])
def test_a_member_that_leaves_tells_its_users_which_partitions_another_client_has_taken(is_away):
    group = Group({"t": 2})
    member = group.join("a", {"t": 1})
    group.pass_time(2.0)
    member.delivery.in_hand = {TopicPartition("t", 0)}
    member.coordinator.post(CloseRequested(9000))
    group.settle()
    assert member.phase is Phase.LEAVING
    if is_away:
        group.server.suspend(member.store)
    group.admin.delete(f"/consumers/{GROUP}/owners/t/1")
    if is_away:
        group.server.resume(member.store)
    group.settle()
    member.delivery.in_hand = set()
    member.coordinator.post(Drained())
    group.settle()
    assert member.phase is Phase.CLOSED
    assert ("drop", (TopicPartition("t", 1),)) in member.delivery.log
    assert [what for what in member.delivery.log if what[0] == "end"] == [("end", (TopicPartition("t", 0),))]


def test_a_member_that_leaves_waits_for_zookeeper_and_commits_and_releases_when_it_is_back():
    for group, member, delivery in leaving(Outage):
        if member.phase is not Phase.CLOSED:
            assert owner_znodes(group)
            group.server.resume(member.store)
            settle(group)
        assert has_left_in_order(group, member, delivery)


def test_a_member_that_registers_again_as_it_is_told_to_leave_waits_for_zookeeper_too():
    """Another client deleted its id znode; the member still owns its partitions."""
    were_joining = []
    for number in range(1, 10):
        group = Group({"t": 12, "u": 1})
        member = group.join("a", {"t": 1, "u": 1})
        member.coordinator._runner._reconciler._delivery = delivery = CommittingDelivery(member.store)
        settle(group)
        group.server.fault = Outage(group, member, number)
        group.admin.delete(f"{IDS}/g_a")
        settle(group)
        were_joining.append(member.coordinator._state.phase is Phase.JOINING and len(member.owned) == 13)
        member.coordinator.post(CloseRequested(9000))
        settle(group)
        group.clock.now += 5.0
        group.server.resume(member.store)
        settle(group)
        assert has_left_in_order(group, member, delivery)
    assert any(were_joining)


@pytest.mark.parametrize("number", range(1, 6))
def test_a_member_whose_id_is_deleted_as_it_leaves_commits_and_leaves_in_order(number):
    group = Group({"t": 12, "u": 1})
    member = group.join("a", {"t": 1, "u": 1})
    member.coordinator._runner._reconciler._delivery = delivery = CommittingDelivery(member.store)
    settle(group)
    seen = []

    def delete_the_id(session_id, kind):
        seen.append(kind)
        if session_id == member.store.session_id and len(seen) == number:
            group.server.fault = None
            group.admin.delete(f"{IDS}/g_a")

    group.server.fault = delete_the_id
    member.coordinator.post(CloseRequested(9000))
    for _ in range(3):
        settle(group)
        group.clock.now += 1.0
    assert has_left_in_order(group, member, delivery)


@pytest.mark.parametrize(
    "fate", [Refusal(ConnectionLostError("no answer")), Fault.LOSE_REPLY], ids=["lost", "reply lost"]
)
@pytest.mark.parametrize("failing", range(2, 9))
def test_a_member_whose_id_another_takes_as_it_leaves_gives_back_its_partitions_whatever_request_fails(failing, fate):
    group = Group({"t": 12, "u": 1})
    member = group.join("a", {"t": 1, "u": 1})
    member.coordinator._runner._reconciler._delivery = CommittingDelivery(member.store)
    settle(group)
    asked = []

    def act(session_id, kind):
        if session_id != member.store.session_id:
            return None
        asked.append(kind)
        if asked == ["multi"]:
            # the last commit
            group.admin.delete(f"{IDS}/g_a")
        if kind == "create" and asked.count("create") == 1:
            # the member registers again for that commit
            group.admin.create(f"{IDS}/g_a", b"{}", ephemeral=True)
        return fate if len(asked) == failing else None

    group.server.fault = act
    member.coordinator.post(CloseRequested(9000))
    for _ in range(4):
        settle(group)
        group.clock.now += 1.0
    assert "create" in asked
    assert member.phase is Phase.CLOSED
    assert member.coordinator.has_left_nothing
    assert owner_znodes(group) == {}
    assert group.admin.exists(f"{IDS}/g_a").ephemeral_owner == group.admin.session_id


def test_a_member_that_leaves_does_not_call_anothers_what_it_has_deleted_itself(caplog):
    assert all(has_left_in_order(*left) for left in leaving(failing_with(Fault.LOSE_REPLY)))
    assert "is not mine any more" not in caplog.text


def test_a_member_that_may_not_give_its_partitions_back_says_so(caplog):
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    settle(group)
    group.server.fault = lambda _session, kind: ERRORS["no ACL"] if kind == "multi" else None
    member.coordinator.post(CloseRequested(9000))
    settle(group)
    assert member.phase is Phase.CLOSED
    assert "g_a: leaving in order was refused: /consumers may not be accessed" in caplog.text
    assert "g_a: what it still has in ZooKeeper goes with its session" in caplog.text


def test_a_member_that_leaves_after_its_session_has_ended_does_not_say_that_something_goes_with_it(caplog):
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    group.settle()
    group.server.auto_deliver = False
    group.server.expire(member.store.session_id)
    while member.store.session_id:
        group.server.deliver_next(member.store)
    group.settle()
    assert member.phase is Phase.EXPIRED
    member.coordinator.post(CloseRequested(9000))
    group.settle()
    assert member.phase is Phase.CLOSED
    assert "goes with its session" not in caplog.text


def test_a_member_that_leaves_waits_for_zookeeper_no_longer_than_it_may():
    for group, member, _ in leaving(Outage):
        group.clock.now += 5.0
        settle(group)
        assert member.phase is Phase.CLOSED


@pytest.mark.parametrize("leaves", [False, True])
@pytest.mark.parametrize("is_watched", [False, True])
def test_an_owner_znode_that_another_member_takes_between_two_requests_of_a_release_stays(leaves, is_watched):
    group = Group({"t": 40})
    member = group.join("a", {"t": 1})
    settle(group)
    if is_watched:
        group.pass_time(2.0)
    group.server.max_multi_bytes = 600
    # the last of several requests would release this partition
    taken = ("t", 0) if leaves else ("t", 39)
    multis = []

    def take(session_id, kind):
        if session_id != member.store.session_id or kind != "multi":
            return
        multis.append(kind)
        if len(multis) == 1:
            path = f"/consumers/{GROUP}/owners/t/{taken[1]}"
            group.admin.delete(path)
            group.admin.create(path, b"g_x-0", ephemeral=True)

    group.server.fault = take
    if leaves:
        member.coordinator.post(CloseRequested(1000))
    else:
        group.join("b", {"t": 1})
    settle(group)
    assert len(multis) > 1
    assert owner_znodes(group)[taken] == group.admin.session_id


def test_a_claim_of_several_requests_that_is_refused_in_the_middle_is_undone():
    group = Group({"t": 30, "u": 1})
    group.server.max_multi_bytes = 1500
    member = group.join("a", {"t": 1, "u": 1})
    seen = []

    def refuse(session_id, kind):
        seen.append(kind)
        ours = session_id == member.store.session_id
        return Refusal(NotPermittedError("/x")) if ours and kind == "multi" and seen.count("multi") % 3 == 0 else None

    group.server.fault = refuse
    group.settle()
    group.server.fault = None
    assert owner_znodes(group) == {}


def test_an_unforeseen_error_does_not_end_all_audits():
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    group.pass_time(5)
    before = group.admin.get_data(f"{IDS}/g_a").data
    group.server.fault = lambda session_id, _: None if session_id == group.admin.session_id else ERRORS["unexpected"]
    group.pass_time(10)
    assert "audit: OSError: injected" in str(member.coordinator.status.error)
    group.server.fault = None
    # only an audit reads the text of a registration
    group.admin.set_data(f"{IDS}/g_a", b"overwritten")
    group.pass_time(11)
    assert group.admin.get_data(f"{IDS}/g_a").data == before
    assert member.coordinator.status.error is None


def test_an_unforeseen_error_does_not_end_all_commits():
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    group.settle()

    def fail():
        raise OSError("injected")

    member.delivery.commit, commit = fail, member.delivery.commit
    group.clock.now += 61.0
    group.settle()
    assert "OSError: injected" in str(member.coordinator.status.error)
    assert member.coordinator.counters.unexpected_errors == 1
    member.delivery.commit = commit
    group.clock.now += 61.0
    group.settle()
    assert member.delivery.commits == 1


def test_an_unforeseen_error_is_shown_until_the_task_succeeds_and_not_until_it_fails_otherwise():
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    group.settle()
    for fault in (ERRORS["unexpected"], ERRORS["no answer"]):
        group.server.fault = lambda _session, _kind, fault=fault: fault
        group.pass_time(10)
        assert "audit: OSError: injected" in str(member.coordinator.status.error)
    group.server.fault = None
    group.pass_time(11)
    assert member.coordinator.status.error is None


def test_a_member_whose_id_is_taken_is_degraded_after_its_tries_and_joins_when_the_id_is_free():
    group = Group({"t": 2})
    first = group.join("x", {"t": 1})
    group.settle()
    second = group.join("x", {"t": 1})
    for _ in range(10):
        group.settle()
        group.clock.now += 1.0
    group.settle()
    assert second.phase is Phase.DEGRADED
    assert "is a second consumer running with the same consumer.id?" in str(second.coordinator.status.error)
    first.store.close()
    group.members.remove(first)
    for _ in range(3):
        group.settle()
        group.clock.now += 1.0
    assert second.phase is Phase.STABLE
    assert len(second.owned) == 2


@pytest.mark.parametrize("backoff_ms", [0, 2000])
@pytest.mark.parametrize("ephemeral", [False, True])
def test_a_member_whose_id_is_taken_says_how_long_it_has_waited_and_what_stands_there(ephemeral, backoff_ms):
    group = Group({"t": 2})
    group.admin.create(f"{IDS}/g_a", b"x", ephemeral=ephemeral, make_parents=True)
    member = group.join("a", {"t": 1}, backoff_ms=backoff_ms)
    group.pass_time(60)
    said = str(member.coordinator.status.error)
    assert "after 60000 ms" in said
    assert ("held by another session" in said, "is not ephemeral" in said) == (ephemeral, not ephemeral)


@pytest.mark.parametrize("has_waited", [False, True])
def test_a_member_that_leaves_takes_no_registration_of_another_along(has_waited):
    group = Group({"t": 2})
    group.join("x", {"t": 1})
    group.settle()
    before = group.admin.exists(f"{IDS}/g_x")
    second = group.join("x", {"t": 1})
    if has_waited:
        for _ in range(10):
            group.settle()
            group.clock.now += 1.0
    second.coordinator.post(CloseRequested(1000))
    group.settle()
    assert second.phase is Phase.CLOSED
    assert group.admin.exists(f"{IDS}/g_x") == before


def test_a_back_off_of_nothing_is_no_reason_to_ask_without_a_pause():
    group = Group({"t": 1})
    stranger = MemoryStore(group.server)
    stranger.start()
    stranger.create(f"/consumers/{GROUP}/owners/t/0", b"g_dead-0", ephemeral=True, make_parents=True)
    member = group.join("a", {"t": 1}, backoff_ms=0)
    for _ in range(50):
        group.settle()
        group.clock.now += 0.01
    assert member.phase is Phase.DEGRADED
    group.server.requests.clear()
    for _ in range(300):
        group.settle()
        group.clock.now += 0.01
    assert sum(group.server.requests.values()) < 30, "in three seconds"


def test_an_outage_has_a_beginning_and_an_end_in_the_log(caplog):
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    group.settle()
    with caplog.at_level(logging.WARNING):
        group.server.suspend(member.store)
        group.settle()
        group.server.resume(member.store)
        group.settle()
    assert caplog.messages == ["g_a: connection to ZooKeeper lost", "g_a: the connection to ZooKeeper is back"]


def test_refused_credentials_are_the_members_error_until_there_is_a_session_again():
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    group.settle()
    for listener in member.store._listeners:
        listener(SessionEvent(SessionKind.AUTH_FAILED, 0))
    group.settle()
    status = member.coordinator.status
    assert (status.phase, type(status.error), status.owned) == (Phase.EXPIRED, AuthenticationError, {})


def test_a_member_whose_own_registration_an_acl_hides_gives_up_its_partitions_and_says_so(monkeypatch):
    group = Group({"t": 4})
    member = group.join("a", {"t": 1})
    group.settle()
    read_many, get_data = member.store.get_data_many, member.store.get_data
    own = f"{IDS}/{member.consumer_id}"

    def refuse_many(paths, *watcher):
        if own in paths:
            raise NotPermittedError(own)
        return read_many(paths, *watcher)

    def refuse(path, *watcher):
        if path == own:
            raise NotPermittedError(own)
        return get_data(path, *watcher)

    monkeypatch.setattr(member.store, "get_data_many", refuse_many)
    monkeypatch.setattr(member.store, "get_data", refuse)
    # the member reads the whole group again
    group.server.suspend(member.store)
    group.server.resume(member.store)
    group.server.requests.clear()
    group.pass_time(60)
    assert (member.phase, member.owned, owner_znodes(group)) == (Phase.DEGRADED, [], {})
    assert "an ACL hides my own registration" in str(member.coordinator.status.error)
    assert sum(group.server.requests.values()) < 500, "in a minute"
    monkeypatch.undo()
    group.pass_time(10)
    assert len(member.owned) == 4


def test_an_owner_znode_that_another_client_overwrites_while_a_claim_has_no_answer_is_claimed_anew():
    group = Group({"t": 4})
    group.admin.ensure_path(f"/consumers/{GROUP}/owners/t")
    member = group.join("a", {"t": 1})
    lost = []

    def lose_the_reply(session_id, kind):
        if kind == "multi" and session_id == member.store.session_id and not lost:
            lost.append(kind)
            return Fault.LOSE_REPLY
        return None

    group.server.fault = lose_the_reply
    while not lost:
        member.coordinator.turn()
    group.admin.set_data(f"/consumers/{GROUP}/owners/t/2", b"an operator was here")
    group.settle()
    assert len(member.owned) == 4
    assert group.admin.get_data(f"/consumers/{GROUP}/owners/t/2").data == b"g_a-0"


def test_a_directory_of_topics_that_is_made_between_two_looks_is_watched():
    group = Group({})
    member = Member(group.server, "a", {".*": 1}, group.clock, pattern=SubscriptionPattern.WHITE_LIST)
    group.members.append(member)
    exists = member.store.exists

    def make_it_first(path, *watcher):
        if path == "/brokers/topics" and watcher:
            group.admin.ensure_path(path)
        return exists(path, *watcher)

    member.store.exists = make_it_first
    member.join()
    group.settle()
    group.create_topic("t", 4)
    group.settle()
    assert len(member.owned) == 4


@pytest.mark.parametrize("in_the_way", [f"{IDS}/{GROUP}_a", f"/consumers/{GROUP}/owners/t/0"])
def test_a_member_that_waits_for_hours_sets_one_watch_and_says_it_once(in_the_way, caplog):
    group = Group({"t": 1})
    group.admin.create(in_the_way, b"somebody-0", make_parents=True)
    member = group.join("a", {"t": 1})
    with caplog.at_level(logging.WARNING):
        group.pass_time(600)
    assert member.phase is Phase.DEGRADED
    assert [len(watchers) for watchers in member.store.watches.values()] == [1] * len(member.store.watches)
    assert len(caplog.messages) <= 2
    group.admin.delete(in_the_way)
    group.settle()
    assert len(member.owned) == 1


def test_an_action_that_fails_costs_no_other_action():
    group = Group({"t": 1})
    member = group.join("a", {"t": 1})
    group.settle()
    errors = [RuntimeError("a defect")]

    def drop(partitions):
        if errors:
            raise errors.pop()

    member.delivery.drop = drop
    group.server.expire(member.store.session_id)
    group.settle()
    assert (errors, len(member.owned)) == ([], 1)
    assert [what for what, which in member.delivery.log if which] == ["begin", "begin"]


def test_a_stranger_that_writes_without_a_pause_holds_up_no_commit_and_no_errand():
    group = Group({"t": 4})
    member = group.join("a", {"t": 1})
    group.settle()
    ran, numbers = [], itertools.count(1)

    def write_during_each_reading(session_id, kind):
        if session_id == member.store.session_id and kind == "multi_read":
            group.server.fault = None
            number = next(numbers)
            group.admin.create(f"{IDS}/stranger-{number}", b"{}")
            group.admin.delete(f"{IDS}/stranger-{number - 1}")
            group.server.fault = write_during_each_reading

    group.server.fault = write_during_each_reading
    member.coordinator.post(Errand(lambda: ran.append(1)))
    group.admin.create(f"{IDS}/stranger-0", b"{}")
    for _ in range(2000):
        assert member.coordinator.turn() == 0
        group.clock.now += 0.1
    assert ran == [1]
    assert member.delivery.commits >= 2, "one a minute is due"


@pytest.mark.parametrize("text", [b"an operator was here", b"", b"g_b-0"])
def test_an_owner_znode_that_another_client_overwrites_is_written_again_and_its_partition_goes_on(text, caplog):
    group = Group({"t": 4})
    member = group.join("a", {"t": 1})
    group.settle()
    # the member watches its owner znodes once it has been settled for a second
    group.pass_time(2)
    before = owner_znodes(group)
    member.delivery.log.clear()
    group.admin.set_data(f"/consumers/{GROUP}/owners/t/2", text)
    with caplog.at_level(logging.WARNING):
        group.pass_time(2)
    assert group.owners("t") == dict.fromkeys(range(4), "g_a-0")
    assert (owner_znodes(group), len(member.owned)) == (before, 4)
    assert [what for what, which in member.delivery.log if which] == []
    assert caplog.messages == ["g_a: owner znodes of mine held another text, I wrote mine again: t/2"]


@pytest.mark.parametrize("closed", ["write", "read and write"])
def test_an_owner_znode_that_another_client_overwrites_and_closes_by_an_acl_holds_up_no_rebalance(closed, monkeypatch):
    group = Group({"t": 4})
    member = group.join("a", {"t": 1})
    group.settle()
    group.pass_time(2)
    path = f"/consumers/{GROUP}/owners/t/1"
    multi, read_many = member.store.multi, member.store.get_data_many

    def refuse_to_write(ops, **options):
        for index, op in enumerate(ops):
            if isinstance(op, SetOp) and op.path == path:
                raise MultiFailedError(index, path, NotPermittedError(path))
        return multi(ops, **options)

    def refuse_to_read(paths, *watcher):
        if path in paths:
            raise NotPermittedError(path)
        return read_many(paths, *watcher)

    monkeypatch.setattr(member.store, "multi", refuse_to_write)
    if closed != "write":
        monkeypatch.setattr(member.store, "get_data_many", refuse_to_read)
    group.admin.set_data(path, b"an operator was here")
    group.pass_time(20)
    assert (member.phase, len(member.owned)) == (Phase.STABLE, 4)
    other = group.join("b", {"t": 1})
    group.pass_time(20)
    assert (len(member.owned), len(other.owned)) == (2, 2)
    group.admin.delete(f"/consumers/{GROUP}/owners/t/0")
    group.pass_time(20)
    assert group.owners("t") == {0: "g_a-0", 1: "an operator was here", 2: "g_b-0", 3: "g_b-0"}


def test_members_that_an_acl_hid_from_some_agree_with_all_once_it_is_lifted(monkeypatch):
    """An ACL hides one of two members; a third one joins meanwhile, and reads the group without the hidden one."""
    group = Group({"t": 6})
    members = [group.join(name, {"t": 1}) for name in ("a", "b")]
    settle(group)
    closed = {f"/consumers/{GROUP}/ids/g_b"}
    read = MemoryStore._get_data

    def guarded(store, path, watcher=None):
        if path in closed:
            raise NotPermittedError(path)
        return read(store, path, watcher)

    monkeypatch.setattr(MemoryStore, "_get_data", guarded)
    members.append(group.join("c", {"t": 1}))
    group.pass_time(60.0)
    owned = [tp for member in members for tp in member.owned]
    assert len(owned) == len(set(owned))
    closed.clear()
    group.pass_time(60.0)
    assert [len(member.owned) for member in members] == [2, 2, 2]
    assert {member.phase for member in members} == {Phase.STABLE}


def test_a_member_whose_own_registration_an_acl_hides_still_audits_its_owner_znodes(monkeypatch):
    group = Group({"t": 2})
    member = group.join("a", {"t": 1})
    settle(group)
    hidden, taken = f"/consumers/{GROUP}/ids/g_a", f"/consumers/{GROUP}/owners/t/1"
    read = MemoryStore._get_data

    def guarded(store, path, watcher=None):
        if path == hidden:
            raise NotPermittedError(path)
        return read(store, path, watcher)

    monkeypatch.setattr(MemoryStore, "_get_data", guarded)
    group.admin.delete(taken)
    group.admin.create(taken, b"g_x-0", ephemeral=True)
    group.pass_time(60.0)
    assert TopicPartition("t", 1) not in member.delivery.flowing


def test_a_member_that_may_not_mend_its_registration_still_audits_its_owner_znodes(caplog):
    group = Group({"t": 2})
    member = group.join("a", {"t": 1})
    settle(group)
    group.server.fault = lambda session_id, kind: (
        ERRORS["no ACL"] if session_id == member.store.session_id and kind in ("multi", "watch_many") else None
    )
    taken = f"/consumers/{GROUP}/owners/t/1"
    group.admin.set_data(f"{IDS}/g_a", b"overwritten")
    group.admin.delete(taken)
    group.admin.create(taken, b"g_x-0", ephemeral=True)
    group.pass_time(60.0)
    assert TopicPartition("t", 1) not in member.delivery.flowing
    assert "overwrote my registration" not in caplog.text
    group.server.fault = None
    group.pass_time(11.0)
    assert caplog.text.count("another client overwrote my registration, I have registered again") == 1
