"""Offsets in files: the reader gets what the writer wrote, and an error names a bad line."""

from __future__ import annotations

import json
import string

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legacy_consumer.operations.admin.backups import Backup, write_backups
from legacy_consumer.operations.admin.errors import BadOffsetFileError
from legacy_consumer.operations.admin.offset_files import OffsetFormat, read_offsets, write_offsets
from zk_layout.model import TopicPartition

names = st.text(string.ascii_letters + string.digits + "._-", min_size=1, max_size=12).filter(
    lambda name: name not in {".", ".."}
)
any_names = st.text(
    st.characters(min_codepoint=0x20, max_codepoint=0x7E, exclude_characters="/")
    | st.characters(min_codepoint=0xA0, max_codepoint=0xD7FF)
    | st.sampled_from(":\u2028\u2029\u200b\u202e,\"'"),
    min_size=1,
    max_size=8,
).filter(lambda name: name not in {".", ".."})
"""Every name that a znode can have: ZooKeeper's server refuses control characters."""
partitions = st.builds(TopicPartition, names | any_names, st.integers(0, 2**31 - 1))
offsets = st.integers(0, 2**63 - 1)


@settings(max_examples=30)
@given(st.dictionaries(any_names, st.dictionaries(partitions, offsets | st.none(), min_size=1), max_size=3))
def test_offsets_survive_json(groups):
    assert read_offsets(write_offsets(groups, OffsetFormat.JSON), "f").groups == groups


@settings(max_examples=30)
@given(st.dictionaries(any_names, st.dictionaries(partitions, offsets, min_size=1), max_size=3))
def test_offsets_survive_kafkas_lines(groups):
    assert read_offsets(write_offsets(groups, OffsetFormat.ZK), "f").groups == groups


@settings(max_examples=30)
@given(st.text(max_size=200))
def test_any_text_is_read_or_refused_with_line_numbers(text):
    lines = ()
    try:
        read_offsets(text, "f")
    except BadOffsetFileError as error:
        lines = error.lines
    assert all(1 <= number <= len(text.splitlines()) for number, _ in lines)


def test_lines_are_those_of_kafkas_tool():
    text = write_offsets(
        {"tg": {TopicPartition("t1", 1): 251, TopicPartition("t1", 0): 249, TopicPartition("t1", 2): None}},
        OffsetFormat.ZK,
    )
    assert text == "/consumers/tg/offsets/t1/0:249\n/consumers/tg/offsets/t1/1:251\n"


LONG = "a-topic-with-a-name-of-more-than-24-characters"


@pytest.mark.parametrize(
    ("text", "groups"),
    [
        (f'"{LONG}",0,20\n\n', {"": {TopicPartition(LONG, 0): 20}}),
        (
            f'cg1,"{LONG}",0,20\ncg2,"{LONG}",0,21\n\n',
            {"cg1": {TopicPartition(LONG, 0): 20}, "cg2": {TopicPartition(LONG, 0): 21}},
        ),
        ('"a ""quoted"", name",t,0,20\n', {'a "quoted", name': {TopicPartition("t", 0): 20}}),
    ],
)
def test_csv_of_kafka_2_quotes_long_names_and_names_several_groups(text, groups):
    """The CSV is as kafka-consumer-groups 2.8.2 prints it."""
    assert read_offsets(text, "f").groups == groups


def test_an_unreadable_offset_is_in_the_json_and_is_no_offset():
    unreadable = {"g": {TopicPartition("t", 1): b" 12345\n", TopicPartition("t", 2): b"\xff"}}
    text = write_offsets({"g": {TopicPartition("t", 0): 5}}, OffsetFormat.JSON, unreadable)
    found = read_offsets(text, "f")
    assert found.groups == {"g": {TopicPartition("t", 0): 5}}
    assert found.unreadable == {"g": 2}
    assert json.loads(text)["unreadable"] == {"g": {"t": {"1": " 12345\n", "2": "\\xff"}}}


def test_csv_of_kafka_consumer_groups_is_of_any_group():
    found = read_offsets("orders,0,5\norders,1,6\n", "f")
    assert found.of_group("billing") == {TopicPartition("orders", 0): 5, TopicPartition("orders", 1): 6}


def test_blank_lines_and_a_mark_of_windows_do_no_harm():
    text = "\ufeff/consumers/g/offsets/t/0:1\r\n\r\n  /consumers/g/offsets/t/1:2  \n"
    assert read_offsets(text, "f").groups == {"g": {TopicPartition("t", 0): 1, TopicPartition("t", 1): 2}}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("/consumers/g/offsets/t/0", "neither"),
        ("/consumers/g/offsets/t/0:x", "neither"),
        ("/consumers/g/offsets/t/0:1:2", "not the path of an offset"),
        ("a,b,c", "neither"),
        (",t,0,5", "neither"),
        ('"t,0,5', "neither"),
        ("/consumers/g/offsets/t/0:-1", "-1 is no offset"),
        ("/consumers/g/offsets/t/0:9223372036854775808", "is no offset"),
        ("/consumers/g/offsets/t/0-1:5", "not the path of an offset"),
        ("/brokers/ids/0:5", "not the path of an offset"),
        ("/consumers/g/owners/t/0:5", "not the path of an offset"),
        ("t,0,-5", "-5 is no offset"),
        ("t,2147483648,5", "is no partition"),
        ("/consumers/g/offsets/t/0:2", "t/0 has another offset in line 1"),
        ("t,0,2", "some lines name a group and others do not"),
    ],
)
def test_a_bad_line_is_named_by_its_number(line, reason):
    with pytest.raises(BadOffsetFileError, match=reason) as caught:
        read_offsets(f"/consumers/g/offsets/t/0:1\n\n{line}\n", "offsets.txt")
    assert [number for number, _ in caught.value.lines] == [3]
    assert str(caught.value).startswith("nothing was changed, offsets.txt cannot be used: line 3: ")


def test_all_bad_lines_are_counted():
    with pytest.raises(BadOffsetFileError, match="and 7 more lines"):
        read_offsets("bad\n" * 10, "f")


@pytest.mark.parametrize(
    ("document", "line"),
    [
        ({"version": 2, "offsets": {}}, 1),
        ({"version": 1}, 1),
        ({"version": 1, "offsets": {"g": 5}}, 4),
        ({"version": 1, "offsets": {"g": {"t": {"0": 1, "x": 5}}}}, 7),
        ({"version": 1, "offsets": {"g": {"t": {"0": 1, "1": -5}}}}, 7),
        ({"version": 1, "offsets": {"g": {"t": {"0": 1, "1": True}}}}, 7),
        ({"version": 1, "offsets": {"g": {"t": {"0": 1, "1": "7"}}}}, 7),
        ({"version": 1, "offsets": {"g": {"a/b": {"0": 1}}}}, 6),
    ],
)
def test_bad_json_is_refused(document, line):
    with pytest.raises(BadOffsetFileError) as caught:
        read_offsets(json.dumps(document, indent=2), "f")
    assert [number for number, _ in caught.value.lines] == [line]


def test_json_that_is_none_is_named_with_its_line():
    with pytest.raises(BadOffsetFileError, match="line 2: it is not JSON"):
        read_offsets('{"version": 1,\n"offsets": {,}}', "f")


def test_a_repeated_key_is_refused_by_its_name():
    text = '{"version": 1, "offsets": {"g": {"t": {"0": 5, "0": 7}}}}'
    with pytest.raises(BadOffsetFileError, match='key "0" occurs twice'):
        read_offsets(text, "f")


def test_topics_that_are_no_texts_are_refused():
    with pytest.raises(BadOffsetFileError, match='"topics" should be'):
        read_offsets('{"version": 1, "offsets": {}, "topics": [1]}', "f")


def test_a_backup_of_several_groups_is_read_whole_unless_its_writer_notes_what_it_has_begun(tmp_path):
    groups = {"a": {TopicPartition("t", 0): 1}, "b": {TopicPartition("t", 0): 2}}
    file = write_backups(tmp_path, "all", groups)
    assert read_offsets(file.read_text(), "all").groups == groups
    noted = Backup(write_backups(tmp_path, "noted", groups, one_by_one=True), groups)
    assert read_offsets(noted.file.read_text(), "noted")[0] == {}
    noted.begin("b")
    assert read_offsets(noted.file.read_text(), "noted").groups == {"b": groups["b"]}
    assert read_offsets(noted.file.read_text(), "noted").untouched == ["a"]
    noted.keep_only(["b"])
    assert json.loads(noted.file.read_text())["offsets"] == {"b": {"t": {"0": 2}}}
