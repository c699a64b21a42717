"""SCRAM with real brokers: 0.10.2 expects bare SCRAM messages, a later one expects them wrapped."""

import base64
import hashlib
import hmac
import json

import pytest

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.errors import BrokerRefusedError
from legacy_consumer.fetching.columnar import ColumnarFetchers
from legacy_consumer.fetching.librdkafka import LibrdkafkaFetchers, produce_all
from tests.support.fetching import fetch
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import TopicPartition

pytestmark = pytest.mark.kafka

USER, PASSWORD = "reader,=", "reader-secret"
ITERATIONS = 4096
LOGIN = "KafkaServer {\n  org.apache.kafka.common.security.scram.ScramLoginModule required;\n};\n"


def credential(hash_name):
    """Return the SCRAM credential in the form that kafka-configs writes."""
    salt = b"some salt"
    salted = hashlib.pbkdf2_hmac(hash_name, PASSWORD.encode(), salt, ITERATIONS)
    stored = hashlib.new(hash_name, hmac.digest(salted, b"Client Key", hash_name)).digest()
    fields = {"salt": salt, "stored_key": stored, "server_key": hmac.digest(salted, b"Server Key", hash_name)}
    return ",".join(f"{name}={base64.b64encode(value).decode()}" for name, value in fields.items()) + (
        f",iterations={ITERATIONS}"
    )


def write_user(zookeeper, chroot):
    with_users = ClusterConfig.load(zookeeper_connect=zookeeper.connect)
    store = KazooStore(with_users.zk_settings())
    store.start()
    config = {"SCRAM-SHA-256": credential("sha256"), "SCRAM-SHA-512": credential("sha512")}
    data = json.dumps({"version": 1, "config": config}).encode()
    # brokers percent-encode the user's name in the path
    store.create(f"{chroot}/config/users/reader%2C%3D", data, make_parents=True)
    store.close()


@pytest.mark.parametrize("version", ["0.10.2.2", "1.1.1"])
def test_members_log_in_with_scram_and_with_a_wrong_password_do_not(version, tmp_path):
    login = tmp_path / "broker.jaas"
    login.write_text(LOGIN)
    with EmbeddedZooKeeper() as zookeeper:
        chroot = "/kafka-scram"
        write_user(zookeeper, chroot)
        with EmbeddedKafka(
            version,
            zookeeper=zookeeper,
            chroot=chroot,
            listeners=("PLAINTEXT", "SASL_PLAINTEXT"),
            properties={"sasl.enabled.mechanisms": "SCRAM-SHA-256,SCRAM-SHA-512"},
            flags=(f"-Djava.security.auth.login.config={login}",),
        ) as kafka:
            kafka.create_topic("t")
            produce_all("t", [(None, b"x", 0)] * 10, {"bootstrap.servers": kafka.bootstrap_servers})
            for make in (LibrdkafkaFetchers, ColumnarFetchers):
                for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
                    assert read(kafka, make, mechanism, PASSWORD) == list(range(10)), (make, mechanism)
                with pytest.raises(BrokerRefusedError, match=r"redentials|invalid"):
                    read(kafka, make, "SCRAM-SHA-256", "wrong")


def read(kafka, make, mechanism, password):
    config = ConsumerConfig.load(
        zookeeper_connect=kafka.zookeeper_connect,
        group_id="g",
        security_protocol="SASL_PLAINTEXT",
        sasl_mechanism=mechanism,
        sasl_username=USER,
        sasl_password=password,
    )
    store = KazooStore(config.zk_settings())
    store.start()
    fetchers = make(config, store)
    try:
        fetchers.check_access()
        fetcher = fetchers.fetcher()
        fetcher.assign({TopicPartition("t", 0): 0})
        return fetch(fetcher, 10).offsets(TopicPartition("t", 0))
    finally:
        fetchers.close()
        store.close()
