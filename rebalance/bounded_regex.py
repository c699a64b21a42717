"""Matches a name against a regular expression in bounded time, with the verdict of Python's re.

Any client with access to ZooKeeper can register a filter. re backtracks and holds the interpreter lock meanwhile. For
`(x+x+)+y` the number of paths doubles with each letter: all threads of the process stop, heartbeats included. re is
used only if no repetition contains an ambiguous part, if the name is legal for a broker, and if such a name has no more
than a few million paths; any client can create a topic of any name in ZooKeeper. All other expressions are compiled to
a small program here. It tries the paths in the order of re, and no pair of program place and name place twice, since
such a pair has already failed the first time.

Members must agree on which topics match, so the bound is a number of steps and not a time: a name that takes more steps
does not match, for every member alike. A JVM member hangs in such a filter.

This file reads the tree that re itself compiles. re's parser is the only private part of Python that it uses.
"""

from __future__ import annotations

import importlib
import logging
import math
import re
import string
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from operator import itemgetter
from typing import Any, TypeAlias

from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

_parser: Any = importlib.import_module("re._parser" if sys.version_info >= (3, 11) else "sre_parse")

MOST_STEPS = 30_000
"""The most steps for one name, about 25 ms. The longest name takes 4,500 for (x+x+)+y."""
_MOST_STEPS_LONG = 300_000
"""The most steps for a name that is too long for a broker."""
_MOST_INSTRUCTIONS = 20_000
_LONGEST_NAME = 249
"""The most characters of a topic's name that brokers accept."""
_MOST_WAYS = _LONGEST_NAME**3
"""The most paths that re may try: three repetitions of any length in a row, or many alternatives with two."""
_MOST_VERDICTS = 16_384
"""The most verdicts to remember of one expression; a cluster seldom has more topics."""
_SPACE = frozenset(string.whitespace)
_REPEATS = frozenset({"MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"})
_INSIDE: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(_REPEATS, itemgetter(2)),
    "SUBPATTERN": itemgetter(3),
    "ATOMIC_GROUP": lambda value: value,
    "ASSERT": itemgetter(1),
    "ASSERT_NOT": itemgetter(1),
}
"""{kind of a node: gets the tree inside the node's value}; a branch, which has several trees, is not in it."""
_SINGLE = frozenset({"LITERAL", "NOT_LITERAL", "IN", "ANY"})

_Program: TypeAlias = list[tuple[str, Any, Any]]
_Groups: TypeAlias = tuple[tuple[int, int, int], ...]
"""The content of groups with back references: number, start, end."""


class _TooManyStepsError(Exception):
    """A name takes more steps than are allowed."""


class BoundedPattern:
    """Like a pattern of re.compile, with match() only. text: a Python expression that matches up to the name's end.

    Raises: as re.compile; OverflowError if the expression is too long.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        tree = _parser.parse(text, re.ASCII)
        self._quick = re.compile(text, re.ASCII)
        self._is_harmless = _ways(tree) <= _MOST_WAYS
        self._program: _Program | None = None if self._is_harmless else _compiled(tree)
        self._has_warned = False
        self._verdict = lru_cache(maxsize=_MOST_VERDICTS)(self._find)

    def match(self, name: str) -> bool:
        """Return whether the whole name matches."""
        if self._is_harmless and len(name) <= _LONGEST_NAME:
            return self._quick.match(name) is not None
        return self._verdict(name)

    def _find(self, name: str) -> bool:
        try:
            if self._program is None:
                self._program = _compiled(_parser.parse(self._text, re.ASCII))
            return _Search(name).end(self._program, 0, ()) is not None
        except (_TooManyStepsError, OverflowError):
            level = logging.DEBUG if self._has_warned else logging.WARNING
            self._has_warned = True
            logger.log(level, "the filter %.200r takes too long for %.249s, which counts as no match", self._text, name)
            return False


def _compiled(tree: Any) -> _Program:
    """Return instructions (name, two operands). split continues at the first place, or at the second if that fails."""
    referred = frozenset(value for code, value in _nodes(tree) if code == "GROUPREF")
    return _Compiler(referred).program(tree)


class _Compiler:
    """Compiles an expression and the expressions inside it, within one limit of instructions for all."""

    def __init__(self, referred: frozenset[int]) -> None:
        self._referred = referred
        self._left = _MOST_INSTRUCTIONS
        self._known: dict[tuple[str, str], frozenset[str]] = {}

    def program(self, tree: Any) -> _Program:
        made: _Program = []
        self._sequence(made, tree)
        self._emit(made, "match")
        return made

    def _emit(self, made: _Program, what: str, first: Any = None, second: Any = None) -> int:
        self._left -= 1
        if self._left < 0:
            msg = f"it has more than {_MOST_INSTRUCTIONS} steps with its repetitions written out"
            raise OverflowError(msg)
        made.append((what, first, second))
        return len(made) - 1

    def _sequence(self, made: _Program, tree: Any) -> None:
        for kind, value in tree:
            self._node(made, str(kind), value)

    def _node(self, made: _Program, code: str, value: Any) -> None:
        if code in _SINGLE:
            self._emit(made, "one", self._characters(code, value))
        elif code == "POSSESSIVE_REPEAT":
            self._emit(made, "atomic", self.program([("MAX_REPEAT", value)]))
        elif code in _REPEATS:
            self._repeat(made, *value, is_lazy=code == "MIN_REPEAT")
        elif code == "BRANCH":
            self._branch(made, value[1])
        elif code == "SUBPATTERN":
            self._group(made, value[0], value[3])
        elif code == "ATOMIC_GROUP":
            self._emit(made, "atomic", self.program(value))
        elif code in ("ASSERT", "ASSERT_NOT"):
            back = 0 if value[0] > 0 else value[1].getwidth()[0]
            self._emit(made, "no" if code == "ASSERT_NOT" else "look", self.program(value[1]), back)
        elif code == "GROUPREF":
            self._emit(made, "again", value)
        elif code == "AT":
            self._emit(made, "at", str(value))
        else:
            # some versions of re turn an empty negative look-ahead into a node that always fails
            self._emit(made, "fail")

    def _characters(self, code: str, value: Any) -> frozenset[str]:
        """Return the set that a node matches; an unrolled repetition asks for the same node thousands of times."""
        key = code, str(value)
        if key not in self._known:
            self._known[key] = frozenset(c for c in map(chr, range(128)) if _fits(code, value, c))
        return self._known[key]

    def _group(self, made: _Program, number: int | None, body: Any) -> None:
        noted = number in self._referred
        if noted:
            self._emit(made, "open", number)
        self._sequence(made, body)
        if noted:
            self._emit(made, "close", number)

    def _branch(self, made: _Program, branches: Any) -> None:
        ends = []
        for branch in branches[:-1]:
            split = self._emit(made, "split")
            self._sequence(made, branch)
            ends.append(self._emit(made, "jump"))
            made[split] = ("split", split + 1, len(made))
        self._sequence(made, branches[-1])
        for end in ends:
            made[end] = ("jump", len(made), None)

    def _repeat(self, made: _Program, least: Any, most: Any, body: Any, *, is_lazy: bool) -> None:
        for _ in range(int(least)):
            self._sequence(made, body)
        splits = []
        if int(most) > _LONGEST_NAME:
            begin = self._emit(made, "split")
            self._sequence(made, body)
            self._emit(made, "loop", begin)
            splits = [begin]
        else:
            for _ in range(int(most) - int(least)):
                splits.append(self._emit(made, "split"))
                self._sequence(made, body)
        for split in splits:
            ways = (split + 1, len(made))
            made[split] = ("split", *(reversed(ways) if is_lazy else ways))


class _Search:
    """Matches one name: tries one path through a program after the other."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._left = MOST_STEPS if len(name) <= _LONGEST_NAME else _MOST_STEPS_LONG

    def end(self, program: _Program, start: int, groups: _Groups) -> tuple[int, _Groups] | None:
        """Return where in the name the first matching path ends, and the groups there; None if no path matches."""
        name = self._name
        ways = [(0, start, groups)]
        seen = set()
        while ways:
            way = ways.pop()
            if way in seen:
                continue
            seen.add(way)
            self._left -= 1
            if self._left < 0:
                raise _TooManyStepsError
            place, at, groups = way
            what, first, second = program[place]
            match what:
                case "match":
                    return at, groups
                case "one":
                    if at < len(name) and name[at] in first:
                        ways.append((place + 1, at + 1, groups))
                case "split":
                    ways += ((second, at, groups), (first, at, groups))
                case "jump":
                    ways.append((first, at, groups))
                case "loop":
                    # a round that matched nothing is the last one
                    is_empty = (first, at, groups) in seen
                    ways.append((place + 1 if is_empty else first, at, groups))
                case "atomic" | "look":
                    found = self.end(first, at - (second or 0), groups) if at >= (second or 0) else None
                    if found is not None:
                        ways.append((place + 1, found[0] if what == "atomic" else at, found[1]))
                case "no":
                    if at < second or self.end(first, at - second, groups) is None:
                        ways.append((place + 1, at, groups))
                case "at":
                    if self._stands(first, at):
                        ways.append((place + 1, at, groups))
                case "open" | "close":
                    ways.append((place + 1, at, _noted(groups, first, at, is_end=what == "close")))
                case "again":
                    text = next(
                        (name[begin:end] for number, begin, end in groups if number == first and end >= 0), None
                    )
                    if text is not None and name.startswith(text, at):
                        ways.append((place + 1, at + len(text), groups))
        return None

    def _stands(self, where: str, at: int) -> bool:
        if where.startswith("AT_BEGINNING"):
            return at == 0
        if where.startswith("AT_END"):
            return at == len(self._name)
        before = at > 0 and _is_word(self._name[at - 1])
        behind = at < len(self._name) and _is_word(self._name[at])
        return (before != behind) == (where == "AT_BOUNDARY")


def _noted(groups: _Groups, number: int, at: int, *, is_end: bool) -> _Groups:
    begin = next((begin for known, begin, _ in groups if known == number), at) if is_end else at
    others = [group for group in groups if group[0] != number]
    return tuple(sorted([*others, (number, begin, at if is_end else -1)]))


def _is_word(character: str) -> bool:
    return character.isascii() and (character.isalnum() or character == "_")


def _fits(code: str, value: Any, character: str) -> bool:
    if code == "IN":
        items = [(str(kind), item) for kind, item in value]
        negated = items[0][0] == "NEGATE"
        return any(_holds(kind, item, character) for kind, item in items[negated:]) != negated
    return code == "ANY" or (value == ord(character)) == (code == "LITERAL")


def _holds(kind: str, item: Any, character: str) -> bool:
    if kind == "RANGE":
        return bool(item[0] <= ord(character) <= item[1])
    if kind == "CATEGORY":
        # java_chars writes no others
        return (character in _SPACE) == (str(item) == "CATEGORY_SPACE")
    return bool(item == ord(character))


def _ways(tree: Any) -> float:
    """Return how many paths re may try in the longest name; infinite if a repeated part can match in two ways."""
    ways = 1.0
    for kind, value in tree:
        code = str(kind)
        if code in _REPEATS:
            least, most, body = value
            if most == 1:
                ways *= 1 + _ways(body)
            elif any(inner in _REPEATS or inner == "BRANCH" for inner, _ in _nodes(body)):
                return math.inf
            else:
                ways *= min(int(most) - int(least) + 1, _LONGEST_NAME)
        elif code == "BRANCH":
            ways *= sum(map(_ways, value[1]))
        elif code in _INSIDE:
            ways *= _ways(_INSIDE[code](value))
    return ways


def _nodes(tree: Any) -> Iterator[tuple[str, Any]]:
    """Yield (kind, value) of each node of the tree."""
    for kind, value in tree:
        code = str(kind)
        yield code, value
        for inner in value[1] if code == "BRANCH" else [_INSIDE[code](value)] if code in _INSIDE else []:
            yield from _nodes(inner)
