import pytest
from hypothesis import given
from hypothesis import strategies as st

from zk_layout.codecs import decode_registration, encode_registration
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ConsumerRegistration, SubscriptionPattern

PATH = "/consumers/g/ids/g_host-1416392398000-1a2b3c4d"
STATIC, WHITE_LIST, BLACK_LIST = SubscriptionPattern


def white_list(regex_in_json: str) -> bytes:
    return f'{{"version":1,"subscription":{{"{regex_in_json}":1}},"pattern":"white_list","timestamp":"7"}}'.encode()


def regex_of(data: bytes) -> str:
    return decode_registration(PATH, data).subscription[0][0]


def reason_for(data: bytes | None) -> str:
    with pytest.raises(MalformedZnodeError) as caught:
        decode_registration(PATH, data)
    assert (caught.value.path, caught.value.data) == (PATH, data)
    assert len(str(caught.value).splitlines()) == 1
    return caught.value.reason


@pytest.mark.parametrize(
    ("data", "record"),
    [
        (
            b'{ "pattern":"static", "subscription":{ "topic1": 1 }, "timestamp":"1376439412000", "version":1 }',
            ConsumerRegistration(STATIC, (("topic1", 1),), 1376439412000),
        ),
        (
            b'{"version":1,"subscription":{"topic2":1,"topic1":2},"pattern":"static","timestamp":"1416392398000"}',
            ConsumerRegistration(STATIC, (("topic2", 1), ("topic1", 2)), 1416392398000),
        ),
        (
            b'{"version":1,"subscription":{"foo.*|bar":2},"pattern":"white_list","timestamp":"1416392398000"}',
            ConsumerRegistration(WHITE_LIST, (("foo.*|bar", 2),), 1416392398000),
        ),
        (
            b'{"version":1,"subscription":{"__.*":1},"pattern":"black_list","timestamp":"1416392398000"}',
            ConsumerRegistration(BLACK_LIST, (("__.*", 1),), 1416392398000),
        ),
        (
            b'{"version":1,"subscription":{},"pattern":"static","timestamp":"1416392398000"}',
            ConsumerRegistration(STATIC, (), 1416392398000),
        ),
    ],
)
def test_each_form_of_the_scala_consumer_is_read_and_the_compact_ones_written(data, record):
    assert decode_registration(PATH, data) == record
    if b" " not in data:
        assert encode_registration(record) == data


def test_a_regex_escaped_once_is_the_regex():
    assert regex_of(white_list(r"t\\d|a\\.b\/c")) == r"t\d|a\.b/c"


def test_a_regex_escaped_twice_by_1_0_1_means_a_literal_backslash_as_for_every_reader():
    data = white_list(r"t\\\\d|a\\\\.b")
    assert regex_of(data) == r"t\\d|a\\.b"
    assert encode_registration(decode_registration(PATH, data)) == data


def test_a_regex_not_escaped_at_all_by_0_8_1_is_read_by_doubling_backslashes():
    assert regex_of(white_list(r"t\d|a\.b")) == r"t\d|a\.b"


def test_doubled_backslashes_do_not_excuse_other_errors():
    assert "not JSON" in reason_for(white_list(r"t\d")[:-1])


def test_the_regex_is_escaped_by_hand_as_0_8_2_does():
    regex = '"\\/\b\f\n\r\t\x00\x1f\x7f\x9f\xa0\u00e9\u20ac\U0001f600'
    data = encode_registration(ConsumerRegistration(WHITE_LIST, ((regex, 1),), 7))
    escaped = r"\"\\\/\b\f\n\r\t\u0000\u001f\u007f\u009f" + "\xa0\u00e9\u20ac\U0001f600"
    assert data == white_list(escaped)
    assert regex_of(data) == regex


def test_an_unknown_pattern_counts_as_static():
    data = b'{"subscription":{"t":1},"pattern":"sticky"}'
    assert decode_registration(PATH, data) == ConsumerRegistration(STATIC, (("t", 1),), 0)


@pytest.mark.parametrize("pattern", ["static", "white_list", "black_list"])
def test_an_empty_subscription_is_static_and_empty_with_any_pattern(pattern):
    data = b'{"version":1,"subscription":{},"pattern":"%s","timestamp":"5"}' % pattern.encode()
    assert decode_registration(PATH, data) == ConsumerRegistration(STATIC, (), 5)


@pytest.mark.parametrize(
    "timestamp", ["", ',"timestamp":null', ',"timestamp":"soon"', ',"timestamp":[]', ',"timestamp":1e3']
)
def test_an_invalid_timestamp_does_not_fail_the_read(timestamp):
    data = b'{"version":1,"subscription":{"t":1},"pattern":"static"%s}' % timestamp.encode()
    assert decode_registration(PATH, data).timestamp_ms == 0


def test_an_unquoted_timestamp_and_unknown_keys_are_read():
    data = b'{"x":[1.5],"version":"?","subscription":{"t":1},"pattern":"static","timestamp":1416392398000}'
    assert decode_registration(PATH, data) == ConsumerRegistration(STATIC, (("t", 1),), 1416392398000)


def test_a_key_given_twice_counts_as_given_last():
    data = b'{"subscription":{"t":1,"u":1,"t":3},"pattern":"white_list","pattern":"static"}'
    assert decode_registration(PATH, data) == ConsumerRegistration(STATIC, (("t", 3), ("u", 1)), 0)


def test_only_the_first_entry_of_a_list_must_be_sound():
    data = b'{"subscription":{"t.*":1,"u":0},"pattern":"%s"}'
    assert decode_registration(PATH, data % b"white_list").subscription == (("t.*", 1), ("u", 0))
    assert "below 1" in reason_for(data % b"static")


@pytest.mark.parametrize(
    ("data", "about"),
    [
        (b'{"version":1,"subscription":{"t":1},"timestamp":"5"}', "pattern is missing"),
        (b'{"version":1,"pattern":"static","timestamp":"5"}', "subscription is missing"),
        (b'{"subscription":{"t":1},"pattern":7}', "pattern is not a string"),
        (b'{"subscription":["t"],"pattern":"static"}', "subscription is not an object"),
        (b'{"subscription":{"t":0},"pattern":"static"}', "subscription.t is not a number of streams"),
        (b'{"subscription":{"t":-3},"pattern":"white_list"}', "below 1"),
        (b'{"subscription":{"t":true},"pattern":"static"}', "subscription.t is not an integer"),
        (b'{"subscription":{"t":1.0},"pattern":"static"}', "subscription.t is not an integer"),
        (b'{"subscription":{"t":"1"},"pattern":"static"}', "subscription.t is not an integer"),
        (b'{"subscription":{"t":2147483648},"pattern":"static"}', "subscription.t is not an integer"),
        (b'{"subscription":{"t":%s},"pattern":"static"}' % (b"9" * 100_000), "subscription.t is not an integer"),
        (b'{"subscription":{"t":NaN},"pattern":"static"}', "NaN is not JSON"),
        (b'{"subscription":{"\\ud800":1},"pattern":"static"}', "half a surrogate pair"),
        (b'{"subscription":{"\xff":1},"pattern":"static"}', "not UTF-8"),
        (b'{"subscription":{"t":1},"pattern":"static"} tail', "not JSON"),
        (b"[" * 200_000, "not JSON"),
        (b'[{"pattern":"static"}]', "a registration is a JSON object"),
    ],
)
def test_a_registration_that_fails_a_jvm_members_rebalance_is_malformed(data, about):
    assert about in reason_for(data)


@pytest.mark.parametrize(
    ("data", "writer"),
    [
        (b'{ "topic1": 4,"topic2": 2 }', "Kafka 0.7"),
        (b"{  }", "Kafka 0.7"),
        (b"*4*whitetopic.*", "Kafka 0.7"),
        (b"!4!blacktopic.*", "Kafka 0.7"),
        (b"some.topic-name_1", "pykafka"),
        (b"12", "pykafka"),
        (b"", "kafka-node"),
        (None, "kafka-node"),
    ],
)
def test_the_reason_names_the_clients_that_write_such_registrations(data, writer):
    assert writer in reason_for(data)


@pytest.mark.parametrize("value", ["5", "null", "[]", '"other"'])
def test_a_key_of_this_project_with_a_strange_value_costs_no_member_its_place_as_jvm_members_do_not_know_the_key(value):
    data = (
        f'{{"version":1,"subscription":{{"t":1}},"pattern":"static","timestamp":"1","coordination":{value}}}'.encode()
    )
    record = decode_registration(PATH, data)
    assert (record.subscription, record.coordination) == ((("t", 1),), "classic")


def test_a_pair_of_surrogates_is_one_character():
    assert regex_of(white_list(r"\ud83d\ude00")) == "\U0001f600"


@given(
    pattern=st.sampled_from(SubscriptionPattern),
    subscription=st.dictionaries(st.text(), st.integers(1, 10_000), min_size=1, max_size=10),
    timestamp_ms=st.integers(0, 2**63 - 1),
)
def test_encoded_registrations_are_decoded_again(pattern, subscription, timestamp_ms):
    record = ConsumerRegistration(pattern, tuple(subscription.items()), timestamp_ms)
    assert decode_registration(PATH, encode_registration(record)) == record
