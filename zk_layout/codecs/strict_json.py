"""Reads the JSON of znodes without trusting it.

For any bytes the result is a JsonObject or MalformedZnodeError. The order of keys, white space and
unknown keys never matter. A key given twice counts as given last, as for the JVM's readers. Integers are Java
ints: true, 1.0 and 2147483648 are none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, NoReturn, TypeGuard

from zk_layout.codecs.java_number import MAX_INT, MIN_INT, parse_int, parse_long
from zk_layout.errors import MalformedZnodeError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_LONGEST_INTEGER = 20


def _bounded_integer(text: str) -> int | float:
    """An integer beyond every Java type becomes a float: no field takes one, and int() could take seconds."""
    return int(text) if len(text) <= _LONGEST_INTEGER else float(text)


def _refuse_constant(text: str) -> NoReturn:
    raise ValueError(f"{text} is not JSON")


_DECODER = json.JSONDecoder(parse_int=_bounded_integer, parse_constant=_refuse_constant)


def decode_text(path: str, data: bytes | None) -> str:
    """The UTF-8 text of a znode. Raises: MalformedZnodeError if there is none, or if it is not UTF-8."""
    if not data:
        raise MalformedZnodeError(path, data, "it is empty")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise MalformedZnodeError(path, data, "it is not UTF-8 text") from error


def decode_json(path: str, data: bytes | None, *, mend_backslashes: bool = False) -> object:
    """Return the JSON value of a znode, of any type; most callers need decode_object.

    mend_backslashes: if it is not JSON, double every backslash and try again. So do readers from 1.0.1 on,
    since 0.8.0 and 0.8.1 wrote regular expressions unescaped.
    Raises: MalformedZnodeError, also for half a surrogate pair: no UTF-8 text, and so no path, could hold it.
    """
    text = decode_text(path, data)
    try:
        value = _parse(text)
    except (ValueError, RecursionError) as error:
        malformed = MalformedZnodeError(path, data, f"it is not JSON: {error}")
        if not mend_backslashes or "\\" not in text:
            raise malformed from error
        text = text.replace("\\", "\\\\")
        try:
            value = _parse(text)
        except (ValueError, RecursionError):
            raise malformed from error
    if "\\u" in text and _has_half_surrogate_pair(value):
        raise MalformedZnodeError(path, data, "it holds half a surrogate pair")
    return value


def decode_object(path: str, data: bytes | None, *, mend_backslashes: bool = False) -> JsonObject:
    """The JSON object of a znode. Raises: MalformedZnodeError."""
    value = decode_json(path, data, mend_backslashes=mend_backslashes)
    if not isinstance(value, dict):
        raise MalformedZnodeError(path, data, "it is not a JSON object")
    return JsonObject(path, data, value)


def encode_json(value: object) -> bytes:
    """Compact JSON in the order given, non-ASCII text as it is."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()


class JsonObject:
    """A JSON object of a znode, with typed access that fails as MalformedZnodeError.

    where says which part of the document it is, e.g. `features.`; empty for the document itself.
    """

    __slots__ = ("_data", "_members", "_path", "_where")

    def __init__(self, path: str, data: bytes | None, members: Mapping[str, object], where: str = "") -> None:
        self._path = path
        self._data = data
        self._members = members
        self._where = where

    def __contains__(self, key: str) -> bool:
        return key in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)

    def malformed(self, key: str, wanted: str) -> MalformedZnodeError:
        """Return the error to raise about the value of a key."""
        name = self._where + (key if key.isprintable() else ascii(key))
        return MalformedZnodeError(
            self._path, self._data, f"{name} is not {wanted}" if key in self else f"{name} is missing"
        )

    def is_null(self, key: str) -> bool:
        """Return whether there is no value: the key is missing, or its value is null."""
        return self._members.get(key) is None

    def text(self, key: str) -> str:
        """A string."""
        value = self._members.get(key)
        if isinstance(value, str):
            return value
        raise self.malformed(key, "a string")

    def integer(self, key: str, default: int | None = None) -> int:
        """A Java int; default if the key is missing and there is a default."""
        value = self._members.get(key, default)
        if _is_int(value):
            return value
        raise self.malformed(key, "an integer")

    def integers(self, key: str) -> tuple[int, ...]:
        """A list of Java ints."""
        value = self._members.get(key)
        if isinstance(value, list):
            items = tuple(item for item in value if _is_int(item))
            if len(items) == len(value):
                return items
        raise self.malformed(key, "a list of integers")

    def texts(self, key: str) -> tuple[str, ...]:
        """A list of strings."""
        value = self._members.get(key)
        if isinstance(value, list):
            items = tuple(item for item in value if isinstance(item, str))
            if len(items) == len(value):
                return items
        raise self.malformed(key, "a list of strings")

    def pairs(self, key: str) -> tuple[tuple[object, object], ...]:
        """A list of lists of two values each, of any type."""
        value = self._members.get(key)
        if isinstance(value, list):
            items = tuple((item[0], item[1]) for item in value if isinstance(item, list) and len(item) == 2)
            if len(items) == len(value):
                return items
        raise self.malformed(key, "a list of pairs")

    def child(self, key: str) -> JsonObject:
        """An object."""
        value = self._members.get(key)
        if isinstance(value, dict):
            return JsonObject(self._path, self._data, value, f"{self._where}{key}.")
        raise self.malformed(key, "an object")

    def children(self, key: str) -> tuple[JsonObject, ...]:
        """A list of objects."""
        value = self._members.get(key)
        if isinstance(value, list) and all(isinstance(item, dict) for item in value):
            return tuple(JsonObject(self._path, self._data, item, f"{self._where}{key}.") for item in value)
        raise self.malformed(key, "a list of objects")

    def long_in_quotes(self, key: str) -> int | None:
        """Return a long, which Kafka writes as a string, since its older readers know no numbers above 2147483647.

        None if it is missing or no number: most such values are times, which only people read.
        """
        value = self._members.get(key)
        if isinstance(value, str):
            return parse_long(value.encode())
        return parse_long(b"%d" % value) if type(value) is int else None

    def partition_numbers(self) -> dict[int, str]:
        """The keys as partition numbers: {number: key}, ascending."""
        numbers: dict[int, str] = {}
        for key in self._members:
            number = parse_int(key.encode())
            if number is None or number < 0:
                raise self.malformed(key, "a partition number")
            numbers[number] = key
        return dict(sorted(numbers.items()))


def _parse(text: str) -> object:
    value: object = _DECODER.decode(text)
    return value


def _is_int(value: object) -> TypeGuard[int]:
    return type(value) is int and MIN_INT <= value <= MAX_INT


def _has_half_surrogate_pair(value: object) -> bool:
    try:
        encode_json(value)
    except (UnicodeEncodeError, RecursionError):
        return True
    return False
