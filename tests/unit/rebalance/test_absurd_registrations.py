"""Registrations that any client may write under a group's ids, and that promise more streams than a process can run."""

from __future__ import annotations

import json
import logging
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.assignors import ASSIGNORS
from rebalance.assignors.range import range_assign
from rebalance.assignors.threads import threads_per_topic
from rebalance.group_warnings import group_warnings
from rebalance.machine import Phase
from rebalance.snapshot import GroupSnapshot
from tests.support.group_members import GROUP, Group
from zk_layout.codecs import decode_registration
from zk_layout.codecs.consumers import MOST_BYTES, MOST_STREAMS, MOST_STREAMS_IN_ALL
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import ConsumerRegistration, SubscriptionPattern


def registration(subscription, pattern="static"):
    return json.dumps(
        {"version": 1, "subscription": subscription, "pattern": pattern, "timestamp": "1"}, separators=(",", ":")
    ).encode()


ABSURD = {
    "2147483647 streams": registration({"t": 2147483647}),
    "2147483647 streams of a filter": registration({".*": 2147483647}, "white_list"),
    "one stream too many": registration({"t": MOST_STREAMS + 1}),
    "too many streams in all": registration({f"t{n}": MOST_STREAMS for n in range(11)}),
    "too many bytes": registration({f"topic-of-a-long-name-{n:030}": 1 for n in range(10_000)}),
}


@pytest.mark.parametrize("data", ABSURD.values(), ids=ABSURD)
@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_an_absurd_registration_counts_as_unreadable_and_the_group_continues_without_it(data, strategy, caplog):
    with pytest.raises(MalformedZnodeError) as caught:
        decode_registration("/p", data)
    assert len(str(caught.value)) < 400
    group = Group({"t": 4})
    member = group.join("a", {"t": 1}, strategy=strategy)
    group.settle()
    with caplog.at_level(logging.WARNING):
        tracemalloc.start()
        group.admin.create(f"/consumers/{GROUP}/ids/zz-stranger", data)
        group.settle()
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
    assert (member.phase, len(member.owned)) == (Phase.STABLE, 4)
    assert [text for text in caplog.messages if "leaves out member zz-stranger" in text]
    assert peak < 20_000_000
    assert sum(map(len, caplog.messages)) < 1000


def test_a_registration_with_the_most_streams_and_topics_allowed_is_read():
    assert decode_registration("/p", registration({"t": MOST_STREAMS})).subscription == (("t", MOST_STREAMS),)
    many = decode_registration("/p", registration({f"t{n}": 10 for n in range(MOST_STREAMS_IN_ALL // 10)}))
    assert len(many.subscription) == 10_000
    assert len(registration({f"t{n}": 10 for n in range(10_000)})) < MOST_BYTES


members = st.dictionaries(st.sampled_from(["a", "b", "c-1", "c"]), st.integers(1, 130), min_size=1)


@given(members, st.integers(1, 25))
def test_range_gives_the_same_whether_threads_that_get_nothing_are_built_or_not(streams, partitions):
    registrations = {
        name: ConsumerRegistration(SubscriptionPattern.STATIC, (("t", count),), 0)
        for name, count in sorted(streams.items())
    }
    group = GroupSnapshot("g", registrations, {"t": tuple(range(partitions))})
    threads = threads_per_topic(group)["t"]
    each, extra = divmod(partitions, len(threads))
    expected = [thread for place, thread in enumerate(threads) for _ in range(each + (place < extra))]
    assert list(range_assign(group).values()) == expected
    assert len(threads_per_topic(group, as_partitions=True)["t"]) <= len(streams) * partitions


def test_threads_that_can_get_nothing_are_never_built():
    names = [f"m{n}" for n in range(20)]
    registrations = {
        name: ConsumerRegistration(SubscriptionPattern.STATIC, (("t", MOST_STREAMS),), 0) for name in names
    }
    group = GroupSnapshot("g", registrations, {"t": (0, 1, 2)})
    tracemalloc.start()
    assigned = ASSIGNORS["range"](group, "1.0")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert [str(thread) for thread in assigned.values()] == ["m0-0", "m0-1", "m0-10"]
    assert peak < 1_000_000


def test_ten_thousand_topics_that_do_not_exist_are_one_warning():
    topics = tuple((f"topic{n}", 1) for n in range(10_000))
    members = {name: ConsumerRegistration(SubscriptionPattern.STATIC, topics, 0) for name in ("a", "b")}
    [warning] = group_warnings(GroupSnapshot("g", members, {}), {}, ours=None)
    assert warning.code == "missing_topic"
    assert warning.text == (
        "topics topic0, topic1, topic10 and 9997 more do not exist: streams of a, b wait until they are created"
    )
