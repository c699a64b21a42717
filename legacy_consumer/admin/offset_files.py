r"""Offsets in files: lines as Kafka's own tools write them, and JSON. No I/O.

Lines of ExportZkOffsets, one for each partition, of any number of groups:

    /consumers/billing/offsets/orders/0:286894308

CSV as `kafka-consumer-groups --reset-offsets --export` writes it, which names no group:

    orders,0,286894308

JSON. An offset of null stands for a partition without one, so a backup can be put back exactly:

    {"version": 1, "offsets": {"billing": {"orders": {"0": 286894308, "1": null}}}}

Unlike Kafka's ImportZkOffsets, which takes whatever stands there for a path and stops at an empty line, a file is read
as a whole or not at all: each bad line is named with its number.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias

from legacy_consumer.admin.errors import BadOffsetFileError
from zk_layout.model import TopicPartition
from zk_layout.paths import OffsetPath

_MAX_OFFSET = 2**63 - 1
_VERSION = 1
_LINE = re.compile(r"(/[^:]*):(-?[0-9]{1,20})")
_CSV = re.compile(r"([a-zA-Z0-9._-]+),([0-9]{1,10}),(-?[0-9]{1,20})")


class OffsetFormat(Enum):
    """How offsets are written."""

    ZK = "zk"
    JSON = "json"


Offsets: TypeAlias = Mapping[TopicPartition, int | None]


class OffsetFile(NamedTuple):
    """What a file says: {group: {partition: offset}}; the group is "" where the file names none."""

    groups: Mapping[str, Offsets]

    def of_group(self, group: str) -> Offsets:
        """The offsets of this group: its own, or those without a group."""
        return {**self.groups.get("", {}), **self.groups.get(group, {})}


def write_offsets(groups: Mapping[str, Offsets], form: OffsetFormat) -> str:
    """The text of a file. Lines leave out partitions without an offset, which they cannot express."""
    if form is OffsetFormat.ZK:
        return "".join(
            f"{OffsetPath(group, *tp).path}:{offset}\n"
            for group, offsets in sorted(groups.items())
            for tp, offset in sorted(offsets.items())
            if offset is not None
        )
    document: dict[str, dict[str, dict[str, int | None]]] = {}
    for group, offsets in sorted(groups.items()):
        topics = document.setdefault(group, {})
        for tp, offset in sorted(offsets.items()):
            topics.setdefault(tp.topic, {})[str(tp.partition)] = offset
    return json.dumps({"version": _VERSION, "offsets": document}, indent=2) + "\n"


def read_offsets(text: str, name: str) -> OffsetFile:
    """What a file of any of the formats says; name is for errors.

    Raises: BadOffsetFileError that names every bad line, up to some.
    """
    if text.lstrip("\ufeff").lstrip().startswith("{"):
        return _read_json(text, name)
    return _read_lines(text.removeprefix("\ufeff").splitlines(), name)


def _read_lines(lines: Sequence[str], name: str) -> OffsetFile:
    groups: dict[str, dict[TopicPartition, int | None]] = {}
    numbers: dict[tuple[str, TopicPartition], int] = {}
    bad: list[tuple[int, str]] = []
    for number, line in enumerate(lines, start=1):
        if not line.strip():
            continue
        parsed = _parse_line(line.strip())
        if isinstance(parsed, str):
            bad.append((number, parsed))
            continue
        group, tp, offset = parsed
        first = numbers.setdefault((group, tp), number)
        if first != number and groups[group][tp] != offset:
            bad.append((number, f"{tp} has another offset in line {first}"))
        groups.setdefault(group, {})[tp] = offset
    if bad:
        raise BadOffsetFileError(name, tuple(bad))
    return OffsetFile(groups)


def _parse_line(line: str) -> tuple[str, TopicPartition, int] | str:
    """Group, partition and offset; or what is wrong."""
    csv = _CSV.fullmatch(line)
    if csv is not None:
        group, topic, partition, offset = "", csv[1], int(csv[2]), int(csv[3])
    else:
        found = _LINE.fullmatch(line)
        if found is None:
            return "it is neither /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET nor TOPIC,PARTITION,OFFSET"
        path = OffsetPath.parse(found[1])
        if path is None:
            return f"{found[1][:100]} is not the path of an offset"
        group, topic, partition, offset = path.group, path.topic, path.partition, int(found[2])
    if not 0 <= offset <= _MAX_OFFSET:
        return f"{offset} is no offset"
    if partition >= 2**31:
        return f"{partition} is no partition"
    return group, TopicPartition(topic, partition), offset


def _read_json(text: str, name: str) -> OffsetFile:
    try:
        document = json.loads(text.removeprefix("\ufeff"))
    except (ValueError, RecursionError) as error:
        line = getattr(error, "lineno", 1)
        raise BadOffsetFileError(name, ((line, f"it is not JSON: {getattr(error, 'msg', error)}"),)) from error
    if document.get("version") != _VERSION or not isinstance(document.get("offsets"), dict):
        reason = f'it should be {{"version": {_VERSION}, "offsets": {{GROUP: {{TOPIC: {{PARTITION: OFFSET}}}}}}}}'
        raise BadOffsetFileError(name, ((1, reason),))
    groups: dict[str, dict[TopicPartition, int | None]] = {}
    bad: list[tuple[tuple[str, ...], str]] = []
    for group, topics in document["offsets"].items():
        own = groups.setdefault(group, {})
        if not isinstance(topics, dict):
            bad.append(((group,), f"group {group!r} holds no topics"))
            continue
        for topic, partitions in topics.items():
            if not isinstance(partitions, dict):
                bad.append(((group, topic), f"topic {topic!r} of group {group!r} holds no partitions"))
                continue
            for number, offset in partitions.items():
                path = None if "/" in topic else OffsetPath.parse(f"/consumers/g/offsets/{topic}/{number}")
                if path is None:
                    bad.append(((group, topic, number), f"{topic!r}: {number!r} is no partition"))
                elif offset is not None and (type(offset) is not int or not 0 <= offset <= _MAX_OFFSET):
                    bad.append(((group, topic, number), f"{topic}/{number}: {json.dumps(offset)[:40]} is no offset"))
                else:
                    own[TopicPartition(path.topic, path.partition)] = offset
    if bad:
        raise BadOffsetFileError(name, tuple((_line_of(text, keys), reason) for keys, reason in bad))
    return OffsetFile(groups)


def _line_of(text: str, keys: Sequence[str]) -> int:
    """Where these keys stand, one inside the other. json tells no lines; this finds them if each has one of its own."""
    lines = text.splitlines()
    number = 0
    for key in ("offsets", *keys):
        quoted = json.dumps(key)
        number = next((n for n in range(number, len(lines)) if quoted in lines[n]), number)
    return number + 1
