"""A real ZooKeeper refuses a member's credentials at a new connection, because an operator changed the password."""

from http.client import HTTPConnection

import pytest

from legacy_consumer import ConsumerConnector, metrics
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.fetching.librdkafka import produce_all
from zk_layout.errors import AuthenticationError

pytestmark = pytest.mark.kafka

JAAS = """Server {
  org.apache.zookeeper.server.auth.DigestLoginModule required
  user_alice="%s";
};
"""
SASL = {"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}


@pytest.fixture
def start_with(tmp_path, monkeypatch):
    """Return a function that starts a ZooKeeper, or starts it again, with a password for alice."""
    jaas = tmp_path / "jaas.conf"

    def start(zookeeper, password):
        jaas.write_text(JAAS % password)
        with monkeypatch.context() as patched:
            # a login file is a property of the JVM, not of the server
            patched.setenv("JAVA_TOOL_OPTIONS", f"-Djava.security.auth.login.config={jaas}")
            zookeeper.start()

    return start


def answer_of(port, path):
    connection = HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("GET", path)
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    return answer.status, text


@pytest.mark.parametrize("fetcher", ["columnar", "librdkafka"])
def test_a_member_whose_password_was_changed_says_what_to_do_and_is_not_alive(start_with, monkeypatch, fetcher):
    # with short polls a waiting call might notice the refusal by chance
    monkeypatch.setattr("legacy_consumer.member.hand_source._POLL_S", 3600.0)
    zookeeper = EmbeddedZooKeeper(properties=SASL)
    try:
        start_with(zookeeper, "first")
        with EmbeddedKafka(zookeeper=zookeeper) as kafka:
            kafka.create_topic("t", partitions=1)
            produce_all("t", [(None, b"%d" % n, 0) for n in range(3)], {"bootstrap.servers": kafka.bootstrap_servers})
            member = ConsumerConnector(
                zookeeper_connect=kafka.zookeeper_connect,
                zookeeper_sasl_username="alice",
                zookeeper_sasl_password="first",
                group_id="g",
                auto_offset_reset="smallest",
                fetcher=fetcher,
            )
            with member, metrics.serve(member, port=0) as server:
                [stream] = member.create_message_streams({"t": 1})["t"]
                assert [next(stream).value() for _ in range(3)] == [b"0", b"1", b"2"]
                assert answer_of(server.port, "/healthz")[0] == 200
                zookeeper.stop()
                start_with(zookeeper, "second")
                with pytest.raises(AuthenticationError, match="ZooKeeper refuses the credentials: restart with others"):
                    next(stream)
                status, text = answer_of(server.port, "/healthz")
                assert (status, "refuses the credentials: restart with others" in text) == (503, True)
    finally:
        zookeeper.close()
