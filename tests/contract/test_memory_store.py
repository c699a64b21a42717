"""The features of the in-memory ZooKeeper beyond the contract: control over time, order and faults."""

from __future__ import annotations

import pytest

from tests.support.recorder import Recorder
from zk_layout.errors import ConnectionLostError, ConnectTimeoutError, SessionExpiredError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper
from zk_layout.store import Acl, CheckOp, SessionEvent, SessionKind, SetOp, WatchEvent, WatchKind


def started(server: MemoryZooKeeper) -> MemoryStore:
    store = MemoryStore(server)
    store.start()
    return store


def test_times_come_from_the_given_clock():
    times = iter(range(1000, 9000, 1000))
    server = MemoryZooKeeper(wall_ms=lambda: next(times))
    store = started(server)
    store.create("/a", b"")
    assert store.exists("/a").ctime_ms == 2000
    stat = store.set_data("/a", b"x")
    assert (stat.ctime_ms, stat.mtime_ms) == (2000, 3000)


def test_events_wait_until_they_are_delivered_in_order_for_each_store():
    server = MemoryZooKeeper(auto_deliver=False)
    writer, first, second = started(server), started(server), started(server)
    told = Recorder[tuple[str, WatchEvent]]()
    writer.create("/a", b"")
    for name, store in (("first", first), ("second", second)):
        store.get_data("/a", lambda event, name=name: told((name, event)))
        store.get_children("/", lambda event, name=name: told((name, event)))
    writer.set_data("/a", b"x")
    writer.create("/b", b"")
    assert told.events == []
    assert set(server.pending()) == {first, second}
    assert [delivery.event.kind for delivery in server.pending()[first]] == [WatchKind.CHANGED, WatchKind.CHILDREN]
    assert server.deliver_next(second)
    assert server.deliver_next(first)
    assert server.deliver_next(second)
    assert not server.deliver_next(second)
    server.deliver_all()
    assert [(name, event.kind) for name, event in told.events] == [
        ("second", WatchKind.CHANGED),
        ("first", WatchKind.CHANGED),
        ("second", WatchKind.CHILDREN),
        ("first", WatchKind.CHILDREN),
    ]


def test_a_reply_does_not_overtake_the_events_before_it():
    server = MemoryZooKeeper(auto_deliver=False)
    writer, reader = started(server), started(server)
    writer.create("/a", b"old")
    seen = Recorder[WatchEvent]()
    reader.get_data("/a", seen)
    writer.set_data("/a", b"new")
    assert seen.events == []
    assert reader.get_data("/a").data == b"new"
    assert len(seen.events) == 1


@pytest.mark.parametrize(("fault", "data"), [(Fault.LOSE_REQUEST, b"old"), (Fault.LOSE_REPLY, b"new")])
def test_a_lost_request_is_not_carried_out_and_a_lost_reply_is(fault: Fault, data: bytes):
    server = MemoryZooKeeper()
    store, other = started(server), started(server)
    store.create("/a", b"old")
    sessions, seen = Recorder[SessionEvent](), Recorder[WatchEvent]()
    store.add_session_listener(sessions)
    store.exists("/elsewhere", seen)
    asked = []

    def hook(session_id: int, kind: str) -> Fault | None:
        asked.append((session_id, kind))
        return fault if kind == "set_data" else None

    server.fault = hook
    with pytest.raises(ConnectionLostError):
        store.set_data("/a", b"new")
    assert asked == [(store.session_id, "set_data")]
    assert other.get_data("/a").data == data
    assert [event.kind for event in sessions.events] == [SessionKind.SUSPENDED, SessionKind.CONNECTED]
    assert sessions.events[1].session_id == store.session_id
    assert seen.events == [WatchEvent(WatchKind.LOST, "/elsewhere")]
    assert store.get_data("/a").data == data


def test_a_request_sent_before_the_store_notices_the_loss_of_its_session_is_lost():
    server = MemoryZooKeeper(auto_deliver=False)
    store, other = started(server), started(server)
    other.create("/a", b"old")
    old = store.session_id
    server.expire(old)
    assert store.session_id == old
    with pytest.raises(ConnectionLostError):
        store.multi([SetOp("/a", b"from the dead")], session_id=old)
    assert store.session_id not in (0, old)
    with pytest.raises(SessionExpiredError):
        store.multi([SetOp("/a", b"from the dead")], session_id=old)
    assert other.get_data("/a").data == b"old"


def test_a_store_that_closes_without_a_connection_leaves_its_ephemerals_to_the_expiry():
    server = MemoryZooKeeper()
    store, other = started(server), started(server)
    session_id = store.session_id
    store.create("/e", b"", ephemeral=True)
    server.suspend(store)
    store.close()
    assert other.exists("/e").ephemeral_owner == session_id
    server.expire(session_id)
    assert other.exists("/e") is None


def test_requests_are_counted_by_kind_and_a_batch_once():
    server = MemoryZooKeeper()
    store = started(server)
    store.create("/a", b"")
    server.requests.clear()
    store.get_data_many(["/a"] * 500)
    store.get_data_many(["/a"] * 3, Recorder[WatchEvent]())
    store.multi([CheckOp("/a")] * 10)
    store.get_children("/")
    assert server.requests == {"multi_read": 1, "get_data": 3, "multi": 1, "get_children": 1}


def test_an_unreachable_server_lets_the_start_time_out():
    server = MemoryZooKeeper()
    server.reachable = False
    store = MemoryStore(server)
    with pytest.raises(ConnectTimeoutError):
        store.start()
    server.reachable = True
    store.start()
    assert store.session_id != 0


def test_the_acl_asked_for_is_kept():
    server = MemoryZooKeeper()
    store = started(server)
    store.create("/open", None, acl=Acl.OPEN)
    store.create("/secure", None)
    assert (server.tree.acl("/open"), server.tree.acl("/secure")) == (Acl.OPEN, Acl.SECURE)
