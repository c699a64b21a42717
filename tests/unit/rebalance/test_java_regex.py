"""Java's regular expressions, tests without a JVM; test_java_regex_against_java.py compares with Java itself."""

from __future__ import annotations

import sys

import pytest

from rebalance.errors import UnsupportedRegexError
from rebalance.java_regex import compile_java_regex


@pytest.mark.parametrize(
    ("regex", "yes", "no"),
    [
        (r"[a-z&&[^aeiou]]+", "bcd", "abc"),
        (r"[a[bc]]+", "abc", "abd"),
        (r"\p{Alnum}+", "aZ9", "a_9"),
        (r"\Qa.b\E.*", "a.bc", "axb"),
        (r"a(?i)b", "aB", "AB"),
        (r"(?<n>a)\k<n>", "aa", "ab"),
        (r"ab|cd", "cd", "abcd"),
        (r"a|ab", "ab", "b"),
        (r".*(?<!dev)", "prod", "a-dev"),
    ],
)
def test_java_syntax_is_understood(regex, yes, no):
    assert compile_java_regex(regex).match(yes)
    assert not compile_java_regex(regex).match(no)


@pytest.mark.parametrize(
    ("regex", "reason"),
    [
        ("a{1|3}", "commas become |"),
        ("(a", "unclosed group"),
        ("a)", "unmatched )"),
        ("*a", "dangling *"),
        ("[a", "unclosed character class"),
        ("a\\", "a backslash at the end"),
        (r"\p{Klingon}", "not known here"),
        ("[^a[b]]", "Java 9 changed"),
        (r"(?i)\p{Lower}", "Java 15 changed"),
        (r"[\v-a]", "Java 8 changed"),
        ("(?<=a|bc)d", "Python cannot express it"),
        (r"(a|b)+\1", "a group that is repeated"),
        (r"(?<=(a)\1)b", "inside a look-behind"),
        (r"(?<=(\b*)*)a", "a repetition without an end inside a look-behind"),
        ("(?<=(?=a){2,})a", "a repetition without an end inside a look-behind"),
        ("(0{2,}|^){2}", "two or more repetitions of what may match nothing"),
        ("(?:a?b?){2,3}", "two or more repetitions of what may match nothing"),
        ("(?:(?=a)){2}a", "two or more repetitions of what may match nothing"),
        ("(?x)a", "the inline flag x"),
        ("(" * 200 + ")" * 200, "nested more than"),
        ("[" * 200 + "a" + "]" * 200, "nested more than"),
        ("a{99999999999}", "a repetition above"),
    ],
)
def test_an_unsupported_regex_is_refused_with_its_reason(regex, reason):
    with pytest.raises(UnsupportedRegexError) as error:
        compile_java_regex(regex)
    assert reason in str(error.value)


@pytest.mark.parametrize("regex", ["a*+b", "(?>a|ab)c"])
def test_possessive_and_atomic_need_a_python_that_has_them(regex):
    if sys.version_info >= (3, 11):
        assert compile_java_regex(regex)
    else:
        with pytest.raises(UnsupportedRegexError, match=r"Python 3\.11"):
            compile_java_regex(regex)
