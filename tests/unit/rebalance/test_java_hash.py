from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rebalance.assignors.java_hash import extend_hash, java_sort_key, java_sorted, java_string_hash


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", 0),
        ("Ea", 2236),
        ("FB", 2236),
        ("[t1,0]", -1581082495),
        ("[t2,0]", -1581052704),
        ("t1-0", 3504288),
        ("[topic-1,0]", -1196313087),
        ("[topic-1,10]", 1568999626),
        ("topic-1-10", -882495719),
        ("topic-1-9", 387174399),
        ("[views,0]", -72890490),
        ("clicks-0", 906470094),
        ("polygenelubricants", -(2**31)),
        ("é", 233),
        ("\U0001f600", 0xD83D * 31 + 0xDE00),
        ("\ud83d", 0xD83D),
    ],
)
def test_a_text_hashes_as_in_java(text, value):
    assert java_string_hash(text) == value


@given(st.text(), st.text())
def test_a_hash_can_be_continued(begin, end):
    assert extend_hash(extend_hash(0, begin), end) == java_string_hash(begin + end) % 2**32


@given(st.lists(st.text(), max_size=6))
def test_texts_sort_by_utf16_unit(texts):
    assert sorted(texts, key=java_sort_key) == sorted(texts, key=lambda t: t.encode("utf-16-be", "surrogatepass"))
    assert java_sorted(texts) == sorted(texts, key=java_sort_key)


def test_beyond_the_basic_plane_sorts_before_the_end_of_it():
    assert sorted(["�", "\U0001f600"], key=java_sort_key) == ["\U0001f600", "�"]
    assert sorted(["�", "\U0001f600"]) == ["�", "\U0001f600"]


def test_dash_dot_digits_upper_underscore_lower_is_the_order_of_ids():
    assert sorted("a_A0.-", key=java_sort_key) == list("-.0A_a")
