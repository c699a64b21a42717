r"""The format of Java's .properties files, as java.util.Properties.load reads it.

A line is `key=value`, `key: value` or `key value`. Blanks around the separator do not count, blanks after the value
do. Lines that begin with # or ! are comments. An odd number of backslashes at the end continues the line in the next
one, without that line's leading blanks. `\t \n \r \f` and `\uXXXX` are escapes; a backslash before anything else is
dropped.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator

_BLANKS = " \t\f"
_SEPARATORS = "=:"
_ESCAPE = re.compile(r"\\(u[0-9A-Fa-f]{4}|.)", re.DOTALL)
_CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}
_SURROGATE_PAIR = re.compile("[\ud800-\udbff][\udc00-\udfff]")


def decode_java_properties(data: bytes) -> str:
    """Decode a file: as UTF-8 if it is valid UTF-8, with or without a byte order mark; else as Latin-1, as Java does.

    Raises: ValueError for UTF-16, which Latin-1 would turn into nonsense.
    """
    if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        msg = "it is written in UTF-16: save it as UTF-8"
        raise ValueError(msg)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        return data.decode("latin-1")


def parse_java_properties(text: str) -> dict[str, str]:
    r"""Parse a whole file; if a key occurs twice, the last one counts.

    Raises: ValueError for \u without four hexadecimal digits.
    """
    properties: dict[str, str] = {}
    for line in _logical_lines(text):
        end = _end_of_key(line)
        rest = line[end:].lstrip(_BLANKS)
        if rest[:1] and rest[0] in _SEPARATORS:
            rest = rest[1:].lstrip(_BLANKS)
        key = line[:end]
        properties[_unescape(key, key)] = _unescape(rest, key)
    return properties


def _logical_lines(text: str) -> Iterator[str]:
    pending: str | None = None
    for natural in re.split(r"\r\n|\r|\n", text):
        line = natural.lstrip(_BLANKS)
        if pending is None and (not line or line[0] in "#!"):
            continue
        line = (pending or "") + line
        backslashes = len(line) - len(line.rstrip("\\"))
        if backslashes % 2:
            pending = line[:-1]
            continue
        pending = None
        yield line
    if pending:
        yield pending


def _end_of_key(line: str) -> int:
    escaped = False
    for index, character in enumerate(line):
        if not escaped and (character in _SEPARATORS or character in _BLANKS):
            return index
        escaped = character == "\\" and not escaped
    return len(line)


def _unescape(text: str, key: str) -> str:
    def replace(match: re.Match[str]) -> str:
        escape = match.group(1)
        if len(escape) == 5:
            return chr(int(escape[1:], 16))
        if escape == "u":
            # the error does not show the value, which may be a password
            raise ValueError(f"\\u without four hexadecimal digits at {key!r}; a backslash is written \\\\")
        return _CONTROLS.get(escape, escape)

    unescaped = _ESCAPE.sub(replace, text)
    # Java text is UTF-16: an astral character is written as two escapes
    return _SURROGATE_PAIR.sub(lambda pair: pair.group().encode("utf-16", "surrogatepass").decode("utf-16"), unescaped)
