"""Verification of a group, and the leftovers of unused groups; over the in-memory store."""

from __future__ import annotations

import pytest

from legacy_consumer.errors import NoSuchGroupError
from legacy_consumer.operations.admin.doctor_groups import examine_groups
from legacy_consumer.operations.admin.doctor_leftovers import DAY_MS
from legacy_consumer.operations.admin.findings import Severity
from legacy_consumer.operations.admin.groups import Hold, describe_group
from legacy_consumer.operations.admin.pruning import find_unused, read_use
from legacy_consumer.operations.admin.topics import read_readers, read_topics
from legacy_consumer.operations.admin.verification import verify_group
from rebalance.group_strategy import ClassicStrategy
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper

STATIC = '{"version":1,"subscription":{"t":%d},"pattern":"static","timestamp":"1"}'


@pytest.fixture
def clock():
    return [1_000_000_000_000]


@pytest.fixture
def server(clock):
    return MemoryZooKeeper(wall_ms=lambda: clock[0])


@pytest.fixture
def new_store(server):
    made = []

    def make():
        made.append(MemoryStore(server))
        made[-1].start()
        return made[-1]

    yield make
    for store in made:
        store.close()


@pytest.fixture
def store(new_store):
    made = new_store()
    put(made, "/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
    put(made, "/consumers/g")
    return made


def put(store, path, data=None, **options):
    store.create(path, data, make_parents=True, **options)


def join(store, name, *partitions, streams=1, thread=0):
    put(store, f"/consumers/g/ids/{name}", (STATIC % streams).encode(), ephemeral=True)
    for number in partitions:
        put(store, f"/consumers/g/owners/t/{number}", f"{name}-{thread}".encode(), ephemeral=True)
    return store


def codes(store, **options):
    return sorted((p.code, p.partition) for p in verify_group(store, "g", **options).problems)


def test_a_group_in_which_each_member_owns_its_share_is_sound(store, new_store):
    join(new_store(), "a", 0)
    join(new_store(), "b", 1)
    found = verify_group(store, "g")
    assert (found.is_sound, found.members, found.partitions) == (True, 2, 2)
    assert "range" in found.divides_by


def test_a_group_without_members_and_owners_is_sound(store):
    assert codes(store) == []


def test_a_group_that_is_not_there_is_an_error(store):
    with pytest.raises(NoSuchGroupError):
        verify_group(store, "h")


def test_a_partition_without_owner_is_found(store, new_store):
    join(new_store(), "a", 0)
    assert codes(store) == [("no_owner", 1)]


def test_an_owner_that_is_no_member_is_found(store, new_store):
    join(new_store(), "a", 0)
    put(store, "/consumers/g/owners/t/1", b"dead-0", ephemeral=True)
    assert codes(store) == [("unknown_owner", 1)]


@pytest.mark.parametrize("topic", ["t", "u"])
@pytest.mark.parametrize("owner", ["dead-0", "a-0", "a-7"])
def test_an_owner_znode_without_a_session_is_permanent_with_any_name_in_it(store, new_store, owner, topic):
    join(new_store(), "a", 0)
    put(store, f"/consumers/g/owners/{topic}/1", owner.encode())
    assert ("permanent_owner", 1) in codes(store)
    [problem] = [problem for problem in verify_group(store, "g").problems if problem.code == "permanent_owner"]
    assert f"/consumers/g/owners/{topic}/1" in problem.text
    assert "delete the znode" in problem.text


def test_a_stream_that_the_member_does_not_have_is_found(store, new_store):
    join(new_store(), "a", 0, 1, thread=5)
    assert codes(store) == [("wrong_thread", 0), ("wrong_thread", 1)]


def test_a_claim_of_another_session_of_the_member_is_found(store, new_store):
    join(new_store(), "a", 0)
    put(new_store(), "/consumers/g/owners/t/1", b"a-0", ephemeral=True)
    assert codes(store) == [("wrong_session", 1)]


def test_a_partition_without_a_subscriber_must_not_be_owned(store, new_store):
    join(new_store(), "a", 0, 1)
    put(store, "/consumers/g/owners/t/2", b"a-0", ephemeral=True)
    put(store, "/consumers/g/owners/u/0", b"a-0", ephemeral=True)
    assert codes(store) == [("not_to_be_owned", 0), ("not_to_be_owned", 2)]


def test_owner_znodes_of_foreign_clients_are_found(store, new_store):
    join(new_store(), "a", 0, 1)
    put(store, "/consumers/g/owners/t/0-1", b"host:uuid")
    assert codes(store) == [("foreign_owner", None)]


def test_an_unreadable_member_is_found(store, new_store):
    join(new_store(), "a", 0, 1)
    put(store, "/consumers/g/ids/x", b"t", ephemeral=True)
    assert codes(store) == [("unreadable_member", None)]


def test_a_group_that_divides_otherwise_than_asked_is_found(store, new_store):
    join(new_store(), "a", 1)
    join(new_store(), "b", 0)
    assert codes(store) == [], "each is owned once by somebody who may"
    assert verify_group(store, "g").divides_by == ()
    assert codes(store, strategy=ClassicStrategy("range")) == [("other_owner", 0), ("other_owner", 1)]


def test_with_a_strategy_a_problem_names_the_member_that_should_own_the_partition_owned_or_not(store, new_store):
    join(new_store(), "a", 1)
    join(new_store(), "b")
    assert [problem.text for problem in verify_group(store, "g").problems] == ["no owner for t/0"]
    assert sorted(problem.text for problem in verify_group(store, "g", strategy=ClassicStrategy("range")).problems) == [
        "a-0 owns t/1, and by range b-0 should own it",
        "no owner for t/0, and by range a-0 should own it",
    ]


def test_the_session_of_an_owner_znode_decides_what_holds_it(store, new_store):
    put(store, "/brokers/topics/v", b'{"version":1,"partitions":{"0":[0]}}')
    join(new_store(), "a", 0)
    other = new_store()
    put(other, "/consumers/g/owners/t/1", b"a-0", ephemeral=True)
    put(other, "/consumers/g/owners/v/0", b"gone-0", ephemeral=True)
    put(store, "/consumers/g/owners/v/1", b"a-0")
    found = describe_group(store, _NoLogs(), "g")
    assert {(row.topic, row.partition): row.hold for row in found.partitions} == {
        ("t", 0): Hold.LIVE,
        ("t", 1): Hold.OTHER,
        ("v", 0): Hold.GONE,
        ("v", 1): Hold.PERMANENT,
    }


def test_a_group_is_unused_when_it_has_no_members_and_no_recent_commit(store, new_store, clock):
    put(store, "/consumers/old/offsets/t/0", b"5")
    put(store, "/consumers/old-but-used/offsets/t/0", b"5")
    put(store, "/consumers/never-committed/ids")
    clock[0] += 10 * DAY_MS
    store.set_data("/consumers/old-but-used/offsets/t/0", b"6")
    put(store, "/consumers/new/offsets/t/0", b"5")
    join(new_store(), "a")
    use = read_use(store, ["g", "old", "old-but-used", "never-committed", "new", "missing"])
    unused = find_unused(use, now_ms=clock[0] + 1000, older_than_ms=5 * DAY_MS)
    assert [one.group for one in unused] == ["old", "never-committed"]
    assert {one.group: one.members for one in use}["g"] == 1


def test_the_doctor_tells_errors_from_notes(store, new_store, clock):
    join(new_store(), "a", 0)
    put(store, "/consumers/old/offsets/t/0", b"5")
    clock[0] += 40 * DAY_MS
    found = list(examine_groups(store, _NoLogs(), now_ms=clock[0]))
    assert {(f.severity, f.code, f.subject) for f in found} == {
        (Severity.ERROR, "no_owner", "g"),
        (Severity.NOTE, "stale_groups", "old"),
        (Severity.WARNING, "log_ends_unknown", "t/0"),
    }
    assert all(f.advice for f in found)


def test_faults_of_topics_are_distinguished(store):
    put(
        store,
        "/brokers/topics/t/partitions/0/state",
        b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}',
    )
    put(store, "/brokers/topics/odd", b"?")
    put(store, "/admin/delete_topics/odd")
    put(store, "/consumers/g/offsets/t/0", b"1")
    put(store, "/brokers/ids/0", b"{}")
    t, odd = sorted(read_topics(store, read_readers(store)[0]), key=lambda one: one.topic != "t")
    assert (t.partitions, t.no_leader, t.under_replicated, t.groups, t.problem) == (2, 1, 1, ("g",), None)
    assert odd.is_going
    assert "?" in odd.problem


def test_a_group_whose_last_offset_of_a_topic_was_deleted_does_not_read_it(store):
    for group in ("g", "h"):
        put(store, f"/consumers/{group}/offsets/t/0", b"1")
    store.delete("/consumers/g/offsets/t/0")
    assert read_readers(store) == ({"t": ("h",)}, {})


def test_a_leader_that_is_not_registered_is_none(store):
    # the state that the controller of 1.1.1 leaves for a partition whose only replica was on a broker that died
    state = b'{"controller_epoch":1,"leader":1,"version":1,"leader_epoch":0,"isr":[1]}'
    put(store, "/brokers/topics/t/partitions/0/state", state)
    put(store, "/brokers/topics/t/partitions/1/state", state.replace(b'"leader":1', b'"leader":0'))
    put(store, "/brokers/ids/0", b"{}")
    assert [topic.no_leader for topic in read_topics(store)] == [1]


class _NoLogs:
    def latest(self, partitions):
        return {}
