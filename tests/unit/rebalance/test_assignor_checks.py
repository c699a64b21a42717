"""Assignors that fail, user data that cannot be decoded, and names of no assignor."""

from __future__ import annotations

import logging
import pickle
import struct
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.assignors import seam
from rebalance.assignors.checked import MAX_USER_DATA_BYTES, divide_group, keep_shares
from rebalance.assignors.seam import Assignor, AssignorProperty, Broker, Cluster, MemberAssignment, Subscription
from rebalance.assignors.seam import RebalanceProtocol as Protocol
from rebalance.assignors.sticky_user_data import decode_sticky, encode_sticky
from rebalance.assignors.strategies import STRATEGIES, common_protocol, make_assignor, make_assignors
from rebalance.errors import AssignorFailedError, UnknownAssignorError, UnreadableUserDataError
from tests.support.assignor_cases import divide, holders
from zk_layout.model import TopicPartition

CLUSTER = Cluster.of_counts({"t": 3})
TWO = {"m1": Subscription(("t",)), "m2": Subscription(("t",))}


def tps(*names):
    return tuple(TopicPartition(name[0], int(name[2:])) for name in names)


class TextlessError(Exception):
    """An error whose __str__ raises."""

    def __str__(self):
        raise LookupError


class Says(Assignor):
    """An assignor that returns the given answer, or raises it if it is an error."""

    name = "says"

    def __init__(self, answer):
        self.answer = answer

    def assign(self, cluster, subscriptions):
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer


ALL = {"m1": MemberAssignment(tps("t/0", "t/2")), "m2": MemberAssignment(tps("t/1"))}


@pytest.mark.parametrize(
    ("answer", "reason"),
    [
        (ZeroDivisionError("by\nzero"), "it raised ZeroDivisionError: by zero"),
        (TextlessError(), "it raised TextlessError: (its text raised LookupError)"),
        (ALL | {"m2": MemberAssignment(None)}, "it raised TypeError"),
        (ALL | {"m2": MemberAssignment(tps("t/1"), None)}, "its user data for member m2 are NoneType and not bytes"),
        (ALL | {"m2": MemberAssignment(tps("t/1"), [1])}, "its user data for member m2 are list and not bytes"),
        (ALL | {"m2": MemberAssignment((TopicPartition([], 1),))}, "it raised TypeError"),
        (ALL | {"m2": MemberAssignment(tps("t/1") * 2)}, "it gives t/1 to m2 and to m2"),
        (None, "it returned NoneType and not what each member is given"),
        ({}, "it gives t/0 and 2 more to no member"),
        (ALL | {"m2": MemberAssignment()}, "it gives t/1 to no member"),
        (ALL | {"m2": MemberAssignment(tps("t/1", "t/2"))}, "it gives t/2 to m1 and to m2"),
        (ALL | {"m2": MemberAssignment(tps("t/1", "t/1"))}, "it gives t/1 to m2 and to m2"),
        (ALL | {"m2": MemberAssignment(tps("t/1", "t/3"))}, "it gives t/3 to member m2, which does not exist"),
        (ALL | {"m2": MemberAssignment(tps("t/1", "x/0"))}, "it gives x/0 to member m2, which does not exist"),
        (ALL | {"m3": MemberAssignment()}, "it gives to 'm3', which is no member"),
        (ALL | {"m2": tps("t/1")}, "it gives tuple and not a MemberAssignment to member m2"),
        (ALL | {"m2": MemberAssignment(("t/1",))}, "it gives t/1 to member m2, which is no TopicPartition"),
        (ALL | {"m2": MemberAssignment(tps("t/1"), b"x" * (MAX_USER_DATA_BYTES + 1))}, "are more than 1048576 bytes"),
    ],
)
@pytest.mark.parametrize("protocol", list(Protocol))
def test_an_assignor_that_fails_is_an_error_of_one_line(answer, reason, protocol):
    with pytest.raises(AssignorFailedError) as caught:
        divide_group(Says(answer), protocol, CLUSTER, TWO)
    assert str(caught.value).startswith("assignor says failed: ")
    assert reason in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_partition_goes_only_to_a_subscriber():
    with pytest.raises(AssignorFailedError, match="gives t/1 to member m2, which does not subscribe to t"):
        divide_group(Says(ALL), Protocol.EAGER, CLUSTER, TWO | {"m2": Subscription(("u",))})


@pytest.mark.parametrize("partitions", [iter, list, set, lambda two: (TopicPartition("t", n * 1.0) for _, n in two)])
def test_an_answer_of_iterators_and_of_numbers_that_only_equal_is_returned_as_it_was_checked(partitions):
    answer = {"m1": MemberAssignment(partitions(tps("t/0", "t/1"))), "m2": MemberAssignment(partitions(tps("t/2")))}
    got = divide_group(Says(answer), Protocol.EAGER, CLUSTER, TWO)
    assert {member: share.partitions for member, share in got.items()} == {"m1": tps("t/0", "t/1"), "m2": tps("t/2")}
    assert {type(tp.partition) for share in got.values() for tp in share.partitions} == {int}


@pytest.mark.parametrize(
    "change",
    [
        lambda cluster, members: members.pop("m2"),
        lambda cluster, members: (members.clear(), cluster.topics.clear()),
        lambda cluster, members: members.update(m9=members["m1"]),
        lambda cluster, members: object.__setattr__(members["m2"], "topics", ()),
    ],
)
def test_an_assignor_that_changes_its_input_changes_nothing_for_the_group(change):
    class Changes(Says):
        def assign(self, cluster, subscriptions):
            change(cluster, subscriptions)
            return self.answer

    assert divide_group(Changes(ALL), Protocol.EAGER, CLUSTER, TWO) == ALL
    with pytest.raises(AssignorFailedError, match="it gives t/0 and 2 more to no member"):
        divide_group(Changes({}), Protocol.EAGER, CLUSTER, TWO)
    assert (list(TWO), list(CLUSTER.topics)) == (["m1", "m2"], ["t"])


def test_a_member_that_is_not_named_is_given_nothing():
    everything = {"m1": MemberAssignment(tps("t/2", "t/0", "t/1"), b"yours")}
    assert divide_group(Says(everything), Protocol.EAGER, CLUSTER, TWO) == {
        "m1": MemberAssignment(tps("t/0", "t/1", "t/2"), b"yours"),
        "m2": MemberAssignment(),
    }


def test_any_assignor_may_be_cooperative_because_moving_partitions_are_held_back():
    having = {"m1": Subscription(("t",), owned=tps("t/0", "t/1", "t/2"), generation=1), "m2": Subscription(("t",))}
    assert holders(divide_group(Says(ALL), Protocol.COOPERATIVE, CLUSTER, having)) == {"t/0": "m1", "t/2": "m1"}
    assert holders(divide_group(Says(ALL), Protocol.EAGER, CLUSTER, having)) == {"t/0": "m1", "t/1": "m2", "t/2": "m1"}


def test_an_assignor_is_given_sorted_inputs():
    seen = []

    class Looks(Says):
        def assign(self, cluster, subscriptions):
            seen.append(list(subscriptions.items()))
            assert (list(cluster.topics), list(cluster.brokers)) == (["s", "t"], [1, 2])
            return self.answer

    told = {
        "m2": Subscription(("t",)),
        "m1": Subscription(("u", "t", "u"), owned=tps("t/2", "t/0", "t/2")),
        "m10": Subscription(()),
    }
    cluster = Cluster({"t": CLUSTER.topics["t"], "s": ()}, {2: Broker(2), 1: Broker(1)})
    divide_group(Looks(ALL), Protocol.EAGER, cluster, told)
    assert seen == [
        [
            ("m1", Subscription(("t", "u"), owned=tps("t/0", "t/2"))),
            ("m10", Subscription(())),
            ("m2", Subscription(("t",))),
        ]
    ]


def test_no_member_loses_its_share_when_an_assignor_fails():
    cluster = Cluster.of_counts({"t": 5})
    previous = {"m1": tps("t/0", "t/3"), "m2": tps("t/1"), "gone": tps("t/2")}
    assert holders(keep_shares(Protocol.EAGER, cluster, TWO, previous)) == {
        "t/0": "m1", "t/3": "m1", "t/1": "m2", "t/2": "m2", "t/4": "m1",
    }  # fmt: skip


def test_a_partition_that_two_members_claim_to_have_had_is_kept_once_and_a_deleted_one_never():
    previous = {"m1": tps("t/0", "t/9", "u/0"), "m2": tps("t/0", "t/1")}
    assert holders(keep_shares(Protocol.EAGER, CLUSTER, TWO, previous)) == {"t/0": "m1", "t/1": "m2", "t/2": "m1"}


def test_a_cooperative_group_without_an_assignor_gives_nothing_to_two():
    told = {"m1": Subscription(("t",)), "m2": Subscription(("t",), owned=tps("t/0", "t/1"), generation=3)}
    previous = {"m2": tps("t/0")}
    assert holders(keep_shares(Protocol.COOPERATIVE, CLUSTER, told, previous)) == {"t/0": "m2", "t/2": "m1"}
    assert holders(keep_shares(Protocol.EAGER, CLUSTER, told, previous)) == {"t/0": "m2", "t/1": "m1", "t/2": "m1"}


def test_huge_user_data_are_refused_with_the_members_name():
    with pytest.raises(AssignorFailedError, match="member m2 tells 1048577 bytes of user data, 1048576 are allowed"):
        divide_group(Says(ALL), Protocol.EAGER, CLUSTER, TWO | {"m2": Subscription(("t",), b"x" * 1048577)})


UNREADABLE = [
    b"\x00",
    struct.pack(">i", 2**31 - 1),
    struct.pack(">i", -1),
    struct.pack(">ih", 1, -1) + b"\0\0\0\0",
    struct.pack(">ih", 1, 1) + b"\xff" + struct.pack(">ii", 1, 1),
    struct.pack(">ih", 1, 1) + b"t" + struct.pack(">i", 2**30),
    encode_sticky(tps("t/0"), 1)[:-2],
]


@pytest.mark.parametrize("data", UNREADABLE)
def test_a_sticky_member_that_cannot_be_read_keeps_nothing_and_the_others_keep_theirs(data, caplog):
    told = {
        "m1": Subscription(("t",), encode_sticky(tps("t/1"), 4)),
        "m2": Subscription(("t",), data),
        "m3": Subscription(("t",), encode_sticky(tps("t/2"), 4)),
    }
    with caplog.at_level(logging.WARNING, "rebalance"):
        assert divide(make_assignor("sticky", {}), CLUSTER, told) == {"t/0": "m2", "t/1": "m1", "t/2": "m3"}
    [record] = caplog.records
    assert "sticky: what member m2 had cannot be read, it keeps nothing: byte " in record.getMessage()


@given(st.binary(max_size=60))
def test_any_bytes_of_sticky_user_data_are_read_or_refused(data):
    try:
        owned, generation = decode_sticky(data)
    except UnreadableUserDataError:
        return
    assert decode_sticky(encode_sticky(owned, generation)) == (owned, generation)


def test_a_generation_that_cannot_be_read_is_none(caplog):
    told = {"m1": Subscription(("t",), b"xy", owned=tps("t/2")), "m2": Subscription(("t",))}
    answer = divide(make_assignor("cooperative-sticky", {}), CLUSTER, told)
    assert answer.keys() == {"t/0", "t/1", "t/2"}
    assert "cooperative-sticky: what member m1 had cannot be read" in caplog.text


@pytest.mark.parametrize("data", [b"x", b"12345"])
def test_a_member_whose_priority_cannot_be_read_comes_last(data, caplog):
    lowest = struct.pack(">i", -(2**31) + 1)
    told = {"m1": Subscription(("t",), data), "m2": Subscription(("t",), lowest)}
    assert set(divide(make_assignor("failover", {}), CLUSTER, told).values()) == {"m2"}
    assert "failover: member m1 tells" in caplog.text


def test_the_priority_is_an_int32_big_endian():
    assert make_assignor("failover", {}).subscription_user_data(()) == b"\x7f\xff\xff\xff"
    for priority in (-(2**31), -1, 0, 7, 2**31 - 1):
        assignor = make_assignor("failover", {"assignment.consumer.priority": str(priority)})
        assert assignor.subscription_user_data(()) == struct.pack(">i", priority)


class Configured(Assignor):
    """An assignor that records the properties of its configuration."""

    name = "configured"
    properties = (
        AssignorProperty("my.text", "x", "a text"),
        AssignorProperty("my.number", 3, "a number", 1, 9),
        AssignorProperty("my.flag", default=False, meaning="a flag"),
    )

    def configure(self, properties):
        self.seen = dict(properties)

    def assign(self, cluster, subscriptions):
        raise NotImplementedError


@pytest.fixture
def importable(monkeypatch):
    """Put Configured into an importable module. Returns: the import path for a configuration."""
    monkeypatch.setattr(seam, "Configured", Configured, raising=False)
    return "rebalance.assignors.seam:Configured"


def test_declared_properties_arrive_with_their_types(importable):
    made = make_assignor(importable, {"my.number": " 9", "my.flag": "True ", "another": "1"})
    assert made.seen == {"my.text": "x", "my.number": 9, "my.flag": True}


@pytest.mark.parametrize(
    ("properties", "reason"),
    [
        ({"my.number": "ten"}, "my.number must be an integer from 1 to 9, not 'ten'"),
        ({"my.number": "10"}, "my.number must be an integer from 1 to 9, not '10'"),
        # refused here as in a consumer's properties
        ({"my.number": "0_5"}, "my.number must be an integer from 1 to 9, not '0_5'"),
        ({"my.number": "\u0665"}, "my.number must be an integer from 1 to 9, not '\u0665'"),
        ({"my.flag": "yes"}, "my.flag must be true or false, not 'yes'"),
    ],
)
def test_a_wrong_property_is_refused_with_its_name(importable, properties, reason):
    with pytest.raises(UnknownAssignorError) as caught:
        make_assignor(importable, properties)
    assert reason in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_names_come_as_a_list_in_order_of_preference(importable):
    java = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor"
    made = make_assignors(f"roundrobin, {java},{importable}", {})
    assert [assignor.name for assignor in made] == ["roundrobin", "cooperative-sticky", "configured"]
    assert common_protocol(made) is Protocol.EAGER
    assert common_protocol(make_assignors(java, {})) is Protocol.COOPERATIVE


@pytest.mark.parametrize(
    ("names", "reason"),
    [
        ("", "give one of range,"),
        ("range,", "give one of range,"),
        ("sticky,org.apache.kafka.clients.consumer.StickyAssignor", "sticky is named twice"),
        ("rebalance.assignors.seam:Nothing", "cannot be imported: AttributeError"),
    ],
)
def test_a_list_of_names_that_are_none_is_refused(names, reason):
    with pytest.raises(UnknownAssignorError, match=reason):
        make_assignors(names, {})


@pytest.mark.parametrize(
    ("parts", "reason"),
    [
        ({"name": ""}, "has no name of 1 to 100 printable characters"),
        ({"name": "\ud800"}, "has no name of 1 to 100 printable characters"),
        ({"name": "x" * 101}, "has no name of 1 to 100 printable characters"),
        ({"protocols": Protocol.EAGER}, "must be a tuple of RebalanceProtocols"),
        ({"protocols": ("eager",)}, "must be a tuple of RebalanceProtocols"),
        ({"__init__": lambda self: sys.exit("no luck")}, "cannot be made: SystemExit: no luck"),
        ({"configure": lambda self, properties: sys.exit("no luck")}, "cannot be made: SystemExit: no luck"),
    ],
)
def test_an_assignor_that_no_group_could_use_is_refused_before_any_request(monkeypatch, parts, reason):
    monkeypatch.setattr(
        sys.modules[__name__], "Odd", type("Odd", (Says,), {"__init__": object.__init__, **parts}), False
    )
    with pytest.raises(UnknownAssignorError, match=reason):
        common_protocol(make_assignors(f"{__name__}:Odd", {}))


def test_an_import_that_ends_the_process_is_refused_and_does_not_end_it(monkeypatch, tmp_path):
    (tmp_path / "exits_on_import.py").write_text("import sys; sys.exit('no luck')")
    monkeypatch.syspath_prepend(tmp_path)
    with pytest.raises(UnknownAssignorError, match="cannot be imported: SystemExit: no luck"):
        make_assignor("exits_on_import:Any", {})


def test_assignors_without_a_common_way_to_give_up_partitions_cannot_be_mixed():
    class OnlyCooperative(Says):
        name = "only"
        protocols = (Protocol.COOPERATIVE,)

    with pytest.raises(UnknownAssignorError, match=r"common to range \(eager\), only \(cooperative\)"):
        common_protocol((make_assignor("range", {}), OnlyCooperative(ALL)))


def test_the_table_names_each_strategy_by_its_own_word():
    assert all(word == strategy.assignor.name for word, strategy in STRATEGIES.items())
    assert {strategy.java_class for strategy in STRATEGIES.values()} - {None} == {
        f"org.apache.kafka.clients.consumer.{name}Assignor"
        for name in ("Range", "RoundRobin", "Sticky", "CooperativeSticky")
    }
