"""All options of kafka_segments as data, and the options of one read. Docs and tests are made from OPTIONS. No I/O."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum

from spark_source.option_names import SEGMENTS_FORMAT, Option, flag, sort_options, word
from zk_layout.errors import ConfigError


class DamagedSegments(Enum):
    """The reaction to a damaged file."""

    FAIL = "fail"
    STOP = "stop"


OPTIONS = (
    Option(
        "path",
        "required",
        "a file or a folder, as `load(FOLDER)`, several as `load([A, B])`, globs too; of a folder all `*.log` files in "
        "it and below it. Driver and executors find the files under the same path",
    ),
    Option(
        "damagedSegments",
        DamagedSegments.FAIL.value,
        "`stop` reads a damaged file up to its last sound entry; the task's log names that place and the damage",
    ),
    Option("includeHeaders", "false", "adds the column headers; a schema that names it does so too"),
)
_NO_ISOLATION = (
    "reads all records of a file: whether a transaction was aborted may stand in another file; use zk_messages with "
    "isolation.level=read_committed while the brokers have the log"
)
_HINTS = {"isolation.level": _NO_ISOLATION, "kafka.isolation.level": _NO_ISOLATION}
_SEVERAL = Option("paths", "none", "what Spark makes of load([A, B]): the paths as JSON")
_LOCAL_SCHEME = "file"


@dataclass(frozen=True, slots=True)
class SegmentOptions:
    """The options of a read of kafka_segments, from parse_segment_options."""

    paths: tuple[str, ...]
    damaged: DamagedSegments
    include_headers: bool


def parse_segment_options(given: Mapping[str, str]) -> SegmentOptions:
    """Check all options. Raises: ConfigError for the first wrong one, before any I/O."""
    # without options sort_options would ask for zookeeper.connect, which this format does not use
    found = sort_options(SEGMENTS_FORMAT, given or {"path": ""}, (*OPTIONS, _SEVERAL), (), _HINTS)
    for name in found.properties:
        raise ConfigError(name, None, f"{SEGMENTS_FORMAT} reads files and speaks to no broker")
    own = found.own
    paths = tuple(_local(path) for path in [*_several(own.get("paths", "[]")), own.get("path", "")] if path)
    if not paths:
        raise ConfigError("path", None, "is required: name the folder of the segments, load(FOLDER)")
    return SegmentOptions(
        paths=paths,
        damaged=word(own, "damagedSegments", DamagedSegments.FAIL),
        include_headers=flag(own, "includeHeaders", default=False),
    )


def _several(text: str) -> list[str]:
    try:
        paths: list[str] = json.loads(text)
    except ValueError as error:
        raise ConfigError("paths", text, "is for Spark itself: give several paths as load([A, B])") from error
    return paths


def _local(path: str) -> str:
    """Return the path without `file:`, which Spark's own sources accept."""
    scheme, colon, rest = path.partition(":")
    if not colon or "/" in scheme:
        return path
    if scheme != _LOCAL_SCHEME:
        reason = f"{scheme}: is not read: copy the segments to where driver and executors see them as files"
        raise ConfigError("path", path, reason)
    return "/" + rest.lstrip("/")
