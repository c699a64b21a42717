"""Our translation compared with java.util.regex, in a child process that answers line by line.

With REGEX_EXAMPLES=50000 the last test hunts for differences. Add each one to TABLE in the form in which it is printed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rebalance import java_chars
from rebalance.errors import UnsupportedRegexError
from rebalance.java_regex import compile_java_regex

pytestmark = [
    pytest.mark.interop,
    pytest.mark.skipif(shutil.which("java") is None, reason="needs java on PATH"),
]

TESTDATA = Path(__file__).parent / "testdata"
LEGAL = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-"
TOPICS = [
    *LEGAL,
    *("ab", "aB", "AB", "ba", "aa", "aaa", "aaaa", "abc", "abcd", "aab", "abab", "ababab", "cab", "a.b", "a-b", "a_b"),
    *("clicks", "Clicks", "CLICKS", "clicks.v2", "views", "views-eu-1", "topic-1", "topic-10", "test_9", "x.y.z"),
    *("__consumer_offsets", "orders.dev", "orders.prod", "prod-orders-0001", "2024-01-01", "foo", "foobar", "barfoo"),
]

TABLE = r"""
.*
a
a|b
ab|cd
(?:a|ab)(?:c|bcd)?
clicks|views.*
.+-\d+
[a-z]+
[^a-z]+
[a-z&&[^aeiou]]+
[a-z&&[aeiou]]+
[a-z&&b-d]+
[a-z&&b-y&&[^c]]*
[a-z&&[b-d][x-z]]
[a-z&&[b-y]&&[^c]]
[a[bc]]+
[a[bc][d-f]]+
[a-c[x-z]&&[b-y]]+
[]a]+
[^]a]
[a-]+
[-a]+
[a-[b]]+
[+--]+
[--/]+
[a&b]+
[a^b]+
[\w.-]+
[\w&&\D]+
[\W]
[^\W]+
[^\d\s]+
[\p{Alnum}._-]+
[^\p{Alpha}]+
\p{L}+
\pL+
\PL+
\p{Lu}\p{Ll}*
\P{Lu}+
[\p{L}&&[^\p{Lu}]]+
\p{IsAlphabetic}+
\p{javaLowerCase}+
\p{Punct}
\p{IsPunctuation}
\p{Pd}
\p{Pc}
\p{Po}
\p{InBasicLatin}+
\p{ASCII}+
\p{IsLatin}+
\h*a
\H+
\V+
\va
\Ra
\R?a
\Qa.b\E
\Qa.b
\Q.\E*
a\Q.\Eb
\Qab\E+
[\Q.-_\E]+
[\Qa-c\E]+
\x4\Q1\E
\1\Q0\E
\Q\E
\Q\Ea
a\Q\E*
\Q1\E
a{\Q2\E}
a\E
\x61
\x{61}b
\x{0000061}b
\u0061
\0141
\0141b
\061
\0
\08
\x6
\cA
\c!
\ca
\cq
\e|a
\ta?|b
(?i)clicks
clicks(?i)
c(?i)LICKS
(?i:C)licks
(?i:c)LICKS
(?i)[a-b]+
(?i)[A-B]+
(?i)[^a-b]+
(?i)[Z-a]+
(?i)a(?-i)b
((?i)a)b
(?:(?i)a|b)b
a(?i)b|c
(?i-s:a.)b
(?-i:a)
(?)a
(?:)a
(?s).*
(?m)^a$
(?m)a^b
(?d).*
(?su).*
(?iu)abc
(?i)(a)\1
(a)\1
(a)(b)\2\1
(?<x>a)\k<x>
(?<x>a)b\k<x>
(?<x>a)(?<x>b)
\k<x>
(?<1>a)
(?<a_b>a)
(a)\2
\1(a)
(a\1)
(a)?\1
(a|b)+\1
(?:(a)\1)+
(a)(b)(c)(d)(e)(f)(g)(h)(i)(j)\10
(a)\11
(a)b\10
a*+
a*+a
a++b
a?+b
[a-c]*+c
[a-b]++c
(?:ab)*+
(?:a|ab)++
(?:a|ab)++c
(?:a|ab){2}+
a{2}+
a{2,}+b
a{1,2}+a
(?>a|ab)c
(?>ab|a)c
(?>a*)b
(?>(a)b)\1?
a{2}
a{2,}
a{2,3}
a{0}
a{0}b
a{3,2}
a{,2}
a{x}
a{
a{}
a{1|2}
a{2}{2}
a{2}?
a{1,3}?b
a??
a*?b
a+?b
a**
a*{2}
*a
+a
?a
a|*
(*)
{2}
(a
a)
(?:a
[a
[
[]
[^]
[a-
\
[\
a\
[b-a]
[a-\d]
[\d-z]+
[a-\x7a]+
[\x61-\x7a]+
[\u0061-c]+
[\.\-]+
[a&&]
[&&a]+
[a&&&b]
[a-z&&&&b]
[a-z&&[b]c]+
[a-z&&^b]+
[^a[b]]
[^a&&b]
[a-z&&[^b-d]e]
[[a]]
[[^a]b]+
[[a]-c]+
[a[]]
(?=a).*
(?!a).*
(?=.*-)[a-z0-9-]+
(?!__).*
(?!.*\.dev).*
.*(?<=prod)
.*(?<!dev)
.*(?<=d|v)
.*(?<=od|ev)
.*(?<=o|ev)
.*(?<=a*)
.*(?<=(\b*)*)
.*(?<=(?:(?=a)*)*)
.*(?<=\b+)
.*(?<=(?=a){2,})
.*(?<=\b?)
(?<=a)b
(?=a)*b
(?!a)?b
^a$
^*a
^^a$$
$a
a$b
\Aa\z
\Aa\Z
\Ga
a\G
\bclicks\b.*
\b.\b
.\B.
\B
.*\b-\b.*
\b{g}a
\X
\N{LATIN SMALL LETTER A}
\p{Foo}
\p{
\p
\p{}
\pp
\p{script=Latin}+
\p{gc=Lu}
\p{gc=Alphabetic}
\p{block=BasicLatin}
\p{IsL}+
\p{LC}
\p{LD}+
\p{L1}+
\p{all}+
(?i)\p{Lower}
(?i)\p{Alpha}
(?x)a b
(?U)\w+
(?y)a
(?i
(?P<n>a)
(?#c)a
(?|a)
(?<a)
(?$a)
(?'n'a)
\y
\i
\j
\_
\-a
a\.b
a\-b
}a
]a
a]
a}
é
[é]a
[^é]
[a-é]+
(?iu)é
(?iu)[a-é]
(?:(?:(?:a)*)*)*
(?:a?)*b
(a*)*b
(a*)+
(a|b*)*
(?:a|b)*?ab
(a+|b+)*c
(?:a*)*+
(?:a*){2}b
(0{2,}|^){2}
(?:^|a){2}
(?:^|a){0,2}
(?:^|a)+
(?:a?b?){2,}
(?:(?=a)a|){2}
(?:a|ab){2}
(?:a|ab){2}b
(?:(?:a|ab)(?:c|bcd)){1,2}
(?:ab|a)(?:bc)?c?d?
orders\.(dev|prod)
prod-.*-\d{4}
\d{4}-\d{2}-\d{2}
[A-Za-z][\w.]*
a||b
|
()
(|a)
(a|)b
""".strip("\n").split("\n")


class Java:
    """A JVM that runs MatchTopics."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            ["java", "-Xshare:auto", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", str(TESTDATA / "MatchTopics.java")],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def verdicts(self, regex: str, topics: list[str]) -> str:
        """Return 1 or 0 for each topic; "invalid"; or "broken" if Java compiles the expression but fails to match."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"{regex.encode().hex()}\t{' '.join(topics)}\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def close(self) -> None:
        self.process.communicate()


@pytest.fixture(scope="module")
def java():
    process = Java()
    yield process
    process.close()


def ours(regex: str, topics: list[str]) -> str:
    """Return our verdicts in the form of Java.verdicts, or "refused"."""
    try:
        match = compile_java_regex(regex).match
    except UnsupportedRegexError:
        return "refused"
    return "".join("1" if match(topic) else "0" for topic in topics)


# the expressions that Java compiles and we refuse; listed, so that no new refusal goes unnoticed
REFUSED = r"""
\1\Q0\E
[a&&]
[a&&&b]
.*(?<=a*)
.*(?<=\b+)
.*(?<=(?=a){2,})
[a-z&&[b]c]+
[a-z&&[^b-d]e]
[&&a]+
[a-z&&&&b]
[^a[b]]
[^a&&b]
(a)?\1
(a|b)+\1
(?:(a)\1)+
\1(a)
(a\1)
(a)\2
(a)(b)\2\3
(?:a|ab){2}+
(?:a*){2}b
(0{2,}|^){2}
(?:^|a){2}
(?:a?b?){2,}
(?:(?=a)a|){2}
a{2}{2}
a*{2}
.*(?<=o|ev)
{2}
\b{g}a
\X
\N{LATIN SMALL LETTER A}
(?x)a b
(?U)\w+
(?i)\p{Lower}
(?iu)é
(?iu)[a-é]
""".strip("\n").split("\n")


@pytest.mark.parametrize("regex", TABLE)
def test_a_regex_of_the_table_means_what_it_means_in_java(java, regex):
    theirs = java.verdicts(regex, TOPICS)
    mine = ours(regex, TOPICS)
    atomic = re.search(r"[*+?}]\+|\(\?>", re.sub(r"\\[pP]\{[^}]*\}", "p", regex)) is not None
    if theirs == "invalid" or regex in REFUSED or (atomic and sys.version_info < (3, 11)):
        assert mine == "refused"
    else:
        assert mine == theirs


def test_every_known_property_has_the_same_characters_in_java(java):
    topics = list(LEGAL)
    for name in java_chars.PROPERTIES:
        for regex in (rf"\p{{{name}}}", rf"\P{{{name}}}", rf"[^\p{{{name}}}a]"):
            assert ours(regex, topics) == java.verdicts(regex, topics), regex


def _regexes() -> st.SearchStrategy[str]:
    in_class = st.sampled_from(
        [
            *"abcAB019._-^&]",
            "a-c",
            "A-Z",
            "0-9",
            r"\d",
            r"\w",
            r"\W",
            r"\.",
            r"\p{Alpha}",
            r"\P{Lu}",
            "[bc]",
            "[^b]",
            "&&",
        ]
    )
    classes = st.builds(
        lambda neg, parts: f"[{neg}{''.join(parts)}]", st.sampled_from(["", "^"]), st.lists(in_class, max_size=5)
    )
    atoms = st.one_of(
        st.sampled_from(
            [
                *"aabbcAB01._-]}",
                r"\.",
                r"\d",
                r"\w",
                r"\S",
                r"\b",
                r"\B",
                "^",
                "$",
                r"\Qa.\E",
                r"\p{L}",
                r"\1",
                r"\x61",
                "(?i)",
                "(?-i)",
                "{",
                "*",
                ")",
                "&",
            ]
        ),
        classes,
    )
    quantifiers = st.sampled_from(
        [
            "",
            "",
            "",
            "",
            "*",
            "+",
            "?",
            "*?",
            "+?",
            "??",
            "*+",
            "++",
            "?+",
            "{2}",
            "{1,2}",
            "{0,2}?",
            "{2,}",
            "{2}+",
            "{1,}+",
        ]
    )
    groups = st.sampled_from(["(", "(", "(?:", "(?:", "(?>", "(?=", "(?!", "(?<=", "(?<!", "(?i:", "(?<n>"])
    return st.recursive(
        st.builds("{}{}".format, atoms, quantifiers),
        lambda inner: st.one_of(
            st.lists(inner, min_size=1, max_size=4).map("".join),
            st.lists(inner, min_size=2, max_size=3).map("|".join),
            st.builds("{}{}){}".format, groups, inner, quantifiers),
        ),
        max_leaves=12,
    )


@settings(
    max_examples=int(os.environ.get("REGEX_EXAMPLES", "150")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    regex=_regexes(),
    topics=st.lists(st.text(alphabet="aabbcAB01._-", min_size=1, max_size=8), min_size=1, max_size=12),
)
def test_a_regex_that_is_not_refused_means_what_it_means_in_java(java, regex, topics):
    theirs = java.verdicts(regex, topics)
    mine = ours(regex, topics)
    if mine != "refused" and theirs != "broken":
        assert mine == theirs, (
            f"not the same for {regex!r} and {topics!r}: Java says {theirs or 'nothing, it has ended'}, we {mine}; "
            f"in TABLE: {regex}"
        )
