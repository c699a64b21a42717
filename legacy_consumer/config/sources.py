"""Turns the given properties into checked values: {property name: value}. The only I/O is reading the file."""

from __future__ import annotations

import difflib
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TypeAlias

from legacy_consumer.config.java_properties import decode_java_properties, parse_java_properties
from legacy_consumer.config.properties import (
    ASSIGNMENT_PREFIX,
    BY_NAME,
    DECIDED_HERE,
    HINTS,
    IGNORED,
    RDKAFKA_PREFIX,
    Kind,
    Property,
)
from zk_layout.errors import ConfigError
from zk_layout.typed_texts import true_or_false, whole_number

Value: TypeAlias = str | int | bool

_UNUSABLE = "must be text that UTF-8 can hold, without NUL"
_SYNONYMS = {"auto.offset.reset": {"earliest": "smallest", "latest": "largest"}}


@dataclass(slots=True)
class Values:
    """The given values, each checked. The names in rdkafka have no prefix; the names in assignment keep their prefix.

    unknown: names that no property here has, with their file; a user's assignor may declare them.
    """

    given: dict[str, Value] = field(default_factory=dict)
    rdkafka: dict[str, str] = field(default_factory=dict)
    assignment: dict[str, str] = field(default_factory=dict)
    unknown: list[tuple[str, Value, str | PathLike[str] | None]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


def gather(
    properties_file: str | PathLike[str] | None,
    overrides: Mapping[str, Value] | None,
    keywords: Mapping[str, Value],
) -> Values:
    """Collect the values of all sources: keywords override overrides, and these override the file.

    Raises: ConfigError for the first invalid property.
    """
    values = Values()
    if properties_file is not None:
        for name, text in _read(properties_file).items():
            if name in IGNORED:
                # JVM members may share the file and use this property
                values.notes.append(_no_effect(name))
            elif not _take(values, name, text):
                values.unknown.append((name, text, properties_file))
    _check_mapping(overrides)
    by_keyword = {_name_of_keyword(keyword): value for keyword, value in keywords.items()}
    if len(by_keyword) < len(keywords):
        twice = next(name for name in by_keyword if sum(name == _name_of_keyword(one) for one in keywords) > 1)
        raise ConfigError(twice, None, "is given twice, written with dots and with underscores")
    for name, value in {**(overrides or {}), **by_keyword}.items():
        _check_name(name)
        if not _take(values, name, value):
            values.unknown.append((name, value, None))
    return values


def give_to_assignors(values: Values, declared: Container[str]) -> None:
    """Keep the unknown names that the member's assignors declare.

    Any other unknown name is an error in keywords and overrides, which are written for this consumer, and a warning in
    a file, which may be shared with other consumers. Raises: ConfigError.
    """
    for name, value, properties_file in values.unknown:
        if name in declared:
            values.assignment[name] = _plain(name, value)
        elif properties_file is None:
            raise ConfigError(name, None, _unknown(name))
        else:
            values.warnings.append(f"{name} in {properties_file}: {_unknown(name)}; it has no effect")


def misspelling_of(name: str, values: Values) -> str:
    """Return an addition to the error about a missing property: "; ..." if a file has one of a similar name."""
    found = (told for told in values.warnings if f"did you mean {name}?" in told)
    return "".join(f"; {told.removesuffix('; it has no effect')}" for told in found)


def _check_mapping(overrides: object) -> None:
    if overrides is not None and not isinstance(overrides, Mapping):
        raise ConfigError("overrides", type(overrides).__name__, "must be {property: value}")


def _check_name(name: object) -> None:
    if not (isinstance(name, str) and name.isprintable()):
        raise ConfigError(ascii(name), None, "is no name of a property")


def _read(where: object) -> dict[str, str]:
    if not isinstance(where, (str, PathLike)):
        what = "must be the path of a .properties file; properties go into overrides or keywords"
        raise ConfigError("properties file", type(where).__name__, what)
    path = Path(where)
    try:
        return parse_java_properties(decode_java_properties(path.read_bytes()))
    except OSError as error:
        raise ConfigError("properties file", str(path), f"cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise ConfigError("properties file", str(path), f"is no .properties file: {error}") from error


def _name_of_keyword(keyword: str) -> str:
    return keyword.replace("_", ".")


def _take(values: Values, name: str, value: Value) -> bool:
    """Check and keep one value; return False if there is no such property."""
    known = BY_NAME.get(name)
    if known is not None:
        values.given[name] = _checked(known, value, values.notes)
        return True
    if name.startswith(RDKAFKA_PREFIX) and name != RDKAFKA_PREFIX:
        passed_on = name.removeprefix(RDKAFKA_PREFIX)
        _check_pass_through(passed_on)
        values.rdkafka[passed_on] = _plain(name, value)
        return True
    if name.startswith(ASSIGNMENT_PREFIX):
        values.assignment[name] = _plain(name, value)
        return True
    if name in IGNORED:
        values.warnings.append(_no_effect(name))
        return True
    return False


def _check_pass_through(passed_on: str) -> None:
    """Refuse a setting of librdkafka that this project sets itself. Raises: ConfigError."""
    if passed_on in BY_NAME:
        what = f"set {passed_on} instead, which both fetchers and librdkafka's other handles follow"
    else:
        what = DECIDED_HERE.get(passed_on) or HINTS.get(passed_on) or ""
    if what:
        raise ConfigError(f"{RDKAFKA_PREFIX}{passed_on}", None, f"cannot be passed to librdkafka: {what}")


def _no_effect(name: str) -> str:
    return f"{name} has no effect: {IGNORED[name]}"


def _unknown(name: str) -> str:
    if name in HINTS:
        return HINTS[name]
    near = difflib.get_close_matches(name, [*BY_NAME, *IGNORED], n=1, cutoff=0.75)
    return (
        f"no such property, did you mean {near[0]}?" if near else "no such property; see `legacy-consumer config list`"
    )


def _plain(name: str, value: object) -> str:
    """Return a value that others check as text; a text may have several lines, as certificates do."""
    if not isinstance(value, str | int | float):
        raise ConfigError(name, type(value).__name__, "must be text")
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if not _can_be_passed_on(text):
        raise ConfigError(name, None, _UNUSABLE)
    return text


def _can_be_passed_on(text: str) -> bool:
    """Return whether other programs take this text: UTF-8 has no lone surrogates, and C ends a text at NUL."""
    return "\0" not in text and not any("\ud800" <= sign <= "\udfff" for sign in text)


def _checked(known: Property, value: object, notes: list[str]) -> Value:
    match known.kind:
        case Kind.INTEGER:
            return _integer(known, value)
        case Kind.BOOLEAN:
            return _boolean(known, value)
        case Kind.WORD:
            return _word(known, value, notes)
        case Kind.TEXT | Kind.SECRET:
            if not isinstance(value, str):
                raise ConfigError(known.name, None if known.kind is Kind.SECRET else value, "must be text")
            if not _can_be_passed_on(value) or "\n" in value or "\r" in value:
                # often the content of a file with the line break at its end
                raise ConfigError(known.name, None, f"{_UNUSABLE} and line breaks")
            if known.name.endswith(".location") and not value:
                # perhaps an unset variable in a template; with "" one library uses the system's files, another none
                raise ConfigError(known.name, None, "is empty: give a file, or leave the property out")
            return value


def _integer(known: Property, value: object) -> int:
    number: int | None = None
    if isinstance(value, int) and not isinstance(value, bool):
        number = value
    elif isinstance(value, str):
        number = whole_number(value)
    if number is None:
        raise ConfigError(known.name, value, "must be a whole number")
    if not known.minimum <= number <= known.maximum:
        raise ConfigError(known.name, value, f"must be from {known.minimum} to {known.maximum}")
    return number


def _boolean(known: Property, value: object) -> bool:
    if isinstance(value, bool):
        return value
    if isinstance(value, str) and (found := true_or_false(value)) is not None:
        return found
    raise ConfigError(known.name, value, "must be true or false")


def _word(known: Property, value: object, notes: list[str]) -> str:
    if isinstance(value, str):
        word = value.strip().lower()
        synonym = _SYNONYMS.get(known.name, {}).get(word)
        if synonym is not None:
            notes.append(f"{known.name}={word} is taken as {synonym}; a JVM member would refuse it")
            return synonym
        for choice in known.choices:
            if word == choice.lower():
                return choice
    words = " or ".join(choice or "(empty)" for choice in known.choices)
    raise ConfigError(known.name, value, f"must be {words}")
