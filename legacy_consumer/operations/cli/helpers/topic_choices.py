"""`--topic orders` and `--topic orders:0,2,4-7`, as kafka-consumer-groups takes them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TypeAlias

import click

from zk_layout.model import TopicPartition

_CHOICE = re.compile(r"([^:]+)(?::([0-9,\- ]+))?")
_RANGE = re.compile(r"([0-9]{1,10})(?:-([0-9]{1,10}))?")
_MOST = 100_000

Topics: TypeAlias = Mapping[str, frozenset[int] | None]
"""{topic: its partitions, None = all of them}; empty = every topic."""


def parse_topics(given: tuple[str, ...]) -> Topics:
    """Return the union of all choices. Raises: click.UsageError."""
    topics: dict[str, frozenset[int] | None] = {}
    for text in given:
        found = _CHOICE.fullmatch(text)
        if found is None:
            raise click.UsageError(f"--topic {text!r} is not TOPIC or TOPIC:PARTITION,PARTITION,...")
        topic, listed = found.groups()
        numbers = None if listed is None else _numbers(text, listed)
        known = topics.get(topic, frozenset())
        topics[topic] = None if numbers is None or known is None else known | numbers
    return topics


def is_chosen(tp: TopicPartition, topics: Topics) -> bool:
    """Return whether the partition is among the chosen ones."""
    if not topics:
        return True
    numbers = topics.get(tp.topic, frozenset())
    return numbers is None or tp.partition in numbers


def _numbers(text: str, listed: str) -> frozenset[int]:
    """Return at least one partition: a mistake must not choose all. Raises: click.UsageError."""
    numbers: set[int] = set()
    for part in map(str.strip, listed.split(",")):
        found = _RANGE.fullmatch(part)
        if found is None:
            raise click.UsageError(f"--topic {text!r}: {part!r} is no partition, nor a range of some")
        first, last = int(found[1]), int(found[2] or found[1])
        if last < first:
            raise click.UsageError(f"--topic {text!r}: the range {part} is empty: write {last}-{first}")
        if last - first > _MOST:
            raise click.UsageError(f"--topic {text!r}: {part} are too many partitions")
        numbers |= set(range(first, last + 1))
    return frozenset(numbers)
