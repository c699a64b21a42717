"""The contract of zk_layout.store, over the in-memory ZooKeeper and over real ones."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest

from tests.contract.backends import Backend
from tests.support.recorder import Recorder
from tests.support.stopwatch import Stopwatch
from tests.support.waiting import eventually
from zk_layout.errors import (
    BadVersionError,
    ConnectionLostError,
    MissingChrootError,
    MultiFailedError,
    NodeExistsError,
    NoNodeError,
    NotEmptyError,
    SessionExpiredError,
    ZooKeeperError,
)
from zk_layout.store import (
    EVERYBODY,
    Acl,
    AclEntry,
    CheckOp,
    CreateOp,
    DeleteOp,
    SessionEvent,
    SessionKind,
    SetOp,
    WatchEvent,
    WatchKind,
    ZkStore,
    multi_size,
)

CONNECTED, SUSPENDED, EXPIRED = SessionKind.CONNECTED, SessionKind.SUSPENDED, SessionKind.EXPIRED


def kinds(events: list[SessionEvent]) -> list[SessionKind]:
    return [event.kind for event in events]


# ---------------------------------------------------------------------- reading and writing


def test_create_returns_its_transaction(store: ZkStore, root: str):
    before_ms = time.time_ns() // 1_000_000
    created = store.create(f"{root}/a", b"12345")
    data, stat = store.get_data(f"{root}/a")
    assert data == b"12345"
    assert (stat.version, stat.data_length, stat.num_children, stat.ephemeral_owner) == (0, 5, 0, 0)
    assert stat.czxid == stat.mzxid == created > 0
    assert stat.ctime_ms == stat.mtime_ms
    assert abs(stat.ctime_ms - before_ms) < 10_000


@pytest.mark.parametrize("data", [None, b"", b"\0\xff", "naïve".encode()])
def test_data_comes_back_as_it_was_written(store: ZkStore, root: str, data: bytes | None):
    store.create(f"{root}/a", data)
    assert store.get_data(f"{root}/a").data == data


def test_names_may_hold_every_character_that_zookeeper_allows(store: ZkStore, root: str):
    names = ["a b", "ü", "x-1%", "<default>"]
    for name in names:
        store.create(f"{root}/{name}", b"")
    assert store.get_children(root) == tuple(sorted(names))


def test_a_missing_znode_is_named_in_the_error(store: ZkStore, root: str):
    for read in (store.get_data, store.get_children, store.delete):
        with pytest.raises(NoNodeError) as caught:
            read(f"{root}/missing")
        assert caught.value.path == f"{root}/missing"
    with pytest.raises(NoNodeError):
        store.set_data(f"{root}/missing", b"")
    assert store.exists(f"{root}/missing") is None


def test_a_relative_path_is_refused(store: ZkStore):
    refused = pytest.raises(ValueError, match="'relative' is no absolute path")
    for ask in (store.get_data, store.get_children, store.exists, store.delete, store.ensure_path):
        with refused:
            ask("relative")
    for ask in (store.get_data_many, store.exists_many, store.get_children_many):
        with refused:
            ask(["/", "relative"])
    for op in (CheckOp, DeleteOp, partial(CreateOp, data=b""), partial(SetOp, data=b"")):
        with refused:
            store.multi([CheckOp("/"), op("relative")])


def test_children_come_sorted(store: ZkStore, root: str):
    for name in ("10", "2", "b", "1", "a"):
        store.create(f"{root}/{name}", None)
    assert store.get_children(root) == ("1", "10", "2", "a", "b")
    assert store.exists(root).num_children == 5


def test_a_list_of_children_counts_creations_and_deletions(store: ZkStore, other: ZkStore, root: str):
    store.create(f"{root}/a", None)
    before = store.list_children(root)
    assert (before.names, before.czxid) == (("a",), store.exists(root).czxid)
    other.create(f"{root}/b", None)
    other.set_data(f"{root}/a", b"data")
    assert store.list_children(root) == (("a", "b"), before.changes + 1, before.czxid)
    other.delete(f"{root}/a")
    other.create(f"{root}/a", None)
    assert store.list_children(root) == (("a", "b"), before.changes + 3, before.czxid), "a came back"
    with pytest.raises(MultiFailedError):
        other.multi([CreateOp(f"{root}/c", None), DeleteOp(f"{root}/b"), CreateOp(f"{root}/a", None)])
    assert store.list_children(root).changes == before.changes + 3, "what was refused as a whole does not count"
    other.multi([CreateOp(f"{root}/c", None), DeleteOp(f"{root}/b")])
    assert store.list_children(root) == (("a", "c"), before.changes + 5, before.czxid)
    stats = [store.exists(root), store.get_data(root).stat, store.get_data_many([root])[0].stat]
    assert [stat.child_changes for stat in stats] == [before.changes + 5] * 3


def test_a_session_that_ends_counts_in_the_list_of_children(store: ZkStore, other: ZkStore, root: str):
    other.create(f"{root}/e", None, ephemeral=True)
    before = store.list_children(root)
    other.close()
    eventually(lambda: store.list_children(root).names == ())
    assert store.list_children(root).changes == before.changes + 1


def test_a_list_of_children_watches_them(store: ZkStore, other: ZkStore, root: str):
    recorder: Recorder[WatchEvent] = Recorder()
    store.list_children(root, recorder)
    other.create(f"{root}/a", None)
    recorder.wait_for(1)
    assert recorder.events == [WatchEvent(WatchKind.CHILDREN, root)]


def test_a_path_that_several_make_at_once_is_made_for_each(store: ZkStore, other: ZkStore, root: str):
    path = f"{root}/x/y/z"
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda n: (store if n % 2 else other).ensure_path(f"{path}/{n // 4}"), range(16)))
    assert store.get_children(path) == ("0", "1", "2", "3")


def test_an_existing_znode_is_not_created_again(store: ZkStore, root: str):
    store.create(f"{root}/a", b"first")
    with pytest.raises(NodeExistsError) as caught:
        store.create(f"{root}/a", b"second", make_parents=True)
    assert caught.value.path == f"{root}/a"
    assert store.get_data(f"{root}/a").data == b"first"


def test_a_missing_parent_is_created_only_when_asked_for(store: ZkStore, root: str):
    with pytest.raises(NoNodeError) as caught:
        store.create(f"{root}/x/y/z", b"data")
    assert caught.value.path == f"{root}/x/y/z"
    store.create(f"{root}/x/y/z", b"data", ephemeral=True, make_parents=True)
    assert store.get_data(f"{root}/x/y/z").stat.ephemeral_owner == store.session_id
    for parent in (f"{root}/x", f"{root}/x/y"):
        znode = store.get_data(parent)
        assert (znode.data, znode.stat.ephemeral_owner) == (None, 0)


def test_an_ephemeral_znode_takes_no_children(store: ZkStore, root: str):
    store.create(f"{root}/e", None, ephemeral=True)
    with pytest.raises(ZooKeeperError, match="cannot have children"):
        store.create(f"{root}/e/child", None)


def test_set_data_returns_the_new_stat(store: ZkStore, root: str):
    created = store.create(f"{root}/a", b"1")
    stat = store.set_data(f"{root}/a", b"22")
    assert stat == store.get_data(f"{root}/a").stat
    assert (stat.version, stat.data_length, stat.czxid) == (1, 2, created)
    assert stat.mzxid > created


def test_a_write_at_an_old_version_changes_nothing(store: ZkStore, other: ZkStore, root: str):
    store.create(f"{root}/a", b"mine")
    read = store.get_data(f"{root}/a").stat
    other.set_data(f"{root}/a", b"theirs", read.version)
    for write in (
        lambda: store.set_data(f"{root}/a", b"mine again", read.version),
        lambda: store.delete(f"{root}/a", read.version),
    ):
        with pytest.raises(BadVersionError) as caught:
            write()
        assert caught.value.path == f"{root}/a"
    assert store.get_data(f"{root}/a").data == b"theirs"
    store.delete(f"{root}/a", 1)
    assert store.exists(f"{root}/a") is None


def test_a_znode_with_children_is_not_deleted(store: ZkStore, root: str):
    store.create(f"{root}/a/b", None, make_parents=True)
    with pytest.raises(NotEmptyError):
        store.delete(f"{root}/a")
    store.delete(f"{root}/a/b")
    store.delete(f"{root}/a")
    assert store.get_children(root) == ()


def test_a_recreated_znode_starts_over(store: ZkStore, root: str):
    first = store.create(f"{root}/a", b"")
    store.set_data(f"{root}/a", b"x")
    store.delete(f"{root}/a")
    second = store.create(f"{root}/a", b"")
    assert second > first
    stat = store.get_data(f"{root}/a").stat
    assert (stat.version, stat.czxid) == (0, second)


def test_ensure_path_leaves_existing_znodes_unchanged(store: ZkStore, root: str):
    store.create(f"{root}/a", b"kept")
    store.ensure_path(f"{root}/a/b/c")
    store.ensure_path(f"{root}/a/b/c")
    store.ensure_path("/")
    assert store.get_data(f"{root}/a").data == b"kept"
    assert store.get_data(f"{root}/a/b/c").data is None


def in_threads(count: int, do: Callable[[int], object]) -> None:
    together = threading.Barrier(count)

    def run(number: int) -> None:
        together.wait(30)
        do(number)

    with ThreadPoolExecutor(count) as pool:
        list(pool.map(run, range(count)))


def test_threads_and_clients_may_ensure_one_path_together(store: ZkStore, other: ZkStore, root: str):
    for turn in range(10):
        in_threads(6, lambda number, turn=turn: (store, other)[number % 2].ensure_path(f"{root}/{turn}/b/c/d"))
    assert store.exists_many([f"{root}/{turn}/b/c/d" for turn in range(10)]).count(None) == 0


def test_threads_and_clients_may_create_below_one_missing_parent_together(store: ZkStore, other: ZkStore, root: str):
    in_threads(
        6,
        lambda number: (store, other)[number % 2].create(f"{root}/p/q/{number}", b"", make_parents=True),
    )
    assert store.get_children(f"{root}/p/q") == tuple("012345")


# ---------------------------------------------------------------------- watches


def test_a_data_watch_fires_once_with_the_first_change(store: ZkStore, other: ZkStore, root: str):
    seen = Recorder[WatchEvent]()
    store.get_data(root, seen)
    other.set_data(root, b"1")
    assert seen.wait_for(1) == [WatchEvent(WatchKind.CHANGED, root)]
    other.set_data(root, b"2")
    store.get_data(root)
    assert len(seen.events) == 1


def test_no_read_sees_a_change_before_its_watch_has_fired(store: ZkStore, other: ZkStore, root: str):
    for number in range(50):
        seen = Recorder[WatchEvent]()
        old = store.get_data(root, seen).data
        writer = threading.Thread(target=other.set_data, args=(root, b"%d" % number))
        writer.start()
        while store.get_data(root).data == old:
            pass
        assert seen.events == [WatchEvent(WatchKind.CHANGED, root)]
        writer.join()


def test_no_write_behind_a_change_is_answered_before_the_watch_has_fired(store: ZkStore, other: ZkStore, root: str):
    """A member relies on this order to learn whether a topic was created again before its commit."""
    store.create(f"{root}/topic", b"")
    store.create(f"{root}/offset", b"1")
    for version in range(20):
        seen = Recorder[WatchEvent]()
        store.get_data_many([f"{root}/topic"], seen)
        other.multi([DeleteOp(f"{root}/topic"), CreateOp(f"{root}/topic", b"")])
        store.multi([SetOp(f"{root}/offset", b"2", version)])
        assert len(seen.events) == 1


def test_a_watch_on_ones_own_write_has_fired_when_the_write_returns(store: ZkStore, root: str):
    seen = Recorder[WatchEvent]()
    store.get_children(root, seen)
    store.create(f"{root}/a", None)
    assert seen.events == [WatchEvent(WatchKind.CHILDREN, root)]


def test_a_children_watch_fires_on_creation_and_deletion_of_a_child_not_on_its_data(
    store: ZkStore, other: ZkStore, root: str
):
    seen = Recorder[WatchEvent]()
    store.get_children(root, seen)
    other.create(f"{root}/a", None)
    seen.wait_for(1)
    assert store.get_children(root, seen) == ("a",)
    other.set_data(f"{root}/a", b"x")
    other.create(f"{root}/a/b", None)
    store.get_data(root)
    assert len(seen.events) == 1
    other.delete(f"{root}/a/b")
    other.delete(f"{root}/a")
    assert seen.wait_for(2) == [WatchEvent(WatchKind.CHILDREN, root)] * 2


def test_deleting_a_znode_fires_its_data_and_its_children_watch(store: ZkStore, other: ZkStore, root: str):
    path = f"{root}/a"
    store.create(path, None)
    on_data, on_children, on_parent = (Recorder[WatchEvent]() for _ in range(3))
    store.get_data(path, on_data)
    store.get_children(path, on_children)
    store.get_children(root, on_parent)
    other.delete(path)
    assert on_data.wait_for(1) == [WatchEvent(WatchKind.DELETED, path)]
    assert on_children.wait_for(1) == [WatchEvent(WatchKind.DELETED, path)]
    assert on_parent.wait_for(1) == [WatchEvent(WatchKind.CHILDREN, root)]


def test_a_znode_that_is_made_anew_in_one_multi_fires_its_watches_and_is_never_missing(
    store: ZkStore, other: ZkStore, root: str
):
    path = f"{root}/a"
    store.create(path, b"1", ephemeral=True)
    other.set_data(path, b"2")
    on_data, on_parent = (Recorder[WatchEvent]() for _ in range(2))
    other.get_data(path, on_data)
    before = other.list_children(root, on_parent)
    store.multi([DeleteOp(path, 1), CreateOp(path, b"3", ephemeral=True)])
    assert on_data.wait_for(1) == [WatchEvent(WatchKind.DELETED, path)]
    assert on_parent.wait_for(1) == [WatchEvent(WatchKind.CHILDREN, root)]
    after = other.list_children(root)
    assert (after.names, after.changes - before.changes) == (("a",), 2)
    znode = other.get_data(path)
    assert (znode.data, znode.stat.version, znode.stat.ephemeral_owner) == (b"3", 0, store.session_id)


def test_exists_watches_a_missing_znode_and_an_existing_one(store: ZkStore, other: ZkStore, root: str):
    seen = Recorder[WatchEvent]()
    path = f"{root}/a"
    assert store.exists(path, seen) is None
    other.create(path, b"")
    seen.wait_for(1)
    assert store.exists(path, seen) is not None
    other.set_data(path, b"x")
    seen.wait_for(2)
    assert store.exists(path, seen).version == 1
    other.delete(path)
    assert [event.kind for event in seen.wait_for(3)] == [
        WatchKind.CREATED,
        WatchKind.CHANGED,
        WatchKind.DELETED,
    ]


def test_a_read_that_finds_no_znode_watches_nothing(store: ZkStore, root: str):
    seen = Recorder[WatchEvent]()
    for read in (store.get_data, store.get_children):
        with pytest.raises(NoNodeError):
            read(f"{root}/a", seen)
    store.create(f"{root}/a", None)
    store.create(f"{root}/a/b", None)
    store.get_data(root)
    assert seen.events == []


class _Looking:
    def __init__(self) -> None:
        self.seen: list[WatchEvent] = []

    def look(self, event: WatchEvent) -> None:
        self.seen.append(event)


def test_a_watch_keeps_no_object_in_memory_and_ends_with_it(store: ZkStore, other: ZkStore, root: str):
    store.create(f"{root}/a", b"")
    stays, goes = _Looking(), _Looking()
    gone = weakref.ref(goes)
    for one in (stays, goes):
        store.get_data(f"{root}/a", one.look)
        store.get_children(root, one.look)
        store.exists(f"{root}/b", one.look)
    del goes, one
    gc.collect()
    assert gone() is None
    other.set_data(f"{root}/a", b"1")
    other.create(f"{root}/b", b"")
    eventually(lambda: len(stays.seen) == 3)


def test_one_watcher_set_twice_on_the_same_fires_once(store: ZkStore, root: str):
    seen = Recorder[WatchEvent]()
    store.get_data(root, seen)
    store.get_data(root, seen)
    store.exists(root, seen)
    store.set_data(root, b"x")
    assert len(seen.events) == 1
    store.set_data(root, b"y")
    assert len(seen.events) == 1


def test_different_watchers_on_one_path_each_fire(store: ZkStore, root: str):
    first, second = Recorder[WatchEvent](), Recorder[WatchEvent]()
    store.get_data(root, first)
    store.get_data(root, second)
    store.set_data(root, b"x")
    assert len(first.events) == len(second.events) == 1


def test_a_watcher_set_again_after_it_fired_fires_again(store: ZkStore, root: str):
    seen = Recorder[WatchEvent]()
    for number in range(3):
        store.get_data(root, seen)
        store.set_data(root, b"%d" % number)
        assert len(seen.events) == number + 1


def test_a_failing_watcher_does_not_stop_the_others(store: ZkStore, root: str, caplog: pytest.LogCaptureFixture):
    def failing(_: WatchEvent) -> None:
        raise LookupError("the watcher's own fault")

    seen = Recorder[WatchEvent]()
    store.get_data(root, failing)
    store.get_data(root, seen)
    store.set_data(root, b"x")
    assert len(seen.events) == 1
    assert "the watcher's own fault" in caplog.text


# ---------------------------------------------------------------------- many at once


def test_batches_answer_in_order_with_none_for_missing_znodes(store: ZkStore, root: str):
    for name in ("a", "b"):
        store.create(f"{root}/{name}/child", None, make_parents=True)
        store.set_data(f"{root}/{name}", name.encode())
    for repeat in (1, 20):  # few and many reads, because servers and stores may treat them differently
        paths = [f"{root}/b", f"{root}/missing", f"{root}/a", f"{root}/b"] * repeat
        assert [znode and znode.data for znode in store.get_data_many(paths)] == [b"b", None, b"a", b"b"] * repeat
        assert store.get_children_many(paths) == [("child",), None, ("child",), ("child",)] * repeat
        assert store.exists_many(paths) == [store.exists(path) for path in paths]
    assert store.get_data_many([]) == store.get_children_many([]) == store.exists_many([]) == []


def test_large_batches_equal_single_reads(store: ZkStore, root: str):
    names = [f"n{number:04}" for number in range(5000)]
    for start in range(0, 5000, 1000):
        store.multi(
            [
                CreateOp(f"{root}/{name}", None if number % 7 == 0 else name.encode() * (number % 5))
                for number, name in enumerate(names[start : start + 1000])
            ]
        )
    paths = [f"{root}/{name}" for name in names]
    asked = [path for pair in zip(paths, paths, strict=True) for path in (pair[0], pair[1] + "-missing")]
    read = store.get_data_many(asked)
    assert read[1::2] == [None] * 5000
    assert read[::2] == store.get_data_many(paths, Recorder[WatchEvent]())
    assert read[:400:2] == [store.get_data(path) for path in paths[:200]]
    assert [znode.stat for znode in read[::2]] == store.exists_many(paths)
    assert store.get_children_many([root, *paths]) == [tuple(names), *[()] * 5000]
    assert store.get_children(root) == tuple(names)


def test_batches_of_big_znodes_come_complete(store: ZkStore, root: str):
    paths = [f"{root}/n{number}" for number in range(40)]
    for number, path in enumerate(paths):
        store.create(path, bytes([number]) * 100_000)
    assert [znode.data for znode in store.get_data_many(paths)] == [bytes([number]) * 100_000 for number in range(40)]


def test_a_watched_batch_watches_every_path_the_missing_ones_too(store: ZkStore, other: ZkStore, root: str):
    for name in "ab":
        store.create(f"{root}/{name}", b"")
    for read in (store.get_data_many, store.exists_many):
        seen = Recorder[WatchEvent]()
        found = read([f"{root}/a", f"{root}/c", f"{root}/b"], seen)
        assert [item is None for item in found] == [False, True, False]
        other.set_data(f"{root}/a", b"x")
        other.create(f"{root}/c", b"")
        other.delete(f"{root}/c")
        other.delete(f"{root}/b")
        assert seen.wait_for(3) == [
            WatchEvent(WatchKind.CHANGED, f"{root}/a"),
            WatchEvent(WatchKind.CREATED, f"{root}/c"),
            WatchEvent(WatchKind.DELETED, f"{root}/b"),
        ]
        other.create(f"{root}/b", b"")


def test_many_znodes_are_watched_in_one_request_and_a_missing_one_fires_at_once(
    store: ZkStore, other: ZkStore, root: str
):
    paths = [f"{root}/{n}" for n in range(40)]
    zxid = store.multi([CreateOp(path, b"", ephemeral=True) for path in paths[:-1]])
    recorder: Recorder[WatchEvent] = Recorder()
    store.watch_data_many(paths, recorder, zxid)
    assert recorder.wait_for(1) == [WatchEvent(WatchKind.DELETED, paths[-1])]
    for path in paths[:3]:
        other.delete(path)
    assert recorder.wait_for(4)[1:] == [WatchEvent(WatchKind.DELETED, path) for path in paths[:3]]
    # a watch fires only once
    other.create(paths[0], b"")
    other.delete(paths[0])
    other.delete(paths[3])
    assert recorder.wait_for(5)[4:] == [WatchEvent(WatchKind.DELETED, paths[3])]


@pytest.mark.parametrize("change", ["set", "deleted", "made anew"])
def test_a_watch_since_a_write_fires_at_once_if_another_client_changed_the_znode(
    store: ZkStore, other: ZkStore, root: str, change: str
):
    paths = [f"{root}/{n}" for n in range(3)]
    zxid = store.multi([CreateOp(path, b"") for path in paths])
    other.create(f"{root}/later", b"")
    if change == "set":
        other.set_data(paths[1], b"")
    else:
        other.delete(paths[1])
        if change == "made anew":
            other.create(paths[1], b"")
    recorder: Recorder[WatchEvent] = Recorder()
    store.watch_data_many(paths, recorder, zxid)
    kind = WatchKind.DELETED if change == "deleted" else WatchKind.CHANGED
    assert recorder.wait_for(1) == [WatchEvent(kind, paths[1])]
    other.delete(paths[2])
    assert recorder.wait_for(2)[1:] == [WatchEvent(WatchKind.DELETED, paths[2])]


def test_watches_set_together_end_with_the_connection_too(backend: Backend, store: ZkStore, root: str):
    cuttable = backend.new_cuttable_store()
    cuttable.start()
    paths = [f"{root}/{n}" for n in range(3)]
    zxid = store.multi([CreateOp(path, b"") for path in paths])
    recorder: Recorder[WatchEvent] = Recorder()
    cuttable.watch_data_many(paths, recorder, zxid)
    backend.cut(cuttable)
    assert sorted(recorder.wait_for(3), key=str) == [WatchEvent(WatchKind.LOST, path) for path in paths]
    backend.restore(cuttable)


def test_the_silence_of_a_session_ends_with_each_answer_and_grows_without_one(backend: Backend, root: str):
    cuttable = backend.new_cuttable_store()
    cuttable.start()
    session_id = cuttable.session_id
    began = time.monotonic()
    cuttable.exists(root)
    assert 0 <= cuttable.silence_s(session_id) <= time.monotonic() - began
    backend.cut(cuttable)
    with pytest.raises(ConnectionLostError):
        cuttable.exists(root)
    eventually(lambda: cuttable.silence_s(session_id) > 0.5)
    backend.restore(cuttable)
    eventually(lambda: cuttable.silence_s(session_id) < 0.5)


def test_a_session_that_is_over_has_been_silent_for_ever(backend: Backend, root: str):
    cuttable = backend.new_cuttable_store()
    sessions: Recorder[SessionEvent] = Recorder()
    cuttable.add_session_listener(sessions)
    cuttable.start()
    first = cuttable.session_id
    assert cuttable.silence_s(first) < 60
    backend.expire(cuttable)
    eventually(lambda: cuttable.session_id not in (0, first))
    assert cuttable.silence_s(first) == float("inf")
    assert cuttable.silence_s(cuttable.session_id) < 60
    cuttable.close()
    assert cuttable.silence_s(cuttable.session_id) == float("inf")


# ---------------------------------------------------------------------- multi


def test_a_multi_does_everything_and_returns_its_transaction(store: ZkStore, root: str):
    store.create(f"{root}/old", b"")
    zxid = store.multi(
        [
            CheckOp(root),
            CreateOp(f"{root}/new", b"1", ephemeral=True),
            SetOp(f"{root}/new", b"2"),
            CreateOp(f"{root}/null", None),
            DeleteOp(f"{root}/old"),
        ]
    )
    new = store.get_data(f"{root}/new")
    assert zxid == new.stat.mzxid
    assert (new.data, new.stat.version, new.stat.ephemeral_owner) == (b"2", 1, store.session_id)
    assert store.get_data(f"{root}/null").data is None
    assert store.get_children(root) == ("new", "null")


@pytest.mark.parametrize(
    ("failing", "cause"),
    [
        (lambda root: CreateOp(f"{root}/here", b""), NodeExistsError),
        (lambda root: CreateOp(f"{root}/no/parent", b""), NoNodeError),
        (lambda root: SetOp(f"{root}/missing", b""), NoNodeError),
        (lambda root: SetOp(f"{root}/here", b"", 7), BadVersionError),
        (lambda root: DeleteOp(f"{root}/here", 7), BadVersionError),
        (DeleteOp, NotEmptyError),
        (lambda root: CheckOp(f"{root}/missing"), NoNodeError),
        (lambda root: CheckOp(f"{root}/here", 7), BadVersionError),
    ],
)
@pytest.mark.parametrize("position", [0, 1, 2])
def test_a_multi_with_one_failure_does_nothing_and_names_it(
    store: ZkStore, root: str, failing: Callable[[str], CreateOp], cause: type[ZooKeeperError], position: int
):
    store.create(f"{root}/here", b"kept")
    before = [store.get_data(root), store.get_data(f"{root}/here")]
    seen = Recorder[WatchEvent]()
    store.get_children(root, seen)
    ops = [CreateOp(f"{root}/new", b""), SetOp(f"{root}/here", b"lost")]
    bad = failing(root)
    if bad == DeleteOp(root) or position < 2:
        ops[1] = CheckOp(root)
    ops.insert(position, bad)
    with pytest.raises(MultiFailedError) as caught:
        store.multi(ops)
    assert (caught.value.index, caught.value.path) == (position, bad.path)
    assert type(caught.value.cause) is cause
    assert [store.get_data(root), store.get_data(f"{root}/here")] == before
    assert store.get_children(root) == ("here",)
    assert seen.events == []


def test_a_multi_of_one_fails_as_a_multi(store: ZkStore, root: str):
    with pytest.raises(MultiFailedError) as caught:
        store.multi([DeleteOp(f"{root}/missing")])
    assert (caught.value.index, type(caught.value.cause)) == (0, NoNodeError)


def test_an_empty_multi_does_nothing(store: ZkStore):
    assert store.multi([]) == 0


def test_a_multi_at_the_size_limit_is_taken_and_a_larger_one_refused(store: ZkStore, root: str):
    path = f"{root}/a"
    store.create(path, b"")
    op = SetOp(path, b"x" * 10_000)
    fitting = [op] * (store.max_multi_bytes // multi_size(op))
    room = store.max_multi_bytes - multi_size(op) * len(fitting) - multi_size(SetOp(path, b""))
    fitting.append(SetOp(path, b"y" * room))
    store.multi(fitting)
    assert store.get_data(path).stat.version == len(fitting)
    with pytest.raises(ValueError, match="the limit is"):
        store.multi([*fitting, CheckOp(path)])


def test_a_large_multi_of_small_operations_is_taken(store: ZkStore, root: str):
    paths = [f"{root}/partition-{number}" for number in range(3000)]
    store.multi([CreateOp(path, b"0") for path in paths])
    store.multi([SetOp(path, b"1", 0) for path in paths])
    assert [stat.version for stat in store.exists_many(paths)] == [1] * 3000


def test_a_multi_meant_for_another_session_is_refused(store: ZkStore, root: str):
    with pytest.raises(SessionExpiredError):
        store.multi([SetOp(root, b"x")], session_id=store.session_id + 1)
    assert store.get_data(root).data is None
    store.multi([SetOp(root, b"x")], session_id=store.session_id)
    assert store.get_data(root).data == b"x"


# ---------------------------------------------------------------------- sessions


def test_starting_and_closing_twice_is_harmless(backend: Backend):
    store = backend.new_store()
    seen = Recorder[SessionEvent]()
    store.add_session_listener(seen)
    store.start()
    session_id = store.session_id
    assert session_id != 0
    assert store.session_timeout_ms > 0
    store.start()
    assert store.session_id == session_id
    assert seen.events == [SessionEvent(CONNECTED, session_id)]
    store.close()
    store.close()
    assert store.session_id == 0
    assert len(seen.events) == 1


def test_a_closed_or_unstarted_store_refuses_requests_clearly(backend: Backend):
    store = backend.new_store()
    with pytest.raises(ConnectionLostError, match="not started"):
        store.get_data("/")
    store.start()
    store.close()
    for request in (
        lambda: store.get_data("/"),
        lambda: store.exists_many(["/"] * 50),
        lambda: store.create("/never", None),
        lambda: store.multi([CheckOp("/")], session_id=5),
        store.start,
    ):
        with pytest.raises(ConnectionLostError, match="closed"):
            request()
    never_started = backend.new_store()
    never_started.close()


def test_closing_removes_ephemerals_and_fires_nothing_at_home(backend: Backend, store: ZkStore, root: str):
    leaving = backend.new_store()
    leaving.start()
    leaving.create(f"{root}/e", b"", ephemeral=True)
    at_home, elsewhere = Recorder[WatchEvent](), Recorder[WatchEvent]()
    assert leaving.get_data(f"{root}/e", at_home).stat.ephemeral_owner == leaving.session_id
    store.get_children(root, elsewhere)
    leaving.close()
    elsewhere.wait_for(1)
    assert store.get_children(root) == ()
    assert at_home.events == []


def test_a_lost_connection_ends_every_watch_once_and_keeps_the_session(backend: Backend, store: ZkStore, root: str):
    shaky = backend.new_cuttable_store()
    sessions = Recorder[SessionEvent]()
    shaky.add_session_listener(sessions)
    shaky.start()
    session_id = shaky.session_id
    shaky.create(f"{root}/e", b"", ephemeral=True)
    on_data, on_children, on_missing = (Recorder[WatchEvent]() for _ in range(3))
    shaky.get_data(root, on_data)
    shaky.get_children(root, on_children)
    shaky.exists(f"{root}/missing", on_missing)
    backend.cut(shaky)
    assert on_data.wait_for(1) == [WatchEvent(WatchKind.LOST, root)]
    assert on_children.wait_for(1) == [WatchEvent(WatchKind.LOST, root)]
    assert on_missing.wait_for(1) == [WatchEvent(WatchKind.LOST, f"{root}/missing")]
    with pytest.raises(ConnectionLostError):
        shaky.get_data(root)
    with pytest.raises(ConnectionLostError):
        shaky.set_data(root, b"never")
    backend.restore(shaky)
    sessions.wait_for(3)
    assert sessions.events == [
        SessionEvent(CONNECTED, session_id),
        SessionEvent(SUSPENDED, 0),
        SessionEvent(CONNECTED, session_id),
    ]
    assert shaky.session_id == session_id
    assert shaky.exists(f"{root}/e").ephemeral_owner == session_id
    assert shaky.get_data(root).data is None
    store.set_data(root, b"x")
    store.create(f"{root}/missing", b"")
    assert shaky.get_data(root).data == b"x"
    assert (len(on_data.events), len(on_children.events), len(on_missing.events)) == (1, 1, 1)
    shaky.get_data(root, on_data)
    store.set_data(root, b"y")
    assert on_data.wait_for(2)[1] == WatchEvent(WatchKind.CHANGED, root)


@pytest.mark.parametrize("cut_before", [False, True])
def test_an_expired_session_takes_its_ephemerals_and_watches_and_is_followed_by_a_new_one(
    backend: Backend, store: ZkStore, root: str, cut_before: bool
):
    shaky = backend.new_cuttable_store()
    sessions = Recorder[SessionEvent]()
    shaky.add_session_listener(sessions)
    shaky.start()
    old = shaky.session_id
    shaky.create(f"{root}/e", b"", ephemeral=True)
    seen = Recorder[WatchEvent]()
    shaky.get_data(root, seen)
    if cut_before:
        backend.cut(shaky)
        sessions.wait_for(2)
    backend.expire(shaky)
    backend.restore(shaky)
    told = sessions.wait_until(lambda events: kinds(events)[-2:] == [EXPIRED, CONNECTED])
    assert kinds(told) == [CONNECTED, SUSPENDED, EXPIRED, CONNECTED]
    assert shaky.session_id == told[-1].session_id not in (0, old)
    assert seen.wait_for(1) == [WatchEvent(WatchKind.LOST, root)]
    assert store.exists(f"{root}/e") is None
    with pytest.raises(SessionExpiredError):
        shaky.multi([SetOp(root, b"from the dead")], session_id=old)
    shaky.create(f"{root}/e", b"", ephemeral=True)
    assert shaky.get_data(f"{root}/e").stat.ephemeral_owner == shaky.session_id
    assert shaky.get_data(root).data is None


def test_a_removed_listener_hears_nothing_more(backend: Backend):
    shaky = backend.new_cuttable_store()
    kept, removed = Recorder[SessionEvent](), Recorder[SessionEvent]()
    for listener in (kept, removed):
        shaky.add_session_listener(listener)
    shaky.start()
    shaky.remove_session_listener(removed)
    shaky.remove_session_listener(removed)
    backend.cut(shaky)
    kept.wait_for(2)
    assert kinds(removed.events) == [CONNECTED]


def test_closing_without_a_connection_is_quick_and_silent(backend: Backend):
    shaky = backend.new_cuttable_store()
    sessions, seen = Recorder[SessionEvent](), Recorder[WatchEvent]()
    shaky.add_session_listener(sessions)
    shaky.start()
    backend.cut(shaky)
    sessions.wait_for(2)
    with Stopwatch() as watch:
        shaky.close()
    assert watch.seconds < 5
    assert kinds(sessions.events) == [CONNECTED, SUSPENDED]
    assert seen.events == []


# ---------------------------------------------------------------------- chroot


def test_paths_are_absolute_inside_the_chroot(backend: Backend, store: ZkStore, root: str):
    inside = backend.new_store(chroot=root)
    inside.start()
    seen = Recorder[WatchEvent]()
    inside.get_children("/", seen)
    inside.create("/a/b", b"x", make_parents=True)
    assert store.get_data(f"{root}/a/b").data == b"x"
    assert seen.events == [WatchEvent(WatchKind.CHILDREN, "/")]
    assert inside.get_children("/") == ("a",)
    assert [znode.data for znode in inside.get_data_many(["/a/b"] * 50)] == [b"x"] * 50
    assert inside.exists("/").num_children == 1
    with pytest.raises(NoNodeError) as caught:
        inside.get_data("/missing")
    assert caught.value.path == "/missing"
    with pytest.raises(MultiFailedError) as failed:
        inside.multi([SetOp("/a", b""), DeleteOp("/a")])
    assert (failed.value.path, failed.value.cause.path) == ("/a", "/a")


def test_a_missing_chroot_is_an_error_and_leaves_nothing(backend: Backend, store: ZkStore, root: str):
    lost = backend.new_store(chroot=f"{root}/nowhere")
    with pytest.raises(MissingChrootError) as caught:
        lost.start()
    assert caught.value.path == f"{root}/nowhere"
    assert lost.session_id == 0
    assert store.exists(f"{root}/nowhere") is None


def test_an_acl_is_as_it_was_given(store: ZkStore, root: str):
    acl = (AclEntry(31, "digest", "alice:abc="), AclEntry(31, "world", "anyone"))
    store.ensure_path(f"{root}/a", acl=acl)
    store.create(f"{root}/b", b"", acl=Acl.OPEN)
    store.multi([CreateOp(f"{root}/c", b"", acl=acl)])
    assert store.read_acls([f"{root}/{name}" for name in ("a", "b", "missing", "c")]) == [acl, EVERYBODY, None, acl]
