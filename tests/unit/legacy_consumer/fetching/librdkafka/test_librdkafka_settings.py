import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.config.properties import PROPERTIES, Kind
from legacy_consumer.errors import BrokersUnavailableError, MissingListenerError, OffsetOutOfRangeError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST, NO_POSITION
from legacy_consumer.fetching.librdkafka.client import check_settings
from legacy_consumer.fetching.librdkafka.settings import (
    bootstrap_servers,
    fetcher_settings,
    group_offsets_settings,
    protocol_settings,
    query_settings,
)
from legacy_consumer.fetching.positions import Search, settle
from zk_layout.errors import ConfigError
from zk_layout.model import Broker, Endpoint, TopicPartition

TP = TopicPartition("t", 0)


def broker(broker_id, *endpoints, version=4):
    listeners = tuple(Endpoint(protocol, protocol, host, port) for protocol, host, port in endpoints)
    return Broker(broker_id, None, -1, listeners, version)


PLAIN = broker(1, ("PLAINTEXT", "one", 9092), ("SSL", "one", 9093))


def settings(brokers=(PLAIN,), streams=1, **properties):
    config = ConsumerConfig.load(zookeeper_connect="z", group_id="g", **properties)
    return fetcher_settings(config, brokers, streams)


def test_endpoints_are_chosen_by_protocol_in_the_order_of_ids():
    brokers = [broker(2, ("SSL", "two", 1), ("PLAINTEXT", "two", 2)), PLAIN, broker(3, ("SSL", "::1", 3))]
    assert bootstrap_servers(brokers, "PLAINTEXT") == "one:9092,two:2"
    assert bootstrap_servers(brokers, "SSL") == "one:9093,two:1,[::1]:3"


def test_a_missing_listener_is_an_error_that_names_what_there_is():
    with pytest.raises(MissingListenerError, match="no broker offers a SASL_SSL listener, only PLAINTEXT, SSL"):
        bootstrap_servers([PLAIN], "SASL_SSL")


def test_no_broker_at_all_is_an_error_that_can_pass():
    with pytest.raises(BrokersUnavailableError, match="no broker is registered") as caught:
        bootstrap_servers([], "PLAINTEXT")
    assert caught.value.retriable


@pytest.mark.parametrize(
    ("versions", "fallback"),
    [([1], "0.8.2"), ([2], "0.9.0"), ([1, 2], "0.8.2"), ([2, 4], "0.9.0"), ([3], None), ([4, 5], None)],
)
def test_the_oldest_registration_decides_what_is_spoken(versions, fallback):
    chosen = protocol_settings([broker(i, version=version) for i, version in enumerate(versions)])
    assert chosen.get("broker.version.fallback") == fallback
    assert chosen.get("api.version.request", True) is (fallback is None)


def test_kafkas_old_names_become_librdkafkas():
    made = settings(
        fetch_message_max_bytes=2000000,
        fetch_wait_max_ms=50,
        fetch_min_bytes=10,
        socket_timeout_ms=9000,
        refresh_leader_backoff_ms=300,
        client_id="c",
    )
    assert made["fetch.message.max.bytes"] == 2000000
    assert (made["fetch.wait.max.ms"], made["fetch.min.bytes"]) == (50, 10)
    assert (made["socket.timeout.ms"], made["fetch.error.backoff.ms"]) == (9000, 300)
    assert (made["client.id"], made["group.id"]) == ("c", "g")


def test_librdkafka_neither_commits_nor_resets_nor_creates_by_itself():
    made = settings()
    assert made["enable.auto.commit"] is made["enable.auto.offset.store"] is made["allow.auto.create.topics"] is False
    assert made["auto.offset.reset"] == "error"


def test_pass_through_wins():
    assert settings(rdkafka_queued_min_messages="7")["queued.min.messages"] == "7"


def test_a_response_is_no_larger_than_what_the_user_lets_librdkafka_receive():
    assert settings()["fetch.max.bytes"] == 50 * 1048576
    assert settings(rdkafka_receive_message_max_bytes="10000000")["fetch.max.bytes"] == 10_000_000 - 512


def test_streams_share_one_buffer():
    assert settings(streams=1)["queued.max.messages.kbytes"] == 65536
    assert settings(streams=16)["queued.max.messages.kbytes"] == 4096
    assert settings(streams=1000)["queued.max.messages.kbytes"] == 1024


@pytest.mark.parametrize("fetch_bytes", [1, 1048576, 50_000_000, 500_000_000])
@pytest.mark.parametrize("version", [1, 2, 3, 4, 5])
def test_librdkafka_takes_all_that_is_made(fetch_bytes, version):
    made = settings([broker(1, ("PLAINTEXT", "one", 9092), version=version)], fetch_message_max_bytes=fetch_bytes)
    check_settings(made)


@pytest.mark.parametrize("name", [one.name for one in PROPERTIES if one.kind is Kind.INTEGER])
def test_librdkafka_takes_the_largest_number_that_a_properties_file_may_have(name):
    """JVM members accept it. An earlier error named rdkafka.fetch.error.backoff.ms, which no user had set."""
    largest = {"socket.timeout.ms": "2147483647", name: "2147483647"}
    config = ConsumerConfig.load(None, largest, zookeeper_connect="z", group_id="g")
    for made in (fetcher_settings(config, [PLAIN], 1), group_offsets_settings(config, [PLAIN])):
        check_settings(made)
    check_settings(query_settings(config, [PLAIN]))


def test_librdkafka_takes_what_only_asks():
    config = ConsumerConfig.load(None, {"rdkafka.log_level": 7}, zookeeper_connect="z", group_id="g")
    check_settings(query_settings(config, [PLAIN]))


def test_a_setting_that_librdkafka_refuses_is_a_config_error():
    with pytest.raises(ConfigError, match=r"^rdkafka\.no\.such\.thing: librdkafka says"):
        check_settings(settings(rdkafka_no_such_thing="1"))


@pytest.mark.parametrize(
    ("mechanism", "named"), [("GSSAPI", r"sasl\.mechanism"), ("PLAIN", r"sasl\.(username|password)")]
)
def test_what_librdkafka_misses_is_an_error_that_names_the_property(mechanism, named):
    """Both named `rdkafka`, which is no property. confluent_kafka's wheels speak no GSSAPI."""
    config = ConsumerConfig.load(
        None, {"security.protocol": "SASL_SSL", "sasl.mechanism": mechanism}, zookeeper_connect="z", group_id="g"
    )
    secure = Broker(0, "b", 9092, (Endpoint("SASL_SSL", "SASL_SSL", "b", 9092),), version=4)
    with pytest.raises(ConfigError, match=rf"^{named}: librdkafka says"):
        check_settings(query_settings(config, [secure]))


def test_an_error_of_librdkafka_is_one_line_whatever_it_quotes():
    config = ConsumerConfig.load(None, {"rdkafka.debug": "a\nb"}, zookeeper_connect="z", group_id="g")
    with pytest.raises(ConfigError, match=r"^rdkafka\.debug: librdkafka says: [^\n]*a b[^\n]*$"):
        check_settings(query_settings(config, [PLAIN]))


@pytest.mark.parametrize(
    ("position", "reset_to", "goes_to"),
    [
        (EARLIEST, LATEST, 10),
        (LATEST, EARLIEST, 20),
        (10, LATEST, 10),
        (20, EARLIEST, 20),
        (15, None, 15),
        (9, EARLIEST, 10),
        (9, LATEST, 20),
        (21, EARLIEST, 10),
        (21, LATEST, 20),
    ],
)
def test_a_position_inside_the_log_stays_and_others_follow_the_policy(position, reset_to, goes_to):
    assert settle(Search(TP, 1, position), 10, 20, reset_to).offset == goes_to


def test_without_a_policy_no_position_is_an_error_that_tells_the_log():
    found = settle(Search(TP, 1, NO_POSITION), 10, 20, None)
    assert found.offset == NO_POSITION
    assert str(found.outside) == (
        f"{TP}: the group has committed no offset, and auto.offset.reset is none: seek to where it is to begin in the "
        "log, which holds 10 to 20, or write it with `legacy-consumer offsets reset`"
    )


@pytest.mark.parametrize("position", [9, 21])
def test_without_a_policy_a_position_outside_the_log_is_an_error(position):
    error = settle(Search(TP, 1, position), 10, 20, None).outside
    assert isinstance(error, OffsetOutOfRangeError)
    assert (error.offset, error.earliest, error.latest) == (position, 10, 20)
