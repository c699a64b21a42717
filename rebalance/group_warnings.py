"""Warnings about faults and surprises in a group, in sentences with the remedy.

They need only ZooKeeper, so an operator's tool can check any group, and a member its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from rebalance.assignors.roundrobin import NEEDS_EQUAL_SUBSCRIPTIONS
from rebalance.assignors.threads import threads_per_topic
from rebalance.dialects import LAST_VERSIONS
from rebalance.group_strategy import ClassicStrategy, find_mismatch, strategies_of_group, strategies_of_members
from rebalance.member_kinds import MemberKind, meant_regex, owner_kind
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import is_wildcard, subscribed_topics
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition
from zk_layout.shown import shown

_LONGEST = 200
"""The most characters shown of a text that another client wrote."""
_SHOWN = 3
"""The most items that a sentence names."""


@dataclass(frozen=True, slots=True)
class GroupWarning:
    """One thing that is wrong.

    code: a word for programs. consumer_ids: the members it is about, none = the group. text: one line for people.
    """

    code: str
    text: str
    consumer_ids: tuple[str, ...] = ()


def group_warnings(
    group: GroupSnapshot, owners: Mapping[TopicPartition, str], *, ours: ClassicStrategy | None = None
) -> list[GroupWarning]:
    """Return the warnings about a group.

    owners: {partition: text of its owner znode}. ours: the strategy of the member that asks; None for an operator.
    """
    return [
        *(warning for consumer_id in group.unreadable for warning in _of_unreadable(group, consumer_id)),
        *(warning for consumer_id in group.members for warning in member_warnings(group, consumer_id)),
        *_of_kafka_node_among_others(group),
        *_of_owner_texts(owners),
        *_of_strategies(group, owners, ours),
        *_of_unequal_subscriptions(group, owners, ours),
        *_of_missing_topics(group),
    ]


def member_warnings(group: GroupSnapshot, consumer_id: str) -> Iterator[GroupWarning]:
    """Return the faults of one readable member, independent of the rest of the group."""
    registration = group.members[consumer_id]
    kind = group.kinds.get(consumer_id, MemberKind.UNKNOWN)
    about = (consumer_id,)
    if kind is MemberKind.WVANBERGEN:
        yield GroupWarning(
            "foreign_member",
            f"{consumer_id} is of {kind.value}, which divides partitions by their leaders and not as Kafka does: "
            "members of both kinds claim the same partitions, others stay without owner; give it a group of its own",
            about,
        )
    if kind is MemberKind.KAFKA_0_8_1:
        yield GroupWarning(
            "regex_not_escaped",
            f"{consumer_id} is of {kind.value}, which registers backslashes unescaped: members of Kafka before 1.0.1 "
            "cannot read that and fail every rebalance; write its filter without backslashes, [.] for \\.",
            about,
        )
    if is_wildcard(registration):
        if len(registration.subscription) > 1:
            topics = [topic for topic, _ in registration.subscription]
            yield GroupWarning(
                "several_patterns",
                f"{consumer_id} is of {kind.value} and registers {len(topics)} topics as one white list: all others "
                f"believe that it reads {shown(topics[0])} alone, so both it and they read {some(topics[1:])}; "
                "give it one topic",
                about,
            )
        yield from _of_regex(group, consumer_id, registration)


def _of_regex(group: GroupSnapshot, consumer_id: str, registration: ConsumerRegistration) -> Iterator[GroupWarning]:
    regex = registration.subscription[0][0]
    meant = meant_regex(regex)
    if meant is None:
        return
    topics = sorted(
        subscribed_topics(registration, group.partitions, exclude_internal_topics=group.exclude_internal_topics)
    )
    if registration.pattern is SubscriptionPattern.BLACK_LIST:
        effect = "keeps fewer topics out than was meant"
    elif topics:
        effect = f"chooses only {some(topics)}"
    else:
        effect = "owns nothing"
    yield GroupWarning(
        "regex_escaped_twice",
        f"{consumer_id} registered its filter {meant} escaped twice, as Kafka 1.0.1 to 1.1.1 do: every member reads "
        f"{regex}, in which a backslash is meant literally, so it {effect}; write it without backslashes, [.] for \\.",
        (consumer_id,),
    )


_DIES_OF_IT = "members of the JVM fail every rebalance while it is there"
_OF_UNREADABLE = {
    MemberKind.PYKAFKA: ("foreign_member", f"{_DIES_OF_IT}, and what it reads others read too; give it its own group"),
    MemberKind.KAFKA_NODE: ("foreign_member", f"it has not filled in its registration yet; {_DIES_OF_IT} so"),
    MemberKind.KAFKA_0_7: ("kafka_0_7_member", "0.7 and later versions cannot read each other; give it its own group"),
}
_OF_UNKNOWN = ("unreadable_member", f"its registration cannot be read; {_DIES_OF_IT}; stop it")


def _of_unreadable(group: GroupSnapshot, consumer_id: str) -> Iterator[GroupWarning]:
    kind = group.kinds.get(consumer_id, MemberKind.UNKNOWN)
    code, what = _OF_UNREADABLE.get(kind, _OF_UNKNOWN)
    known = "" if kind is MemberKind.UNKNOWN else f" is of {kind.value}"
    yield GroupWarning(code, f"{shown(consumer_id)}{known}: {what}", (consumer_id,))


def _of_kafka_node_among_others(group: GroupSnapshot) -> Iterator[GroupWarning]:
    """Warn of kafka-node beside unlike members.

    It divides as range does, but counts members instead of streams, and takes each filter for a topic's name.
    """
    nodes = tuple(name for name in group.members if group.kinds.get(name) is MemberKind.KAFKA_NODE)
    others = [(name, member) for name, member in group.members.items() if name not in nodes]
    unlike = [
        name
        for name, member in others
        if is_wildcard(member) or any(streams != 1 for _, streams in member.subscription)
    ]
    if nodes and unlike:
        yield GroupWarning(
            "foreign_member",
            f"{some(nodes)} of kafka-node and {some(unlike)} cannot share a group: kafka-node takes every member "
            "for one stream and every filter for a topic; give it a group of its own",
            nodes + tuple(unlike),
        )


def _of_owner_texts(owners: Mapping[TopicPartition, str]) -> Iterator[GroupWarning]:
    odd: dict[tuple[MemberKind, str], list[TopicPartition]] = {}
    for tp in sorted(owners):
        kind = owner_kind(owners[tp])
        if kind is not None:
            odd.setdefault((kind, owners[tp]), []).append(tp)
    for (kind, text), partitions in odd.items():
        writer = "" if kind is MemberKind.UNKNOWN else f", as {kind.value} does"
        yield GroupWarning(
            "owner_without_thread",
            f"{shown(text)} owns {some(partitions)} without naming a thread{writer}: Kafka's tools show its id "
            "cut short, and no member of Kafka takes a partition from it before its session ends",
            (text,),
        )


def _of_strategies(
    group: GroupSnapshot, owners: Mapping[TopicPartition, str], ours: ClassicStrategy | None
) -> Iterator[GroupWarning]:
    if ours is not None:
        mismatch = find_mismatch(group, owners, ours)
        if mismatch is not None:
            yield GroupWarning("strategy_mismatch", str(mismatch))
        return
    if strategies_of_group(group, owners):
        return
    # Between two rebalances a strategy explains each member; a member without an explanation may still be rebalancing.
    shown = {name: found for name, found in strategies_of_members(group, owners).items() if found}
    common = set.intersection(*map(set, shown.values())) if shown else set()
    if len(shown) > 1 and not common:
        by = {name: " or ".join(map(str, found)) for name, found in shown.items()}
        kinds = dict.fromkeys(by.values())
        ways = "; ".join(f"{some([name for name in by if by[name] == kind])} by {kind}" for kind in kinds)
        yield GroupWarning(
            "strategy_mismatch",
            f"members divide the group differently: {ways}; give all the same partition.assignment.strategy, and for "
            "roundrobin versions that agree",
            tuple(shown),
        )


def _of_unequal_subscriptions(
    group: GroupSnapshot, owners: Mapping[TopicPartition, str], ours: ClassicStrategy | None
) -> Iterator[GroupWarning]:
    """Warn of subscriptions that round-robin up to 0.10.1 refuses."""
    strategy, dialect = NEEDS_EQUAL_SUBSCRIPTIONS
    versions = f"of Kafka {dialect} to {LAST_VERSIONS[dialect]}"
    if ours is None:
        # members that refuse the group own nothing; if partitions are owned, the members use another strategy
        held = {text for tp, text in owners.items() if tp.topic in group.partitions}
        concerned = bool(group.partitions) and not held
        who = f"if its members divide by {strategy} and are {versions}, they"
    else:
        concerned = ours == NEEDS_EQUAL_SUBSCRIPTIONS
        who = f"{strategy} {versions}"
    if concerned and len(set(threads_per_topic(group).values())) > 1:
        yield GroupWarning(
            "unequal_subscriptions",
            f"{who} refuse this group: all members must subscribe to the same topics with one stream count each; "
            "make them alike, or use range",
        )


def _of_missing_topics(group: GroupSnapshot) -> Iterator[GroupWarning]:
    subscribers: dict[str, list[str]] = {}
    for consumer_id, registration in group.members.items():
        if not is_wildcard(registration):
            for topic, _ in registration.subscription:
                if topic not in group.partitions:
                    subscribers.setdefault(topic, []).append(consumer_id)
    # one warning for the topics that the same members want: a member may name ten thousand
    wanted: dict[tuple[str, ...], list[str]] = {}
    for topic, consumer_ids in sorted(subscribers.items()):
        wanted.setdefault(tuple(consumer_ids), []).append(topic)
    for members, topics in wanted.items():
        one = len(topics) == 1
        yield GroupWarning(
            "missing_topic",
            f"{'topic' if one else 'topics'} {some(topics)} {'does' if one else 'do'} not exist: streams of "
            f"{some(members)} wait until {'it is' if one else 'they are'} created",
            members,
        )


def some(things: Iterable[object]) -> str:
    """Return the first few things as text, and the number of the others."""
    names = [shown(str(thing), _LONGEST) for thing in things]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
