"""`--topic orders` and `--topic orders:0,2,4-7`, as kafka-consumer-groups takes them."""

from __future__ import annotations

import re

import click

_CHOICE = re.compile(r"([^:]+)(?::([0-9,\- ]+))?")
_MOST = 100_000


def parse_topics(given: tuple[str, ...]) -> dict[str, frozenset[int]]:
    """{topic: its partitions, none = all}. Raises: click.UsageError."""
    topics: dict[str, frozenset[int]] = {}
    for text in given:
        found = _CHOICE.fullmatch(text)
        if found is None:
            raise click.UsageError(f"--topic {text!r} is not TOPIC or TOPIC:PARTITION,PARTITION,...")
        topics[found[1]] = topics.get(found[1], frozenset()) | _numbers(text, found[2])
    return topics


def _numbers(text: str, listed: str | None) -> frozenset[int]:
    numbers: set[int] = set()
    for part in (listed or "").split(","):
        first, dash, last = part.strip().partition("-")
        if not first and listed is None:
            continue
        if not first.isdigit() or (dash and not last.isdigit()):
            raise click.UsageError(f"--topic {text!r}: {part.strip()!r} is no partition, nor a range of some")
        end = int(last) if dash else int(first)
        if end - int(first) > _MOST:
            raise click.UsageError(f"--topic {text!r}: {part.strip()} are too many partitions")
        numbers |= set(range(int(first), end + 1))
    return frozenset(numbers)
