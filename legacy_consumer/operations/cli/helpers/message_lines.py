r"""Messages as lines of bytes. No I/O.

value, key-value: the bytes as they are, as the JVM's console consumer prints them; `null` if there are none.
json: one object for each message,

    {"topic":"t","partition":0,"offset":7,"timestamp":1416392398000,"key":"k","value":"v"}

timestamp is in ms since 1970, null before Kafka 0.10. A key or value that is not UTF-8 stands in base64 under
another name, "key_base64" or "value_base64", so that nothing is lost and nothing has to be guessed.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Sequence
from typing import TypeAlias

from legacy_consumer.fetching.fetcher import Message

Lines: TypeAlias = Callable[[Sequence[Message]], bytes]
"""Formats all messages of a batch; each line ends with a newline."""

FORMATS = ("value", "key-value", "json", "none")

_NULL = b"null"
_NO_TIMESTAMP = 0
_quoted = json.JSONEncoder(ensure_ascii=False).encode


def lines_in(format_name: str, key_separator: bytes = b"\t") -> Lines:
    """Return the formatter of this name, one of FORMATS; `none` prints nothing, for counting."""
    match format_name:
        case "value":
            return value_lines
        case "key-value":
            return lambda messages: _key_value_lines(messages, key_separator)
        case "json":
            return json_lines
        case "none":
            return lambda messages: b""  # noqa: ARG005
    msg = f"no format {format_name}"
    raise ValueError(msg)


def value_lines(messages: Sequence[Message]) -> bytes:
    """Return the values, one a line."""
    values = [_NULL if (value := message.value()) is None else value for message in messages]
    values.append(b"")
    return b"\n".join(values)


def _key_value_lines(messages: Sequence[Message], separator: bytes) -> bytes:
    parts: list[bytes] = []
    for message in messages:
        key, value = message.key(), message.value()
        parts += (_NULL if key is None else key, separator, _NULL if value is None else value, b"\n")
    return b"".join(parts)


def json_lines(messages: Sequence[Message]) -> bytes:
    """Return one JSON object for each message."""
    topics: dict[str, str] = {}
    lines: list[str] = []
    for message in messages:
        topic = message.topic()
        name = topics.get(topic) or topics.setdefault(topic, _quoted(topic))
        kind, timestamp_ms = message.timestamp()
        lines.append(
            f'{{"topic":{name},"partition":{message.partition()},"offset":{message.offset()},'
            f'"timestamp":{"null" if kind == _NO_TIMESTAMP else timestamp_ms},'
            f"{_field('key', message.key())},{_field('value', message.value())}}}\n"
        )
    return "".join(lines).encode()


def _field(name: str, data: bytes | None) -> str:
    if data is None:
        return f'"{name}":null'
    try:
        return f'"{name}":{_quoted(data.decode())}'
    except UnicodeDecodeError:
        return f'"{name}_base64":"{base64.b64encode(data).decode()}"'
