import json
import pickle
import re

import pytest

from rebalance.subscription import Blacklist
from spark_source.messages.kafka_options import KAFKA_SOURCE_OPTIONS
from spark_source.messages.offset_spec import COMMITTED, FROM_EARLIEST, TO_LATEST
from spark_source.messages.options import (
    OPTIONS,
    OWN_OPTIONS,
    LiveGroup,
    check_for_batch,
    check_for_stream,
    parse_message_options,
)
from zk_layout.errors import ConfigError, LegacyConsumerError

GIVEN = {"zookeeper.connect": "h:2181/kafka", "topics": "t"}


def test_without_a_group_all_messages_are_read_and_with_one_the_unread_messages():
    alone = parse_message_options(GIVEN)
    assert (alone.group, alone.starting, alone.ending, alone.commits) == (None, FROM_EARLIEST, TO_LATEST, False)
    of_group = parse_message_options({**GIVEN, "group.id": "g"})
    assert (of_group.group, of_group.starting, of_group.commits) == ("g", COMMITTED, True)
    assert of_group.live_group is LiveGroup.FAIL
    assert of_group.config.auto_offset_reset == "smallest"


def test_options_in_any_case_reach_the_configuration():
    options = parse_message_options(
        {
            "zookeeper.connect": "h:1",
            "BLACKLIST": "a.*",
            "maxoffsetspertrigger": "5",
            "Group.Id": "g",
            "FETCH.message.max.bytes": "5000",
            "sasl.password": "p",
            "rdkafka.Debug": "fetch",
        }
    )
    assert options.topics.filter == Blacklist("a.*")
    assert (options.max_offsets_per_trigger, options.config.fetch_message_max_bytes) == (5, 5000)
    assert options.config.rdkafka == (("debug", "fetch"),)
    assert pickle.loads(pickle.dumps(options)) == options


@pytest.mark.parametrize(
    ("given", "key", "complaint"),
    [
        ({"topics": "a,,b"}, "topics", "must be names of topics"),
        ({"topics": ".."}, "topics", "must be names of topics"),
        ({"topics": "a b"}, "topics", "must be names of topics"),
        ({"whitelist": "a"}, "whitelist", "stands beside topics"),
        ({"startingOffsets": "committed"}, "startingOffsets", "name it in group.id"),
        ({"endingOffsets": "earliest"}, "endingOffsets", "would read nothing"),
        ({"commitOffsets": "true"}, "commitOffsets", "name it in group.id"),
        ({"claimOwnership": "true"}, "claimOwnership", "name it in group.id"),
        ({"claimOwnership": "yes"}, "claimOwnership", "must be true or false"),
        ({"liveGroup": "warn"}, "liveGroup", "must be fail or allow"),
        ({"maxRecordsPerPartition": "0"}, "maxRecordsPerPartition", "must be a whole number"),
        ({"fetcher": "fast"}, "fetcher", "auto or columnar or librdkafka"),
        ({"fetcher": "columnar", "rdkafka.debug": "all"}, "fetcher", "is not available"),
        ({"group.id": "a b"}, "group.id", "may hold only"),
        ({"client.id": "a b"}, "client.id", "may hold only"),
        ({"kafka.client.id": "a"}, "kafka.client.id", "write it without the prefix, client.id"),
        ({"kafka.zookeeper.connect": "a"}, "kafka.zookeeper.connect", "write it without the prefix, zookeeper.connect"),
        (
            {"kafka.request.timeout.ms": "1"},
            "kafka.request.timeout.ms",
            "the newer consumer's name of socket.timeout.ms",
        ),
        ({"kafka.x": "1"}, "kafka.x", "zk_messages has no use for it; properties have no prefix here"),
        ({"startingOffsets": "9" * 20}, "startingOffsets", "is no time in ms since 1970"),
        ({"startingOffsets": f'{{"t": {{"{"9" * 5000}": 1}}}}'}, "startingOffsets", "is no partition"),
        ({"minPartitions": "9" * 5000}, "minPartitions", "must be a whole number from 1 to"),
        ({"startingOffsets": "[]"}, "startingOffsets", "must be committed"),
        ({"startingOffsets": "5", "endingOffsets": "4"}, "endingOffsets", "lies before startingOffsets"),
        (
            {"startingOffsets": '{"t":{"0":5,"1":2}}', "endingOffsets": '{"t":{"0":-1,"1":1}}'},
            "endingOffsets",
            "lies before startingOffsets in t/1",
        ),
        (
            {"startingOffsetsByTimestampStrategy": "error"},
            "startingOffsetsByTimestampStrategy",
            "needs a time in startingOffsets",
        ),
        ({"maxOffsetPerTrigger": "1"}, "maxOffsetPerTrigger", "did you mean maxOffsetsPerTrigger?"),
        ({"consumer.timeout.ms": "1"}, "consumer.timeout.ms", "a property of consumers"),
    ],
)
def test_a_value_that_cannot_be_is_named_with_its_option(given, key, complaint):
    with pytest.raises(ConfigError) as caught:
        parse_message_options({**GIVEN, **given})
    assert caught.value.key == key
    assert complaint in str(caught.value)


@pytest.mark.parametrize("topic", ["", "..", "t/partitions", "a b"])
def test_a_partition_of_what_is_no_topic_is_named_with_its_option(topic):
    with pytest.raises(ConfigError, match="is no name of a topic") as caught:
        parse_message_options({"zookeeper.connect": "h", "partitions": json.dumps({topic: [0]})})
    assert caught.value.key == "partitions"


@pytest.mark.parametrize("name", KAFKA_SOURCE_OPTIONS)
def test_an_option_of_sparks_kafka_source_is_refused_with_the_option_to_use(name):
    with pytest.raises(ConfigError) as caught:
        parse_message_options({**GIVEN, name: "a"})
    assert str(caught.value) == f"{name}: {KAFKA_SOURCE_OPTIONS[name].replace('`', '')}"


def test_every_option_of_sparks_kafka_source_is_taken_or_explained():
    own = {option.name for option in OPTIONS}
    for reason in KAFKA_SOURCE_OPTIONS.values():
        named = re.findall(r"write `([^`]*)`", reason)
        assert set(named) <= own
    source_4_1 = """
        assign subscribe subscribePattern kafka.bootstrap.servers startingTimestamp startingOffsetsByTimestamp
        startingOffsets endingTimestamp endingOffsetsByTimestamp endingOffsets failOnDataLoss
        kafkaConsumer.pollTimeoutMs fetchOffset.numRetries fetchOffset.retryIntervalMs maxOffsetsPerTrigger
        minOffsetsPerTrigger maxTriggerDelay minPartitions maxRecordsPerPartition groupIdPrefix kafka.group.id
        includeHeaders startingOffsetsByTimestampStrategy"""
    assert set(source_4_1.split()) <= own | KAFKA_SOURCE_OPTIONS.keys()
    assert own.isdisjoint(KAFKA_SOURCE_OPTIONS)


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ("[0]", "must be JSON of topics"),
        ("{", "is no JSON"),
        ("{}", "names no partition"),
        ('{"t": []}', "topic t must have a list of partitions"),
        ('{"t": {"0": 1}}', "topic t must have a list of partitions"),
        ('{"t": ["0"]}', "'0' of topic t is no partition"),
        ('{"t": [true]}', "True of topic t is no partition"),
        ('{"t": [2147483648]}', "2147483648 of topic t is no partition"),
    ],
)
def test_partitions_are_lists_by_topic(value, complaint):
    with pytest.raises(ConfigError, match=f"^partitions.*{re.escape(complaint)}"):
        parse_message_options({"zookeeper.connect": "h:1", "partitions": value})


def test_some_partitions_choose_their_topics():
    chosen = parse_message_options({"zookeeper.connect": "h:1", "partitions": '{"t": [2, 0], "a": [1]}'}).topics
    assert chosen.names == ("a", "t")
    assert chosen.partitions == {("a", 1), ("t", 0), ("t", 2)}


def test_topics_must_be_chosen_and_a_filter_must_compile():
    with pytest.raises(ConfigError, match="topics: is required: give topics, whitelist, blacklist or partitions"):
        parse_message_options({"zookeeper.connect": "h:1"})
    with pytest.raises(LegacyConsumerError, match="topic filter"):
        parse_message_options({"zookeeper.connect": "h:1", "whitelist": "a[b"})


@pytest.mark.parametrize(
    ("given", "check", "key"),
    [
        ({"endingOffsets": "5"}, check_for_stream, "endingOffsets"),
        ({"maxOffsetsPerTrigger": "5"}, check_for_batch, "maxOffsetsPerTrigger"),
        ({"minOffsetsPerTrigger": "5"}, check_for_batch, "minOffsetsPerTrigger"),
        ({"group.id": "g", "claimOwnership": "true"}, check_for_batch, "claimOwnership"),
        ({"group.id": "g", "commitOffsets": "true"}, check_for_batch, "commitOffsets"),
        ({"maxTriggerDelay": "9s"}, check_for_batch, "maxTriggerDelay"),
        ({"group.id": "g", "liveGroup": "allow"}, check_for_batch, "liveGroup"),
        ({"startingOffsets": "latest"}, check_for_batch, "startingOffsets"),
    ],
)
def test_an_option_of_the_other_kind_of_query_is_refused(given, check, key):
    with pytest.raises(ConfigError) as caught:
        check(parse_message_options({**GIVEN, **given}))
    assert caught.value.key == key


def test_a_batch_read_takes_the_defaults_of_streams():
    given = {"group.id": "g", "maxTriggerDelay": "15m", "liveGroup": "fail", "claimOwnership": "false"}
    check_for_batch(parse_message_options({**GIVEN, **given}))


def test_every_own_option_is_taken():
    values = {
        "group.id": "g",
        "startingOffsets": "earliest",
        "endingOffsets": "committed",
        "auto.offset.reset": "largest",
        "minPartitions": "3",
        "maxRecordsPerPartition": "4",
        "failOnDataLoss": "false",
        "includeHeaders": "true",
        "fetchTimeoutMs": "5",
        "maxOffsetsPerTrigger": "6",
        "minOffsetsPerTrigger": "6",
        "maxTriggerDelay": "90s",
        "commitOffsets": "false",
        "claimOwnership": "true",
        "liveGroup": "allow",
        "startingOffsetsByTimestampStrategy": "latest",
    }
    parse_message_options({**GIVEN, **values})
    assert {option.name for option in OWN_OPTIONS} == values.keys() | {"topics", "whitelist", "blacklist", "partitions"}


@pytest.mark.parametrize(
    ("text", "ms"),
    [("90s", 90_000), ("15m", 900_000), ("2 h", 7_200_000), ("500ms", 500), ("7", 7), ("1D", 86_400_000)],
)
def test_a_trigger_delay_is_a_time_as_spark_writes_it(text, ms):
    assert parse_message_options({**GIVEN, "maxTriggerDelay": text}).max_trigger_delay_ms == ms


@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ({"maxTriggerDelay": "soon"}, "must be a time such as 500ms, 30s, 15m or 2h"),
        ({"minOffsetsPerTrigger": "9", "maxOffsetsPerTrigger": "5"}, "is more than maxOffsetsPerTrigger, 5"),
    ],
)
def test_bounds_of_a_trigger_that_cannot_be_are_refused(given, complaint):
    with pytest.raises(ConfigError, match=complaint):
        parse_message_options({**GIVEN, **given})


def test_a_query_refuses_auto_offset_reset_none_because_no_user_can_seek():
    with pytest.raises(
        ConfigError, match=r"^auto.offset.reset='?none'?: leaves a query no place to begin: use smallest"
    ):
        parse_message_options({"zookeeper.connect": "a", "topics": "t", "auto.offset.reset": "none"})
