"""Filters for which a backtracking matcher needs years get re's verdict in a bounded number of steps."""

from __future__ import annotations

import logging
import sys
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance import bounded_regex, java_regex
from rebalance.bounded_regex import BoundedPattern
from rebalance.errors import UnsupportedRegexError
from rebalance.java_regex import LONGEST as LONGEST_FILTER
from rebalance.java_regex import compile_java_regex, translate_java_regex
from rebalance.machine import Phase
from tests.support.group_members import GROUP, Group

LONGEST = 249

BLOW_UPS = [
    (r"(x+x+)+y", "x" * LONGEST, False),
    (r"(x+x+)+y", "x" * (LONGEST - 1) + "y", True),
    (r"(x*)*y", "x" * LONGEST, False),
    (r"(x|x)*y", "x" * LONGEST, False),
    (r"(x|xx)+", "x" * LONGEST, True),
    (r"(?:x+)+(?:x+)+(?:x+)+z", "x" * LONGEST, False),
    (r"(.*)*(.*)*[^x]", "x" * LONGEST, False),
    (r"((x?){1,10}){1,4}y", "x" * LONGEST, False),
    (r"(?=(x+x+)+y).*", "x" * LONGEST, False),
    (r"((a|ab)(c|bcd)(d*))+z", "abcd" * 62, False),
]


@pytest.mark.parametrize(("regex", "name", "expected"), BLOW_UPS)
def test_an_exponential_regex_is_judged_correctly_in_a_bounded_number_of_steps(regex, name, expected, caplog):
    with caplog.at_level(logging.WARNING):
        assert compile_java_regex(regex).match(name) is expected
    assert caplog.messages == []


def test_a_name_that_takes_too_many_steps_does_not_match_and_is_logged(caplog, monkeypatch):
    monkeypatch.setattr(bounded_regex, "MOST_STEPS", 1000)
    with caplog.at_level(logging.WARNING):
        assert compile_java_regex(r"(x+x+)+z").match("x" * LONGEST) is False
    assert "takes too long" in caplog.text


def test_a_filter_of_too_many_repetitions_is_refused():
    with pytest.raises(UnsupportedRegexError, match="more than 20000 steps with its repetitions written out"):
        compile_java_regex(r"((((x{1,200}){1,200}){1,200}){1,200}){1,200}y")


def test_a_filter_in_use_is_left_to_re(monkeypatch):
    monkeypatch.setattr(bounded_regex, "_Search", None)
    for regex in (
        "flights",
        "flights.*",
        "a|b|c.*",
        r"prod-.*-(orders|clicks)-[0-9]+",
        r".*(?<!dev)",
        r"(?!x).*",
        r".*orders.*|.*clicks.*|.*views.*|.*users.*",
        r"(eu|us)?-?(orders|clicks)-?v?[0-9]?[0-9]?.*",
    ):
        compile_java_regex(regex).match("prod-eu-orders-17")


@pytest.mark.parametrize(
    ("regex", "name", "expected"),
    [
        (".*", "a" * 20_000, True),
        ("a.*b", "a" * 20_000 + "b", True),
        ("a.*b", "a" * 20_000, False),
        ("[a-z]*[a-z]*[a-z]*1", "a" * 20_000, False),
        (".*", "a" * 1_000_000, False),
    ],
)
def test_a_name_that_no_broker_takes_is_judged_in_a_bounded_number_of_steps(regex, name, expected):
    """Any client can create such a topic in ZooKeeper. re alone takes days for the fourth case."""
    began = time.thread_time()
    assert compile_java_regex(regex).match(name) is expected
    assert time.thread_time() - began < 5


def test_a_refused_filter_is_compiled_once(monkeypatch):
    with pytest.raises(UnsupportedRegexError, match=f"longer than {LONGEST_FILTER} characters") as refused:
        compile_java_regex("a" * (LONGEST_FILTER + 1))
    assert len(str(refused.value)) < 400
    for _ in range(2):  # the second time without another translation
        with pytest.raises(UnsupportedRegexError, match="unmatched"):
            compile_java_regex("refused once)")
        monkeypatch.setattr(java_regex, "translate_java_regex", None)


def test_a_member_whose_filter_would_never_end_delays_no_member():
    group = Group({"t": 2, "x" * 200: 1})
    member = group.join("a", {"t": 1})
    group.settle()
    hostile = b'{"version":1,"subscription":{"(x+x+)+y":1},"pattern":"white_list","timestamp":"1"}'
    group.admin.create(f"/consumers/{GROUP}/ids/g_other", hostile, ephemeral=True)
    group.settle()
    assert (member.phase, len(member.owned)) == (Phase.STABLE, 2)


ATOMS = st.sampled_from(["a", "b", "ab", ".", "[ab]", "[^a]", r"\b", "^", "$", "", r"\B"])


def _combined(inner):
    quantifier = st.sampled_from(
        ["", "*", "+", "?", "{2}", "{1,3}", "{0,2}", "*?", "+?", "??", "{1,2}?", "*+", "?+", "++"]
    )
    opening = st.sampled_from(["(", "(?:", "(?=", "(?!", "(?>", "(?i:"])
    return st.one_of(
        st.builds("{}{}".format, inner, inner),
        st.builds("(?:{}|{})".format, inner, inner),
        st.builds("{}{}){}".format, opening, inner, quantifier),
        st.builds("({})\\1".format, inner),
    )


@settings(max_examples=300, deadline=None)
@given(st.recursive(ATOMS, _combined, max_leaves=7), st.text("abA", min_size=1, max_size=7))
def test_the_verdict_is_that_of_re(regex, name):
    try:
        compile_java_regex(regex)
    except UnsupportedRegexError:
        return
    pattern = BoundedPattern(f"(?:{translate_java_regex(regex)})\\Z")
    expected = pattern._quick.match(name) is not None
    pattern._is_harmless = False
    assert pattern.match(name) is expected


@pytest.mark.parametrize(
    "regex",
    ["([^a]*?)*+", "(?>([^a]*?)*)", "(?>(?:x??)*)", "(?:x??)*+", "(?:x*?)++", "(?>(?:x*?)+)", "(?>(?:x*?){0,3})"],
)
@pytest.mark.skipif(sys.version_info < (3, 11), reason="possessive quantifiers and atomic groups are of Python 3.11")
def test_a_round_that_matches_nothing_is_the_last_one(regex):
    pattern = compile_java_regex(regex)
    for name in ("0", "x", "xx"):
        assert pattern.match(name) is (pattern._quick.match(name) is not None)


def test_the_verdicts_on_all_topics_of_a_large_cluster_are_remembered(monkeypatch):
    pattern = BoundedPattern(r"(?:(?:x+x+)+[0-9]*)\Z")
    names = [f"xx{number}" for number in range(10_000)]
    assert all(map(pattern.match, names))
    monkeypatch.setattr(bounded_regex, "_Search", None)
    assert all(map(pattern.match, names))


def test_a_filter_that_takes_too_long_for_many_topics_is_a_warning_once(caplog):
    pattern = compile_java_regex(".?" * 9000 + "!")
    with caplog.at_level(logging.WARNING):
        assert not any(pattern.match(f"orders-{number}") for number in range(5))
    assert len(caplog.messages) == 1
