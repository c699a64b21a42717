import pickle
import re

import pytest

from legacy_consumer.config import PROPERTIES
from legacy_consumer.config.properties import Kind
from spark_source.messages.options import parse_message_options
from spark_source.option_names import HIDDEN_OPTIONS
from spark_source.options import (
    OPTIONS,
    OWN_OPTIONS,
    MissingGroups,
    check_batch_read,
    parse_options,
    parse_write_options,
)
from spark_source.source import KafkaSegments, ZkMessages, ZkOffsets
from zk_layout.errors import ConfigError

CONNECT = {"zookeeper.connect": "h:2181/kafka"}


def test_without_options_every_group_and_topic_is_read():
    options = parse_options(CONNECT)
    assert options.groups.matches("any")
    assert options.topics.matches("any")
    assert (options.missing_groups, options.num_partitions) == (MissingGroups.IGNORE, None)
    assert options.cluster.zookeeper_connect == "h:2181/kafka"


def test_options_are_found_whatever_their_case():
    given = {"ZOOKEEPER.connect": "h:1", "GROUPS": "a", "missinggroups": "FAIL", "numpartitions": "3"}
    options = parse_options(given)
    assert (options.groups.entries, options.missing_groups, options.num_partitions) == (("a",), MissingGroups.FAIL, 3)
    assert options.cluster.zookeeper_connect == "h:1"


def test_names_and_globs_are_separated_by_commas_and_blanks_around_them_do_not_count():
    assert parse_options({**CONNECT, "groups": " a , b*,c[12] "}).groups.entries == ("a", "b*", "c[12]")


def test_properties_of_the_cluster_reach_it():
    cluster = parse_options(
        {
            **CONNECT,
            "zookeeper.session.timeout.ms": "9000",
            "zookeeper.auth.digest": "u:p",
            "security.protocol": "sasl_ssl",
            "ssl.ca.location": "ca.pem",
            "sasl.mechanism": "PLAIN",
            "sasl.username": "u",
            "sasl.password": "p",
            "rdkafka.Socket.Keepalive.Enable": "true",
        }
    ).cluster
    assert cluster.zookeeper_session_timeout_ms == 9000
    assert cluster.zk_settings().auth == (("digest", "u:p"),)
    assert cluster.security_protocol == "SASL_SSL"
    assert dict(cluster.kafka_security)["ssl.ca.location"] == "ca.pem"
    assert cluster.rdkafka == (("socket.keepalive.enable", "true"),)


@pytest.mark.parametrize(
    ("key", "complaint"),
    [
        ("group", "did you mean groups?"),
        ("missingGroup", "did you mean missingGroups?"),
        ("zookeper.connect", "did you mean zookeeper.connect?"),
        ("zookeeper.session.timeout", "did you mean zookeeper.session.timeout.ms?"),
        ("partitions", "did you mean numPartitions?"),
        ("rdkafka.", "no such option of zk_offsets"),
        ("qqqq", "no such option of zk_offsets"),
        ("path", "call load() without one"),
        ("group.id", "name them in groups"),
        ("auto.offset.reset", "a property of consumers"),
        ("bootstrap.servers", "brokers are found in ZooKeeper"),
        ("sasl.jaas.config", "give sasl.username and sasl.password instead"),
        ("zookeeper.clientcnxnsocket", "a Java class"),
    ],
)
def test_an_unknown_option_is_named_with_a_suggestion(key, complaint):
    with pytest.raises(ConfigError) as caught:
        parse_options({**CONNECT, key: "x"})
    assert caught.value.key == key
    assert complaint in str(caught.value)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("groups", ""),
        ("groups", "a,,b"),
        ("groups", "a/b"),
        ("topics", " , "),
        ("missingGroups", "warn"),
        ("numPartitions", "0"),
        ("numPartitions", "-1"),
        ("numPartitions", "two"),
        ("numPartitions", "10001"),
        ("numPartitions", "1" * 5000),
        ("snapshotIntervalMs", "9" * 5000),
        ("zookeeper.session.timeout.ms", "6s"),
        ("zookeeper.connect", "h:port"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_option(option, value):
    with pytest.raises(ConfigError) as caught:
        parse_options({**CONNECT, option: value})
    assert caught.value.key == option


def test_where_zookeeper_is_must_be_said():
    with pytest.raises(ConfigError, match=r"zookeeper\.connect: is required"):
        parse_options({"groups": "a"})


def test_a_batch_read_refuses_to_compare_with_a_snapshot_that_it_does_not_have():
    check_batch_read(parse_options({**CONNECT, "changesOnly": "false"}))
    with pytest.raises(ConfigError, match="changesOnly=true: is for streams"):
        check_batch_read(parse_options({**CONNECT, "changesOnly": "true"}))


def test_a_batch_read_refuses_a_time_between_snapshots():
    check_batch_read(parse_options({**CONNECT, "snapshotIntervalMs": "10000"}))
    with pytest.raises(ConfigError, match="snapshotIntervalMs: is for streams"):
        check_batch_read(parse_options({**CONNECT, "snapshotIntervalMs": "5"}))


def test_options_survive_the_way_to_the_executors():
    options = parse_options({**CONNECT, "groups": "a*", "sasl.password": "p", "rdkafka.a": "1"})
    assert pickle.loads(pickle.dumps(options)) == options


def test_every_option_that_is_documented_is_taken():
    values = {known.name: known.default_text for known in PROPERTIES if known.default is not None}
    values |= {"groups": "a", "topics": "t", "missingGroups": "fail", "numPartitions": "2", "rdkafka.*": "x"}
    values |= {"mode": "FAILFAST", "snapshotIntervalMs": "5", "changesOnly": "true"}
    for option in OPTIONS:
        value = values.get(option.name)
        if value is not None:
            parse_options({**CONNECT, option.name: value})
    assert {option.name for option in OWN_OPTIONS} <= values.keys()


def test_no_option_stands_twice_in_the_table():
    names = [option.name.lower() for option in OPTIONS]
    assert sorted(set(names)) == sorted(names)


def test_every_secret_is_hidden_by_its_name():
    by_spark = "(?i)secret|password|token|access[.]?key"
    hidden = re.compile(f"{by_spark}|{HIDDEN_OPTIONS.removeprefix('(?i)')}")
    secrets = [known.name for known in PROPERTIES if known.kind is Kind.SECRET]
    passed_through = ["rdkafka.ssl.key.pem", "rdkafka.sasl.oauthbearer.config", "rdkafka.https.ca.pem"]
    assert "zookeeper.auth.digest" in secrets
    assert [name for name in [*secrets, *passed_through] if not hidden.search(name)] == []
    assert not hidden.search("zookeeper.connect")


@pytest.mark.parametrize("parse", [parse_options, parse_write_options, parse_message_options])
@pytest.mark.parametrize("given", [{"owner": "me", "option.zookeeper.connect": "h:1"}, {"owner": "me"}, {}])
def test_a_table_in_the_catalog_is_refused_with_the_alternative(parse, given):
    """Spark passes such options when a table is created, and when a table with columns is read or written."""
    with pytest.raises(ConfigError, match="use CREATE TEMPORARY VIEW"):
        parse(given)


@pytest.mark.parametrize(
    ("form", "reason"),
    [
        (ZkOffsets, "is no sink of a stream: write each batch, with writeStream.foreachBatch"),
        (ZkMessages, "only reads: write messages with Spark's own Kafka sink"),
        (KafkaSegments, "only reads"),
    ],
)
def test_a_stream_written_to_a_format_is_refused_with_the_way_to_write_it(form, reason):
    with pytest.raises(ConfigError) as caught:
        form({}).streamWriter(None, overwrite=False)
    assert caught.value.reason == reason


@pytest.mark.parametrize("option", ["groups", "mode", "numPartitions", "zookeeper.session.timeout.ms"])
def test_any_invalid_value_is_refused_in_one_line(option):
    with pytest.raises(ConfigError) as caught:
        parse_options({**CONNECT, option: "a/b\nZkLayoutError: all is well\x1b[2K"})
    assert len(str(caught.value).splitlines()) == 1
    assert str(caught.value).startswith(f"{option}=a/b\\nZkLayoutError: all is well\\x1b[2K: ")
