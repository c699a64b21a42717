"""Messages as lines."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_consumer.operations.cli.helpers.message_lines import FORMATS, lines_in


@dataclass(frozen=True)
class Message:
    k: bytes | None = None
    v: bytes | None = None
    at: tuple[int, int] = (1, 1_416_392_398_000)
    number: int = 7

    def topic(self):
        return "orders"

    def partition(self):
        return 3

    def offset(self):
        return self.number

    def key(self):
        return self.k

    def value(self):
        return self.v

    def timestamp(self):
        return self.at


@pytest.mark.parametrize("name", FORMATS)
def test_no_messages_are_no_lines(name):
    assert lines_in(name)([]) == b""


def test_a_format_that_does_not_exist_is_refused():
    with pytest.raises(ValueError, match="xml"):
        lines_in("xml")


def test_values_stand_as_they_are_and_null_where_there_is_none():
    messages = [Message(v=b"a"), Message(v=None), Message(v=b""), Message(v=b"\xff")]
    assert lines_in("value")(messages) == b"a\nnull\n\n\xff\n"


def test_key_and_value_stand_with_the_separator_between():
    messages = [Message(b"k", b"v"), Message(None, None), Message(b"", b"")]
    assert lines_in("key-value")(messages) == b"k\tv\nnull\tnull\n\t\n"
    assert lines_in("key-value", b" => ")(messages[:1]) == b"k => v\n"


def test_a_json_line_is_as_documented():
    [line] = lines_in("json")([Message(b"k", b"v")]).splitlines()
    assert line == (b'{"topic":"orders","partition":3,"offset":7,"timestamp":1416392398000,"key":"k","value":"v"}')


def test_a_message_without_timestamp_has_null_and_one_of_the_year_1970_its_zero():
    assert json.loads(lines_in("json")([Message(at=(0, -1))]))["timestamp"] is None
    assert json.loads(lines_in("json")([Message(at=(1, 0))]))["timestamp"] == 0


@given(st.lists(st.tuples(st.none() | st.binary(), st.none() | st.binary() | st.text().map(str.encode))))
def test_json_gives_every_byte_back(pairs):
    import base64

    lines = lines_in("json")([Message(k, v) for k, v in pairs])
    documents = [json.loads(line) for line in lines.split(b"\n")[:-1]]

    def bytes_of(document, name):
        if f"{name}_base64" in document:
            assert name not in document
            return base64.b64decode(document[f"{name}_base64"])
        return None if document[name] is None else document[name].encode()

    assert [(bytes_of(d, "key"), bytes_of(d, "value")) for d in documents] == pairs
