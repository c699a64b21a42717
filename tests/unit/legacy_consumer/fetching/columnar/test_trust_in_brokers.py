"""Trust in brokers: addresses in ZooKeeper, names in certificates, numbers in what they send."""

import base64
import json
import logging
import socket
import ssl
import struct
import threading
from contextlib import closing
from dataclasses import replace

import legacy_consumer_native
import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.config.broker_hosts import BrokerHosts
from legacy_consumer.errors import (
    BrokerRefusedError,
    BrokersUnavailableError,
    CorruptRecordsError,
    FetchError,
    MalformedResponseError,
)
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.leaders import LeaderReader
from legacy_consumer.fetching.columnar.opening import open_connection
from legacy_consumer.fetching.columnar.records import decode_records
from legacy_consumer.fetching.columnar.scram import ScramClient
from legacy_consumer.fetching.columnar.security import SaslLogin, Security, security_of
from legacy_consumer.fetching.fetchers import choose_fetcher, make_fetchers
from legacy_consumer.fetching.librdkafka.settings import client_settings, fetcher_settings
from tests.support.record_encoder import Written, messages, wrapper
from zk_layout.codecs import decode_broker
from zk_layout.errors import ConfigError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import Endpoint, TopicPartition

TP = TopicPartition("t", 0)
PLAIN = {"sasl_mechanism": "PLAIN", "sasl_username": "u", "sasl_password": "p"}


def config(**properties):
    return ConsumerConfig.load(zookeeper_connect="nowhere:1", group_id="g", **properties)


# Certificates


@pytest.mark.parametrize("spelling", ["https", "HTTPS", "Https"])
def test_host_names_are_checked_however_https_is_spelled(spelling):
    given = config(security_protocol="SSL", ssl_endpoint_identification_algorithm=spelling)
    context = security_of(given).tls
    assert (context.check_hostname, context.verify_mode) == (True, ssl.CERT_REQUIRED)
    assert dict(given.kafka_security)["ssl.endpoint.identification.algorithm"] == "https"


@pytest.mark.parametrize("spelling", ["http", "none", "false", "htps"])
def test_no_other_word_switches_the_check_of_host_names_off(spelling):
    with pytest.raises(ConfigError, match=r"ssl\.endpoint\.identification\.algorithm"):
        config(security_protocol="SSL", ssl_endpoint_identification_algorithm=spelling)


def test_the_empty_word_does_for_either_fetcher():
    given = config(security_protocol="SSL", ssl_endpoint_identification_algorithm="")
    assert not security_of(given).tls.check_hostname
    assert dict(given.kafka_security)["ssl.endpoint.identification.algorithm"] == "none"


# Passwords


def test_a_readable_password_goes_nowhere_unless_that_is_allowed_by_name():
    with pytest.raises(ConfigError, match=r"sasl\.plain\.without\.tls=true"):
        config(security_protocol="SASL_PLAINTEXT", **PLAIN)
    config(security_protocol="SASL_PLAINTEXT", sasl_plain_without_tls=True, **PLAIN)
    config(security_protocol="SASL_SSL", **PLAIN)
    config(security_protocol="SASL_PLAINTEXT", **{**PLAIN, "sasl_mechanism": "SCRAM-SHA-512"})


def challenge(client, iterations):
    nonce = client.first().decode().partition("r=")[2]
    return f"r={nonce}X,s={base64.b64encode(b'salt').decode()},i={iterations}".encode()


@pytest.mark.parametrize(
    "iterations",
    ["1", "4095", "1000001", "0", "-4096", "", "00000000010000000", "0" * 30 + "4096", "٤٠٩٦", "4096.0", "1e4"],
)
def test_a_server_may_not_ask_for_too_few_or_too_many_iterations(iterations):
    client = ScramClient("SCRAM-SHA-256", "u", "p")
    with pytest.raises(MalformedResponseError, match="iterations"):
        client.final(challenge(client, iterations))


def test_the_fewest_iterations_that_the_standard_allows_are_allowed():
    client = ScramClient("SCRAM-SHA-256", "u", "p")
    assert b",p=" in client.final(challenge(client, 4096))


# Addresses


def registration(host, port=9092):
    return json.dumps(
        {
            "version": 4,
            "host": host,
            "port": port,
            "jmx_port": -1,
            "timestamp": "1",
            "endpoints": [f"PLAINTEXT://{host}:{port}"],
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
        }
    ).encode()


@pytest.fixture
def store():
    made = MemoryStore(MemoryZooKeeper())
    made.start()
    yield made
    made.close()


@pytest.mark.parametrize(
    ("pinned", "spoken_with"),
    [
        (None, {1, 2, 3}),
        ("kafka1.example.com", {1}),
        ("KAFKA1.example.com:9092, .example.com:9093", {1}),
        ("kafka1.example.com:9999", set()),
        (".example.com", {1, 2}),
        (".example.com,10.0.0.1", {1, 2, 3}),
    ],
)
def test_only_brokers_at_pinned_addresses_are_spoken_with(store, pinned, spoken_with, caplog):
    hosts = {1: "kafka1.example.com", 2: "kafka2.example.com", 3: "10.0.0.1", 99: "kafka1.example.com.evil.org"}
    if pinned is None:
        del hosts[99]
    for number, host in hosts.items():
        store.create(f"/brokers/ids/{number}", registration(host), make_parents=True)
    given = config(broker_hosts=pinned) if pinned is not None else config()
    brokers = [decode_broker(f"/brokers/ids/{number}", registration(host)) for number, host in hosts.items()]

    def by_wire():
        reader = LeaderReader(store, "PLAINTEXT", lambda _: None, timeout_s=1, hosts=BrokerHosts(given.broker_hosts))
        return set(reader.brokers())

    if spoken_with:
        assert by_wire() == spoken_with
        told = client_settings(given, brokers)["bootstrap.servers"].split(",")
        assert told == [f"{hosts[number]}:9092" for number in sorted(spoken_with)]
    left_out = [record for record in caplog.records if "broker.hosts does not name it" in record.getMessage()]
    assert all(record.levelno == logging.WARNING for record in left_out)
    assert bool(left_out) == (spoken_with != set(hosts) and bool(spoken_with))


@pytest.mark.parametrize(("fetcher", "warnings"), [("librdkafka", 1), ("columnar", 0)])
def test_a_warning_says_that_librdkafka_goes_beyond_broker_hosts(store, fetcher, warnings, caplog):
    """librdkafka connects to every broker in a broker's metadata, and no setting prevents that."""
    given = config(fetcher=fetcher, broker_hosts=".example.com")
    make_fetchers(given, store, choose_fetcher(given)).close()
    assert caplog.text.count("librdkafka also connects to brokers outside broker.hosts") == warnings


def first_registration(host):
    """Return a registration of version 1, whose host may be any text."""
    return json.dumps({"version": 1, "host": host, "port": 9092, "jmx_port": -1, "timestamp": "1"}).encode()


@pytest.mark.parametrize(
    "host", ["evil.org,kafka9.example.com", "evil.org kafka9.example.com", "evil.org/.example.com"]
)
def test_a_host_of_several_names_is_at_no_pinned_address(host):
    """librdkafka would connect to evil.org, because a comma ends the address of a server."""
    given = config(broker_hosts=".example.com")
    brokers = [
        decode_broker("/brokers/ids/1", registration("kafka1.example.com")),
        decode_broker("/brokers/ids/9", first_registration(host)),
    ]
    assert client_settings(given, brokers)["bootstrap.servers"] == "kafka1.example.com:9092"


@pytest.mark.parametrize("properties", [{"broker_hosts": ".example.com"}, {"security_protocol": "SSL"}])
def test_a_broker_that_is_not_spoken_with_does_not_make_the_cluster_an_old_one(properties):
    """In an earlier version, its registration made all members do without newer requests and read_committed."""
    endpoints = (Endpoint("SSL", "SSL", "kafka1.example.com", 9093),)
    new = decode_broker("/brokers/ids/1", registration("kafka1.example.com"))
    new = replace(new, endpoints=(*new.endpoints, *endpoints))
    old = decode_broker("/brokers/ids/9", first_registration("elsewhere.org"))
    made = fetcher_settings(config(**properties), [new, old], 1)
    assert "broker.version.fallback" not in made
    assert (
        made["receive.message.max.bytes"]
        == fetcher_settings(config(**properties), [new], 1)["receive.message.max.bytes"]
    )


def test_thousands_of_brokers_are_as_many_threads_of_librdkafka_as_a_large_cluster_has_and_few_warnings(caplog):
    """Any client may register brokers, and librdkafka starts a thread for each server in its settings."""
    many = [decode_broker(f"/brokers/ids/{number}", registration("h", number + 1)) for number in range(2000)]
    assert len(client_settings(config(), many)["bootstrap.servers"].split(",")) == 100
    endpoints = tuple(replace(many[0].endpoints[0], port=port) for port in range(1, 20_000))
    hosts = BrokerHosts("elsewhere.example.com")
    for _ in range(2):
        hosts.keep([replace(many[0], endpoints=endpoints), *many[1:]])
    assert len(caplog.records) == 100
    assert "at h:1, h:2, h:3 and 19996 more: broker.hosts does not name it" in caplog.text


@pytest.mark.parametrize("pinned", ["", "a b", "host:0", "host:70000", "http://host", "a,,b"])
def test_addresses_that_cannot_be_are_an_error_before_anything_is_asked(pinned):
    with pytest.raises(ConfigError, match=r"broker\.hosts"):
        config(broker_hosts=pinned)


VERSIONS = struct.pack(">hi", 0, 2) + struct.pack(">hhhhhh", 17, 0, 1, 36, 0, 0)
SAYS = "no" * 15_000


def text(said):
    return struct.pack(">h", len(said)) + said.encode()


def served(server, bodies):
    """Answer one client's requests with these bodies; for a number, send it as the size of an answer without a body."""
    client, _ = server.accept()
    with client, client.makefile("rb") as requests:
        for body in bodies:
            size = int.from_bytes(requests.read(4), "big")
            correlation_id = requests.read(size)[4:8]
            if isinstance(body, int):
                client.sendall(body.to_bytes(4, "big") + correlation_id)
            else:
                client.sendall((len(body) + 4).to_bytes(4, "big") + correlation_id + body)
        requests.read(1)


@pytest.mark.parametrize(
    ("bodies", "error", "said"),
    [
        ([65_537], BrokersUnavailableError, "is more than the 65536 bytes"),
        ([VERSIONS, 65_537], BrokersUnavailableError, "is more than the 65536 bytes"),
        ([VERSIONS, struct.pack(">hi", 33, 2) + 2 * text(SAYS)], BrokerRefusedError, "supported mechanisms: nono"),
        ([VERSIONS, struct.pack(">hi", 0, 0), struct.pack(">h", 58) + text(SAYS)], BrokerRefusedError, "failed"),
        (
            [VERSIONS, struct.pack(">hi", 0, 0), struct.pack(">hhi", 0, -1, len(SAYS) + 2) + f"e={SAYS}".encode()],
            BrokerRefusedError,
            "failed",
        ),
    ],
)
def test_the_answer_of_an_unknown_broker_is_bounded_and_so_is_its_error(bodies, error, said):
    login = SaslLogin("SCRAM-SHA-256", "u", "p")
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        serving = threading.Thread(target=served, args=(server, bodies))
        serving.start()
        address = BrokerAddress(0, "127.0.0.1", server.getsockname()[1], 4)
        security = Security("SASL_PLAINTEXT", None, login)
        with pytest.raises(error, match=said) as told:
            open_connection(address, security, client_id="c", timeout_s=10, receive_buffer_bytes=-1)
        serving.join(10)
    assert len(str(told.value)) < 500


@pytest.mark.parametrize("host", ["kafka..lan", "a" * 64 + ".lan", "a\0b"])
@pytest.mark.parametrize("tls", [None, ssl.create_default_context()], ids=["plain", "tls"])
def test_a_host_name_that_cannot_be_is_a_broker_that_cannot_be_reached(host, tls):
    with pytest.raises(BrokersUnavailableError):
        open_connection(
            BrokerAddress(7, host, 9092, 4), Security("SSL", tls), client_id="c", timeout_s=5, receive_buffer_bytes=0
        )


def test_a_port_that_cannot_be_is_a_broker_that_cannot_be_reached():
    with pytest.raises(BrokersUnavailableError):
        open_connection(
            BrokerAddress(7, "127.0.0.1", 2**40, 4),
            Security("PLAINTEXT"),
            client_id="c",
            timeout_s=5,
            receive_buffer_bytes=0,
        )


@pytest.mark.parametrize("name", ["²", "٣", "01", "-1", "9" * 5000, "x"])
def test_a_znode_that_is_no_broker_id_is_passed_over(store, name):
    store.create("/brokers/ids/1", registration("here"), make_parents=True)
    store.create(f"/brokers/ids/{name}", registration("there"), make_parents=True)
    assert set(LeaderReader(store, "PLAINTEXT", lambda _: None, timeout_s=1).brokers()) == {1}


# Records


@pytest.mark.parametrize("inner", [-(2**63), -1, 2**63 - 1])
def test_an_inner_offset_that_cannot_be_is_damage(inner):
    inside = messages([Written(inner, None, b"x", 1)], 1)
    outer = wrapper([Written(5, None, b"x", 1)], 1, "gzip", inside=inside)
    with pytest.raises(CorruptRecordsError):
        decode_records(outer, TP, 0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (MemoryError(), FetchError),
        (legacy_consumer_native.TooLargeError("too large"), FetchError),
        (legacy_consumer_native.DamagedRecordsError("damaged"), CorruptRecordsError),
    ],
)
def test_every_error_of_the_decoder_names_the_partition_and_the_offset(error, kind, monkeypatch):
    def fail(*_, **__):
        raise error

    monkeypatch.setattr("legacy_consumer_native.decode", fail)
    with pytest.raises(FetchError, match=r"t/0: .*offset 5") as raised:
        decode_records(b"", TP, 5)
    assert (type(raised.value), raised.value.partition) == (kind, TP)
