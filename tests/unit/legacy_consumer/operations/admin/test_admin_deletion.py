"""The deletion of groups deletes the znodes that it has read, and none that a client wrote since."""

from __future__ import annotations

import contextlib
import random

import pytest

from legacy_consumer.errors import ActiveGroupError
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.deletion import delete_group, delete_tree
from legacy_consumer.operations.admin.errors import (
    DamagedRecordError,
    GroupChangedError,
    GroupHeldError,
    NothingOfTopicError,
    OpenMigrationError,
)
from legacy_consumer.operations.admin.group_trees import read_trees
from legacy_consumer.operations.admin.migration import Phase
from legacy_consumer.operations.admin.migration.record import write_record
from legacy_consumer.operations.admin.pruning import find_unused, read_use, refuse_removal
from zk_layout.errors import ConnectionLostError, NodeExistsError, NoNodeError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper

REGISTRATION = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'


@pytest.fixture
def server():
    return MemoryZooKeeper()


@pytest.fixture
def connect(server):
    made = []

    def store():
        made.append(MemoryStore(server))
        made[-1].start()
        return made[-1]

    yield store
    for one in made:
        one.close()


@pytest.fixture
def store(connect):
    made = connect()
    made.ensure_path("/brokers/topics")
    for topic in ("t", "u"):
        for partition in range(3):
            made.create(f"/consumers/g/offsets/{topic}/{partition}", b"7", make_parents=True)
        made.ensure_path(f"/consumers/g/owners/{topic}")
    made.ensure_path("/consumers/g/ids")
    return made


def seen(store, group="g"):
    [tree] = read_trees(store, [group])
    return tree


def paths(store, root="/consumers"):
    found = [root]
    for name in store.get_children(root):
        found += paths(store, f"{root}/{name}")
    return found


def test_a_member_that_joins_behind_the_look_keeps_its_registration_and_the_offsets(store, connect):
    tree = seen(store)
    member = connect()
    member.create("/consumers/g/ids/g_new", REGISTRATION, ephemeral=True)
    member.create("/consumers/g/owners/t/0", b"g_new-0", ephemeral=True)
    before = paths(store)
    with pytest.raises(ActiveGroupError, match="g_new"):
        delete_tree(store, tree)
    with pytest.raises(ActiveGroupError, match="g_new"):
        delete_tree(store, tree, topic="t")
    assert paths(store) == before


def test_a_member_that_joins_between_two_requests_of_a_deletion_stops_it(store, connect, monkeypatch):
    monkeypatch.setattr(type(store), "max_multi_bytes", property(lambda _: 1000))
    real, joined = store.multi, []

    def multi(ops, **options):
        done = real(ops, **options)
        if not joined:
            joined.append(connect())
            joined[0].create("/consumers/g/ids/g_new", REGISTRATION, ephemeral=True, make_parents=True)
        return done

    monkeypatch.setattr(store, "multi", multi)
    with pytest.raises(
        GroupChangedError, match=r"g_new after this command had read it, \d+ of \d+ znodes are deleted; import"
    ):
        delete_group(store, "g")
    assert store.exists("/consumers/g/ids/g_new") is not None


def test_a_member_that_comes_goes_and_comes_again_between_two_requests_hides_nothing_that_is_gone(
    store, connect, monkeypatch
):
    """A member's process restarts again and again, while an operator deletes a group larger than a request."""
    monkeypatch.setattr(type(store), "max_multi_bytes", property(lambda _: 1000))
    multi, get_children_many, members, multis = store.multi, store.get_children_many, [], []

    def join():
        members.append(connect())
        members[-1].create("/consumers/g/ids/g_m", REGISTRATION, ephemeral=True, make_parents=True)

    def come_then(ops, **options):
        multis.append(ops)
        if len(multis) > 1 and not members:
            join()
        return multi(ops, **options)

    def go_then(wanted):
        if len(members) != 1 or wanted != ["/consumers/g/ids"]:
            return get_children_many(wanted)
        members[0].close()
        found = get_children_many(wanted)
        join()
        return found

    monkeypatch.setattr(store, "multi", come_then)
    monkeypatch.setattr(store, "get_children_many", go_then)
    before = len(paths(store))
    with pytest.raises(GroupChangedError) as caught:
        delete_group(store, "g")
    assert len(multis) == 3
    left_and_joined = len(paths(store)) - 1
    assert 0 < caught.value.gone == before - left_and_joined


def test_a_deletion_that_another_one_overtakes_again_and_again_counts_only_what_it_deleted_itself(
    store, connect, monkeypatch
):
    real, other = store.multi, connect()
    overtaking = [f"/consumers/g/offsets/{topic}/{number}" for topic in ("t", "u") for number in range(3)]
    before = len(paths(store))

    def multi(ops, **options):
        other.delete(overtaking.pop(0))
        return real(ops, **options)

    monkeypatch.setattr(store, "multi", multi)
    progress = ChangeProgress()
    with pytest.raises(GroupChangedError, match="this command deleted nothing of it"):
        delete_tree(store, seen(store), progress=progress)
    assert before - len(paths(store)) == 3
    assert not progress.may_be_changed


def test_a_group_that_joined_committed_and_left_meanwhile_is_left_alone(store, connect):
    tree = seen(store)
    member = connect()
    member.create("/consumers/g/ids/g_job", REGISTRATION, ephemeral=True)
    member.set_data("/consumers/g/offsets/t/0", b"1000")
    member.close()
    with pytest.raises(GroupChangedError, match="a client wrote /consumers/g/offsets/t/0"):
        delete_tree(store, tree)
    assert store.get_data("/consumers/g/offsets/t/0").data == b"1000"


def test_an_owner_znode_that_a_session_holds_is_never_deleted(store, connect):
    ghost = connect()
    ghost.create("/consumers/g/owners/t/0", b"g_gone-0", ephemeral=True)
    with pytest.raises(GroupHeldError, match="/consumers/g/owners/t/0"):
        delete_group(store, "g")
    delete_tree(store, seen(store), topic="u")
    ghost.close()
    assert delete_group(store, "g")


def test_of_a_topic_its_owners_and_offsets_go_and_nothing_else(store):
    delete_tree(store, seen(store), topic="t")
    left = paths(store, "/consumers/g")
    assert not [path for path in left if path.endswith("/t") or "/t/" in path]
    assert {"/consumers/g/ids", "/consumers/g/owners/u", "/consumers/g/offsets/u/2"} <= set(left)


def test_a_deletion_without_an_answer_is_done_if_nothing_is_left(store, monkeypatch):
    real = store.multi

    def multi(ops, **options):
        real(ops, **options)
        raise ConnectionLostError("no answer")

    monkeypatch.setattr(store, "multi", multi)
    delete_tree(store, seen(store))
    assert store.get_children("/consumers") == ()


def test_a_deletion_that_was_never_carried_out_is_an_error(store, monkeypatch):
    def multi(ops, **options):
        raise ConnectionLostError("no answer")

    tree = seen(store)
    monkeypatch.setattr(store, "multi", multi)
    with pytest.raises(ConnectionLostError):
        delete_tree(store, tree)


@pytest.mark.parametrize("seed", range(120))
def test_no_znode_of_a_member_that_acts_during_a_deletion_is_deleted(store, connect, monkeypatch, seed):
    """Any order of the deletion's requests and of the steps of a member that joins, claims, commits and leaves."""
    rng = random.Random(seed)
    if seed % 3 == 0:
        monkeypatch.setattr(type(store), "max_multi_bytes", property(lambda _: 1000))
    member, topic = connect(), rng.choice([None, "t"])
    todo = ["join", "claim", "commit", "leave"][: rng.randrange(1, 5)]
    done = []

    def act():
        while todo and rng.random() < 0.4:
            done.append(todo.pop(0))
            with contextlib.suppress(NodeExistsError, NoNodeError):
                _do(done[-1], member)

    def around(method):
        real = getattr(store, method)

        def call(*arguments, **options):
            act()
            return real(*arguments, **options)

        monkeypatch.setattr(store, method, call)

    tree = seen(store)
    for method in ("multi", "get_children_many", "exists_many", "get_data_many"):
        around(method)
    with contextlib.suppress(ActiveGroupError, GroupChangedError, GroupHeldError):
        delete_tree(store, tree, topic=topic)
    if "commit" in done:
        assert store.get_data("/consumers/g/offsets/t/0").data == b"1000"
    if "join" in done and "leave" not in done:
        assert store.exists("/consumers/g/ids/g_m") is not None
    if "claim" in done and "leave" not in done:
        assert store.get_data("/consumers/g/owners/t/0").data == b"g_m-0"


def _do(what, member):
    path = "/consumers/g/offsets/t/0"
    match what:
        case "join":
            member.create("/consumers/g/ids/g_m", REGISTRATION, ephemeral=True, make_parents=True)
        case "claim":
            member.create("/consumers/g/owners/t/0", b"g_m-0", ephemeral=True, make_parents=True)
        case "commit" if member.exists(path) is None:
            member.create(path, b"1000", make_parents=True)
        case "commit":
            member.set_data(path, b"1000")
        case "leave":
            member.close()


def test_an_open_migration_is_neither_pruned_nor_deleted(store):
    record = write_record(store, "g", None, Phase.APPLIED, at_ms=1, zxid=0)
    [use] = read_use(store, ["g"])
    assert find_unused([use], now_ms=use.last_seen_ms + 1000, older_than_ms=5) == []
    with pytest.raises(OpenMigrationError, match=r"open \(applied\).*migrate finish"):
        refuse_removal([use], None)
    refuse_removal([use], "t")
    write_record(store, "g", record, Phase.ROLLED_BACK, at_ms=2, zxid=0)
    [use] = read_use(store, ["g"])
    assert find_unused([use], now_ms=use.last_seen_ms + 1000, older_than_ms=5) == [use]


def test_an_unreadable_record_of_a_migration_keeps_the_group(store):
    store.create("/consumers/g/migration", b'{"version":1e999}')
    with pytest.raises(DamagedRecordError, match="/consumers/g/migration holds"):
        refuse_removal(read_use(store, ["g"]), None)


def test_a_topic_of_which_no_group_keeps_anything_is_named(store):
    refuse_removal(read_use(store, ["g"]), "t")
    with pytest.raises(NothingOfTopicError, match="'g' has no znode of topic 'ordres'"):
        refuse_removal(read_use(store, ["g"]), "ordres")


def test_an_unreadable_znode_is_distinguished_from_a_missing_one(store):
    store.set_data("/consumers/g/offsets/t/0", b" 12345\n")
    store.set_data("/consumers/g/offsets/t/1", b"-1")
    [use] = read_use(store, ["g"])
    assert {str(tp): data for tp, data in use.unreadable.items()} == {"t/0": b" 12345\n"}
    assert {str(tp): offset for tp, offset in use.offsets.items() if tp.topic == "t"} == {"t/1": None, "t/2": 7}


def test_an_offset_of_an_earlier_topic_is_backed_up_as_where_the_group_would_begin(store):
    for _ in range(2):
        store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}', make_parents=True)
        store.delete("/brokers/topics/t")
    store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}', make_parents=True)
    store.set_data("/consumers/g/offsets/t/1", b"9")
    [use] = read_use(store, ["g"])
    assert {str(tp): offset for tp, offset in use.offsets.items()} == {
        "t/0": 0, "t/1": 9, "t/2": 0, "u/0": 7, "u/1": 7, "u/2": 7
    }  # fmt: skip
