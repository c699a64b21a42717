"""All options of zk_offsets as data, and the options of one read, stream or write. Docs and tests use the tables."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from enum import Enum

from legacy_consumer.config import ClusterConfig
from spark_source.option_names import (
    CLUSTER_OPTIONS,
    OFFSETS_FORMAT,
    RDKAFKA_OPTION,
    Option,
    SortedOptions,
    flag,
    number,
    sort_options,
    word,
)
from spark_source.patterns import NamePatterns
from zk_layout.errors import ConfigError

FORMAT = OFFSETS_FORMAT


class MissingGroups(Enum):
    """The reaction to an entry of groups that fits no group."""

    IGNORE = "ignore"
    FAIL = "fail"


class ReadMode(Enum):
    """The reaction to a znode that no member can read."""

    PERMISSIVE = "PERMISSIVE"
    FAILFAST = "FAILFAST"


class LiveGroups(Enum):
    """The reaction of a write to groups that have members."""

    FAIL = "fail"
    ALLOW = "allow"


class NullOffsets(Enum):
    """The reaction to a row without an offset."""

    FAIL = "fail"
    DELETE = "delete"


class OutsideLog(Enum):
    """The reaction to an offset outside its log."""

    FAIL = "fail"
    ALLOW = "allow"


_SNAPSHOT_INTERVAL_MS = 10_000

READ_OPTIONS = (
    Option("groups", "all", "groups to read: names and globs (`*`, `?`, `[a-c]`), separated by commas"),
    Option("topics", "all", "topics to read, likewise"),
    Option(
        "missingGroups",
        MissingGroups.IGNORE.value,
        "`fail` if an entry of groups fits no group; `ignore` gives no rows for it",
    ),
    Option(
        "mode",
        ReadMode.PERMISSIVE.value,
        "`FAILFAST` fails the job at a malformed znode, `PERMISSIVE` makes it the error of its row",
    ),
    Option(
        "numPartitions",
        "one for every 64 groups, at most 8",
        "number of tasks of the read; one task reads a whole group",
    ),
)
STREAM_OPTIONS = (
    Option(
        "snapshotIntervalMs",
        str(_SNAPSHOT_INTERVAL_MS),
        "for a stream: the least time from one snapshot to the next, whatever the trigger",
    ),
    Option("changesOnly", "false", "for a stream: only rows that differ from the previous snapshot"),
)
WRITE_OPTIONS = (
    Option(
        "backupFolder",
        "required",
        "folder on the driver for a backup file with the previous offsets, which can be restored; or `none`",
    ),
    Option("dryRun", "false", "check everything, log how many offsets would change, and write nothing"),
    Option("liveGroups", LiveGroups.FAIL.value, "`allow` also writes offsets of groups that have members"),
    Option(
        "outsideLog", OutsideLog.FAIL.value, "`allow` writes offsets that the log does not hold, without asking brokers"
    ),
    Option("nullOffsets", NullOffsets.FAIL.value, "`delete` deletes the committed offset if a row has none"),
)
OWN_OPTIONS = (*READ_OPTIONS, *STREAM_OPTIONS)

OPTIONS = (*OWN_OPTIONS, *CLUSTER_OPTIONS, RDKAFKA_OPTION)
"""All options of reads, in the order of the docs."""

_ALL_OWN = (*OWN_OPTIONS, *WRITE_OPTIONS)
_HINTS = {"group.id": f"{FORMAT} reads any number of groups: name them in groups"}
_MOST_PARTITIONS = 10_000


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """The options of a read of zk_offsets, from parse_options. Pickled to the executors, with passwords."""

    cluster: ClusterConfig
    groups: NamePatterns
    topics: NamePatterns
    missing_groups: MissingGroups
    mode: ReadMode
    num_partitions: int | None
    snapshot_interval_ms: int
    changes_only: bool


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of a write of zk_offsets, from parse_write_options."""

    cluster: ClusterConfig
    backup_folder: str | None
    dry_run: bool
    live_groups: LiveGroups
    outside_log: OutsideLog
    null_offsets: NullOffsets


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Check all options of a read. Raises: ConfigError for the first wrong one, before any I/O."""
    found = _sorted(given)
    own = found.own
    _refuse_of_the_other(own, WRITE_OPTIONS, "is for writes")
    return ReadOptions(
        cluster=ClusterConfig.load(overrides=found.properties),
        groups=_patterns(own, "groups"),
        topics=_patterns(own, "topics"),
        missing_groups=word(own, "missingGroups", MissingGroups.IGNORE),
        mode=word(own, "mode", ReadMode.PERMISSIVE),
        num_partitions=number(own, "numPartitions", maximum=_MOST_PARTITIONS),
        snapshot_interval_ms=number(own, "snapshotIntervalMs", maximum=2**31 - 1) or _SNAPSHOT_INTERVAL_MS,
        changes_only=flag(own, "changesOnly", default=False),
    )


def check_batch_read(options: ReadOptions) -> None:
    """Refuse options of streams. Raises: ConfigError."""
    if options.changes_only:
        raise ConfigError("changesOnly", "true", "is for streams: a batch read has no snapshot to compare with")
    if options.snapshot_interval_ms != _SNAPSHOT_INTERVAL_MS:
        raise ConfigError("snapshotIntervalMs", None, "is for streams: a batch read is one snapshot")


def parse_write_options(given: Mapping[str, str]) -> WriteOptions:
    """Check all options of a write. Raises: ConfigError for the first wrong one, before any I/O."""
    found = _sorted(given)
    own = found.own
    _refuse_of_the_other(own, OWN_OPTIONS, "is for reads: filter the DataFrame before it is written")
    folder = own.get("backupFolder", "").strip()
    if not folder:
        raise ConfigError(
            "backupFolder", None, "is required: name a folder for the offsets of before, or `none` to save nothing"
        )
    return WriteOptions(
        cluster=ClusterConfig.load(overrides=found.properties),
        backup_folder=None if folder.lower() == "none" else folder,
        dry_run=flag(own, "dryRun", default=False),
        live_groups=word(own, "liveGroups", LiveGroups.FAIL),
        outside_log=word(own, "outsideLog", OutsideLog.FAIL),
        null_offsets=word(own, "nullOffsets", NullOffsets.FAIL),
    )


def _sorted(given: Mapping[str, str]) -> SortedOptions:
    return sort_options(FORMAT, given, _ALL_OWN, CLUSTER_OPTIONS, _HINTS)


def _refuse_of_the_other(own: Mapping[str, str], others: Collection[Option], reason: str) -> None:
    for option in others:
        if option.name in own:
            raise ConfigError(option.name, own[option.name], reason)


def _patterns(own: Mapping[str, str], name: str) -> NamePatterns:
    if name not in own:
        return NamePatterns()
    entries = tuple(entry.strip() for entry in own[name].split(","))
    if not all(entries):
        raise ConfigError(name, own[name], "must be names or globs separated by commas; leave it out for all")
    if any("/" in entry for entry in entries):
        raise ConfigError(name, own[name], "names have no slash: give a chroot in zookeeper.connect")
    return NamePatterns(entries)
