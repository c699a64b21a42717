"""The common options of the formats: how to reach the cluster, and how a name is found.

Spark passes options with their names in lower case; here they are spelled as documented, and found in any case.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, fields
from enum import Enum
from typing import TypeVar

from legacy_consumer.config import PROPERTIES, ClusterConfig
from legacy_consumer.config.properties import HINTS, IGNORED, PASSED_TO_LIBRDKAFKA, RDKAFKA_PREFIX
from zk_layout.errors import ConfigError

OFFSETS_FORMAT = "zk_offsets"
MESSAGES_FORMAT = "zk_messages"
SEGMENTS_FORMAT = "kafka_segments"


@dataclass(frozen=True, slots=True)
class Option:
    """One option. default_text: a word for the docs, such as `required` or `none`."""

    name: str
    default_text: str
    meaning: str


def property_options(names: Collection[str]) -> tuple[Option, ...]:
    """Return the properties of consumers with these names as options."""
    return tuple(Option(known.name, known.default_text, known.meaning) for known in PROPERTIES if known.name in names)


_CLUSTER_ATTRIBUTES = {field.name for field in fields(ClusterConfig)}
CLUSTER_OPTIONS = tuple(
    Option(known.name, known.default_text if known.name != "client.id" else "legacy-consumer", known.meaning)
    for known in PROPERTIES
    if known.attribute in _CLUSTER_ATTRIBUTES or known.name in PASSED_TO_LIBRDKAFKA
)
RDKAFKA_OPTION = Option(f"{RDKAFKA_PREFIX}*", "none", "`rdkafka.X` sets librdkafka's X in the questions to the brokers")

_ELSEWHERE = {name.lower(): reason for name, reason in {**IGNORED, **HINTS}.items()}
_KAFKA_PREFIX = "kafka."
"""The prefix of consumers' properties among the options of Spark's own Kafka source."""
HIDDEN_OPTIONS = "(?i)auth[.]digest|[.]pem$|oauthbearer[.]config|private[.]key"
"""Names of options that hold secrets. Spark itself hides names with password, secret or token in them."""
_TABLE_PREFIX = "option."
"""The prefix of options with which a table is created. When the table is read or written later, it has no options."""
_TABLE_OWNER = "owner"
"""An option that Spark itself adds when it creates a table."""
_PROPERTY_NAMES = {known.name for known in PROPERTIES}


@dataclass(frozen=True, slots=True)
class SortedOptions:
    """The options of one read or write, under their documented names: its own, and properties of the cluster."""

    own: dict[str, str]
    properties: dict[str, str | int | bool]


def sort_options(
    form: str,
    given: Mapping[str, str],
    own: Collection[Option],
    properties: Collection[Option],
    hints: Mapping[str, str],
) -> SortedOptions:
    """Divide the given options into own ones and properties. hints: {name in lower case: why it is no option}.

    Raises: ConfigError for the first that is neither, with the option that the user probably means.
    """
    advice = f"use CREATE TEMPORARY VIEW ... USING {form} OPTIONS (...)"
    if any(key.lower() == _TABLE_OWNER or key.lower().startswith(_TABLE_PREFIX) for key in given):
        raise ConfigError(
            "CREATE TABLE", None, f"Spark does not hand a table's options to a Python source again: {advice}"
        )
    if not given:
        reason = f"is required: give host:port[,host:port...][/chroot]; a table has lost its options: {advice}"
        raise ConfigError("zookeeper.connect", None, reason)
    own_names = {option.name.lower(): option.name for option in own}
    names = {**own_names, **{option.name.lower(): option.name for option in properties}}
    found = SortedOptions({}, {})
    for key, value in given.items():
        small = key.lower()
        if small in own_names:
            found.own[own_names[small]] = value
        elif small in names:
            found.properties[names[small]] = value
        elif small.startswith(RDKAFKA_PREFIX) and small != RDKAFKA_PREFIX:
            found.properties[small] = value  # all of librdkafka's names are small
        else:
            raise ConfigError(key, None, _unknown(form, small, names, hints))
    return found


def _unknown(form: str, small: str, names: Mapping[str, str], hints: Mapping[str, str]) -> str:
    if small in hints:
        return hints[small]
    if small == "path":
        return f"{form} has no path: call load() without one, and save() likewise"
    if small.startswith(_KAFKA_PREFIX):
        return _of_the_kafka_source(form, small.removeprefix(_KAFKA_PREFIX), names)
    if small in _ELSEWHERE:
        return _ELSEWHERE[small]
    if small in _PROPERTY_NAMES:
        return f"a property of consumers, {form} has no use for it"
    near = difflib.get_close_matches(small, names, n=1, cutoff=0.6)
    return f"no such option of {form}" + (f", did you mean {names[near[0]]}?" if near else "")


def _of_the_kafka_source(form: str, small: str, names: Mapping[str, str]) -> str:
    """Return why there is no option kafka.X."""
    if small in names:
        return f"write it without the prefix, {names[small]}"
    if small in _ELSEWHERE:
        return f"{small}: {_ELSEWHERE[small]}"
    return f"{form} has no use for it; properties have no prefix here, and rdkafka.X sets librdkafka's X"


Word = TypeVar("Word", bound=Enum)


def word(own: Mapping[str, str], name: str, default: Word) -> Word:
    """Return the option's value as a member of an enumeration. Raises: ConfigError."""
    text = own.get(name)
    if text is None:
        return default
    for choice in type(default):
        if str(choice.value).lower() == text.strip().lower():
            return choice
    words = [str(choice.value) for choice in type(default)]
    raise ConfigError(name, text, f"must be {', '.join(words[:-1])} or {words[-1]}")


def flag(own: Mapping[str, str], name: str, *, default: bool) -> bool:
    """Return the option's value, true or false. Raises: ConfigError."""
    text = own.get(name, str(default)).strip().lower()
    if text not in {"true", "false"}:
        raise ConfigError(name, own[name], "must be true or false")
    return text == "true"


def number(own: Mapping[str, str], name: str, *, maximum: int = 2**63 - 1) -> int | None:
    """Return the option's value, an integer of at least 1; None if it is not given. Raises: ConfigError."""
    text = own.get(name)
    if text is None:
        return None
    found = whole_number(text.strip(), most=maximum)
    if not found:
        raise ConfigError(name, text, f"must be a whole number from 1 to {maximum}")
    return found


def whole_number(text: str, *, most: int) -> int | None:
    """Return the number, 0 or more; None if the text is no number, or one above most."""
    # int() raises ValueError for more than 4,300 digits
    if not (text.isascii() and text.isdecimal()) or len(text) > len(str(most)):
        return None
    found = int(text)
    return found if found <= most else None


_DURATION = re.compile(r"(\d{1,12}) *(ms|s|m|min|h|d)?")
_UNIT_MS = {None: 1, "ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


def duration_ms(own: Mapping[str, str], name: str, default: str) -> int:
    """Return a time in Spark's form, such as 15m, in milliseconds. Raises: ConfigError."""
    text = own.get(name, default)
    match = _DURATION.fullmatch(text.strip().lower())
    if match is None:
        raise ConfigError(name, text, "must be a time such as 500ms, 30s, 15m or 2h")
    return int(match[1]) * _UNIT_MS[match[2]]
