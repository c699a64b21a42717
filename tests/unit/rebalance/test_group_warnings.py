"""Warnings about a group; each states in a sentence something that cannot work."""

import pytest

from rebalance.group_strategy import CLASSIC_STRATEGIES
from rebalance.group_warnings import group_warnings
from rebalance.member_kinds import registration_kind
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import unreadable_reason
from zk_layout.codecs import decode_registration
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import TopicPartition

RANGE, RR_0_8_2, RR_0_10_2, RR_1_0 = CLASSIC_STRATEGIES
UUID = "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b"


def kafka(subscription, pattern="static"):
    return f'{{"version":1,"subscription":{subscription},"pattern":"{pattern}","timestamp":"1416392398000"}}'.encode()


def kafka_node(*topics):
    listed = ", ".join(f'"{topic}": 1' for topic in topics)
    return f'{{"version":1,"subscription":{{{listed}}},"pattern":"white_list","timestamp":"1416392398000"}}'.encode()


WVANBERGEN = b'{"pattern":"static","subscription":{"t":1},"timestamp":"1416392398","version":1}'


def snapshot(registrations, topics):
    """Return the snapshot that a reader makes of registrations with these bytes."""
    members, unreadable, kinds = {}, {}, {}
    for name, data in sorted(registrations.items()):
        kinds[name] = registration_kind(name, data)
        try:
            members[name] = decode_registration(f"/consumers/g/ids/{name}", data)
        except MalformedZnodeError as error:
            unreadable[name] = str(error)
        else:
            assert unreadable_reason(members[name]) is None
    partitions = {topic: tuple(range(count)) for topic, count in sorted(topics.items())}
    return GroupSnapshot("g", members, partitions, unreadable, kinds=kinds)


def codes(warnings):
    return [warning.code for warning in warnings]


def owners_by(strategy, group):
    return {tp: str(thread) for tp, thread in strategy.assign(group).items()}


def test_a_sound_group_has_no_warnings():
    group = snapshot({"g_a": kafka('{"t":1}'), "g_b": kafka('{"t":2}')}, {"t": 4})
    for ours in (None, RANGE):
        assert group_warnings(group, owners_by(RANGE, group), ours=ours) == []
        assert group_warnings(group, {}, ours=ours) == [], "nobody has anything yet"


@pytest.mark.parametrize(
    ("name", "data", "code", "says"),
    [
        (f"h:{UUID}", b"t", "foreign_member", "is of pykafka: members of the JVM fail every rebalance"),
        (f"g_{UUID}", b"", "foreign_member", "is of kafka-node: it has not filled in its registration yet"),
        ("g_old", b'{ "t": 2 }', "kafka_0_7_member", "is of Kafka 0.7: 0.7 and later versions cannot read each other"),
        ("g_x", b"{", "unreadable_member", "g_x: its registration cannot be read"),
        (
            f"h:{UUID}",
            WVANBERGEN,
            "foreign_member",
            "is of wvanbergen/kafka, which divides partitions by their leaders",
        ),
        ("g_x", kafka(r'{"a\.b":1}', "white_list"), "regex_not_escaped", "before 1.0.1 cannot read that"),
    ],
)
def test_a_member_that_harms_the_group_is_named(name, data, code, says):
    [warning] = group_warnings(snapshot({name: data, "g_a": kafka('{"t":1}')}, {"t": 4}), {})
    assert (warning.code, warning.consumer_ids) == (code, (name,))
    assert says in warning.text
    assert "\n" not in warning.text


def test_a_white_list_escaped_twice_owns_nothing_and_gets_a_warning_with_the_meant_one():
    group = snapshot({"g_w": kafka(r'{"t\\\\d|a\\\\.b":1}', "white_list")}, {"t1": 1, "a.b": 1})
    [warning] = group_warnings(group, {})
    assert warning.code == "regex_escaped_twice"
    assert r"registered its filter t\d|a\.b escaped twice" in warning.text
    assert r"every member reads t\\d|a\\.b" in warning.text
    assert "owns nothing" in warning.text


def test_a_warning_names_the_topics_that_a_filter_escaped_twice_still_chooses():
    group = snapshot({"g_w": kafka(r'{"perf|t\\\\d":1}', "white_list")}, {"t1": 1, "perf": 1})
    assert "so it chooses only perf;" in group_warnings(group, {})[0].text
    group = snapshot({"g_b": kafka(r'{"t\\\\d":1}', "black_list")}, {"t1": 1})
    assert "so it keeps fewer topics out than was meant;" in group_warnings(group, {})[0].text


def test_a_filter_escaped_once_is_fine():
    assert group_warnings(snapshot({"g_w": kafka(r'{"t\\d":1}', "white_list")}, {"t1": 1}), {}) == []


def test_kafka_nodes_second_topic_is_read_twice():
    group = snapshot({f"g_{UUID}": kafka_node("t", "u", "v")}, {"t": 1, "u": 1})
    [warning] = group_warnings(group, {})
    assert warning.code == "several_patterns"
    assert "is of kafka-node and registers 3 topics as one white list" in warning.text
    assert "reads t alone, so both it and they read u, v" in warning.text


def test_kafka_node_beside_several_streams_or_a_filter_cannot_work():
    node = {f"g_{UUID}": kafka_node("t")}
    fine = snapshot({**node, "g_a": kafka('{"t":1}')}, {"t": 4})
    assert group_warnings(fine, {}) == []
    for unlike in (kafka('{"t":2}'), kafka('{"t.*":1}', "white_list")):
        [warning] = group_warnings(snapshot({**node, "g_a": unlike}, {"t": 4}), {})
        assert warning.code == "foreign_member"
        assert set(warning.consumer_ids) == {"g_a", f"g_{UUID}"}


def test_owners_without_a_thread_are_gathered_by_owner():
    group = snapshot({f"h:{UUID}": WVANBERGEN}, {"t": 5})
    owners = {TopicPartition("t", n): f"h:{UUID}" for n in range(5)}
    foreign, warning = group_warnings(group, owners)
    assert (foreign.code, warning.code) == ("foreign_member", "owner_without_thread")
    assert "owns t/0, t/1, t/2 and 2 more without naming a thread, as wvanbergen/kafka does" in warning.text


def test_my_own_strategy_against_the_groups():
    group = snapshot({"g_a": kafka('{"t":1,"u":1}'), "g_b": kafka('{"t":1,"u":1}')}, {"t": 3, "u": 1})
    owners = owners_by(RANGE, group)
    assert group_warnings(group, owners, ours=RANGE) == []
    [warning] = group_warnings(group, owners, ours=RR_1_0)
    assert warning.code == "strategy_mismatch"
    assert "set partition.assignment.strategy=range" in warning.text


def test_a_warning_names_members_with_different_strategies():
    group = snapshot({name: kafka('{"topic-1":1}') for name in ("g_a", "g_b", "g_c")}, {"topic-1": 12})
    old = {tp: text for tp, text in owners_by(RR_0_10_2, group).items() if text == "g_a-0"}
    new = {tp: text for tp, text in owners_by(RR_1_0, group).items() if text == "g_b-0"}
    assert group_warnings(group, old) == group_warnings(group, new) == [], "who has nothing may be on its way"
    [warning] = group_warnings(group, old | new)
    assert (warning.code, warning.consumer_ids) == ("strategy_mismatch", ("g_a", "g_b"))
    assert "g_a by roundrobin 0.8.2 or roundrobin 0.10.2; g_b by roundrobin 1.0;" in warning.text


def test_a_group_that_moves_from_one_assignment_to_another_is_no_disagreement():
    group = snapshot({name: kafka('{"topic-1":1}') for name in ("g_a", "g_b", "g_c")}, {"topic-1": 12})
    before = snapshot({name: kafka('{"topic-1":1}') for name in ("g_a", "g_b")}, {"topic-1": 12})
    moving = {tp: text for tp, text in owners_by(RANGE, before).items() if text == "g_a-0"}
    assert group_warnings(group, moving) == []


@pytest.mark.parametrize(("ours", "warned"), [(RR_0_8_2, True), (RR_0_10_2, False), (RANGE, False), (None, True)])
def test_unequal_subscriptions_concern_roundrobin_before_0_10_2(ours, warned):
    group = snapshot({"g_a": kafka('{"t":1,"u":2}'), "g_b": kafka('{"t":1}')}, {"t": 2, "u": 2})
    assert codes(group_warnings(group, {}, ours=ours)) == (["unequal_subscriptions"] if warned else [])
    if ours is None:
        assert group_warnings(group, owners_by(RANGE, group)) == [], "a group that owns something was not refused"


def test_missing_topics_are_named_with_the_members_that_wait_for_them():
    group = snapshot({"g_a": kafka('{"t":1,"gone":1}'), "g_b": kafka('{"gone":1,"t":1}')}, {"t": 2})
    [warning] = group_warnings(group, owners_by(RANGE, group))
    assert warning.code == "missing_topic"
    assert warning.text == "topic gone does not exist: streams of g_a, g_b wait until it is created"


def test_text_of_other_clients_does_not_fill_the_screen():
    group = snapshot({"g_a": kafka('{"%s":1}' % ("x" * 10_000))}, {})
    assert all(len(warning.text) < 1000 for warning in group_warnings(group, {}))
