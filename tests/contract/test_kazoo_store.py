"""Behaviour that only the real store has: time limits, credentials, TLS, servers that lack a request."""

from __future__ import annotations

import itertools
import logging
import socket
import struct
import subprocess
import threading
import time
import uuid
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import pytest
from kazoo.security import CREATOR_ALL_ACL, make_acl

from legacy_consumer.embedded import EmbeddedZooKeeper
from legacy_consumer.sandbox.servers.ports import free_port
from tests.contract.backends import KazooBackend
from tests.support.at_line import AfterCall, AtLine, interrupt
from tests.support.recorder import Recorder
from tests.support.stopwatch import Stopwatch
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually
from zk_layout import kazoo_session
from zk_layout.errors import (
    AuthenticationError,
    ConfigError,
    ConnectionLostError,
    ConnectTimeoutError,
    MissingChrootError,
    MultiFailedError,
    NotPermittedError,
    SessionExpiredError,
    ZooKeeperError,
)
from zk_layout.kazoo_store import KazooStore
from zk_layout.multi_read import MULTI_READ
from zk_layout.paths import is_znode_name
from zk_layout.settings import SaslSettings, TlsSettings, ZkSettings
from zk_layout.store import Acl, CheckOp, CreateOp, SessionEvent, SessionKind, SetOp, WatchEvent

zookeeper_needed = pytest.mark.zookeeper
EXISTS = 3
ZK_LAYOUT = Path(kazoo_session.__file__).parent


@pytest.fixture(autouse=True)
def no_thread_is_left() -> Iterator[None]:
    before = set(threading.enumerate())
    yield
    # a thread may need a moment to end
    eventually(lambda: not [t for t in set(threading.enumerate()) - before if "proxy" not in t.name])


@pytest.fixture
def silent_port() -> Iterator[int]:
    """Return a port that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield listener.getsockname()[1]


def new_root() -> str:
    return f"/{uuid.uuid4().hex}"


# ---------------------------------------------------------------------- settings


@pytest.mark.parametrize(
    ("settings", "key"),
    [
        ({"connect": ""}, "zookeeper.connect"),
        ({"connect": "/kafka"}, "zookeeper.connect"),
        ({"connect": "a:2181,,b:2181"}, "zookeeper.connect"),
        ({"connect": "a", "session_timeout_ms": 0}, "zookeeper.session.timeout.ms"),
        ({"connect": "a", "connection_timeout_ms": -1}, "zookeeper.connection.timeout.ms"),
        ({"connect": "a", "secure_acl": True}, "zookeeper.set.acl"),
    ],
)
def test_settings_that_can_never_work_are_refused(settings: dict[str, object], key: str):
    with pytest.raises(ConfigError) as caught:
        ZkSettings(**settings)
    assert caught.value.key == key


@pytest.mark.parametrize(
    ("connect", "chroot"),
    [("a:1,b:2", ""), ("a:1/", ""), ("a:1/kafka", "/kafka"), ("a:1,b:2/x//y/", "/x/y")],
)
def test_the_chroot_stands_behind_the_hosts(connect: str, chroot: str):
    assert ZkSettings(connect).chroot == chroot


def test_a_request_may_take_as_long_as_the_session_but_at_least_ten_seconds():
    assert ZkSettings("a").operation_timeout_ms == 10_000
    assert ZkSettings("a", session_timeout_ms=30_000).operation_timeout_ms == 30_000
    assert ZkSettings("a", operation_timeout_ms=5).operation_timeout_ms == 5


def test_credentials_do_not_show_in_settings():
    settings = ZkSettings(
        "a",
        auth=(("digest", "user:hunter2"),),
        sasl=SaslSettings(username="user", password="hunter2"),
        tls=TlsSettings(keyfile_password="hunter2"),
    )
    assert "hunter2" not in repr(settings)


def test_a_port_that_is_no_number_is_refused_before_connecting():
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        KazooStore(ZkSettings("a:port")).start()


def test_tls_files_that_cannot_be_read_are_refused_before_connecting(tmp_path: Path):
    garbage = tmp_path / "garbage.pem"
    garbage.write_text("nothing")
    for tls in (TlsSettings(ca="/nowhere.pem"), TlsSettings(ca=str(garbage)), TlsSettings(certfile="/nowhere.pem")):
        with pytest.raises(ConfigError, match="cannot be read as PEM"):
            KazooStore(ZkSettings("a", tls=tls))


def test_sasl_names_the_package_it_needs(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(kazoo_session, "find_spec", lambda _: None)
    with pytest.raises(ConfigError, match="pure-sasl"):
        KazooStore(ZkSettings("a", sasl=SaslSettings(username="u", password="p")))


# ---------------------------------------------------------------------- starting and closing


def test_a_start_without_a_server_times_out_and_names_the_address():
    connect = f"127.0.0.1:{free_port()}/kafka"
    store = KazooStore(ZkSettings(connect, connection_timeout_ms=300))
    with Stopwatch() as watch, pytest.raises(ConnectTimeoutError, match=f"{connect} within 300 ms"):
        store.start()
    assert watch.seconds < 3


def test_a_start_at_a_silent_server_times_out_too(silent_port: int):
    store = KazooStore(ZkSettings(f"127.0.0.1:{silent_port}", session_timeout_ms=60_000, connection_timeout_ms=300))
    with Stopwatch() as watch, pytest.raises(ConnectTimeoutError):
        store.start()
    assert watch.seconds < 3


def test_tls_with_a_silent_server_times_out_too(silent_port: int):
    settings = ZkSettings(
        f"127.0.0.1:{silent_port}", session_timeout_ms=60_000, connection_timeout_ms=300, tls=TlsSettings()
    )
    with Stopwatch() as watch, pytest.raises(ConnectTimeoutError):
        KazooStore(settings).start()
    assert watch.seconds < 3


def test_closing_while_another_thread_starts_ends_the_start(silent_port: int):
    store = KazooStore(ZkSettings(f"127.0.0.1:{silent_port}", connection_timeout_ms=60_000))
    with ThreadPoolExecutor(1) as pool:
        start = pool.submit(store.start)
        eventually(lambda: store._session.client.handler.running)
        store.close()
        with pytest.raises(ConnectionLostError, match="closed"):
            start.result(50)


@zookeeper_needed
def test_a_silent_host_does_not_keep_the_store_from_the_others(kazoo: KazooBackend, silent_port: int):
    for _ in range(3):  # several tries, because kazoo shuffles the hosts
        store = KazooStore(
            ZkSettings(
                f"127.0.0.1:{silent_port},{kazoo.connect}", session_timeout_ms=1000, connection_timeout_ms=20_000
            )
        )
        store.start()
        store.close()


@zookeeper_needed
def test_a_failed_start_leaves_a_store_that_can_be_started_again(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store(connection_timeout_ms=500)
    kazoo.cut(store)
    with pytest.raises(ConnectTimeoutError):
        store.start()
    kazoo.restore(store)
    # on a busy machine the short time-out may pass here too; a failed start may be repeated
    eventually(lambda: store.start() is None)
    assert store.exists("/") is not None


@zookeeper_needed
def test_the_server_accepts_the_names_that_is_znode_name_accepts_and_no_others(kazoo: KazooBackend):
    store = kazoo.new_store()
    store.start()
    root = new_root()
    store.create(root, b"")

    def is_accepted(name: str) -> bool:
        try:
            store.create(f"{root}/{name}", b"")
        except ZooKeeperError:
            return False
        return True

    signs = "\x1f\x7f\x85\x9f\ue000\uf8ff\uf900\uffef\ufff0\uffff\U00010000😀 :é"
    names = [".", "..", *(f"a{sign}b" for sign in signs)]
    assert {name: is_accepted(name) for name in names} == {name: is_znode_name(name) for name in names}


@zookeeper_needed
def test_a_missing_chroot_leaves_no_thread_and_no_warning(kazoo: KazooBackend):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(MissingChrootError):
            kazoo.new_store("/no/such/chroot").start()


@zookeeper_needed
def test_requests_and_closing_are_bounded_at_a_server_that_hangs(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store(operation_timeout_ms=300)
    store.start()
    kazoo.proxy(store).pause()
    with Stopwatch() as watch:
        with pytest.raises(ConnectionLostError, match="did not answer in time"):
            store.get_data("/")
        store.close()
    assert watch.seconds < 5


@zookeeper_needed
def test_a_request_that_a_hanging_server_takes_only_in_part_holds_up_neither_the_others_nor_closing(
    kazoo: KazooBackend,
):
    store, maker, path = kazoo.new_cuttable_store(operation_timeout_ms=300), kazoo.new_store(), new_root()
    maker.start()
    maker.create(path, b"")  # by another store, because the creation may take longer than the short time limit
    store.start()
    kazoo.proxy(store).pause()
    with ThreadPoolExecutor(32) as pool:
        # far more bytes than socket buffers hold, so one of these threads blocks in send()
        big = [pool.submit(store.set_data, path, bytes(900_000)) for _ in range(30)]
        with Stopwatch() as watch:
            with pytest.raises(ConnectionLostError):
                store.get_data("/")
            store.close()
        assert watch.seconds < 5
        for write in big:
            with pytest.raises(ZooKeeperError):
                write.result(60)


@zookeeper_needed
def test_each_of_many_threads_gets_the_answer_to_its_own_request_though_the_connection_breaks(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store(operation_timeout_ms=20_000)
    store.start()
    root = new_root()
    for number in range(16):
        store.create(f"{root}/{number}", str(number).encode(), make_parents=True)
    enough = threading.Event()

    def ask(number: int) -> bool:
        try:
            assert store.get_data(f"{root}/{number}").data == str(number).encode()
            assert store.exists(f"{root}/{number}/none") is None
        except ConnectionLostError:
            return False
        return True

    def keep_asking(number: int) -> int:
        answers = 0
        while not enough.is_set():
            answers += ask(number)
        return answers

    with ThreadPoolExecutor(16) as pool:
        asking = [pool.submit(keep_asking, number) for number in range(16)]
        try:
            for _ in range(4):
                while not all(ask(number % 16) for number in range(200)):
                    pass
                kazoo.cut(store)
                kazoo.restore(store)
        finally:
            enough.set()
        assert min(one.result(30) for one in asking) > 10


@zookeeper_needed
def test_closing_ends_requests_that_wait_for_a_connection(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store(operation_timeout_ms=60_000)
    sessions = Recorder[SessionEvent]()
    store.add_session_listener(sessions)
    store.start()
    kazoo.cut(store)
    sessions.wait_for(2)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(store.get_data, "/")
        store.close()
        with pytest.raises(ConnectionLostError):
            waiting.result(50)


@zookeeper_needed
def test_the_granted_session_timeout_is_known(kazoo: KazooBackend):
    store = kazoo.new_store(session_timeout_ms=999_999)
    assert store.session_timeout_ms == 999_999
    store.start()
    assert store.session_timeout_ms == 120_000


@zookeeper_needed
def test_a_silent_session_really_expires(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store(session_timeout_ms=500)
    sessions = Recorder[SessionEvent]()
    store.add_session_listener(sessions)
    store.start()
    kazoo.cut(store)
    other = kazoo.new_store()
    other.start()
    path = new_root()
    kazoo.restore(store)
    store.create(path, b"", ephemeral=True)
    gone = Recorder[WatchEvent]()
    other.get_data(path, gone)
    kazoo.cut(store)
    gone.wait_for(1)
    kazoo.restore(store)
    sessions.wait_until(
        lambda events: [event.kind for event in events[-2:]] == [SessionKind.EXPIRED, SessionKind.CONNECTED]
    )


@zookeeper_needed
@pytest.mark.parametrize("ends", [False, True])
def test_a_write_in_a_session_does_not_wait_for_a_connection_and_is_not_made_when_there_is_one(
    kazoo: KazooBackend, ends: bool
):
    """By the time of a new connection, the state that the caller has read may be out of date."""
    store = kazoo.new_cuttable_store(operation_timeout_ms=600_000)
    sessions = Recorder[SessionEvent]()
    store.add_session_listener(sessions)
    store.start()
    session, path = store.session_id, new_root()
    kazoo.cut(store)
    sessions.wait_for(2)
    with pytest.raises(ConnectionLostError):
        store.multi([CreateOp(path, b"")], session_id=session)
    if ends:
        kazoo.expire(store)
    kazoo.restore(store)
    assert store.exists(path) is None
    if ends:
        with pytest.raises(SessionExpiredError):
            store.multi([CreateOp(path, b"")], session_id=session)
    else:
        store.multi([CreateOp(path, b"")], session_id=session)
    assert (store.exists(path) is None) == ends


@zookeeper_needed
def test_a_write_is_checked_once_more_at_the_moment_of_sending(kazoo: KazooBackend):
    store = kazoo.new_store()
    store.start()
    path = new_root()
    deadline = time.monotonic() + 90
    write = store._write([CreateOp(path, b"")], store.session_id + 1)
    with pytest.raises(SessionExpiredError):
        store._written(write, store._session.send_other(write, deadline), [CreateOp(path, b"")], deadline)
    given_up = store._write([CreateOp(path, b"")], None)
    given_up.given_up = True
    store._session.send_other(given_up, deadline).wait(30)
    assert store.exists(path) is None


@zookeeper_needed
def test_ctrl_c_in_the_middle_of_a_request_is_not_taken_for_a_lost_connection(kazoo: KazooBackend):
    class Interrupted:
        def __init__(self) -> None:
            self.sends = 0

        def send(self, byte: bytes) -> int:
            self.sends += 1
            if self.sends == 1:
                raise KeyboardInterrupt
            return writer.send(byte)

    store = kazoo.new_store()
    store.start()
    handler = store._session.client.handler
    writer, handler.waker = handler.waker, Interrupted()
    try:
        with pytest.raises(KeyboardInterrupt):
            store.get_children("/")
    finally:
        handler.waker = writer
    assert store.get_children("/")


def test_a_callback_that_calls_the_store_gets_an_error_instead_of_waiting_for_itself(
    kazoo: KazooBackend, caplog: pytest.LogCaptureFixture
):
    store = kazoo.new_store()
    store.start()
    path = new_root()
    store.exists(path, lambda _: store.get_data("/"))
    store.create(path, b"")
    store.exists("/")
    assert "must not call the store" in caplog.text


@zookeeper_needed
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_reply_that_makes_no_sense_costs_the_session_but_not_the_store(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store(operation_timeout_ms=20_000)
    sessions = Recorder[SessionEvent]()
    store.add_session_listener(sessions)
    store.start()
    old = store.session_id
    kazoo.proxy(store).garble_next()
    with pytest.raises(ZooKeeperError):
        store.get_data("/")
    sessions.wait_for(3)
    assert [event.kind for event in sessions.events] == [
        SessionKind.CONNECTED,
        SessionKind.EXPIRED,
        SessionKind.CONNECTED,
    ]
    assert store.session_id not in (0, old)
    assert store.exists("/") is not None


@zookeeper_needed
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_logging_handler_that_raises_at_each_record_keeps_no_event_from_a_session_listener(
    kazoo: KazooBackend, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
):
    """Regression: kazoo drops errors of listeners on its connection thread, so the member stayed paused for ever."""
    raised = []

    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raised.append(record.name)
            raise OSError("the disk is full")

    monkeypatch.setattr(logging, "raiseExceptions", False)
    handler = Raising()
    for name in ("zk_layout", "kazoo"):
        logger = logging.getLogger(name)
        request.addfinalizer(partial(logger.removeHandler, handler))
        request.addfinalizer(partial(logger.setLevel, logger.level))
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    store = kazoo.new_cuttable_store(operation_timeout_ms=20_000)
    sessions = Recorder[SessionEvent]()
    store.add_session_listener(sessions)
    store.start()
    kazoo.proxy(store).garble_next()
    with pytest.raises(ZooKeeperError):
        store.get_data("/")
    sessions.wait_for(3)
    kazoo.cut(store)
    sessions.wait_for(4)
    kazoo.restore(store)
    sessions.wait_for(5)
    assert [event.kind.name for event in sessions.events] == [
        "CONNECTED",
        "EXPIRED",
        "CONNECTED",
        "SUSPENDED",
        "CONNECTED",
    ]
    assert set(raised) == {"kazoo.client", "zk_layout.kazoo_session"}


# ---------------------------------------------------------------------- reading many at once


@zookeeper_needed
@pytest.mark.parametrize(("version", "served"), [("3.9", True), ("3.4", False)])
def test_finding_out_about_the_server_is_done_once_and_does_not_disturb_the_session(
    zookeeper: Callable[[str], EmbeddedZooKeeper], monkeypatch: pytest.MonkeyPatch, version: str, served: bool
):
    store = KazooStore(ZkSettings(zookeeper(version).connect))
    sessions = Recorder[SessionEvent]()
    store.add_session_listener(sessions)
    probe, found = store.probe_multi_read, []
    monkeypatch.setattr(store, "probe_multi_read", lambda: found.append(probe()) or found[-1])
    store.start()
    try:
        store.get_data_many(["/"] * 3)
        assert found == []
        with ThreadPoolExecutor(4) as pool:
            for znodes in pool.map(store.get_data_many, [["/"] * 8] * 8):
                assert None not in znodes
        assert found == [served]
        assert len(sessions.events) == 1
    finally:
        store.close()


@zookeeper_needed
def test_an_older_server_than_the_one_probed_is_read_in_the_old_way(
    zookeeper: Callable[[str], EmbeddedZooKeeper],
):
    store = KazooStore(ZkSettings(zookeeper("3.4").connect))
    store._serves_multi_read = True
    store.start()
    try:
        assert [znode is None for znode in store.get_data_many(["/", "/missing"])] == [False, True]
        assert store._serves_multi_read is False
        assert store.get_children_many(["/"])[0] == store.get_children("/")
    finally:
        store.close()


@zookeeper_needed
@pytest.mark.parametrize("version", ["3.9", "3.5"])
def test_a_missing_chroot_is_noticed_by_every_server(zookeeper: Callable[[str], EmbeddedZooKeeper], version: str):
    with pytest.raises(MissingChrootError):
        KazooStore(ZkSettings(f"{zookeeper(version).connect}/nothing-here")).start()


@zookeeper_needed
def test_a_server_that_closes_the_connection_without_a_word_is_read_one_by_one(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store()
    sessions = Recorder[SessionEvent]()
    store.add_session_listener(sessions)
    proxy = kazoo.proxy(store)
    proxy.hang_up_at(MULTI_READ)
    store.start()
    for _ in range(2):
        assert None not in store.get_data_many(["/"] * 8)
    assert proxy.hung_up == 1, "the probe's connection, once"
    assert sessions.events == [SessionEvent(SessionKind.CONNECTED, store.session_id)]


@zookeeper_needed
def test_a_store_that_waits_for_its_first_answer_is_closed_at_once(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store()
    proxy = kazoo.proxy(store)
    proxy.swallow(EXISTS)
    with ThreadPoolExecutor(1) as thread:
        starting = thread.submit(store.start)
        eventually(lambda: proxy.swallowed)
        with Stopwatch() as watch:
            store.close()
        assert watch.seconds < 5, "start() waits for up to 20 s"
        with pytest.raises(ConnectionLostError):
            starting.result()


@zookeeper_needed
@pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("strike_at", [AtLine, AfterCall])
def test_whatever_line_of_the_start_is_interrupted_the_next_start_works_and_no_thread_is_left(
    kazoo: KazooBackend, strike_at: type[AtLine]
):
    for number in itertools.count():
        store = kazoo.new_store()
        strike = strike_at(number, interrupt, library=(str(ZK_LAYOUT),))
        before = set(threading.enumerate())
        try:
            with strike:
                store.start()
        except KeyboardInterrupt:
            if store.session_id == 0:
                # a thread whose start was interrupted ends by itself, in its own time
                eventually(lambda before=before: set(threading.enumerate()) <= before)
        store.start()
        assert store.exists("/") is not None
        store.close()
        if not strike.struck:
            break
    assert number > 50, "the library's lines were not seen"


@zookeeper_needed
@pytest.mark.parametrize("version", ["3.9", "3.4"])
def test_silent_servers_of_an_ensemble_let_a_store_start_and_read_many_znodes(
    zookeeper: Callable[[str], EmbeddedZooKeeper], silent_port: int, version: str
):
    """Silent servers accept connections and never answer, so each new connection may cost time."""
    store = KazooStore(ZkSettings(f"{zookeeper(version).connect},127.0.0.1:{silent_port}"))
    store.start()
    try:
        assert None not in store.get_data_many(["/"] * 8)
    finally:
        store.close()


# ---------------------------------------------------------------------- who may do what

ALICE = {"auth": (("digest", "alice:secret"),), "secure_acl": True}


@zookeeper_needed
def test_secure_znodes_may_be_read_by_all_and_written_by_their_creator_alone(kazoo: KazooBackend):
    alice, also_alice, bob = kazoo.new_store(**ALICE), kazoo.new_store(**ALICE), kazoo.new_store()
    for store in (alice, also_alice, bob):
        store.start()
    root = new_root()
    alice.create(f"{root}/a", b"mine", make_parents=True)
    assert bob.get_data(f"{root}/a").data == b"mine"
    also_alice.set_data(f"{root}/a", b"still mine")
    for write in (
        lambda: bob.set_data(f"{root}/a", b"stolen"),
        lambda: bob.delete(f"{root}/a"),
        lambda: bob.create(f"{root}/b", b""),
    ):
        with pytest.raises(NotPermittedError) as caught:
            write()
        assert caught.value.path.startswith(root)
    with pytest.raises(MultiFailedError) as failed:
        bob.multi([CheckOp("/"), SetOp(f"{root}/a", b"")])
    assert failed.value.index == 1
    assert isinstance(failed.value.cause, NotPermittedError)
    bob.ensure_path(f"{root}/a")
    alice.create(f"{root}/open", b"", acl=Acl.OPEN)
    bob.set_data(f"{root}/open", b"everybody's")
    assert alice.get_data(f"{root}/a").data == b"still mine"


@zookeeper_needed
def test_without_secure_acls_credentials_change_nothing(kazoo: KazooBackend):
    alice, bob = kazoo.new_store(auth=ALICE["auth"]), kazoo.new_store()
    alice.start()
    bob.start()
    path = new_root()
    alice.create(path, b"")
    bob.set_data(path, b"x")


@zookeeper_needed
def test_a_znode_that_an_operator_creates_has_the_acl_of_the_folder_above_it(kazoo: KazooBackend):
    alice, operator, bob = (
        kazoo.new_store(**ALICE),
        kazoo.new_store(auth=ALICE["auth"], keep_acl=True),
        kazoo.new_store(),
    )
    for store in (alice, operator, bob):
        store.start()
    path = new_root()
    alice.create(path, b"")
    operator.create(f"{path}/by/far/deeper", b"", make_parents=True)
    operator.multi([CreateOp(f"{path}/several", b""), CreateOp(f"{path}/open", b"", acl=Acl.OPEN)])
    for secured in (path, f"{path}/by", f"{path}/by/far/deeper", f"{path}/several"):
        assert operator._session.client.get_acls(secured)[0] == alice._session.client.get_acls(path)[0]
        with pytest.raises(NotPermittedError):
            bob.set_data(secured, b"x")
    bob.set_data(f"{path}/open", b"x")
    # a child takes the ACL of a folder that the same request creates
    [mine] = operator.read_acls([path])
    operator.multi([CreateOp(f"{path}/open/folder", None, acl=mine), CreateOp(f"{path}/open/folder/child", None)])
    assert operator.read_acls([f"{path}/open/folder/child"]) == [mine]
    other = new_root()
    operator.create(other, b"")
    bob.set_data(other, b"x")
    # the server hides alice's entry from other clients: these cannot copy the ACL, although they may create below
    alice._session.client.set_acls(other, [*CREATOR_ALL_ACL, make_acl("world", "anyone", read=True, create=True)])
    keeper = kazoo.new_store(keep_acl=True)
    keeper.start()
    with pytest.raises(NotPermittedError):
        keeper.create(f"{other}/child", b"")


@zookeeper_needed
@pytest.mark.parametrize("repeat", [1, 50])
@pytest.mark.parametrize("version", ["3.4", "3.9"])
def test_a_znode_that_may_not_be_read_fails_batches_as_it_fails_single_reads(
    zookeeper: Callable[[str], EmbeddedZooKeeper], version: str, repeat: int
):
    backend = KazooBackend(zookeeper(version).connect)
    alice, bob = backend.new_store(**ALICE), backend.new_store()
    alice.start()
    bob.start()
    try:
        path = new_root()
        alice.create(path, b"")
        alice._session.client.set_acls(path, CREATOR_ALL_ACL)
        for read in (bob.get_data_many, bob.get_children_many):
            with pytest.raises(NotPermittedError) as caught:
                read(["/", path] * repeat)
            assert caught.value.path == path
        if version == "3.9":  # in this version an exists request needs the right to read
            with pytest.raises(NotPermittedError):
                bob.exists(path)
            with pytest.raises(NotPermittedError):
                bob.exists_many([path, "/missing"] * repeat)
        else:
            assert bob.exists_many([path, "/missing"] * repeat) == [alice.exists(path), None] * repeat
    finally:
        backend.close()


@zookeeper_needed
def test_credentials_that_the_server_does_not_take_are_an_authentication_error(kazoo: KazooBackend):
    store = kazoo.new_store(auth=(("no such scheme", "x"),))
    sessions = Recorder[SessionEvent]()
    store.add_session_listener(sessions)
    with Stopwatch() as watch, pytest.raises(AuthenticationError, match="refused the credentials"):
        store.start()
    assert watch.seconds < 5
    assert SessionKind.AUTH_FAILED in [event.kind for event in sessions.events]


@zookeeper_needed
def test_credentials_do_not_show_in_the_debug_log(kazoo: KazooBackend, caplog: pytest.LogCaptureFixture):
    # other tests of this run call the command line, which raises kazoo's log level
    with caplog.at_level(logging.DEBUG), caplog.at_level(logging.DEBUG, logger="kazoo"):
        store = kazoo.new_store(auth=(("digest", "alice:hunter2"),))
        store.start()
        store.multi([CreateOp(new_root(), b"payload")])
        store.close()
    assert "Sending request" in caplog.text
    assert "hunter2" not in caplog.text
    assert "payload" not in caplog.text


# ---------------------------------------------------------------------- TLS


def openssl(folder: Path, *arguments: str) -> None:
    subprocess.run(["openssl", *arguments], cwd=folder, check=True, capture_output=True, timeout=60)


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make ca.pem; server.pem and client.pem, each a key and a certificate of that authority; stranger.pem, another."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("ca", "stranger"):
        openssl(
            folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.pem",
        )  # fmt: skip
    (folder / "names").write_text("subjectAltName=IP:127.0.0.1,DNS:localhost\n")
    for name in ("server", "client"):
        openssl(
            folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        openssl(
            folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-CAcreateserial",
            "-days", "2", "-extfile", "names", "-out", f"{name}.crt",
        )  # fmt: skip
        (folder / f"{name}.pem").write_text((folder / f"{name}.key").read_text() + (folder / f"{name}.crt").read_text())
    return folder


@zookeeper_needed
def test_a_server_that_has_lost_its_data_gets_a_new_session(kazoo: KazooBackend):
    store = kazoo.new_cuttable_store(session_timeout_ms=1000)
    store.start()
    # more transactions than the empty server will have
    root = new_root()
    store.create(root, None)
    for number in range(20):
        store.set_data(root, b"%d" % number)
    heard = Recorder[SessionEvent]()
    store.add_session_listener(heard)
    kazoo.cut(store)
    with EmbeddedZooKeeper() as empty:
        kazoo.proxy(store).lead_to("127.0.0.1", empty.port)
        kazoo.restore(store)
        events = heard.wait_until(lambda events: events[-1:] != [] and events[-1].kind is SessionKind.CONNECTED)
        assert [event.kind for event in events] == [SessionKind.SUSPENDED, SessionKind.EXPIRED, SessionKind.CONNECTED]
        assert store.exists(root) is None
        store.close()


@pytest.fixture(scope="module")
def tls_connect(keys: Path) -> Iterator[str]:
    """Start a ZooKeeper that accepts only TLS clients with a certificate. Returns: its address."""
    port = free_port()
    properties = {
        "secureClientPort": str(port),
        "secureClientPortAddress": "127.0.0.1",
        "serverCnxnFactory": "org.apache.zookeeper.server.NettyServerCnxnFactory",
        "authProvider.x509": "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
        "ssl.keyStore.location": str(keys / "server.pem"),
        "ssl.keyStore.type": "PEM",
        "ssl.trustStore.location": str(keys / "ca.pem"),
        "ssl.trustStore.type": "PEM",
        "ssl.hostnameVerification": "false",
    }
    with EmbeddedZooKeeper(version="3.8", properties=properties):
        yield f"localhost:{port}"


@zookeeper_needed
def test_everything_works_over_tls_and_the_certificate_owns_secure_znodes(tls_connect: str, keys: Path):
    tls = TlsSettings(ca=str(keys / "ca.pem"), certfile=str(keys / "client.pem"))
    store = KazooStore(ZkSettings(tls_connect, connection_timeout_ms=20_000, tls=tls, secure_acl=True))
    store.start()
    try:
        root = new_root()
        paths = [f"{root}/{number}" for number in range(2000)]
        store.create(root, None)
        for half in (paths[:1000], paths[1000:]):
            store.multi([CreateOp(path, path.encode() * 10) for path in half])
        expected = [path.encode() * 10 for path in paths]
        assert [znode.data for znode in store.get_data_many(paths)] == expected
        seen = Recorder[WatchEvent]()
        assert [znode.data for znode in store.get_data_many(paths, seen)] == expected
        store.set_data(paths[7], b"x")
        assert [event.path for event in seen.events] == [paths[7]]
        assert "CN=client" in str(store._session.client.get_acls(root)[0])
    finally:
        store.close()


@zookeeper_needed
@pytest.mark.parametrize(
    ("tls", "reason"),
    [
        ({"ca": "stranger.pem", "certfile": "client.pem"}, "self-signed certificate|unable to get local issuer"),
        ({"ca": "ca.pem", "certfile": "client.pem", "host": "127.0.0.2"}, "IP address mismatch"),
    ],
)
def test_a_server_that_is_not_trusted_is_an_authentication_error(
    tls_connect: str, keys: Path, tls: dict[str, str], reason: str
):
    host = tls.get("host")
    proxied = TcpProxy("127.0.0.1", int(tls_connect.rpartition(":")[2]), bind=host or "127.0.0.1")
    proxied.start()
    settings = TlsSettings(ca=str(keys / tls["ca"]), certfile=str(keys / tls["certfile"]))
    store = KazooStore(ZkSettings(f"{host or 'localhost'}:{proxied.port}", connection_timeout_ms=3000, tls=settings))
    try:
        with pytest.raises(AuthenticationError, match=reason):
            store.start()
    finally:
        proxied.close()


class CreateContainer:
    """The request to create a container znode, which kazoo lacks."""

    type = 19

    def __init__(self, path: str) -> None:
        self._path = path.encode()

    def serialize(self) -> bytes:
        everybody = struct.pack("!iii5si6s", 1, 31, 5, b"world", 6, b"anyone")
        return (
            struct.pack("!i", len(self._path)) + self._path + struct.pack("!i", -1) + everybody + struct.pack("!i", 4)
        )

    @staticmethod
    def deserialize(reply: bytes, offset: int) -> bytes:
        return reply[offset:]


@zookeeper_needed
def test_a_container_belongs_to_no_session(kazoo: KazooBackend):
    """Any client can create a container where only an ephemeral znode belongs; it outlives the session."""
    store, path = kazoo.new_store(), f"/container-{uuid.uuid4().hex}"
    store.start()
    store._ask_other(CreateContainer(path), path)
    (one_by_one,), many = store.get_data_many([path]), store.get_data_many([path] * 8)
    assert store._serves_multi_read
    stat = store.exists(path)
    assert stat is not None
    assert stat.ephemeral_owner == 0
    for znode in (one_by_one, *many):
        assert znode is not None
        assert znode.stat == stat
