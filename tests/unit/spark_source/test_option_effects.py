"""The documented tables of options hold: each option has an effect, and without it the default applies."""

import pytest

from spark_source.messages import options as messages
from spark_source.messages.options import parse_message_options
from spark_source.option_names import CLUSTER_OPTIONS, RDKAFKA_OPTION
from spark_source.options import OWN_OPTIONS, WRITE_OPTIONS, parse_options, parse_write_options

CONNECT = {"zookeeper.connect": "h:2181"}
READ = (parse_options, CONNECT)
WRITE = (parse_write_options, {**CONNECT, "backupFolder": "before"})
MESSAGES = (parse_message_options, {**CONNECT, "topics": "t"})
GROUP = (parse_message_options, {**CONNECT, "topics": "t", "group.id": "g"})

OTHER_VALUES = {
    "read": {
        "groups": (READ, "a"),
        "topics": (READ, "a"),
        "missingGroups": (READ, "fail"),
        "mode": (READ, "FAILFAST"),
        "numPartitions": (READ, "3"),
        "snapshotIntervalMs": (READ, "5"),
        "changesOnly": (READ, "true"),
    },
    "write": {
        "backupFolder": (WRITE, "elsewhere"),
        "dryRun": (WRITE, "true"),
        "liveGroups": (WRITE, "allow"),
        "outsideLog": (WRITE, "allow"),
        "nullOffsets": (WRITE, "delete"),
    },
    "messages": {
        "topics": (MESSAGES, "u"),
        "whitelist": ((parse_message_options, {**CONNECT, "blacklist": "a"}), None),
        "blacklist": ((parse_message_options, {**CONNECT, "whitelist": "a"}), None),
        "partitions": ((parse_message_options, {**CONNECT, "topics": "t"}), None),
        "startingOffsetsByTimestampStrategy": (
            (parse_message_options, {**CONNECT, "topics": "t", "startingOffsets": "1700000000000"}),
            "error",
        ),
        "isolation.level": (MESSAGES, "read_committed"),
        "group.id": (MESSAGES, "g"),
        "startingOffsets": (MESSAGES, "1700000000000"),
        "endingOffsets": (MESSAGES, "2013-01-01T05:00:00Z"),
        "auto.offset.reset": (MESSAGES, "largest"),
        "minPartitions": (MESSAGES, "9"),
        "maxRecordsPerPartition": (MESSAGES, "9"),
        "failOnDataLoss": (MESSAGES, "false"),
        "includeHeaders": (MESSAGES, "true"),
        "fetchTimeoutMs": (MESSAGES, "9"),
        "maxOffsetsPerTrigger": (MESSAGES, "9"),
        "minOffsetsPerTrigger": (MESSAGES, "9"),
        "maxTriggerDelay": (MESSAGES, "9s"),
        "commitOffsets": (GROUP, "false"),
        "claimOwnership": (GROUP, "true"),
        "liveGroup": (GROUP, "allow"),
        "fetcher": (MESSAGES, "librdkafka"),
        "exclude.internal.topics": (MESSAGES, "false"),
        "fetch.message.max.bytes": (MESSAGES, "999"),
        "fetch.min.bytes": (MESSAGES, "9"),
        "fetch.wait.max.ms": (MESSAGES, "9"),
        "refresh.leader.backoff.ms": (MESSAGES, "9"),
    },
}
TABLES = {
    "read": OWN_OPTIONS,
    "write": WRITE_OPTIONS,
    "messages": (*messages.READ_OPTIONS, *messages.STREAM_OPTIONS, *messages.FETCH_OPTIONS),
}


@pytest.mark.parametrize(("table", "name"), [(table, o.name) for table, known in TABLES.items() for o in known])
def test_each_option_has_an_effect(table, name):
    (parse, given), value = OTHER_VALUES[table][name]
    if value is None:  # an option that replaces the given choice of topics
        chosen = '{"t": [0]}' if name == "partitions" else "a"
        assert parse({**CONNECT, name: chosen}).topics != parse(given).topics
    else:
        assert parse({**given, name: value}) != parse(given)


LITERAL = [
    (table, option)
    for table, known in TABLES.items()
    for option in known
    if option.default_text in {"true", "false"}
    or option.name in {"mode", "missingGroups", "liveGroups", "liveGroup"}
    or option.name in {"outsideLog", "nullOffsets", "auto.offset.reset", "fetcher"}
    or option.default_text.isdecimal()
]


@pytest.mark.parametrize(("table", "option"), LITERAL, ids=lambda each: getattr(each, "name", each))
def test_each_documented_default_is_the_effect_without_the_option(table, option):
    (parse, given), _ = OTHER_VALUES[table][option.name]
    assert parse({**given, option.name: option.default_text}) == parse(given)


CLUSTER_VALUES = {
    "client.id": "me",
    "zookeeper.connect": "other:2181",
    "zookeeper.auth.digest": "u:p",
    "zookeeper.sasl.mechanism": "GSSAPI",
    "security.protocol": "SSL",
    "sasl.mechanism": "SCRAM-SHA-256",
    "sasl.oauthbearer.method": "oidc",
    "ssl.endpoint.identification.algorithm": "",
    "zookeeper.ssl.endpoint.identification.algorithm": "",
    "socket.receive.buffer.bytes": "70000",
}
_BOTH = {"zookeeper.sasl.username": "u", "zookeeper.sasl.password": "p"}
BESIDE = {
    **dict.fromkeys(_BOTH, _BOTH),
    "zookeeper.sasl.mechanism": {"zookeeper.sasl.principal": "p"},
    "zookeeper.set.acl": {"zookeeper.auth.digest": "u:p"},
}


def other_value(option):
    if option.name in CLUSTER_VALUES:
        return CLUSTER_VALUES[option.name]
    if option.default_text in {"true", "false"}:
        return "false" if option.default_text == "true" else "true"
    return "9000" if option.name.endswith(".ms") else "something"


@pytest.mark.parametrize("option", CLUSTER_OPTIONS, ids=lambda option: option.name)
def test_an_option_for_the_cluster_reaches_both_formats(option):
    changed = {option.name: other_value(option)}
    for parse, given in (READ, MESSAGES):
        without, with_it = ({**given, **BESIDE.get(option.name, {}), **more} for more in ({}, changed))
        assert config_of(parse(with_it)) != config_of(parse(without))


def test_settings_of_librdkafka_reach_both_formats():
    assert RDKAFKA_OPTION.name == "rdkafka.*"
    for parse, given in (READ, MESSAGES):
        assert config_of(parse({**given, "rdkafka.debug": "fetch"})).rdkafka == (("debug", "fetch"),)


def config_of(options):
    return options.cluster if hasattr(options, "cluster") else options.config
