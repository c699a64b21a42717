"""The kind of client that wrote a registration or an owner znode, recognised by its bytes."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.member_kinds import MemberKind, meant_regex, owner_kind, registration_kind
from zk_layout.codecs import decode_owner, encode_registration
from zk_layout.model import ConsumerRegistration, SubscriptionPattern

GOLDEN = Path(__file__).parents[2] / "data" / "golden"
UUID = "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b"
SCALA_ID = "g_host-1416392398000-1a2b3c4d"
STATIC = b'{"version":1,"subscription":{"t1":2,"t2":1},"pattern":"static","timestamp":"1416392398000"}'
WHITE = b'{"version":1,"subscription":{"%s":1},"pattern":"white_list","timestamp":"1416392398000"}'
STATIC_0_8_0 = b'{ "pattern":"static", "subscription":{ "t": 1 }, "timestamp":"1376439412000", "version":1 }'
WHITE_0_8_0 = b'{ "pattern":"white_list", "subscription":{ "t.*" : 2 }, "timestamp":"1376439412000", "version":1 }'
WVANBERGEN = b'{"pattern":"static","subscription":{"t":1,"u":1},"timestamp":"1416392398","version":1}'
KAFKA_NODE = b'{"version":1,"subscription":{"t": 1},"pattern":"white_list","timestamp":"1416392398000"}'
KAFKA_NODE_2 = b'{"version":1,"subscription":{"t": 1, "u": 1},"pattern":"white_list","timestamp":"1416392398000"}'


@pytest.mark.parametrize(
    ("consumer_id", "data", "kind"),
    [
        (SCALA_ID, b'{ "topic1": 4,"topic2": 2 }', MemberKind.KAFKA_0_7),
        (SCALA_ID, b"{  }", MemberKind.KAFKA_0_7),
        (SCALA_ID, b"*4*white.*", MemberKind.KAFKA_0_7),
        (SCALA_ID, b"!4!black.*", MemberKind.KAFKA_0_7),
        (SCALA_ID, STATIC_0_8_0, MemberKind.KAFKA_0_8_0),
        (SCALA_ID, WHITE_0_8_0, MemberKind.KAFKA_0_8_0),
        (SCALA_ID, STATIC, MemberKind.KAFKA),
        (SCALA_ID, WHITE % b"t.|perf", MemberKind.KAFKA),
        (SCALA_ID, WHITE % rb"a\.b", MemberKind.KAFKA_0_8_1),
        (SCALA_ID, WHITE % rb"a\\.b", MemberKind.KAFKA_0_8_2),
        (SCALA_ID, WHITE % rb"a\/b", MemberKind.KAFKA_0_8_2),
        (SCALA_ID, WHITE % rb"\\bfoo", MemberKind.KAFKA_0_8_2),
        (SCALA_ID, WHITE % rb"a\\\\.b", MemberKind.KAFKA_1_0_1),
        (SCALA_ID, WHITE % rb"t\\\\d|a\\\\.b", MemberKind.KAFKA_1_0_1),
        (SCALA_ID, WHITE % rb"a\\\/b", MemberKind.KAFKA_1_0_1),
        (f"host:{UUID}", b"clicks.v2", MemberKind.PYKAFKA),
        ("anything", b"clicks", MemberKind.UNKNOWN),
        (f"host:{UUID}", WVANBERGEN, MemberKind.WVANBERGEN),
        (f"g_{UUID}", KAFKA_NODE, MemberKind.KAFKA_NODE),
        (f"g_{UUID}", KAFKA_NODE_2, MemberKind.KAFKA_NODE),
        (f"g_{UUID}", b"", MemberKind.KAFKA_NODE),
        (f"g_{UUID}", None, MemberKind.KAFKA_NODE),
        (SCALA_ID, b"", MemberKind.UNKNOWN),
        (SCALA_ID, b"not json", MemberKind.UNKNOWN),
        (SCALA_ID, b"\xff\xfe", MemberKind.UNKNOWN),
        (SCALA_ID, b'{"version": 1, "subscription": {"t": 1}, "pattern": "static"}', MemberKind.UNKNOWN),
    ],
)
def test_each_client_is_known_by_its_way_of_writing(consumer_id, data, kind):
    assert registration_kind(consumer_id, data) is kind


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1"])
def test_registrations_of_running_kafka_consumers_count_as_kafkas(version):
    recorded = json.loads((GOLDEN / f"kafka-{version}.json").read_text())["znodes"]
    kinds = [
        registration_kind(znode["path"].rpartition("/")[2], znode["value"].encode())
        for znode in recorded
        if "/ids/" in znode["path"] and znode["path"].startswith("/consumers/")
    ]
    assert kinds == [MemberKind.KAFKA] * 3


@given(
    st.sampled_from(SubscriptionPattern),
    st.dictionaries(st.text('ab.*\\d/"|[]é\x07', max_size=9), st.integers(1, 99), min_size=1, max_size=1),
)
def test_registrations_of_this_project_are_never_taken_for_another_clients(pattern, subscription):
    data = encode_registration(ConsumerRegistration(pattern, tuple(subscription.items()), 1416392398000))
    [text] = subscription
    kind = registration_kind(SCALA_ID, data)
    if pattern is SubscriptionPattern.STATIC or b"\\" not in data:
        assert kind is MemberKind.KAFKA
    else:
        # nobody means a regex in which every backslash is escaped
        assert kind is (MemberKind.KAFKA_0_8_2 if meant_regex(text) is None else MemberKind.KAFKA_1_0_1)


@given(st.text('ab.*\\dQE|[]/"', min_size=1))
def test_escaping_once_too_often_is_seen_and_undone(meant):
    doubled = meant.replace("\\", "\\\\").replace('"', '\\"').replace("/", "\\/")
    assert meant_regex(doubled) == (meant if doubled != meant else None)


@given(st.binary(max_size=40) | st.text('{}":,\\ *!1pattern', max_size=60).map(str.encode), st.text(max_size=50))
def test_any_bytes_have_a_kind(data, consumer_id):
    assert registration_kind(consumer_id, data) in MemberKind
    assert owner_kind(consumer_id) in {None, *MemberKind}


def test_long_garbage_is_judged_at_once():
    for data in (
        b'{"a":' * 50_000,
        b"[" * 100_000,
        b'{"version":1,"subscription":{' + b'"\\' * 50_000,
        b"{ " + b'"a": 1,' * 50_000,
    ):
        assert registration_kind(SCALA_ID, data) is MemberKind.UNKNOWN
    deep = b'{"version":1,"subscription":{"\\\\":' + b"[" * 100_000 + b'},"pattern":"white_list","timestamp":"1"}'
    assert registration_kind(SCALA_ID, deep) is MemberKind.KAFKA_0_8_1


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("group1_host1-1416392398000-1a2b3c4d-0", None),
        ("g_c-10", None),
        (f"host:{UUID}", MemberKind.WVANBERGEN),
        (f"host@10.0.0.1:{UUID}", MemberKind.WVANBERGEN),
        (f"my-group_{UUID}", MemberKind.KAFKA_NODE),
        ("my-group_0b0b0b0b-0b0b-4b0b-8b0b-123456789012", MemberKind.KAFKA_NODE),
        ("somebody", MemberKind.UNKNOWN),
        ("", MemberKind.UNKNOWN),
    ],
)
def test_an_owner_without_thread_is_known_by_its_id(text, kind):
    assert owner_kind(text) is kind
    if kind is None:
        assert str(decode_owner("/consumers/g/owners/t/0", text.encode())) == text
