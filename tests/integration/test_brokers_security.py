"""TLS, SASL and ZooKeeper's ACLs: the clients that may take part, and the errors of all others."""

import subprocess
import time
import uuid

import pytest
from kazoo.client import KazooClient
from kazoo.exceptions import BadVersionError, NoAuthError, NoChildrenForEphemeralsError

from legacy_consumer import ConsumerConfig, ConsumerConnector, MissingListenerError
from legacy_consumer.errors import BrokerRefusedError
from legacy_consumer.fetching.librdkafka import Record
from legacy_consumer.member.resets import (
    Request,
    RequestState,
    answers_path,
    encode_request,
    request_path,
)
from tests.support.broker_cluster import PASSWORD, USER, on_brokers_with_listeners, on_every_broker, take, tp
from tests.support.named_proofs import proofs_of, tables_of, text_of
from tests.support.waiting import eventually
from zk_layout.errors import NotPermittedError
from zk_layout.kazoo_store import KazooStore

pytestmark = pytest.mark.kafka

BOUND_S = 60
SASL = {
    "security_protocol": "SASL_PLAINTEXT",
    "sasl_mechanism": "PLAIN",
    "sasl_plain_without_tls": True,
    "sasl_username": USER,
    "sasl_password": PASSWORD,
}


@pytest.fixture
def group():
    return f"g-{uuid.uuid4().hex[:8]}"


@pytest.fixture
def topic(cluster):
    topic = cluster.new_topic()
    cluster.produce(topic, [Record(None, b"%d" % n, 0) for n in range(5)])
    return topic


@pytest.fixture(scope="module")
def foreign_ca(tmp_path_factory):
    folder = tmp_path_factory.mktemp("foreign")
    store = ["-keystore", str(folder / "k.p12"), "-storetype", "PKCS12", "-storepass", "secret", "-alias", "a"]
    for command in (
        ["-genkeypair", "-keyalg", "RSA", "-dname", "CN=elsewhere", "-ext", "BC=ca:true"],
        ["-exportcert", "-rfc", "-file", str(folder / "ca.pem")],
    ):
        subprocess.run(["keytool", *command, *store], check=True, capture_output=True, timeout=60)
    return str(folder / "ca.pem")


def consume(cluster, topic, group, **properties):
    with cluster.consuming(topic, group, **properties) as (connector, stream):
        values = [int(message.value()) for message in take(stream, 5)]
        connector.commit_offsets()
    return values


# Brokers


@on_brokers_with_listeners
def test_a_tls_listener_is_consumed_from_with_its_certificate_and_name_checked(cluster, topic, group):
    tls = {"ssl_ca_location": str(cluster.ca), "ssl_endpoint_identification_algorithm": "https"}
    assert consume(cluster, topic, group, security_protocol="SSL", **tls) == [0, 1, 2, 3, 4]
    assert cluster.committed(group, topic) == {0: 5}


@on_brokers_with_listeners
def test_a_sasl_listener_is_consumed_from(cluster, topic, group):
    assert consume(cluster, topic, group, **SASL) == [0, 1, 2, 3, 4]
    assert cluster.committed(group, topic) == {0: 5}


@on_brokers_with_listeners
def test_a_broker_with_logins_for_its_listeners_alone_does_not_log_in_to_zookeeper(cluster):
    (broker,) = cluster.kafka.brokers
    assert "Auth failed" not in (broker.data_folder.parent / "server.log").read_text(errors="replace")


by_both_fetchers = pytest.mark.parametrize("fetcher", ["librdkafka", "columnar"])


def refused(cluster, topic, group, **properties):
    """Let a member fail before it registers. Returns: the text of its error."""
    begun = time.monotonic()
    with pytest.raises(BrokerRefusedError) as caught:
        consume(cluster, topic, group, consumer_timeout_ms=-1, **properties)
    assert time.monotonic() - begun < BOUND_S
    assert not cluster.has_group(group)
    assert "\n" not in str(caught.value)
    assert not caught.value.retriable
    return str(caught.value)


# Brokers refuse in three ways: 0.10 closes the connection, 1.0 gives the reason, and 2.0 gives it after a delay.
@by_both_fetchers
@pytest.mark.parametrize("broker_version", ["0.10.2.2", "1.1.1", "3.9.1"])
def test_a_wrong_password_is_an_error_before_anything_is_registered(cluster, topic, group, fetcher):
    message = refused(cluster, topic, group, fetcher=fetcher, **{**SASL, "sasl_password": "wrong"})
    assert message.endswith("check security.protocol, sasl.* and ssl.*")
    assert "redentials" in message or "Invalid username or password" in message
    assert "wrong" not in message


@by_both_fetchers
@pytest.mark.parametrize("broker_version", ["1.1.1"])
def test_a_sasl_mechanism_that_the_broker_lacks_is_named_with_those_that_it_has(cluster, topic, group, fetcher):
    message = refused(cluster, topic, group, fetcher=fetcher, **{**SASL, "sasl_mechanism": "SCRAM-SHA-256"})
    assert "SCRAM-SHA-256" in message
    assert "supported mechanisms: PLAIN" in message


@by_both_fetchers
@pytest.mark.parametrize("broker_version", ["1.1.1"])
def test_a_broker_with_an_untrusted_certificate_is_refused(cluster, topic, group, foreign_ca, fetcher):
    message = refused(cluster, topic, group, security_protocol="SSL", ssl_ca_location=foreign_ca, fetcher=fetcher)
    assert "certificate verify failed" in message


@by_both_fetchers
@on_every_broker
def test_a_listener_that_no_broker_has_is_named_with_those_that_there_are(cluster, topic, group, fetcher):
    begun = time.monotonic()
    with pytest.raises(MissingListenerError, match="no broker offers a SASL_SSL listener, only PLAINTEXT"):
        consume(cluster, topic, group, fetcher=fetcher, **{**SASL, "security_protocol": "SASL_SSL"})
    assert time.monotonic() - begun < BOUND_S
    assert not cluster.has_group(group)


# ZooKeeper


@pytest.fixture
def foreigner(cluster):
    client = KazooClient(cluster.kafka.zookeeper_connect, auth_data=[("digest", "somebody:else")])
    client.start()
    yield client
    client.stop()
    client.close()


PROTECTED = {"zookeeper_set_acl": True, "zookeeper_auth_digest": "member:secret"}


@on_every_broker
def test_only_the_groups_own_credentials_write_its_offsets(cluster, topic, group, foreigner):
    assert consume(cluster, topic, group, **PROTECTED) == [0, 1, 2, 3, 4]
    path = f"/consumers/{group}/offsets/{topic}/0"
    assert foreigner.get(path)[0] == b"5"
    for refused in (
        lambda: foreigner.set(path, b"0"),
        lambda: foreigner.delete(path),
        lambda: foreigner.create(f"/consumers/{group}/offsets/{topic}/1", b"0"),
        lambda: foreigner.create(f"/consumers/{group}/owners/{topic}/1", b"x"),
    ):
        with pytest.raises(NoAuthError):
            refused()
    with cluster.consuming(topic, group, **PROTECTED) as (connector, _):
        connector.commit_offsets({tp(topic): 3})
    assert foreigner.get(path)[0] == b"3"


def may(client, path):
    """Return what these credentials may do with a znode. Nothing changes, because no znode has version 10**6."""
    tries = {
        "write": lambda: client.set(path, b"", version=10**6),
        "delete": lambda: client.delete(path, version=10**6),
        "create below": lambda: client.delete(client.create(f"{path}/stranger-", sequence=True)),
    }
    found = []
    for name, attempt in tries.items():
        try:
            attempt()
        except (NoAuthError, NoChildrenForEphemeralsError):
            continue
        except BadVersionError:
            pass
        found.append(name)
    return found


RIGHTS, RIGHTS_OF_LED_GROUPS = tables_of(text_of("security.md"))[:2]
"""The tables of docs/security.md: which credentials may write which znodes."""


def rights(client, table, names):
    """Return what these credentials may do with each znode of the table, in the page's words."""
    paths = {where: "/".join(names.get(part, part) for part in where.split("/")) for where in told(table, 0)}
    eventually(lambda: all(map(client.exists, paths.values())))
    return {where: ", ".join(may(client, path)) or "nothing" for where, path in paths.items()}


def told(table, column):
    return {proofs_of(row[0])[0]: row[column] for row in table}


@pytest.mark.parametrize("broker_version", ["2.8.2"])
@pytest.mark.parametrize("column", [1, 2], ids=["open", "secured"])
def test_a_stranger_may_change_only_those_znodes_of_a_group_that_docs_security_lists(
    cluster, topic, group, foreigner, column
):
    properties = PROTECTED if column == 2 else {}
    reset = Request("r", RequestState.PREPARE, frozenset({tp(topic)}))
    with cluster.consuming(topic, group, **properties) as (connector, stream):
        take(stream, 5)
        connector.commit_offsets()
        names = {"G": group, "ID": connector.consumer_id, "T": topic, "P": "0"}
        operator = KazooStore(ConsumerConfig.load(**cluster.config(group, **properties)).zk_settings())
        operator.start()
        try:
            operator.ensure_path(answers_path(group))
            operator.create(request_path(group), encode_request(reset), ephemeral=True)
            assert rights(foreigner, RIGHTS, names) == told(RIGHTS, column)
        finally:
            operator.close()


@pytest.mark.parametrize("broker_version", ["2.8.2"])
@pytest.mark.parametrize("column", [1, 2], ids=["open", "secured"])
def test_a_stranger_may_change_only_those_znodes_of_a_led_group_that_docs_security_lists(
    cluster, topic, group, foreigner, column
):
    properties = PROTECTED if column == 2 else {}
    with cluster.consuming(topic, group, group_coordination="leader", **properties) as (connector, stream):
        take(stream, 5)
        names = {"G": group, "ID": connector.consumer_id}
        assert rights(foreigner, RIGHTS_OF_LED_GROUPS, names) == told(RIGHTS_OF_LED_GROUPS, column)


@on_every_broker
@pytest.mark.parametrize("digest", ["member:wrong", "somebody:else", None])
def test_a_member_with_other_credentials_gets_an_error_and_leaves_nothing(cluster, topic, group, digest):
    consume(cluster, topic, group, **PROTECTED)
    properties = {"zookeeper_auth_digest": digest} if digest else {}
    begun = time.monotonic()
    connector = ConsumerConnector(**cluster.config(group, **properties))
    with pytest.raises(NotPermittedError, match=f"/consumers/{group}/.* may not be accessed with these credentials"):
        connector.create_message_streams({topic: 1})
    assert time.monotonic() - begun < BOUND_S
    assert cluster.members(group) == ()
    assert cluster.committed(group, topic) == {0: 5}
