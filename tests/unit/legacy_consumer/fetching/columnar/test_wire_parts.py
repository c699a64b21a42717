"""The parts of the columnar fetcher that need no broker: sessions, logging in, leaders, buffers, sizes, the choice."""

import base64
import hashlib
import hmac
import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError, MalformedResponseError, MissingListenerError
from legacy_consumer.fetching import fetchers
from legacy_consumer.fetching.columnar.leaders import match_leaders
from legacy_consumer.fetching.columnar.scram import ScramClient
from legacy_consumer.fetching.columnar.security import security_of
from legacy_consumer.fetching.columnar.settings import FetchSettings
from legacy_consumer.fetching.fetchers import FetcherChoice, choose_fetcher, missing_modules
from zk_layout.errors import ConfigError
from zk_layout.model import Broker, Endpoint, TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))


def config(**properties):
    return ConsumerConfig.load(zookeeper_connect="h:1", group_id="g", **properties)


# SCRAM: the example of RFC 7677


def test_the_exchange_of_the_standard_comes_out():
    scram = ScramClient("SCRAM-SHA-256", "user", "pencil", nonce="rOprNGfwEbeRWgbNEkqO")
    assert scram.first() == b"n,,n=user,r=rOprNGfwEbeRWgbNEkqO"
    server_nonce = "rOprNGfwEbeRWgbNEkqO%hvYDpWUa2RaTCAfuxFIlj)hNlF$k0"
    final = scram.final(f"r={server_nonce},s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096".encode())
    assert final == f"c=biws,r={server_nonce},p=dHzbZapWIk4jUhN+Ute9ytag9zjfMHgsqmmiz7AndVQ=".encode()
    scram.verify(b"v=6rriTRBi23WpRR/wtup+mMhUZUn/dB5nLTJRsjl95G4=")


def test_a_server_that_does_not_know_the_password_is_found_out():
    scram = ScramClient("SCRAM-SHA-512", "user", "pencil", nonce="abc")
    scram.final(b"r=abcd,s=W22ZaJ0SNY7soEsUEjb6gQ==,i=4096")
    wrong = base64.b64encode(hmac.digest(b"x", b"y", hashlib.sha512)).decode()
    with pytest.raises(MalformedResponseError, match="does not know the password"):
        scram.verify(f"v={wrong}".encode())


@pytest.mark.parametrize(
    "challenge",
    [b"r=xyz,s=YQ==,i=4096", b"r=abc,s=YQ==,i=4096", b"r=abcd,s=*,i=4096", b"r=abcd,s=YQ==,i=0", b"\xff",
     b"r=abcd,s=YQ==,i=99999999999", b""],
)  # fmt: skip
def test_a_challenge_that_cannot_be_is_refused(challenge):
    with pytest.raises(MalformedResponseError):
        ScramClient("SCRAM-SHA-256", "user", "pencil", nonce="abc").final(challenge)


def test_the_servers_reason_for_a_refusal_is_in_the_error():
    with pytest.raises(ValueError, match=r"^unknown-user$"):
        ScramClient("SCRAM-SHA-256", "user", "pencil").final(b"e=unknown-user")


def test_signs_that_mean_something_in_scram_are_escaped_in_names():
    assert b"n=a=3Db=2Cc," in ScramClient("SCRAM-SHA-256", "a=b,c", "x").first()


# Leaders


def znode(leader):
    state = {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": [0]}
    return SimpleNamespace(data=json.dumps(state).encode())


def broker(broker_id, protocol="PLAINTEXT", host="h"):
    return Broker(broker_id, host, 9, (Endpoint(protocol, protocol, host, 9),), 4)


def test_a_leader_is_found_or_the_reason_why_not():
    states = {T0: znode(1), T1: znode(-1), T2: None, TopicPartition("u", 0): znode(7)}
    states[TopicPartition("u", 1)] = znode(2)
    states[TopicPartition("u", 2)] = SimpleNamespace(data=b"nonsense")
    leaders = match_leaders(states, {1: broker(1, host=""), 2: broker(2, "SSL")}, "PLAINTEXT")
    assert {tp: (a.broker_id, str(a)) for tp, a in leaders.addresses.items()} == {T0: (1, "localhost:9")}
    assert leaders.missing.keys() == states.keys() - {T0}
    assert "no leader" in leaders.missing[T1]
    assert "broker 7, is not registered" in leaders.missing[TopicPartition("u", 0)]
    assert "has no PLAINTEXT listener" in leaders.missing[TopicPartition("u", 1)]


def test_without_brokers_or_listeners_it_is_an_error():
    with pytest.raises(BrokersUnavailableError, match="is Kafka running"):
        match_leaders({T0: znode(1)}, {}, "PLAINTEXT")
    with pytest.raises(MissingListenerError, match="no broker offers a SSL listener, only PLAINTEXT"):
        match_leaders({T0: znode(1)}, {1: broker(1)}, "SSL")


# Sizes


def test_sizes_follow_the_fetch_size():
    usual, large = FetchSettings.of(config()), FetchSettings.of(config(fetch_message_max_bytes=200_000_000))
    assert (usual.partition_bytes, usual.response_bytes) == (1_048_576, 8 * 1_048_576)
    assert large.largest_bytes > large.response_bytes == large.partition_bytes == 200_000_000
    assert usual.largest_response_bytes(120_000_000) > 120_000_000 > usual.largest_response_bytes(1)


@pytest.mark.parametrize(
    ("count", "size"), [(1, 2 << 20), (4, 2 << 20), (5, (8 << 20) // 5), (8, 1 << 20), (500, 1 << 20)]
)
def test_of_few_partitions_more_is_asked_where_nobody_says_how_much(count, size):
    assert FetchSettings.of(config()).bytes_of_each(count) == size
    assert FetchSettings.of(config(fetch_message_max_bytes=1 << 20)).bytes_of_each(count) == 1 << 20


# The choice

FAST = ()


@pytest.mark.parametrize(
    ("properties", "overrides", "reason"),
    [
        ({"fetcher": "librdkafka"}, {}, "fetcher=librdkafka is configured"),
        ({}, {"rdkafka.queued.min.messages": 5}, "rdkafka.queued.min.messages is set"),
        ({"security_protocol": "SASL_PLAINTEXT"}, {}, "sasl.mechanism=GSSAPI is spoken by librdkafka only"),
        ({"security_protocol": "SSL"}, {"ssl.keystore.location": "k.p12"}, "ssl.keystore.location is heard by"),
        ({"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN"}, {"ssl.crl.location": "x"}, "ssl.crl.location"),
    ],
)
def test_librdkafka_fetches_what_the_columnar_fetcher_does_not_cover(properties, overrides, reason):
    asked = ConsumerConfig.load(None, overrides, zookeeper_connect="h:1", group_id="g", **properties)
    choice = choose_fetcher(asked, FAST)
    assert choice.fetcher == "librdkafka"
    assert reason in choice.reason
    if "fetcher" not in properties:
        demanded = ConsumerConfig.load(
            None, overrides, zookeeper_connect="h:1", group_id="g", **{**properties, "fetcher": "columnar"}
        )
        with pytest.raises(
            ConfigError, match=r"^fetcher=columnar: is not available: .*; set fetcher=auto or librdkafka$"
        ):
            choose_fetcher(demanded, FAST)


def test_without_the_extra_librdkafka_fetches_and_says_what_to_install():
    choice = choose_fetcher(config(), ("legacy_consumer_native",))
    assert str(choice) == (
        "librdkafka, because legacy_consumer_native cannot be imported: install legacy-consumer[fast], or run "
        "make native in a clone"
    )


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"fetcher": "columnar"},
        {"ssl_keystore_location": "unused without TLS"},
        {"security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "ssl_ca_location": "ca.pem"},
    ],
)
def test_the_columnar_fetcher_fetches_what_it_covers(properties):
    assert choose_fetcher(config(**properties), FAST).fetcher == "columnar"


@pytest.fixture
def loaded_anew():
    """Clear the stored result: a process checks only once whether the extra can be loaded."""
    fetchers._loading_trouble.cache_clear()
    yield
    fetchers._loading_trouble.cache_clear()


def test_the_decoder_is_that_of_this_package():
    crate = (Path(__file__).parents[5] / "native" / "Cargo.toml").read_text()
    assert f'\nversion = "{fetchers.DECODER_VERSION}"\n' in crate


@pytest.mark.parametrize(
    ("installed", "version"),
    [(SimpleNamespace(__version__="9.9"), "9.9"), (SimpleNamespace(), "a module without a version")],
)
def test_another_decoder_than_that_of_this_package_is_named_with_what_to_install(
    installed, version, monkeypatch, loaded_anew
):
    monkeypatch.setattr("legacy_consumer.fetching.fetchers.missing_modules", tuple)
    monkeypatch.setitem(sys.modules, "legacy_consumer_native", installed)
    said = f"legacy-consumer-native {fetchers.DECODER_VERSION} is needed, not {version}: install legacy-consumer"
    with pytest.raises(
        ConfigError, match=f"^fetcher=columnar: is not available: {said}.*; set fetcher=auto or librdkafka$"
    ):
        choose_fetcher(config(fetcher="columnar"))
    assert choose_fetcher(config()).fetcher == "librdkafka"


class PanicException(BaseException):
    """The error of an import whose Rust code panics: PyO3's class of this name is no Exception either."""


@pytest.mark.parametrize(
    "error",
    [
        ImportError("undefined symbol: PyBytes_New"),
        SystemError("initialization failed"),
        OSError("GLIBC"),
        PanicException("index out of bounds"),
    ],
)
def test_an_extra_that_cannot_be_loaded_leaves_librdkafka_and_is_said_once(error, monkeypatch, caplog, loaded_anew):
    def fail(name):
        raise error

    monkeypatch.setattr(fetchers.importlib, "import_module", fail)
    for _ in range(3):
        choice = choose_fetcher(config())
        assert (choice.fetcher, str(error) in choice.reason) == ("librdkafka", True)
    with pytest.raises(ConfigError, match="is not available: the extra `fast` is installed and cannot be loaded"):
        choose_fetcher(config(fetcher="columnar"))
    assert [record.levelname for record in caplog.records] == ["WARNING"]


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
def test_an_import_that_the_user_ends_says_nothing_about_the_extra(error, monkeypatch, loaded_anew):
    def end(name):
        raise error

    with monkeypatch.context() as patched:
        patched.setattr(fetchers.importlib, "import_module", end)
        with pytest.raises(error):
            choose_fetcher(config())
    assert choose_fetcher(config()).fetcher == "columnar"


def test_the_extra_is_installed_where_tests_run():
    assert missing_modules() == ()
    assert isinstance(choose_fetcher(config()), FetcherChoice)


# Security


def test_certificates_that_cannot_be_used_are_named(tmp_path):
    garbage = tmp_path / "ca.pem"
    garbage.write_text("nonsense")
    for value, reason in ((str(garbage), "cannot be used"), (str(tmp_path / "none"), "cannot be read: No such file")):
        with pytest.raises(ConfigError, match="ssl.ca.location.*" + reason):
            security_of(config(security_protocol="SSL", ssl_ca_location=value))


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    """Return a folder: own.crt, own.key (password `secret`), other.crt, other.key, both (the second pair), garbage."""
    folder = tmp_path_factory.mktemp("pems")
    for name, lock in (("own", ("-passout", "pass:secret")), ("other", ("-nodes",))):
        files = ("-keyout", f"{name}.key", "-out", f"{name}.crt")
        command = ("openssl", "req", "-x509", "-newkey", "rsa:2048", "-subj", f"/CN={name}", *files, *lock)
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=60)
    (folder / "both").write_text((folder / "other.crt").read_text() + (folder / "other.key").read_text())
    (folder / "garbage").write_text("nonsense")
    return folder


NO_KEY = "holds no key of the certificate that ssl.key.password opens"


@pytest.mark.parametrize(
    ("certificate", "key", "password", "wrong", "reason"),
    [
        ("none", "own.key", "secret", "certificate", "cannot be read: No such file"),
        ("garbage", "own.key", "secret", "certificate", "cannot be used"),
        ("own.crt", "none", "secret", "key", "cannot be read: No such file"),
        ("own.crt", "garbage", "secret", "key", NO_KEY),
        ("own.crt", "own.crt", "secret", "key", NO_KEY),
        ("own.crt", "own.key", "wrong", "key", NO_KEY),
        ("own.crt", "own.key", None, "key", NO_KEY),
        ("own.crt", "other.key", None, "key", NO_KEY),
        ("own.crt", None, "secret", "certificate", NO_KEY),
        (None, "own.key", "secret", "key", "is of no use without ssl.certificate.location"),
    ],
)
def test_of_a_certificate_and_its_key_the_one_that_cannot_be_used_is_named(
    pems, certificate, key, password, wrong, reason
):
    given = {
        "ssl_certificate_location": certificate and str(pems / certificate),
        "ssl_key_location": key and str(pems / key),
        "ssl_key_password": password,
    }
    with pytest.raises(ConfigError) as caught:
        security_of(config(security_protocol="SSL", **{name: value for name, value in given.items() if value}))
    assert str(caught.value).startswith(f"ssl.{wrong}.location={given[f'ssl_{wrong}_location']}: {reason}")


def test_a_certificate_is_taken_with_its_key_wherever_that_lies(pems):
    own = {"ssl_certificate_location": str(pems / "own.crt"), "ssl_key_location": str(pems / "own.key")}
    assert security_of(config(security_protocol="SSL", **own, ssl_key_password="secret")).tls
    assert security_of(config(security_protocol="SSL", ssl_certificate_location=str(pems / "both"))).tls


def test_ciphers_that_there_are_not_are_an_error_of_the_setting():
    with pytest.raises(ConfigError, match=r"^ssl\.cipher\.suites=NONSENSE: cannot be used: "):
        security_of(config(security_protocol="SSL", ssl_cipher_suites="NONSENSE"))


def test_a_login_needs_a_user_and_a_password_that_is_not_shown():
    sasl = {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "sasl_username": "u"}
    with pytest.raises(ConfigError, match=r"^sasl\.password: is required"):
        security_of(config(**sasl))
    security = security_of(config(**sasl, sasl_password="hunter"))
    assert security.sasl.password == "hunter"
    assert "hunter" not in repr(security)


def test_host_names_are_checked_unless_told_otherwise():
    assert security_of(config(security_protocol="SSL")).tls.check_hostname
    lax = security_of(config(security_protocol="SSL", ssl_endpoint_identification_algorithm=""))
    assert not lax.tls.check_hostname
    trusting = security_of(config(security_protocol="SSL", enable_ssl_certificate_verification=False))
    assert trusting.tls.verify_mode == 0
