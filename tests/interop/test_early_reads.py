"""The checks that allow a repeated message only if a JVM member read an offset before its claim."""

import pytest

from tests.interop.early_reads import NO_OFFSET, GroupHistory, Start, starts_in
from tests.support.zk_history import Change, ZkHistory
from zk_layout.errors import MultiFailedError
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import TopicPartition
from zk_layout.settings import ZkSettings
from zk_layout.store import CreateOp, DeleteOp

pytestmark = pytest.mark.interop

TP = TopicPartition("t-1", 2)
OWNER, OFFSET = "/consumers/g/owners/t-1/2", "/consumers/g/offsets/t-1/2"
ADDED = "2026-11-21 14:54:09,411 INFO [ConsumerFetcherManager-1795272845788] Added fetcher for partitions ArrayBuffer"
NEW = (
    f"{ADDED}([t-1-0, initOffset 10 to broker BrokerEndPoint(0,127.0.0.1,22667)] , "
    "[t-1-2, initOffset -1 to broker BrokerEndPoint(0,127.0.0.1,22667)] ) (ConsumerFetcherManager)"
)
OLD = (
    f"{ADDED}([[t-1,0], initOffset 10 to broker id:0,host:127.0.0.1,port:22667] , "
    "[[t-1,2], initOffset -1 to broker id:0,host:127.0.0.1,port:22667] ) (ConsumerFetcherManager)"
)


@pytest.mark.parametrize("line", [NEW, OLD])
def test_a_members_log_tells_where_it_began(line):
    first, second = starts_in(f"something else\n{line}\nand more")
    assert (first.tp, first.offset) == (TopicPartition("t-1", 0), 10)
    assert (second.tp, second.offset) == (TP, NO_OFFSET)
    assert first.at == second.at


class Recorded:
    """A transaction log with one change each second."""

    def __init__(self, *changes):
        self._changes = [Change(n, float(n), 1, path, data) for n, (path, data) in enumerate(changes)]

    def below(self, path):
        return {
            znode: [c for c in self._changes if c.path == znode]
            for znode in {c.path for c in self._changes}
            if znode.startswith(f"{path}/")
        }


HANDED_OVER = ((OWNER, b"g_j2-0"), (OFFSET, b"5"), (OFFSET, b"10"), (OWNER, None), (OWNER, b"g_j1-0"))


def why_not(changes, began, offset=7, at=6.0):
    return GroupHistory(Recorded(*changes), "", "g").why_not_early("g_j1", [Start(5.0, TP, began)], TP, offset, at)


@pytest.mark.parametrize("began", [5, NO_OFFSET])
def test_a_start_at_the_offset_before_the_last_commit_is_an_early_read(began):
    assert why_not(HANDED_OVER, began) == ""


@pytest.mark.parametrize(
    ("changes", "began", "offset", "reason"),
    [
        (HANDED_OVER, 10, 7, "began at 10, behind 7"),
        (HANDED_OVER, 3, 7, "at 3, which was never committed before"),
        (HANDED_OVER, 5, 10, "10 was not committed when g_j1 claimed"),
        (HANDED_OVER[:-1], 5, 7, "never claimed"),
        ((HANDED_OVER[0], HANDED_OVER[-1], HANDED_OVER[1]), 0, 3, "3 was not committed"),
        ((HANDED_OVER[-1],), NO_OFFSET, 3, "3 was not committed"),
    ],
)
def test_anything_else_is_not(changes, began, offset, reason):
    assert reason in why_not(changes, began, offset)


@pytest.mark.parametrize(
    ("offset", "at", "is_late"), [(10, 6.0, True), (9, 6.0, False), (11, 6.0, True), (500, 6.0, True), (10, 3.0, False)]
)
def test_any_number_of_messages_behind_the_last_commit_may_be_handed_out_late(offset, at, is_late):
    assert GroupHistory(Recorded(*HANDED_OVER), "", "g").is_handed_out_late("g_j1", TP, offset, at) is is_late


def test_a_start_after_it_was_handed_out_explains_nothing():
    assert "never began" in why_not(HANDED_OVER, 5, at=4.0)


def test_the_transaction_log_tells_every_change_in_order(zookeeper):
    server, history = zookeeper
    assert isinstance(history, ZkHistory)
    store = KazooStore(ZkSettings(f"{server.connect}/told", session_timeout_ms=5000, connection_timeout_ms=5000))
    observer = KazooStore(ZkSettings(server.connect, session_timeout_ms=5000, connection_timeout_ms=5000))
    observer.start()
    try:
        observer.create("/told", b"")
        store.start()
        session = store.session_id
        store.create("/a", b"1")
        store.set_data("/a", b"2")
        store.create("/e", b"mine", ephemeral=True)
        store.multi([CreateOp("/b", b"x"), DeleteOp("/a")])
        with pytest.raises(MultiFailedError):
            store.multi([DeleteOp("/b"), CreateOp("/e", b"again")])
        store.close()
        assert not observer.exists("/told/e")
    finally:
        store.close()
        observer.close()
    told = {path: [c.data for c in changes] for path, changes in history.below("/told").items()}
    assert told == {"/told/a": [b"1", b"2", None], "/told/e": [b"mine", None], "/told/b": [b"x"]}
    changes = [change for znode in history.below("/told").values() for change in znode]
    assert {change.session for change in changes} == {session}
    assert len({change.zxid for change in changes if change.path in ("/told/a", "/told/b")}) == 3
