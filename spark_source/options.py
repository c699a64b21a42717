"""Every option of the formats as data, and what a read was told. Docs and tests are made from OPTIONS.

Spark hands options over with their names in small letters; here they are spelled as they are documented and found
whatever their case.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, fields
from enum import Enum

from legacy_consumer.config import PROPERTIES, ClusterConfig
from legacy_consumer.config.properties import HINTS, IGNORED, PASSED_TO_LIBRDKAFKA, RDKAFKA_PREFIX
from spark_source.patterns import NamePatterns
from zk_layout.errors import ConfigError

FORMAT = "zk_offsets"


@dataclass(frozen=True, slots=True)
class Option:
    """One option: default_text is a word for the docs, as `required` or `none`."""

    name: str
    default_text: str
    meaning: str


class MissingGroups(Enum):
    """What an entry of groups that fits no group does."""

    IGNORE = "ignore"
    FAIL = "fail"


OWN_OPTIONS = (
    Option("groups", "all", "groups to read: names and globs (`*`, `?`, `[a-c]`), separated by commas"),
    Option("topics", "all", "topics to read, likewise"),
    Option(
        "missingGroups",
        MissingGroups.IGNORE.value,
        "`fail` if an entry of groups fits no group; `ignore` gives no rows for it",
    ),
    Option(
        "numPartitions",
        "one for every 64 groups, at most 8",
        "into how many tasks the read is split; a group is read by one task",
    ),
)
_CLUSTER_ATTRIBUTES = {field.name for field in fields(ClusterConfig)}
CLUSTER_OPTIONS = tuple(
    Option(known.name, known.default_text if known.name != "client.id" else "legacy-consumer", known.meaning)
    for known in PROPERTIES
    if known.attribute in _CLUSTER_ATTRIBUTES or known.name in PASSED_TO_LIBRDKAFKA
)
RDKAFKA_OPTION = Option(f"{RDKAFKA_PREFIX}*", "none", "`rdkafka.X` sets librdkafka's X in the questions to the brokers")

OPTIONS = (*OWN_OPTIONS, *CLUSTER_OPTIONS, RDKAFKA_OPTION)
"""All options, in the order of the docs."""

_NAMES = {option.name.lower(): option.name for option in (*OWN_OPTIONS, *CLUSTER_OPTIONS)}
_ELSEWHERE = {name.lower(): reason for name, reason in {**IGNORED, **HINTS}.items()}
_PROPERTIES_ELSEWHERE = {known.name for known in PROPERTIES} - set(_NAMES)
_MOST_PARTITIONS = 10_000


@dataclass(frozen=True, slots=True)
class ReadOptions:
    """What a read of zk_offsets was told; made by parse_options. Crosses to the executors, passwords included."""

    cluster: ClusterConfig
    groups: NamePatterns
    topics: NamePatterns
    missing_groups: MissingGroups
    num_partitions: int | None


def parse_options(given: Mapping[str, str]) -> ReadOptions:
    """Check all options. Raises: ConfigError naming the first that cannot be, before any I/O."""
    own: dict[str, str] = {}
    cluster: dict[str, str | int | bool] = {}
    for key, value in given.items():
        name = _NAMES.get(key.lower())
        if name is None and key.lower().startswith(RDKAFKA_PREFIX) and key.lower() != RDKAFKA_PREFIX:
            cluster[key.lower()] = value  # all of librdkafka's names are small
        elif name is None:
            raise ConfigError(key, None, _unknown(key))
        elif name in {option.name for option in OWN_OPTIONS}:
            own[name] = value
        else:
            cluster[name] = value
    return ReadOptions(
        cluster=ClusterConfig.load(overrides=cluster),
        groups=_patterns(own, "groups"),
        topics=_patterns(own, "topics"),
        missing_groups=_missing_groups(own),
        num_partitions=_num_partitions(own),
    )


def _unknown(key: str) -> str:
    if key.lower() == "path":
        return f"{FORMAT} reads no path: call load() without one"
    if key.lower() in _ELSEWHERE:
        return _ELSEWHERE[key.lower()]
    if key.lower() == "group.id":
        return f"{FORMAT} reads any number of groups: name them in groups"
    if key.lower() in _PROPERTIES_ELSEWHERE:
        return f"a property of consumers, {FORMAT} has no use for it"
    near = difflib.get_close_matches(key.lower(), _NAMES, n=1, cutoff=0.6)
    return f"no such option of {FORMAT}" + (f", did you mean {_NAMES[near[0]]}?" if near else "")


def _patterns(own: Mapping[str, str], name: str) -> NamePatterns:
    if name not in own:
        return NamePatterns()
    entries = tuple(entry.strip() for entry in own[name].split(","))
    if not all(entries):
        raise ConfigError(name, own[name], "must be names or globs separated by commas; leave it out for all")
    if any("/" in entry for entry in entries):
        raise ConfigError(name, own[name], "names have no slash: give a chroot in zookeeper.connect")
    return NamePatterns(entries)


def _missing_groups(own: Mapping[str, str]) -> MissingGroups:
    word = own.get("missingGroups", MissingGroups.IGNORE.value).strip().lower()
    try:
        return MissingGroups(word)
    except ValueError:
        raise ConfigError("missingGroups", own["missingGroups"], "must be ignore or fail") from None


def _num_partitions(own: Mapping[str, str]) -> int | None:
    text = own.get("numPartitions")
    if text is None:
        return None
    if not text.strip().isdecimal() or not 1 <= int(text) <= _MOST_PARTITIONS:
        raise ConfigError("numPartitions", text, f"must be a whole number from 1 to {_MOST_PARTITIONS}")
    return int(text)
