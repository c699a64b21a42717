"""Groups led by a member: assignors that fail at their own member or at the leader, and unreadable data.

Each fault costs no other member a share, and is reported once.
"""

import asyncio
import logging
import re
import sys
import time

import pytest

from legacy_consumer import LedState, Phase
from rebalance.assignors.seam import Assignor, Cluster, MemberAssignment, Subscription, given
from rebalance.errors import AssignorFailedError, RebalanceError
from rebalance.led.dividing import MAX_USER_DATA_BYTES, divide
from rebalance.led.journal import Journal
from rebalance.led.records import encode_subscription, generation_path, member_path, members_path, round_path
from tests.support.led_cluster import LedCluster, numbers
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition

RAISES = "its subscription_user_data raised ZeroDivisionError: no luck"
FAULTS = {
    "raises": RAISES,
    "exits": "its subscription_user_data raised SystemExit: no luck",
    "raises without a text": r"its subscription_user_data raised TextlessError: \(its text raised LookupError\)",
    "none": "its subscription_user_data returned NoneType and not bytes",
    "text": "its subscription_user_data returned str and not bytes",
    "huge": "its subscription_user_data returned 1048577 bytes, 1048576 are allowed",
    "too large for a znode": "user data of its strategies are .* and a znode may have",
}


FAULTY: dict[str, str] = {}
"""{method: the fault of this process's assignors now}."""
TOLD = {"none": None, "text": "x", "huge": bytes((1 << 20) + 1), "too large for a znode": bytes(1 << 20)}


class Faulty(Assignor):
    """Assigns the partitions to the members in turn, or fails as FAULTY says."""

    name = "faulty"

    def subscription_user_data(self, topics):
        fault = FAULTY.get("user data")
        if fault == "raises":
            raise ZeroDivisionError("no luck")
        if fault == "exits":
            sys.exit("no luck")
        if fault == "raises without a text":
            raise TextlessError
        return TOLD.get(fault, b"")

    def assign(self, cluster, subscriptions):
        members = sorted(subscriptions)
        shares = {member: cluster.partitions("t")[n :: len(members)] for n, member in enumerate(members)}
        match FAULTY.get("assign"):
            case "raises":
                raise ZeroDivisionError("no luck")
            case "exits":
                sys.exit("no luck")
            case "is interrupted":
                raise KeyboardInterrupt("no luck")
            case "raises without a text":
                raise TextlessError
            case "raises a text that exits":
                raise ExitingError
            case "is cancelled":
                raise asyncio.CancelledError("no luck")
            case "twice":
                shares[members[0]] = cluster.partitions("t")
            case "to nobody":
                shares[members[0]] = []
            case "does not exist":
                shares[members[0]] = [*shares[members[0]], TopicPartition("t", 99)]
            case "another topic":
                shares[members[0]] = [*shares[members[0]], TopicPartition("u", 0)]
            case "a stranger":
                shares["stranger"] = shares.pop(members[0])
            case "none":
                return None
            case "huge":
                return {member: MemberAssignment(tuple(share), bytes(1 << 19)) for member, share in shares.items()}
            case "text for bytes":
                return {member: MemberAssignment(tuple(share), "text") for member, share in shares.items()}
        return given(shares)

    def on_assignment(self, assignment, generation):
        match FAULTY.get("on_assignment"):
            case "raises":
                raise ZeroDivisionError("no luck")
            case "exits":
                sys.exit("no luck")
            case "raises without a text":
                raise TextlessError


class TextlessError(Exception):
    """An error whose __str__ raises another error."""

    def __str__(self):
        raise LookupError


class ExitingError(Exception):
    """An error whose __str__ raises SystemExit."""

    def __str__(self):
        raise SystemExit


STRATEGY = f"{__name__}:Faulty"


@pytest.fixture
def cluster():
    cluster = LedCluster(partition_assignment_strategy=STRATEGY)
    yield cluster
    FAULTY.clear()
    cluster.close(0.5)


def errors(caplog):
    return [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize("fault", FAULTS)
def test_a_member_whose_assignor_cannot_say_what_to_tell_does_not_join_and_says_why(cluster, caplog, fault):
    first, _ = cluster.join(consumer_id="m0")
    cluster.await_shares([6], first)
    generation = cluster.generation()
    FAULTY["user data"] = fault
    with pytest.raises(RebalanceError, match=FAULTS[fault]):
        cluster.join(consumer_id="m1")
    assert [text for text in errors(caplog) if "m1" in text and "takes no part in group g" in text]
    FAULTY.clear()
    cluster.await_shares([6], first)
    assert cluster.generation().number - generation.number in (0, 1)


@pytest.mark.parametrize("strategy", [STRATEGY, "cooperative-sticky," + STRATEGY])
def test_a_member_whose_assignor_fails_later_leaves_its_share_to_the_others_and_comes_back(cluster, caplog, strategy):
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy=strategy)[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    failing = next(member for member in members if cluster.leads(member))
    other = next(member for member in members if member is not failing)
    own, told = failing._membership._led._own, []

    def offer(subscription):
        told.append(subscription)
        raise AssignorFailedError("faulty", f"no luck, {len(told)} times")

    works = own.offer
    own.offer = offer
    # this begins a rebalance, in which the member asks its assignor again
    cluster.admin.delete(member_path("g", failing.consumer_id))
    cluster.await_shares([6], other)
    assert cluster.leads(other), "a member that takes no part leaves the lead to another one"
    assert numbers(failing) == []
    eventually(lambda: failing.status.phase is not Phase.STABLE and failing.status.error is not None)
    status = failing.status
    assert "assignor faulty failed: no luck" in str(status.error)
    assert status.led.state is LedState.STOPPED
    eventually(lambda: len(told) > 3)
    assert len([text for text in errors(caplog) if "takes no part" in text]) == 1
    own.offer = works
    cluster.await_shares([3, 3], *members)
    assert failing.status.error is None


@pytest.mark.parametrize(
    ("fault", "says"),
    {
        "raises": "it raised ZeroDivisionError: no luck",
        "exits": "it raised SystemExit: no luck",
        "is cancelled": "it raised CancelledError: no luck",
        "is interrupted": "it raised KeyboardInterrupt: no luck",
        "raises without a text": r"it raised TextlessError: \(its text raised LookupError\)",
        "raises a text that exits": r"it raised ExitingError: \(its text raised SystemExit\)",
        "twice": "it gives t/1 to ",
        "to nobody": "it gives t/0 and 3 more to no member",
        "does not exist": "it gives t/99 to member .* which does not exist",
        "another topic": "it gives u/0 to member .* which does not exist",
        "a stranger": "it gives to 'stranger', which is no member",
        "none": "it returned NoneType and not what each member is given",
        "text for bytes": "its user data for member .* are str and not bytes",
        "huge": f"its user data for all members are 1048576 bytes, {MAX_USER_DATA_BYTES} are allowed",
    }.items(),
)
def test_a_leaders_assignor_that_fails_costs_nobody_a_share(cluster, caplog, fault, says):
    first, second = (cluster.join(consumer_id=f"m{n}")[0] for n in range(2))
    cluster.await_shares([3, 3], first, second)
    shares = [numbers(first), numbers(second)]
    FAULTY["assign"] = fault
    cluster.widen(8)
    cluster.await_shares([4, 4], first, second)
    assert all(set(had) < set(numbers(member)) for had, member in zip(shares, (first, second), strict=True))
    assert [text for text in caplog.messages if "keep their shares: assignor faulty failed: " in text]
    assert re.search(says, caplog.text)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        ("raises", "ZeroDivisionError: no luck"),
        ("exits", "SystemExit: no luck"),
        ("raises without a text", "TextlessError: (its text raised LookupError)"),
    ],
)
def test_a_member_has_its_share_also_if_its_assignor_fails_when_it_hears_of_it(cluster, caplog, fault, error):
    FAULTY["on_assignment"] = fault
    first, _ = cluster.join(consumer_id="m0")
    cluster.await_shares([6], first)
    assert str(first.status.error) == f"assignor faulty failed: its on_assignment raised {error}"
    assert first.status.phase is Phase.STABLE
    assert len(errors(caplog)) == 1
    FAULTY.clear()
    second, _ = cluster.join(consumer_id="m1")
    cluster.await_shares([3, 3], first, second)
    assert first.status.error is None


def test_a_leader_that_cannot_do_its_work_tries_again_each_second_and_not_with_each_watch_of_its_own(
    cluster, caplog, monkeypatch
):
    first, second = (cluster.join(consumer_id=f"m{n}")[0] for n in range(2))
    cluster.await_shares([3, 3], first, second)
    tries = []

    def fails(self, generation):
        tries.append(time.monotonic())
        raise RebalanceError("no luck")

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "write_generation", fails)
        cluster.widen(8)
        eventually(lambda: len(tries) >= 3)
    # the first try is the old leader's; each later try takes the lead first, and those writes fire watches
    assert tries[2] - tries[1] > 0.9
    cluster.await_shares([4, 4], first, second)


@pytest.mark.parametrize("path", [round_path("g"), generation_path("g")])
def test_a_leader_that_an_acl_keeps_from_writing_says_so_and_tries_again_each_second(
    cluster, caplog, monkeypatch, path
):
    first, second = (cluster.join(consumer_id=f"m{n}")[0] for n in range(2))
    cluster.await_shares([3, 3], first, second)
    tries, write = [], Journal._write

    def count(self, ops):
        tries.append(time.monotonic())
        return write(self, ops)

    monkeypatch.setattr(Journal, "_write", count)
    for member in (first, second):
        member._store.refused = {path}
    cluster.widen(8)
    said = f"does not get on in led group g: {path}"
    eventually(lambda: len([text for text in caplog.messages if said in text]) >= 2)
    # a member writes once or twice a try: to take the lead, and to do the leader's work
    assert len(tries) <= 6
    for member in (first, second):
        member._store.refused = frozenset()
    cluster.await_shares([4, 4], first, second)


@pytest.mark.parametrize(
    ("right", "paths"),
    [
        ("closed", {round_path("g"), generation_path("g")}),
        ("refused", {member_path("g", "g_m0")}),
    ],
)
def test_a_leader_that_an_acl_keeps_from_being_a_member_leaves_the_lead_to_another(cluster, right, paths):
    first, second = (cluster.join(consumer_id=f"m{n}", drain_timeout_ms=100)[0] for n in range(2))
    cluster.await_shares([3, 3], first, second)
    assert cluster.leads(first)
    setattr(first._store, right, paths)
    cluster.widen(8)
    eventually(lambda: cluster.leads(second), 10)
    assert "may not be accessed with these credentials" in str(first.status.error)
    setattr(first._store, right, frozenset())
    cluster.await_shares([4, 4], first, second)
    assert first.status.error is None


def test_a_members_znode_that_an_acl_closes_costs_the_others_nothing(cluster, caplog):
    first, second = (cluster.join(consumer_id=f"m{n}")[0] for n in range(2))
    cluster.await_shares([3, 3], first, second)
    path = member_path("g", "g_stranger")
    for member in (first, second):
        member._store.closed = {path}
    cluster.admin.create(path, b"{}", ephemeral=True)
    second.shutdown()
    cluster.await_shares([6], first)
    cluster.widen(8)
    cluster.await_shares([8], first)
    said = f"{path} may not be accessed"
    assert len([text for text in caplog.messages if said in text]) == 1


def test_an_unreadable_znode_of_one_member_costs_the_others_nothing(cluster, caplog):
    first, second = (cluster.join(consumer_id=f"m{n}")[0] for n in range(2))
    cluster.await_shares([3, 3], first, second)
    for garbage in (b"", b"{", bytes(900_000), b'{"version":1,"session":"zz"}'):
        cluster.admin.set_data(member_path("g", first.consumer_id), garbage)
        # its member notices another client's write, and both members are in the group again
        eventually(lambda: len(cluster.admin.get_children(members_path("g"))) == 2)
    cluster.admin.delete(member_path("g", first.consumer_id))
    cluster.await_shares([3, 3], first, second)


def test_user_data_that_cannot_be_read_or_a_strategy_that_the_leader_lacks_gives_everybody_something():
    shares = divide(
        "leader",
        None,
        "sticky",
        {"a": encode_subscription(Subscription(("t",))), "b": b"\\xff{"},
        Cluster.of_counts({"t": 3}),
        {"a": [TopicPartition("t", 1)]},
    )
    assert {member: len(share.partitions) for member, share in shares.items()} == {"a": 3, "b": 0}
