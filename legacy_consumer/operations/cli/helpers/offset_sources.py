"""Files of offsets on the command line; - is standard input or output."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import click

from legacy_consumer.offsets.judgement import TopicOrigin, judge, written_in_kafka
from legacy_consumer.operations.admin.offset_files import OffsetFile, Offsets, read_offsets
from legacy_consumer.operations.cli.helpers.group_names import check_name
from legacy_consumer.operations.cli.helpers.outputs import require_input
from legacy_consumer.operations.cli.helpers.tables import say_error
from legacy_consumer.operations.cli.helpers.topic_choices import Topics, is_chosen
from zk_layout.model import TopicPartition

_SHOWN = 3


def load_offsets(file: str) -> OffsetFile:
    """Read and check a file of offsets. Raises: BadOffsetFileError, click.ClickException if it cannot be read."""
    try:
        data = require_input().read() if file == "-" else Path(file).read_bytes()
        text = data.decode("utf-8")
    except OSError as error:
        raise click.ClickException(f"{file} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        line = error.object.count(b"\n", 0, error.start) + 1
        raise click.ClickException(f"nothing was changed, {file} cannot be used: line {line} is not UTF-8") from error
    return read_offsets(text, "standard input" if file == "-" else file)


def choose_offsets(file: str, groups: Mapping[str, Offsets], topics: Topics) -> dict[str, Offsets]:
    """Return the chosen offsets of each group.

    Raises: click.ClickException if the file has no offset of a named topic; ConfigError for a topic's name that no
    znode can have.
    """
    chosen: dict[str, Offsets] = {}
    for group, offsets in groups.items():
        chosen[group] = {tp: offset for tp, offset in offsets.items() if is_chosen(tp, topics)}
    there = {tp.topic for offsets in chosen.values() for tp in offsets}
    for topic in sorted(there):
        check_name("topic", topic)
    for topic in topics:
        if topic not in there:
            some = ", ".join(groups)
            raise click.ClickException(f"nothing was changed: {file} holds no such offsets of {topic}, group {some}")
    return chosen


def leave_out_earlier(
    group: str, offsets: Offsets, given: OffsetFile, origins: Mapping[str, TopicOrigin]
) -> list[TopicPartition]:
    """Return the partitions whose offset in the file is of an earlier topic of the same name; name them on stderr."""
    found = [
        tp
        for tp, offset in sorted(offsets.items(), key=lambda item: item[0])
        if judge(written_in_kafka(offset, given.topics.get(tp.topic, "")), origins.get(tp.topic)).outlived is not None
    ]
    for tp in found[:_SHOWN]:
        say_error(f"Left out: {tp} of group {group}: the file's offset is of an earlier topic of that name")
    if found:
        more = f"{len(found)} offsets are left out" if len(found) > 1 else "1 offset is left out"
        say_error(f"{more}; --of-earlier-topics takes them all the same")
    return found


earlier_option = click.option(
    "--of-earlier-topics",
    "takes_earlier",
    is_flag=True,
    help="Also use offsets that the file has for a topic that was deleted and created again since.",
)
