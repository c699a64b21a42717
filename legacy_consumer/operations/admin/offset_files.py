r"""Offsets in files: lines as Kafka's own tools write them, and JSON. No I/O.

Lines of ExportZkOffsets, one for each partition, of any number of groups:

    /consumers/billing/offsets/orders/0:286894308

CSV as `kafka-consumer-groups --reset-offsets --export` writes it. From 2.4 on, that tool names the groups if there are
several, and puts quotes around longer names:

    orders,0,286894308
    billing,"a-topic-with-a-longer-name",0,286894308

JSON. An offset of null stands for a partition without one, so an import restores a backup exactly. "unreadable" shows
people the data of offset znodes that cannot be read; an import does not restore it:

    {"version": 1, "offsets": {"billing": {"orders": {"0": 286894308, "1": null}}},
     "unreadable": {"billing": {"orders": {"2": "12345\\n"}}}}

"topics" marks the topics for which the offsets were committed, so that an import does not write them for later topics
of the same names (see judgement.metadata_of). Without a mark, the offset counts for the present topic. If the topic
does not exist when the file is written, the mark is the zxid of the last write of one of its offsets, which is lower
than that of any later creation of the topic:

    "topics": {"orders": "topic-czxid=0x1f3"}

While a command changes several groups, it notes after the JSON which of them it has begun to change. If the command is
killed, these lines stay, and an import reads only those groups:

    # The command that wrote this is not done; of these groups, one a line, it has begun to change the offsets:
    "billing"

A backup of a secured group also holds the group's ACLs, in "acls" (see group_acls), so that it comes back secured.

All formats end with a newline. A file of lines without it was cut, perhaps in its last number.

Kafka's ImportZkOffsets takes any text for a path and stops at an empty line. Here a file is read as a whole or not at
all, and the error names each bad line with its number.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from enum import Enum
from typing import NamedTuple, TypeAlias, TypeVar

from legacy_consumer.offsets.judgement import TopicOrigin, metadata_of
from legacy_consumer.operations.admin.errors import BadOffsetFileError
from legacy_consumer.operations.admin.group_acls import GroupAcls
from zk_layout.model import TopicPartition
from zk_layout.paths import OffsetPath

T = TypeVar("T")

_MAX_OFFSET = 2**63 - 1
_VERSION = 1
_LINE = re.compile(r"(/.*):(-?[0-9]{1,20})", re.DOTALL)
_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_PARTITION = re.compile(r"[0-9]{1,10}")
_OFFSET = re.compile(r"-?[0-9]{1,20}")


NOT_DONE = (
    "# The command that wrote this is not done; of these groups, one a line, it has begun to change the offsets:\n"
)
"""The line between the JSON of a backup and the lines of begun_line()."""


class OffsetFormat(Enum):
    """The formats that write_offsets can write."""

    ZK = "zk"
    JSON = "json"


Offsets: TypeAlias = Mapping[TopicPartition, int | None]
Unreadable: TypeAlias = Mapping[TopicPartition, bytes]
"""The data of offset znodes that is no offset."""


class OffsetFile(NamedTuple):
    """The contents of a file: {group: {partition: offset}}; the group is "" if the file names none.

    unreadable: {group: the number of its offset znodes that held no offset}; their partitions are not in groups.
    acls: the ACLs of secured groups. topics: {topic: mark of the topic that the offsets are for}.
    untouched: groups that the command which wrote the file had not begun to change when it was killed; not in groups.
    """

    groups: Mapping[str, Offsets]
    unreadable: Mapping[str, int]
    acls: Mapping[str, GroupAcls]
    topics: Mapping[str, str] = {}
    untouched: Sequence[str] = ()

    def of_group(self, group: str) -> Offsets:
        """Return the offsets of this group, and the offsets without a group."""
        return {**self.groups.get("", {}), **self.groups.get(group, {})}


def write_offsets(
    groups: Mapping[str, Offsets],
    form: OffsetFormat,
    unreadable: Mapping[str, Unreadable] | None = None,
    more: Mapping[str, object] | None = None,
    acls: Mapping[str, GroupAcls] | None = None,
    topics: Mapping[str, str] | None = None,
) -> str:
    """Return the text of a file. The format zk leaves out partitions without an offset, which it cannot express.

    topics: as marks_of returns it. Only JSON can hold unreadable, more, acls and topics.
    """
    if form is OffsetFormat.ZK:
        return "".join(
            f"{OffsetPath(group, *tp).path}:{offset}\n"
            for group, offsets in sorted(groups.items())
            for tp, offset in sorted(offsets.items())
            if offset is not None
        )
    document: dict[str, object] = {"version": _VERSION, **(more or {})}
    document["offsets"] = {group: by_topic(offsets) for group, offsets in sorted(groups.items())}
    texts = {
        group: by_topic({tp: data.decode("utf-8", "backslashreplace") for tp, data in found.items()})
        for group, found in sorted((unreadable or {}).items())
        if found
    }
    if texts:
        document["unreadable"] = texts
    if topics:
        document["topics"] = dict(sorted(topics.items()))
    if acls:
        document["acls"] = {group: found.document() for group, found in sorted(acls.items()) if group in groups}
    return json.dumps(document, indent=2) + "\n"


def marks_of(
    topics: Collection[str], origins: Mapping[str, TopicOrigin], written: Iterable[tuple[TopicPartition, int | None]]
) -> dict[str, str]:
    """Return {topic: its mark in a file}. written: the zxid of the last write of each offset, None without a znode."""
    zxids = {tp.topic: zxid for tp, zxid in written if zxid is not None}
    marks = {topic: metadata_of(TopicOrigin(zxids[topic])) for topic in topics if topic in zxids}
    return {**marks, **{topic: metadata_of(origins[topic]) for topic in topics if topic in origins}}


def begun_line(group: str) -> str:
    """Return the line that follows NOT_DONE for one group."""
    return json.dumps(group) + "\n"


def by_topic(values: Mapping[TopicPartition, T]) -> dict[str, dict[str, T]]:
    """Return {topic: {partition: value}}, sorted, for JSON."""
    topics: dict[str, dict[str, T]] = {}
    for tp, value in sorted(values.items(), key=lambda item: item[0]):
        topics.setdefault(tp.topic, {})[str(tp.partition)] = value
    return topics


def read_offsets(text: str, name: str) -> OffsetFile:
    """Read a file of any of the formats. name: the file's name for errors.

    Raises: BadOffsetFileError with every bad line.
    """
    if text.lstrip("\ufeff").lstrip().startswith("{"):
        return _read_json(text, name)
    if text.strip() and not text.endswith("\n"):
        reason = "the line has no newline at its end: the file is cut, or an editor removed its last newline"
        raise BadOffsetFileError(name, ((text.count("\n") + 1, reason),))
    # str.splitlines would split at characters that a name may hold; a name never holds a line feed
    return _read_lines(text.removeprefix("\ufeff").split("\n"), name)


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
        if groups and bool(group) != ("" not in groups):
            bad.append((number, "some lines name a group and others do not: give each group a file of its own"))
            continue
        first = numbers.setdefault((group, tp), number)
        if first != number and groups[group][tp] != offset:
            bad.append((number, f"{tp} has another offset in line {first}"))
        groups.setdefault(group, {})[tp] = offset
    if bad:
        raise BadOffsetFileError(name, tuple(bad))
    return OffsetFile(groups, {}, {})


def _parse_line(line: str) -> tuple[str, TopicPartition, int] | str:
    """Return group, partition and offset; or what is wrong with the line."""
    found = _LINE.fullmatch(line)
    if found is not None:
        path = OffsetPath.parse(found[1])
        if path is None:
            return f"{found[1][:100]} is not the path of an offset"
        group, topic, partition, offset = path.group, path.topic, path.partition, int(found[2])
    else:
        fields = _csv_fields(line)
        if fields is None:
            return (
                "it is neither /consumers/GROUP/offsets/TOPIC/PARTITION:OFFSET nor TOPIC,PARTITION,OFFSET nor "
                "GROUP,TOPIC,PARTITION,OFFSET"
            )
        group, topic, partition, offset = fields
    if not 0 <= offset <= _MAX_OFFSET:
        return f"{offset} is no offset"
    if partition >= 2**31:
        return f"{partition} is no partition"
    return group, TopicPartition(topic, partition), offset


def _csv_fields(line: str) -> tuple[str, str, int, int] | None:
    """Return group ("" without one), topic, partition and offset; None if the line is no such CSV."""
    try:
        [fields] = csv.reader([line], strict=True)
    except (csv.Error, ValueError):
        return None
    if len(fields) not in {3, 4}:
        return None
    group, (topic, partition, offset) = fields[0] if len(fields) == 4 else "", fields[-3:]
    is_named = _TOPIC.fullmatch(topic) and "/" not in group and (group or len(fields) == 3)
    if not (is_named and _PARTITION.fullmatch(partition) and _OFFSET.fullmatch(offset)):
        return None
    return group, topic, int(partition), int(offset)


def _read_json(text: str, name: str) -> OffsetFile:
    text, is_not_done, begun = text.partition(NOT_DONE)
    try:
        document = json.loads(text.removeprefix("\ufeff"), object_pairs_hook=_without_repetition)
    except _RepeatedKeyError as error:
        raise BadOffsetFileError(name, ((1, str(error)),)) from error
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
    acls: dict[str, GroupAcls] = {}
    noted = document.get("acls", {})
    for group, acl in noted.items() if isinstance(noted, dict) else ():
        try:
            acls[group] = GroupAcls.parse(acl)
        except ValueError as error:
            bad.append((("acls", group), f"group {group!r}: {error}"))
    topics = document.get("topics", {})
    if not isinstance(topics, dict) or not all(isinstance(mark, str) for mark in topics.values()):
        bad.append((("topics",), '"topics" should be {TOPIC: TEXT}'))
        topics = {}
    if bad:
        raise BadOffsetFileError(name, tuple((_line_of(text, keys), reason) for keys, reason in bad))
    # each line is written before its group is changed, so the group of a cut line is unchanged
    lines = set(begun.splitlines(keepends=True))
    untouched = [group for group in groups if is_not_done and begun_line(group) not in lines]
    for group in untouched:
        del groups[group]
    return OffsetFile(groups, _count_unreadable(document.get("unreadable")), acls, topics, untouched)


class _RepeatedKeyError(ValueError):
    """An object has a key twice; reading it would lose one of the two values."""


def _without_repetition(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Return the pairs as a dictionary. Raises: _RepeatedKeyError."""
    found: dict[str, object] = {}
    for key, value in pairs:
        if key in found:
            some = ", ".join(f"{json.dumps(name)}: {json.dumps(held)}" for name, held in pairs)
            raise _RepeatedKeyError(f"key {json.dumps(key)} occurs twice in {some[:80]}; remove one")
        found[key] = value
    return found


def _count_unreadable(noted: object) -> dict[str, int]:
    if not isinstance(noted, dict):
        return {}
    return {
        str(group): sum(len(partitions) for partitions in topics.values() if isinstance(partitions, dict))
        for group, topics in noted.items()
        if isinstance(topics, dict)
    }


def _line_of(text: str, keys: Sequence[str]) -> int:
    """Return the line of these nested keys, which json does not report. Exact if each key has a line of its own."""
    lines = text.splitlines()
    number = 0
    for key in keys if keys[0] in {"acls", "topics"} else ("offsets", *keys):
        quoted = json.dumps(key)
        number = next((n for n in range(number, len(lines)) if quoted in lines[n]), number)
    return number + 1
