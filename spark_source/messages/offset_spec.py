"""The values of startingOffsets and endingOffsets. No I/O.

| Text | Offset |
|---|---|
| committed | the committed offset of the group in group.id |
| earliest, latest | the first offset or the end of each log |
| {"t": {"0": 5, "1": -2}} | for each partition an offset, -2 = earliest, -1 = latest |
| 2013-01-01T05:00:00Z, or ms since 1970 | the first message of this time or later; without one, the end |
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection
from dataclasses import dataclass, replace
from datetime import datetime, timedelta, timezone
from enum import Enum

from legacy_consumer.fetching.fetcher import EARLIEST
from spark_source.option_names import whole_number
from spark_source.patterns import is_topic_name
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition
from zk_layout.paths import number_of

_MOST_OFFSET = 2**63 - 1
_MOST_PARTITION = 2**31 - 1
_DATE = re.compile(r"\d{4}-\d\d-\d\d")
_TIME = re.compile(r"([^.,]+?)(?:[.,](\d{1,18}))?([zZ]|[+-]\d\d:?\d\d)?")
_NO_TIME = "is no time: write it as 2013-01-01T05:00:00Z"
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)
_MS = timedelta(milliseconds=1)


class OffsetKind(Enum):
    """The rule for finding an offset."""

    COMMITTED = "committed"
    EARLIEST = "earliest"
    LATEST = "latest"
    TIME = "time"
    GIVEN = "given"


@dataclass(frozen=True, slots=True)
class OffsetSpec:
    """The value of one of the two options. given: for GIVEN; EARLIEST and LATEST as in the fetcher.

    time_ms: for TIME. must_have_message: whether a partition without a message of this time or later is an error.
    """

    kind: OffsetKind
    time_ms: int = 0
    must_have_message: bool = False
    given: tuple[tuple[TopicPartition, int], ...] = ()

    @property
    def is_fixed(self) -> bool:
        """Whether the offsets do not depend on the time of the read."""
        return self.kind is OffsetKind.GIVEN and all(offset >= 0 for _, offset in self.given)

    def only(self, partitions: Collection[TopicPartition]) -> OffsetSpec:
        """Return the spec for these partitions only."""
        return replace(self, given=tuple(each for each in self.given if each[0] in partitions))


COMMITTED = OffsetSpec(OffsetKind.COMMITTED)
FROM_EARLIEST = OffsetSpec(OffsetKind.EARLIEST)
TO_LATEST = OffsetSpec(OffsetKind.LATEST)

_WORDS = {"committed": COMMITTED, "earliest": FROM_EARLIEST, "latest": TO_LATEST}


def parse_offset_spec(name: str, text: str) -> OffsetSpec:
    """Read the value of the option of this name. Raises: ConfigError."""
    stripped = text.strip()
    if stripped.lower() in _WORDS:
        return _WORDS[stripped.lower()]
    if stripped.startswith("{"):
        return OffsetSpec(OffsetKind.GIVEN, given=_given(name, stripped))
    if stripped.isascii() and stripped.isdecimal():
        time_ms = whole_number(stripped, most=_MOST_OFFSET)
        if time_ms is None:
            raise ConfigError(name, text, "is no time in ms since 1970; an offset is given for each partition, as JSON")
        return OffsetSpec(OffsetKind.TIME, time_ms=time_ms)
    if _DATE.match(stripped):
        return OffsetSpec(OffsetKind.TIME, time_ms=_time_ms(name, stripped))
    raise ConfigError(
        name,
        text,
        'must be committed, earliest, latest, {"topic": {"0": offset, ...}}, ms since 1970, '
        "or a time as 2013-01-01T05:00:00Z",
    )


def parse_partitions(name: str, text: str) -> frozenset[TopicPartition]:
    """Read {"topic": [0, 2]}, the value of the option of this name. Raises: ConfigError."""
    topics = _json(name, text)
    found = set()
    for topic, numbers in topics.items():
        if not is_topic_name(topic):
            raise ConfigError(name, text, f"{topic!r} is no name of a topic: letters, digits, '.', '_' and '-'")
        if not isinstance(numbers, list) or not numbers:
            raise ConfigError(name, text, f"topic {topic} must have a list of partitions, as [0, 2]")
        for number in numbers:
            if type(number) is not int or not 0 <= number <= _MOST_PARTITION:
                raise ConfigError(name, text, f"{number!r} of topic {topic} is no partition")
            found.add(TopicPartition(topic, number))
    if not found:
        raise ConfigError(name, text, "names no partition")
    return frozenset(found)


def _json(name: str, text: str) -> dict[str, object]:
    try:
        topics = json.loads(text, object_pairs_hook=_without_twins)
    except (ValueError, RecursionError) as error:
        raise ConfigError(name, text, f"is no JSON: {error}") from None
    if not isinstance(topics, dict):
        raise ConfigError(name, text, 'must be JSON of topics, as {"topic": ...}')
    return topics


def _given(name: str, text: str) -> tuple[tuple[TopicPartition, int], ...]:
    topics = _json(name, text)
    found: dict[TopicPartition, int] = {}
    for topic, offsets in topics.items():
        if not isinstance(offsets, dict) or not offsets:
            raise ConfigError(name, text, f'topic {topic} must have {{"partition": offset, ...}}')
        for partition, offset in offsets.items():
            number = number_of(partition)  # not 00, which would be a second offset of partition 0
            if number is None:
                raise ConfigError(name, text, f"{partition!r} of topic {topic} is no partition")
            if type(offset) is not int or not EARLIEST <= offset <= _MOST_OFFSET:
                raise ConfigError(
                    name, text, f"{offset!r} of {topic}/{partition} is no offset: -2 is earliest, -1 latest"
                )
            found[TopicPartition(topic, number)] = offset
    if not found:
        raise ConfigError(name, text, "names no partition")
    return tuple(sorted(found.items()))


def _without_twins(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a name stands in it twice")
    return found


def _time_ms(name: str, text: str) -> int:
    parts = _TIME.fullmatch(text)
    if parts is None:
        raise ConfigError(name, text, _NO_TIME)
    seconds, fraction, zone = parts.groups(default="")
    try:
        # Python 3.10 parses no Z, and only 3 or 6 digits of a second
        time = datetime.fromisoformat(seconds + ("+00:00" if zone in {"z", "Z"} else zone))
    except ValueError:
        raise ConfigError(name, text, _NO_TIME) from None
    if time.tzinfo is None:
        raise ConfigError(name, text, "says no time zone: end it with Z or as +02:00")
    # integers, since a float would make some times a ms earlier; rounded up, since messages of the ms below are earlier
    fraction_ms = -(-int(fraction.ljust(18, "0")) // 10**15)
    return max(0, (time - _EPOCH) // _MS + fraction_ms)
