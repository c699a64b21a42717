import dataclasses
import re

import pytest

from legacy_consumer.config import PROPERTIES, ClusterConfig, ConsumerConfig, Kind
from legacy_consumer.config.properties import BY_NAME, PASSED_TO_LIBRDKAFKA
from rebalance.assignors import ASSIGNORS
from rebalance.assignors.seam import Assignor, AssignorProperty
from rebalance.assignors.strategies import STRATEGIES
from zk_layout.errors import ConfigError

MINIMUM = {"zookeeper.connect": "localhost:2181", "group.id": "g"}


def load(overrides=None, **keywords):
    return ConsumerConfig.load(None, {**MINIMUM, **(overrides or {})}, **keywords)


# The table


def test_every_property_is_an_attribute_and_every_attribute_a_property():
    passed_on = {"kafka_security", "rdkafka", "assignment", "warnings", "notes"}
    attributes = {f.name for f in dataclasses.fields(ConsumerConfig)} - passed_on
    handed_to_librdkafka = {BY_NAME[name].attribute for name in PASSED_TO_LIBRDKAFKA}
    assert attributes == {p.attribute for p in PROPERTIES} - handed_to_librdkafka


def test_every_attribute_has_the_type_of_its_property():
    types = {Kind.TEXT: "str", Kind.SECRET: "str", Kind.WORD: "str", Kind.INTEGER: "int", Kind.BOOLEAN: "bool"}
    declared = {f.name: str(f.type).removesuffix(" | None") for f in dataclasses.fields(ConsumerConfig)}
    for known in PROPERTIES:
        if known.attribute in declared:
            assert declared[known.attribute] == types[known.kind], known.name


def test_the_property_of_the_strategy_names_each_that_there_is():
    meaning = BY_NAME["partition.assignment.strategy"].meaning
    assert set(re.findall("[a-z-]+", meaning.partition(", or your own")[0])) >= {*ASSIGNORS, *STRATEGIES}


def test_defaults_pass_their_own_checks():
    for known in PROPERTIES:
        if known.default is not None:
            load({known.name: known.default})


def test_defaults_are_those_of_the_scala_consumer():
    config = load()
    assert (config.zookeeper_session_timeout_ms, config.zookeeper_connection_timeout_ms) == (6000, 6000)
    assert (config.rebalance_max_retries, config.rebalance_backoff_ms) == (4, 2000)
    assert (config.auto_commit_enable, config.auto_commit_interval_ms) == (True, 60000)
    assert (config.fetch_message_max_bytes, config.fetch_min_bytes, config.fetch_wait_max_ms) == (None, 1, 100)
    assert (config.socket_timeout_ms, config.refresh_leader_backoff_ms) == (30000, 200)
    assert (config.auto_offset_reset, config.consumer_timeout_ms) == ("largest", -1)
    assert (config.offsets_storage, config.dual_commit_enabled) == ("zookeeper", False)
    assert (config.partition_assignment_strategy, config.exclude_internal_topics) == ("range", True)
    assert config.client_id == config.group_id == "g"
    assert config.consumer_id is None
    assert config.warnings == config.notes == ()


def test_a_default_follows_the_property_it_comes_from():
    config = load(zookeeper_session_timeout_ms=30000, zookeeper_sync_time_ms=10000)
    assert (config.zookeeper_connection_timeout_ms, config.rebalance_backoff_ms) == (30000, 10000)


# Sources


def test_keywords_win_over_overrides_and_these_over_the_file(tmp_path):
    path = tmp_path / "consumer.properties"
    path.write_text("zookeeper.connect=file:1\ngroup.id=file\nclient.id=file\n", encoding="utf-8")
    config = ConsumerConfig.load(path, {"group.id": "override", "client.id": "override"}, client_id="keyword")
    assert (config.zookeeper_connect, config.group_id, config.client_id) == ("file:1", "override", "keyword")


def test_a_value_may_be_text_or_what_it_means():
    assert load(auto_commit_enable="FALSE", fetch_min_bytes="7") == load(auto_commit_enable=False, fetch_min_bytes=7)


@pytest.mark.parametrize("given", ["zookeeper_conect", "auto_comit_enable", "rebalance_retries_max"])
def test_an_unknown_keyword_is_an_error_that_names_the_near_miss(given):
    with pytest.raises(ConfigError) as caught:
        load(**{given: "1"})
    near = {
        "zookeeper_conect": "zookeeper.connect",
        "auto_comit_enable": "auto.commit.enable",
        "rebalance_retries_max": "rebalance.max.retries",
    }
    assert near[given] in str(caught.value)


def test_a_property_that_is_given_in_two_spellings_is_an_error():
    with pytest.raises(ConfigError, match=r"^group\.id: is given twice"):
        ConsumerConfig.load(zookeeper_connect="z", group_id="a", **{"group.id": "b"})


def test_an_unknown_property_in_a_file_is_a_warning(tmp_path):
    path = tmp_path / "consumer.properties"
    path.write_text("zookeeper.connect=a\ngroup.id=g\ngruop.id=h\nwholly.other=1\n", encoding="utf-8")
    first, second = ConsumerConfig.load(path).warnings
    assert "gruop.id" in first
    assert "did you mean group.id" in first
    assert "wholly.other" in second


@pytest.mark.parametrize("connect", ["ann:secret@z:2181", "z:2181,ann@y:2181/kafka", "ann:secret@z:2181@x"])
def test_credentials_among_the_hosts_are_refused_and_not_quoted(connect):
    with pytest.raises(ConfigError, match=r"names hosts alone, .* zookeeper\.auth\.digest") as refused:
        ConsumerConfig.load(overrides={**MINIMUM, "zookeeper.connect": connect})
    assert "ann" not in str(refused.value)


def test_a_chroot_may_have_any_sign_of_a_path():
    given = {**MINIMUM, "zookeeper.connect": "z:2181/kafka@home"}
    assert ConsumerConfig.load(overrides=given).zookeeper_connect == "z:2181/kafka@home"


@pytest.mark.parametrize(("missing", "written"), [("zookeeper.connect", "zookeper.connect"), ("group.id", "gruop.id")])
def test_a_required_property_that_a_file_misspells_is_missing_and_the_error_says_so(missing, written, tmp_path):
    path = tmp_path / "consumer.properties"
    right = {"zookeeper.connect": "a", "group.id": "g"}
    del right[missing]
    lines = [f"{name}={value}" for name, value in {**right, written: "b", "wholly.other": 1}.items()]
    path.write_text("\n".join(lines), encoding="utf-8")
    with pytest.raises(ConfigError) as caught:
        ConsumerConfig.load(path)
    assert caught.value.key == missing
    assert str(caught.value).endswith(f"; {written} in {path}: no such property, did you mean {missing}?")


class Tunable(Assignor):
    name = "tunable"
    properties = (AssignorProperty("tunable.number", 1, "a number", 0, 9),)

    def assign(self, cluster, subscriptions):
        raise NotImplementedError


TUNABLE = {"group.coordination": "leader", "partition.assignment.strategy": f"range,{__name__}:Tunable"}


def test_a_property_of_the_users_own_assignor_reaches_it_from_each_source(tmp_path):
    path = tmp_path / "consumer.properties"
    lines = {**MINIMUM, **TUNABLE, "tunable.number": "7"}
    path.write_text("\n".join(f"{name}={value}" for name, value in lines.items()), encoding="utf-8")
    from_file = ConsumerConfig.load(path)
    assert not [text for text in from_file.warnings if "tunable" in text]
    configs = [from_file, load({**TUNABLE, "tunable.number": 7}), load(TUNABLE, tunable_number=7)]
    assert [config.assignment for config in configs] == [(("tunable.number", "7"),)] * 3
    assert ConsumerConfig.load(path, tunable_number=8).assignment == (("tunable.number", "8"),)


@pytest.mark.parametrize(
    ("properties", "says"),
    [
        ({**TUNABLE, "tunable.number": "10"}, "tunable.number must be an integer from 0 to 9, not '10'"),
        ({**TUNABLE, "tunable.numbers": "1"}, "tunable.numbers: no such property"),
        (
            {**TUNABLE, "partition.assignment.strategy": "range", "tunable.number": 1},
            "tunable.number: no such property",
        ),
        ({"tunable.number": 1}, "tunable.number: no such property"),
        ({**TUNABLE, "partition.assignment.strategy": "no:X", "tunable.number": 1}, "assignor 'no:X': cannot be impor"),
    ],
)
def test_a_property_that_no_assignor_of_the_member_has_is_an_error(properties, says):
    with pytest.raises(ConfigError, match=says):
        load(properties)


def test_a_property_of_jvm_members_alone_is_a_note(tmp_path):
    path = tmp_path / "consumer.properties"
    path.write_text(
        "zookeeper.connect=a\ngroup.id=g\nnum.consumer.fetchers=4\nkey.deserializer=x.Y\n", encoding="utf-8"
    )
    config = ConsumerConfig.load(path)
    assert config.warnings == ()
    assert [note.split()[0] for note in config.notes] == ["num.consumer.fetchers", "key.deserializer"]


@pytest.mark.parametrize(
    "name", ["zk.connect", "groupid", "autooffset.reset", "sasl.jaas.config", "session.timeout.ms"]
)
def test_a_name_from_elsewhere_is_told_what_to_write(name):
    with pytest.raises(ConfigError, match=r"Kafka 0\.7's name of|instead|here it is"):
        load({name: "x"})


def test_a_bad_value_in_a_file_is_an_error(tmp_path):
    path = tmp_path / "consumer.properties"
    path.write_text("zookeeper.connect=a\ngroup.id=g\nfetch.min.bytes=many\n", encoding="utf-8")
    with pytest.raises(ConfigError, match=r"fetch\.min\.bytes=many: must be a whole number"):
        ConsumerConfig.load(path)


def test_a_file_that_is_not_there_is_a_config_error(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        ConsumerConfig.load(tmp_path / "nowhere.properties")


def test_a_file_that_is_no_text_is_a_config_error(tmp_path):
    path = tmp_path / "consumer.properties"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ConfigError, match=r"is no \.properties file"):
        ConsumerConfig.load(path)


# Values


@pytest.mark.parametrize("missing", ["zookeeper.connect", "group.id"])
def test_a_missing_required_property_is_an_error(missing):
    with pytest.raises(ConfigError, match=f"^{missing}: is required"):
        ConsumerConfig.load(None, {k: v for k, v in MINIMUM.items() if k != missing})


@pytest.mark.parametrize(
    ("program", "group"), [("/opt/jobs/load delays.py", "load-delays"), ("-", "group1"), ("", "group1")]
)
def test_without_a_group_the_error_proposes_one_that_is_taken(program, group, monkeypatch):
    monkeypatch.setattr("sys.argv", [program])
    with pytest.raises(ConfigError, match=rf"^group\.id: is required: .* such as group\.id={group}$"):
        ConsumerConfig.load(None, {"zookeeper.connect": "h:1"})
    assert load(group_id=group).group_id == group


@pytest.mark.parametrize("group", ["a b", "a/b", "ä", "a:b", "..", "."])
def test_a_group_that_kafka_would_not_take_is_refused(group):
    with pytest.raises(ConfigError, match=r"group\.id"):
        load(group_id=group)


@pytest.mark.parametrize("consumer", ["", "a/b", "a\nb", "\ue000", "\ufffd", "\U0001f642"])
def test_a_consumer_id_that_is_no_znode_name_is_refused(consumer):
    with pytest.raises(ConfigError, match=r"consumer\.id"):
        load(consumer_id=consumer)


@pytest.mark.parametrize(
    "connect", ["", ":2181", "a:b", "a:0", "a:65536", "a,,b", "a:1/x//y", "a:1/..", "a:1/x,b:2", "a:1/x,b:2/x"]
)
def test_a_connect_string_that_cannot_work_is_refused(connect):
    with pytest.raises(ConfigError, match=r"zookeeper\.connect"):
        load(zookeeper_connect=connect)


@pytest.mark.parametrize("host", ["zk2..example.com", ".", f"{'x' * 64}.example.com", "é" * 64])
def test_a_host_that_no_name_server_can_be_asked_for_is_refused(host):
    """kazoo's thread ended with a traceback, and connected to none of the other hosts either."""
    with pytest.raises(ConfigError, match=r"is no host:port"):
        load(zookeeper_connect=f"127.0.0.1:2181,{host}:2181")


@pytest.mark.parametrize("connect", ["a", "a:1", "a:1,b:2", "a:1,b:2/x/y", "a:1/", "[::1]:2181/x", "10.0.0.1:2181"])
def test_connect_strings_as_kafka_takes_them(connect):
    assert load(zookeeper_connect=connect).zk_settings().connect == connect


def test_blanks_between_hosts_are_dropped():
    assert load(zookeeper_connect=" a:1, b:2 /x").zookeeper_connect == "a:1,b:2/x"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("auto.commit.enable", "yes"),
        ("auto.commit.enable", 1),
        ("fetch.min.bytes", "1.5"),
        ("fetch.min.bytes", True),
        ("fetch.min.bytes", 0),
        ("rebalance.max.retries", 0),
        ("consumer.timeout.ms", -2),
        ("zookeeper.session.timeout.ms", 2**31),
        ("auto.offset.reset", "beginning"),
        ("partition.assignment.strategy", "sticky"),
        ("partition.assignment.dialect", "0.9"),
        ("delivery.rule", "exactly_once"),
        ("security.protocol", "TLS"),
        ("group.id", 7),
    ],
)
def test_a_value_out_of_its_range_is_refused(name, value):
    with pytest.raises(ConfigError) as caught:
        load({name: value})
    assert (caught.value.key, caught.value.value) == (name, value)


@pytest.mark.parametrize("text", ["secret\n", "a\rb", "a\0b", "\ud800"])
@pytest.mark.parametrize("name", [one.name for one in PROPERTIES if one.kind in {Kind.TEXT, Kind.SECRET}])
def test_a_text_that_no_client_can_send_is_refused_and_not_quoted(name, text):
    """A library that got it raised a ValueError or SystemError, or left out what follows the NUL."""
    with pytest.raises(ConfigError) as caught:
        load({name: text})
    assert (caught.value.key, caught.value.value) == (name, None)


@pytest.mark.parametrize("name", ["rdkafka.client.rack", "assignment.rack"])
@pytest.mark.parametrize("value", ["a\0b", "\ud800", None, ["a"], b"a"])
def test_a_value_that_is_passed_on_is_text(name, value):
    with pytest.raises(ConfigError, match=rf"{re.escape(name)}.*: must be text"):
        load({name: value})


def test_certificates_that_are_passed_on_may_have_several_lines():
    assert dict(load({"rdkafka.ssl.ca.pem": "a\nb\n"}).rdkafka) == {"ssl.ca.pem": "a\nb\n"}


@pytest.mark.parametrize("name", [7, None, b"group.id", "group.id\n"])
def test_a_name_that_is_no_text_of_one_line_is_refused(name):
    with pytest.raises(ConfigError, match=r"^\S+: is no name of a property$"):
        load({name: "x"})


def test_words_are_taken_in_either_case():
    assert load(partition_assignment_strategy="RoundRobin").partition_assignment_strategy == "roundrobin"
    assert load(security_protocol="sasl_ssl").security_protocol == "SASL_SSL"


@pytest.mark.parametrize(("word", "taken"), [("earliest", "smallest"), ("latest", "largest")])
def test_the_newer_consumers_reset_words_are_taken_with_a_note(word, taken):
    config = load(auto_offset_reset=word)
    assert config.auto_offset_reset == taken
    assert "a JVM member would refuse it" in config.notes[0]


# Contradictions


def test_a_socket_that_gives_up_before_a_fetch_returns_is_refused():
    with pytest.raises(ConfigError, match=r"socket.timeout.ms=100: must be at least fetch.wait.max.ms=500"):
        load(socket_timeout_ms=100, fetch_wait_max_ms=500)


def test_offsets_in_kafka_are_kept_in_zookeeper_too_unless_told_otherwise():
    assert load(offsets_storage="kafka").dual_commit_enabled is True
    assert load(offsets_storage="kafka", dual_commit_enabled=False).dual_commit_enabled is False
    assert load(offsets_storage="kafka").warnings == load().warnings


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"zookeeper.session.timeout.ms": 30000}, "raise rebalance.max.retries"),
        ({"drain.timeout.ms": 8000}, "drain.timeout.ms=8000 is not below"),
        ({"dual.commit.enabled": True}, "dual.commit.enabled has no effect"),
        (
            {"group.coordination": "leader", "scheduled.rebalance.max.delay.ms": 60_000},
            "scheduled.rebalance.max.delay.ms has no effect while group.coordination is leader",
        ),
        ({"ssl.ca.location": "ca.pem"}, "ssl.ca.location has no effect while security.protocol is PLAINTEXT"),
        ({"sasl.username": "u", "security.protocol": "SSL"}, "sasl.username has no effect"),
        ({"zookeeper.ssl.truststore.location": "ca.pem"}, "zookeeper.ssl.client.enable is false"),
    ],
)
def test_an_implausible_setting_is_a_warning(given, said):
    (warning,) = load(given).warnings
    assert said in warning


# Security


def test_secrets_are_never_shown():
    secrets = {p.name: f"hunter-{i}:x" for i, p in enumerate(PROPERTIES) if p.kind is Kind.SECRET}
    users = {"zookeeper.sasl.username": "u", "security.protocol": "SASL_SSL"}
    shown = repr(load({**secrets, **users, "rdkafka.ssl.key.pem": "hunter"}))
    assert "hunter" not in shown


def test_a_bad_secret_is_not_quoted():
    with pytest.raises(ConfigError) as caught:
        load(zookeeper_auth_digest="hunter")
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("spelling", [" PLAIN", "\tplain ", "Plain"])
def test_a_readable_password_goes_nowhere_however_plain_is_spelled(spelling):
    """librdkafka drops blanks before a value: it took " PLAIN" as PLAIN, which an earlier check did not."""
    with pytest.raises(ConfigError, match=r"sasl\.plain\.without\.tls=true"):
        load(security_protocol="SASL_PLAINTEXT", sasl_mechanism=spelling, sasl_username="u", sasl_password="p")


def test_a_readable_token_goes_nowhere_unless_that_is_allowed_by_name():
    given = {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "OAUTHBEARER"}
    with pytest.raises(ConfigError, match=r"would send its token readable .*sasl\.plain\.without\.tls=true"):
        load(**given)
    assert load(**given, sasl_plain_without_tls=True).security_protocol == "SASL_PLAINTEXT"
    assert load(**{**given, "security_protocol": "SASL_SSL"}).security_protocol == "SASL_SSL"


def test_a_client_that_will_have_no_token_is_warned_of():
    """It connected and connected, and the error was that no broker answers."""
    given = {"security_protocol": "SASL_SSL", "sasl_mechanism": "OAUTHBEARER"}
    assert any("sasl.oauthbearer.method=default brings no token" in said for said in load(**given).warnings)
    assert load(**given, sasl_oauthbearer_method="oidc").warnings == ()


def test_a_mechanism_that_there_is_not_is_named_with_those_that_there_are():
    with pytest.raises(ConfigError, match=r"sasl\.mechanism=SCRAM: must be PLAIN or SCRAM-SHA-256 or"):
        load(security_protocol="SASL_SSL", sasl_mechanism="SCRAM")
    assert dict(load(sasl_mechanism="scram-sha-256 ").kafka_security)["sasl.mechanism"] == "SCRAM-SHA-256"


@pytest.mark.parametrize(
    ("given", "missing"), [("zookeeper_sasl_username", "password"), ("zookeeper_sasl_password", "username")]
)
def test_half_of_the_credentials_for_zookeeper_is_an_error(given, missing):
    """In an earlier version, a password alone had no effect: the member used ZooKeeper without credentials."""
    with pytest.raises(ConfigError, match=rf"zookeeper\.sasl\.{missing}: is required") as caught:
        load(**{given: "hunter"})
    assert "hunter" not in str(caught.value)


def test_credentials_for_zookeeper_that_are_both_empty_are_an_error():
    """A template without its variables turned SASL on, with an empty name."""
    with pytest.raises(ConfigError, match=r"zookeeper\.sasl\.username: is required"):
        load(zookeeper_sasl_username="", zookeeper_sasl_password="")


@pytest.mark.parametrize("name", [p.name for p in PROPERTIES if p.name.endswith(".location")])
def test_an_empty_place_is_an_error_and_not_the_systems_files(name):
    with pytest.raises(ConfigError, match=rf"{re.escape(name)}: is empty: give a file, or leave the property out"):
        load({name: ""})


def test_a_key_for_zookeeper_without_a_certificate_is_a_warning():
    key = {"zookeeper_ssl_key_location": "key.pem", "zookeeper_ssl_keystore_password": "hunter"}
    why = "has no effect without the certificate in zookeeper.ssl.keystore.location"
    assert load(zookeeper_ssl_client_enable=True, **key).warnings == (
        f"zookeeper.ssl.key.location {why}",
        f"zookeeper.ssl.keystore.password {why}",
    )
    assert load(zookeeper_ssl_client_enable=True, zookeeper_ssl_keystore_location="me.pem", **key).warnings == ()


def test_zookeeper_security_reaches_the_adapters_settings():
    settings = load(
        zookeeper_set_acl="true",
        zookeeper_auth_digest="kafka:secret",
        zookeeper_ssl_client_enable=True,
        zookeeper_ssl_truststore_location="ca.pem",
        zookeeper_ssl_keystore_location="me.pem",
        zookeeper_ssl_keystore_password="pw",
        zookeeper_sasl_username="u",
        zookeeper_sasl_password="p",
    ).zk_settings()
    assert settings.auth == (("digest", "kafka:secret"),)
    assert settings.secure_acl
    assert settings.tls is not None
    assert (settings.tls.ca, settings.tls.certfile, settings.tls.keyfile) == ("ca.pem", "me.pem", "me.pem")
    assert settings.tls.check_hostname
    assert settings.sasl is not None
    assert (settings.sasl.mechanism, settings.sasl.username, settings.sasl.password) == ("DIGEST-MD5", "u", "p")


def test_an_empty_identification_algorithm_takes_any_host_name():
    config = load(
        {"zookeeper.ssl.client.enable": "true", "zookeeper.ssl.endpoint.identification.algorithm": ""}
    ).zk_settings()
    assert config.tls is not None
    assert not config.tls.check_hostname


def test_an_acl_without_credentials_is_refused():
    with pytest.raises(ConfigError, match="needs credentials"):
        load(zookeeper_set_acl=True)


def test_a_java_key_store_is_refused():
    with pytest.raises(ConfigError, match="must be a PEM file"):
        load(zookeeper_ssl_client_enable=True, zookeeper_ssl_truststore_location="trust.jks")


def test_kafka_security_and_pass_through_are_kept_as_librdkafka_wants_them():
    config = load(security_protocol="SSL", enable_ssl_certificate_verification=False, rdkafka_queued_min_messages=7)
    assert config.kafka_security == (("enable.ssl.certificate.verification", "false"),)
    assert config.rdkafka == (("queued.min.messages", "7"),)


@pytest.mark.parametrize(
    ("setting", "reason"),
    [
        ("auto.offset.reset", "set auto.offset.reset instead"),
        ("isolation.level", "set isolation.level instead"),
        ("group.id", "set group.id instead"),
        ("security.protocol", "set security.protocol instead"),
        ("sasl.password", "set sasl.password instead"),
        ("sasl.mechanisms", "is written sasl.mechanism here"),
        ("enable.auto.commit", "auto.commit.enable"),
        ("session.timeout.ms", "zookeeper.session.timeout.ms"),
        ("enable.auto.offset.store", "delivery.rule"),
        ("enable.partition.eof", "consumer.timeout.ms"),
        ("bootstrap.servers", "found in ZooKeeper"),
        ("metadata.broker.list", "found in ZooKeeper"),
        ("stats_cb", "wants a Python object"),
        ("logger", "wants a Python object"),
        ("default.topic.config", "wants a Python object"),
    ],
)
def test_a_setting_of_librdkafka_that_this_project_sets_is_refused(setting, reason):
    with pytest.raises(ConfigError, match=reason) as caught:
        load({f"rdkafka.{setting}": "hush"})
    assert str(caught.value).startswith(f"rdkafka.{setting}: ")


@pytest.mark.parametrize("setting", ["fetch.max.bytes", "queued.min.messages", "debug", "ssl.key.pem"])
def test_a_setting_that_only_librdkafka_knows_is_passed_on(setting):
    assert load({f"rdkafka.{setting}": "1"}).rdkafka == ((setting, "1"),)


# Without a group


def test_a_cluster_needs_no_group():
    config = ClusterConfig.load(zookeeper_connect="a:1/x")
    assert config.zk_settings().chroot == "/x"
    assert config.client_id == "legacy-consumer"


def test_a_consumers_file_says_how_to_reach_its_cluster(tmp_path):
    path = tmp_path / "consumer.properties"
    path.write_text("zookeeper.connect=a\ngroup.id=g\nauto.offset.reset=smallest\n", encoding="utf-8")
    assert ClusterConfig.load(path).client_id == "g"
