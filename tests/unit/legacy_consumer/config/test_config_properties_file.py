import string

import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_consumer.config import ConsumerConfig, parse_java_properties
from legacy_consumer.config.java_properties import decode_java_properties
from zk_layout.errors import ConfigError


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("group.id=g", "group.id", "g"),
        ("group.id = g", "group.id", "g"),
        ("group.id: g", "group.id", "g"),
        ("group.id g", "group.id", "g"),
        ("  \t group.id\t=\tg", "group.id", "g"),
        ("group.id==g", "group.id", "=g"),
        ("a=b=c", "a", "b=c"),
        ("trailing=blank ", "trailing", "blank "),
        ("alone", "alone", ""),
        ("empty=", "empty", ""),
        (r"a\=b=c", "a=b", "c"),
        (r"a\ b=c", "a b", "c"),
        (r"a\:b c", "a:b", "c"),
        (r"regex=t\\d+", "regex", r"t\d+"),
        (r"dropped=\q\z", "dropped", "qz"),
        (r"controls=\t\n\r\f", "controls", "\t\n\r\f"),
        (r"umlaut=\u00fc", "umlaut", "ü"),
        (r"astral=\ud83d\ude00", "astral", "\U0001f600"),
        ("zookeeper.connect=a:1,b:2/x", "zookeeper.connect", "a:1,b:2/x"),
    ],
)
def test_one_line_is_read_as_java_reads_it(line, key, value):
    assert parse_java_properties(line) == {key: value}


def test_comments_and_empty_lines_are_skipped():
    assert parse_java_properties("# a=1\n! b=2\n\n   \n  # c=3\nd=4 # no comment") == {"d": "4 # no comment"}


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_a_backslash_at_the_end_continues_the_line(end):
    text = end.join(["fruits=apple, \\", "    banana, \\", "  pear", "next=1"])
    assert parse_java_properties(text) == {"fruits": "apple, banana, pear", "next": "1"}


def test_two_backslashes_at_the_end_do_not():
    assert parse_java_properties("path=c\\\\\nnext=1") == {"path": "c\\", "next": "1"}


def test_a_comment_is_not_continued_but_a_continuation_may_look_like_one():
    assert parse_java_properties("# a \\\nb=1\nc=2\\\n#3") == {"b": "1", "c": "2#3"}


def test_the_last_of_two_counts():
    assert parse_java_properties("a=1\na=2") == {"a": "2"}


@pytest.mark.parametrize("name", ["sasl.password", "sasl.jaas.config"])
def test_a_secret_with_a_bad_escape_is_not_quoted_and_its_property_is_named(name, tmp_path):
    path = tmp_path / "consumer.properties"
    path.write_text(f"{name}=hunter\\user\n")
    with pytest.raises(ConfigError, match=rf"hexadecimal digits at '{name}'; a backslash is written \\\\") as caught:
        ConsumerConfig.load(path)
    assert "hunter" not in str(caught.value)


@pytest.mark.parametrize("bad", [r"a=\u12", r"a=\uzzzz", r"a=\u"])
def test_an_unfinished_unicode_escape_is_refused(bad):
    with pytest.raises(ValueError, match="hexadecimal"):
        parse_java_properties(bad)


def _escaped(text: str, *, is_key: bool) -> str:
    special = "=: #!\\" if is_key else "\\"
    written = "".join(f"\\{c}" if c in special else c for c in text)
    return f"\\{written}" if not is_key and written[:1] == " " else written


_PLAIN = st.text(string.ascii_letters + string.digits + "=: #!\\.,-/äß", min_size=1)


@given(st.dictionaries(_PLAIN, _PLAIN | st.just("")))
def test_escaped_text_survives_a_properties_file(properties):
    text = "\n".join(f"{_escaped(k, is_key=True)}={_escaped(v, is_key=False)}" for k, v in properties.items())
    assert parse_java_properties(text) == properties


@pytest.mark.parametrize(
    "data",
    [
        "note=Grüße".encode(),
        "note=Grüße".encode("latin-1"),
        b"\xef\xbb\xbf" + "note=Grüße".encode(),
    ],
    ids=["UTF-8", "Latin-1, as Java has it", "UTF-8 with a byte order mark"],
)
def test_a_file_is_read_in_the_encodings_that_people_have(data):
    assert parse_java_properties(decode_java_properties(data)) == {"note": "Grüße"}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-16-le"])
def test_a_file_in_utf_16_is_refused(tmp_path, encoding):
    path = tmp_path / "consumer.properties"
    path.write_bytes("\ufeffgroup.id=g".encode(encoding))
    with pytest.raises(ConfigError, match="save it as UTF-8"):
        ConsumerConfig.load(path)
