"""Both assignors, compared with recordings, with stories, and with a plain version of section 8 of the protocol."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import dataclass, field
from itertools import cycle
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.assignors import ASSIGNORS, DIALECTS
from rebalance.assignors.range import range_assign
from rebalance.assignors.roundrobin import roundrobin_assign
from rebalance.errors import AssignmentRefusedError
from rebalance.snapshot import GroupSnapshot
from zk_layout.codecs import decode_registration
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition

HERE = Path(__file__).parent
GOLDEN = json.loads((HERE.parents[1] / "data" / "golden" / "assignments.json").read_text())
DIALECT_OF = {"0.8.2.2": "0.8.2", "0.10.2.2": "0.10.2", "1.1.1": "1.0"}


def as_text(assignment):
    return {str(partition): str(thread) for partition, thread in assignment.items()}


# recordings of Kafka's own assignors


def recorded_group(case) -> GroupSnapshot:
    return GroupSnapshot(
        group="g",
        members={c: decode_registration(c, json.dumps(r).encode()) for c, r in case["members"].items()},
        partitions={topic: tuple(range(count)) for topic, count in case["topics"].items()},
    )


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
@pytest.mark.parametrize("version", GOLDEN["expected"])
@pytest.mark.parametrize("case", GOLDEN["cases"], ids=lambda case: f"case{case['case']}")
def test_the_group_divides_as_kafka_divided_it(case, version, strategy):
    expected = GOLDEN["expected"][version][strategy][str(case["case"])]
    if "error" in expected:
        with pytest.raises(AssignmentRefusedError):
            ASSIGNORS[strategy](recorded_group(case), DIALECT_OF[version])
    else:
        assert as_text(ASSIGNORS[strategy](recorded_group(case), DIALECT_OF[version])) == expected


# the stories


@dataclass
class Story:
    """One case of a text file in testdata/; a field for each kind of line."""

    name: str
    topics: dict[str, tuple[int, ...]] = field(default_factory=dict)
    members: dict[str, ConsumerRegistration] = field(default_factory=dict)
    dialects: list[str] = field(default_factory=list)
    expected: dict[str, str] = field(default_factory=dict)
    refused: bool = False


def read_stories(file_name: str) -> list[Story]:
    stories: list[Story] = []
    for line in (HERE / "testdata" / file_name).read_text().splitlines():
        word, _, rest = line.partition(" ")
        match word:
            case "case":
                stories.append(Story(rest))
            case "topic":
                topic, count = rest.split()
                stories[-1].topics[topic] = tuple(range(int(count)))
            case "member":
                consumer_id, *entries = rest.split()
                pattern = SubscriptionPattern.STATIC
                if entries and ":" not in entries[0]:
                    pattern = SubscriptionPattern(entries.pop(0))
                counts = tuple((e.rpartition(":")[0], int(e.rpartition(":")[2])) for e in entries)
                stories[-1].members[consumer_id] = ConsumerRegistration(pattern, counts, 0)
            case "dialect":
                stories[-1].dialects = rest.split()
            case "expect":
                thread, *partitions = rest.split()
                stories[-1].expected.update(dict.fromkeys(partitions, thread))
            case "refused":
                stories[-1].refused = True
            case "" | "#":
                pass
            case _:
                raise ValueError(f"{file_name}: {line}")
    return stories


@pytest.mark.parametrize("story", read_stories("range.txt"), ids=lambda story: story.name)
def test_range_tells_the_story(story):
    assert as_text(range_assign(GroupSnapshot("g", story.members, story.topics))) == story.expected


@pytest.mark.parametrize(
    ("story", "dialect"),
    [
        pytest.param(story, dialect, id=f"{story.name}, {dialect}")
        for story in read_stories("roundrobin.txt")
        for dialect in story.dialects
    ],
)
def test_roundrobin_tells_the_story(story, dialect):
    group = GroupSnapshot("g", story.members, story.topics)
    if story.refused:
        with pytest.raises(AssignmentRefusedError):
            roundrobin_assign(group, dialect)
    else:
        assert as_text(roundrobin_assign(group, dialect)) == story.expected


def test_a_refusal_names_the_topics_and_a_thread_that_differs():
    members = {
        "a": ConsumerRegistration(SubscriptionPattern.STATIC, (("t1", 1), ("t2", 1)), 0),
        "b": ConsumerRegistration(SubscriptionPattern.STATIC, (("t2", 1),), 0),
    }
    with pytest.raises(AssignmentRefusedError, match=r"t1 has 1 threads and t2 has 2 threads \(b-0 among them\)"):
        roundrobin_assign(GroupSnapshot("g", members, {"t1": (0,), "t2": (0,)}), "0.8.2")


# section 8 of the protocol, once more in plain code


def plain_threads(group: GroupSnapshot) -> dict[str, list[str]]:
    threads: dict[str, list[str]] = {}
    for consumer_id, registration in group.members.items():
        for topic, count in registration.subscription:
            threads.setdefault(topic, []).extend(f"{consumer_id}-{n}" for n in range(count))
    return {topic: sorted(names) for topic, names in threads.items()}


def plain_range(group: GroupSnapshot) -> dict[str, str]:
    result = {}
    for topic, threads in plain_threads(group).items():
        partitions = group.partitions.get(topic, ())
        each, extra = len(partitions) // len(threads), len(partitions) % len(threads)
        for i, thread in enumerate(threads):
            start = each * i + min(i, extra)
            for partition in partitions[start : start + each + (1 if i + 1 <= extra else 0)]:
                result[f"{topic}/{partition}"] = thread
    return result


def plain_hash(text: str) -> int:
    value = 0
    for character in text:
        value = (value * 31 + ord(character)) % 2**32
    return value - 2**32 if value >= 2**31 else value


def plain_roundrobin(group: GroupSnapshot, dialect: str) -> dict[str, str] | None:
    threads = plain_threads(group)
    if dialect == "0.8.2" and len({frozenset(names) for names in threads.values()}) > 1:
        return None
    form = "{}-{}" if dialect == "1.0" else "[{},{}]"
    partitions = sorted((topic, p) for topic in threads for p in group.partitions.get(topic, ()))
    partitions.sort(key=lambda tp: plain_hash(form.format(*tp)))
    turns = cycle(sorted({name for names in threads.values() for name in names}))
    result = {}
    for topic, partition in partitions:
        result[f"{topic}/{partition}"] = next(name for name in turns if name in threads[topic])
    return result


TOPIC_NAMES = st.sampled_from(["a", "A", "Ea", "FB", "t", "topic-1", "topic-10", "x.y", "alpha_beta", "gone"])

MEMBER_IDS = st.sampled_from(["g_a", "g_a-1", "g_a-10", "g_a-1-0", "g_b", "g_B", "g_b.c", "g_b_c", "g_bc", "g_b-2"])


@st.composite
def groups(draw) -> GroupSnapshot:
    partitions = draw(st.dictionaries(TOPIC_NAMES, st.sets(st.integers(0, 120), max_size=14), max_size=5))
    subscriptions = st.dictionaries(TOPIC_NAMES, st.integers(1, 12), max_size=4)
    if draw(st.booleans()):
        # equal subscriptions, which round-robin of 0.8.2 requires
        streams = draw(st.integers(1, 12))
        topics = draw(st.sets(TOPIC_NAMES, max_size=4))
        subscriptions = st.just(dict.fromkeys(topics, streams))
    ids = st.lists(MEMBER_IDS, unique=True, max_size=7)
    members = {
        c: ConsumerRegistration(SubscriptionPattern.STATIC, tuple(draw(subscriptions).items()), 0)
        for c in sorted(draw(ids))
    }
    return GroupSnapshot("g", members, {topic: tuple(sorted(numbers)) for topic, numbers in partitions.items()})


@settings(max_examples=150)
@given(groups())
def test_range_is_as_section_8_describes(group):
    assert as_text(range_assign(group)) == plain_range(group)


@settings(max_examples=150)
@given(groups(), st.sampled_from(DIALECTS))
def test_roundrobin_is_as_section_8_describes(group, dialect):
    expected = plain_roundrobin(group, dialect)
    if expected is None:
        with pytest.raises(AssignmentRefusedError):
            roundrobin_assign(group, dialect)
    else:
        assert as_text(roundrobin_assign(group, dialect)) == expected


@settings(max_examples=100)
@given(groups(), st.sampled_from(["range", "roundrobin"]))
def test_every_partition_of_a_subscribed_topic_is_given_once_and_in_order(group, strategy):
    subscribed = {topic for member in group.members.values() for topic, _ in member.subscription}
    wanted = [TopicPartition(t, p) for t in sorted(subscribed) for p in group.partitions.get(t, ())]
    assert list(ASSIGNORS[strategy](group, "1.0")) == wanted


@settings(max_examples=100)
@given(groups())
def test_range_is_even_to_within_one_partition_of_each_topic(group):
    loads = Counter((tp.topic, str(thread)) for tp, thread in range_assign(group).items())
    for topic, threads in plain_threads(group).items():
        counts = [loads[topic, thread] for thread in threads]
        assert max(counts) - min(counts) <= 1


def test_threads_are_one_object_however_many_partitions_they_get():
    members = {"c": ConsumerRegistration(SubscriptionPattern.STATIC, (("a", 1), ("b", 1)), 0)}
    group = GroupSnapshot("g", members, {"a": tuple(range(50)), "b": (0,)})
    assert len({id(thread) for thread in range_assign(group).values()}) == 1
    assert len({id(thread) for thread in roundrobin_assign(group, "1.0").values()}) == 1
