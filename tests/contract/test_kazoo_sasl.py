"""SASL against a real server: DIGEST-MD5, as a JAAS file on the server's side configures it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from legacy_consumer.embedded import EmbeddedZooKeeper
from zk_layout.errors import AuthenticationError, ConnectTimeoutError, NotPermittedError
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import SaslSettings, ZkSettings
from zk_layout.store import Acl

pytestmark = pytest.mark.zookeeper

JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_alice="alice-secret"
  user_bob="bob-secret";
};
"""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    jaas: Path = tmp_path_factory.mktemp("sasl") / "jaas.conf"
    jaas.write_text(JAAS)
    provider = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
    with pytest.MonkeyPatch.context() as patch:
        # a login file is a property of the JVM, not of the server
        patch.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={jaas}")
        with EmbeddedZooKeeper(properties=provider) as zookeeper:
            yield zookeeper


def store_of(server: EmbeddedZooKeeper, username: str, password: str) -> KazooStore:
    sasl = SaslSettings(username=username, password=password)
    return KazooStore(ZkSettings(server.connect, sasl=sasl, secure_acl=True, connection_timeout_ms=5000))


def test_a_znode_of_one_user_may_be_read_and_not_written_by_another(server: EmbeddedZooKeeper):
    alice, bob = store_of(server, "alice", "alice-secret"), store_of(server, "bob", "bob-secret")
    try:
        alice.start()
        bob.start()
        alice.create("/owned", b"1", acl=Acl.SECURE)
        assert bob.get_data("/owned").data == b"1"
        with pytest.raises(NotPermittedError, match="/owned"):
            bob.set_data("/owned", b"2")
        alice.set_data("/owned", b"3")
    finally:
        alice.close()
        bob.close()


def test_the_error_names_a_server_without_sasl_as_a_possible_reason(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("JAVA_TOOL_OPTIONS", raising=False)
    with EmbeddedZooKeeper() as zookeeper:
        store = store_of(zookeeper, "alice", "alice-secret")
        try:
            with pytest.raises((AuthenticationError, ConnectTimeoutError), match="not set up for SASL"):
                store.start()
        finally:
            store.close()


def test_a_wrong_password_is_refused_at_the_start(server: EmbeddedZooKeeper):
    store = store_of(server, "alice", "wrong")
    try:
        with pytest.raises(AuthenticationError, match="refused the credentials"):
            store.start()
    finally:
        store.close()
