import contextlib
import socket

import pytest

from legacy_consumer.embedded import EmbeddedEnsemble, EmbeddedZooKeeper, four_letter_word
from legacy_consumer.errors import PortInUseError, ServerStartError
from legacy_consumer.sandbox.servers.ports import free_port
from legacy_consumer.sandbox.servers.waiting import wait_for
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

pytestmark = pytest.mark.zookeeper

FULL_VERSIONS = {"3.4": "3.4.10", "3.5": "3.5.9", "3.8": "3.8.4", "3.9": "3.9."}


@contextlib.contextmanager
def connected(connect, session_timeout_ms=2000):
    store = KazooStore(ZkSettings(connect, session_timeout_ms=session_timeout_ms, connection_timeout_ms=20_000))
    store.start()
    try:
        yield store
    finally:
        store.close()


def all_alive_serve(ensemble):
    modes = [node.mode() for node in ensemble.nodes if node.is_running]
    return None not in modes and modes.count("leader") == 1


@pytest.mark.parametrize("version", [*FULL_VERSIONS])
def test_each_version_serves_and_answers_four_letter_words(version):
    with EmbeddedZooKeeper(version) as zookeeper:
        assert four_letter_word(zookeeper.port, "ruok") == "imok"
        assert f"zk_version\t{FULL_VERSIONS[version]}" in four_letter_word(zookeeper.port, "mntr")
        assert "Mode: standalone" in four_letter_word(zookeeper.port, "srvr")
        with connected(zookeeper.connect) as store:
            store.create("/a", b"x")
            assert store.get_data("/a").data == b"x"
            assert store.session_timeout_ms == 2000


def test_the_data_and_the_port_outlive_a_kill():
    with EmbeddedZooKeeper() as zookeeper:
        port, first_pid = zookeeper.port, zookeeper.pid
        with connected(zookeeper.connect) as store:
            store.create("/kept", b"x")
        zookeeper.kill()
        assert four_letter_word(port, "ruok") == ""
        zookeeper.start()
        assert (zookeeper.port, zookeeper.pid != first_pid) == (port, True)
        with connected(zookeeper.connect) as store:
            assert store.get_data("/kept").data == b"x"


def test_sessions_may_be_short_and_long():
    with EmbeddedZooKeeper() as zookeeper:
        for wanted_ms in (500, 60_000):
            with connected(zookeeper.connect, wanted_ms) as store:
                assert store.session_timeout_ms == wanted_ms


def test_properties_reach_the_server():
    properties = {"minSessionTimeout": "3000"}
    with EmbeddedZooKeeper(properties=properties) as zookeeper, connected(zookeeper.connect, 1000) as store:
        assert store.session_timeout_ms == 3000


def test_a_wanted_port_is_used():
    port = free_port()
    with EmbeddedZooKeeper(port=port) as zookeeper:
        assert zookeeper.connect == f"127.0.0.1:{port}"


def test_a_busy_port_is_refused_before_anything_starts(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
        with pytest.raises(PortInUseError) as caught:
            EmbeddedZooKeeper(port=port).start()
    assert caught.value.port == port
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_refuses_its_settings_is_quoted_and_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    zookeeper = EmbeddedZooKeeper(properties={"tickTime": "often"})
    with pytest.raises(ServerStartError, match="its process ended with exit code") as caught:
        zookeeper.start()
    assert "often" in caught.value.log_tail
    assert list(tmp_path.iterdir()) == []
    zookeeper.close()


def test_a_port_that_is_taken_while_the_server_starts_is_replaced(monkeypatch):
    # forces what a race may cause: the chosen port is busy by the time of the bind
    with socket.create_server(("127.0.0.1", free_port())) as server:
        busy = server.getsockname()[1]
        offered = [busy]
        monkeypatch.setattr(
            "legacy_consumer.sandbox.servers.zookeeper.claim_port",
            lambda name, wanted: offered.pop() if offered else free_port(),
        )
        with EmbeddedZooKeeper() as zookeeper:
            assert zookeeper.port != busy
            assert four_letter_word(zookeeper.port, "ruok") == "imok"
    assert not offered


@pytest.mark.parametrize("version", ["3.9", "3.4"])
def test_an_ensemble_survives_its_leader_and_takes_it_back(version):
    with EmbeddedEnsemble(version=version) as ensemble:
        assert len(ensemble.connect.split(",")) == 3
        first = ensemble.leader()
        with connected(ensemble.connect, 10_000) as store:
            session = store.session_id
            store.create("/before", b"x")
            ensemble.nodes[first].kill()
            second = ensemble.leader()
            assert second != first
            wait_for(lambda: all_alive_serve(ensemble), 30, lambda: AssertionError("no majority"))
            assert store.get_data("/before").data == b"x"
            store.create("/meanwhile", b"y")
            assert store.session_id == session
        ensemble.nodes[first].start()
        assert ensemble.nodes[first].mode() == "follower"
        with connected(ensemble.nodes[first].connect) as store:
            assert store.get_data("/meanwhile").data == b"y"


def test_an_ensemble_without_a_majority_has_no_leader():
    with EmbeddedEnsemble() as ensemble:
        leader = ensemble.leader()
        for index in range(3):
            if index != leader:
                ensemble.nodes[index].stop()
        wait_for(lambda: ensemble.nodes[leader].mode() is None, 30, lambda: AssertionError("it still serves"))
        with pytest.raises(ServerStartError, match=r"elected no leader within 0\.1 s"):
            ensemble.leader(timeout_s=0.1)
