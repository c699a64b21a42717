"""The subscription of a registration, evaluated as a JVM member evaluates it.

| pattern | means |
|---|---|
| static, or no entry at all | the topics named, existing or not |
| white_list | every topic that the first entry's regular expression matches whole |
| black_list | every topic that it does not match whole |

White and black lists do not match internal topics if the READING member excludes them, independent of the registered
member; a static subscription may name them. Each version of Kafka has its own list: `__consumer_offsets` up to 0.10.2,
from 0.11 also `__transaction_state`. Both are internal here: only brokers of 0.11 or newer create the second, and no
user of a black list wants to read it. In a group with members older than 0.11 on such a cluster, these evaluate a
filter that matches `__transaction_state` differently.

Source: Scala consumer, TopicFilter.scala, TopicCount.scala; ZkUtils.getConsumersPerTopic.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from heapq import nsmallest
from typing import ClassVar

from rebalance.errors import UnsupportedRegexError
from rebalance.java_regex import compile_java_regex
from zk_layout.errors import ConfigError
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, SubscriptionPattern

INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state"})

# the characters that String.trim cuts off, and the line ends before which Java's $ matches
_TRIMMED = "".join(map(chr, range(0x21)))
_LINE_ENDS = "\u0085\u2028\u2029"
_QUOTES = "\"'"


def normalize_filter(raw: str) -> str:
    """Return the regular expression that Kafka makes of the text of a filter.

    `"clicks, views"` becomes `clicks|views`: trimmed, commas to |, blanks out, quotes off both ends.
    """
    regex = raw.strip(_TRIMMED).replace(",", "|").replace(" ", "").lstrip(_QUOTES)
    line_end = regex[-1:] if regex.endswith(tuple(_LINE_ENDS)) else ""
    # not by a regular expression: any client may register a filter of half a million quotes, which would take an hour
    return regex.removesuffix(line_end).rstrip(_QUOTES) + line_end


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """Whitelist or Blacklist: a choice of topics by one Java regular expression.

    raw: as the user wrote it. regex: Kafka's form of it, which is registered.
    Raises: ConfigError, UnsupportedRegexError at construction.
    """

    pattern: ClassVar[SubscriptionPattern]

    raw: str
    regex: str = field(init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.raw, str):
            raise ConfigError(
                "topic_filter", repr(self.raw), "must be text: a regular expression, or names with commas"
            )
        object.__setattr__(self, "regex", normalize_filter(self.raw))
        compile_java_regex(self.regex)

    def allows(self, topic: str, *, exclude_internal_topics: bool = True) -> bool:
        """Return whether the topic is chosen."""
        if exclude_internal_topics and topic in INTERNAL_TOPICS:
            return False
        return compile_java_regex(self.regex).match(topic) == _is_white(self.pattern)


@dataclass(frozen=True, slots=True)
class Whitelist(TopicFilter):
    """The topics whose whole name matches."""

    pattern: ClassVar[SubscriptionPattern] = SubscriptionPattern.WHITE_LIST


@dataclass(frozen=True, slots=True)
class Blacklist(TopicFilter):
    """The topics whose whole name does not match."""

    pattern: ClassVar[SubscriptionPattern] = SubscriptionPattern.BLACK_LIST


def is_wildcard(registration: ConsumerRegistration) -> bool:
    """Return whether the registration chooses topics by a regular expression."""
    return registration.pattern is not SubscriptionPattern.STATIC and bool(registration.subscription)


def unreadable_reason(registration: ConsumerRegistration) -> str | None:
    """Return why a registration that decoded well can still not be evaluated, or None.

    The builder of a GroupSnapshot calls this for every member and lists a member with a reason as unreadable: a JVM
    member fails each of its rebalances on a regular expression that does not compile.
    """
    if not is_wildcard(registration):
        return None
    try:
        compile_java_regex(normalize_filter(registration.subscription[0][0]))
    except UnsupportedRegexError as error:
        return str(error)
    return None


def subscribed_topics(
    registration: ConsumerRegistration, topics: Iterable[str], *, exclude_internal_topics: bool = True
) -> dict[str, int]:
    """{topic: stream count} of one registration among the topics of the cluster.

    A static subscription keeps topics that do not exist.
    Raises: UnsupportedRegexError, see unreadable_reason.
    """
    if not is_wildcard(registration):
        return dict(registration.subscription)
    raw, streams = registration.subscription[0]
    matches = compile_java_regex(normalize_filter(raw)).match
    white = _is_white(registration.pattern)
    return {
        topic: streams
        for topic in topics
        if matches(topic) == white and not (exclude_internal_topics and topic in INTERNAL_TOPICS)
    }


def consumer_threads(consumer_id: str, streams: int, most: int | None = None) -> tuple[ConsumerThreadId, ...]:
    """Return the thread ids of a member with that many streams, in Java's order: c-0, c-1, c-10, c-2.

    most: the largest number of thread ids to return, the first ones.
    """
    numbers = nsmallest(streams if most is None else most, range(streams), key=str)
    return tuple(ConsumerThreadId(consumer_id, number) for number in numbers)


def _is_white(pattern: SubscriptionPattern) -> bool:
    return pattern is SubscriptionPattern.WHITE_LIST
