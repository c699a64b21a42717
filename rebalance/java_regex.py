r"""Translates Java regular expressions into Python's, or refuses them.

The members of a group must agree on which topics match, so a filter means here what it means in a JVM, for every legal
topic name (1 to 249 of `[a-zA-Z0-9._-]`). The translation relies on names being ASCII without line ends. The text is
parsed as java.util.regex.Pattern parses it and written anew; no part is passed through unparsed.

| Java | here |
|---|---|
| `[a-z&&[^x]]`, `[a[bc]]`, `\p{Alnum}`, `\p{L}`, `\h` ... | computed: java_chars.py |
| `\Q...\E` | unquoted first, as Java does |
| `(?i)` in the middle, `(?i-s:x)` | applied to each character; d, m, s, u likewise |
| `x*+`, `(?>x)` | Python 3.11 and newer |
| `^ \A \G`, `$ \z \Z` | begin and end of the name |
| `(?<n>x)`, `\k<n>`, `\1` | Python's, where the group is closed and not repeated |

Refused, each with its reason: what Java refuses itself; what differs between versions of Java (a negated
class that holds a nested one or `&&`, `\p{Lower}` under `(?i)`, `\v` as the end of a range); what Python
lacks (look-behind of varying length); what Python counts differently (`{2}` of an empty match); and what topic names
never need (`(?x)`, `(?U)`, `\X`, `\N{...}`, `\b{g}`).
"""

from __future__ import annotations

import re
import sys
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import NoReturn

from rebalance import java_chars as chars
from rebalance.bounded_regex import BoundedPattern
from rebalance.errors import UnsupportedRegexError

LONGEST = 64 * 1024
"""The most characters of a filter. One of a thousand topics is shorter; 60,000 characters take a second to compile."""
_MAX_DEPTH = 50
_MAX_REPEAT = 2**31 - 1
_DIGITS = frozenset("0123456789")
_HAS_ATOMIC_GROUPS = sys.version_info >= (3, 11)

_CONTROL_ESCAPES = {"t": "\t", "n": "\n", "r": "\r", "f": "\f", "a": "\a", "e": "\x1b"}
_CLASS_ESCAPES = {
    "d": chars.DIGIT,
    "D": chars.complement(chars.DIGIT),
    "w": chars.WORD,
    "W": chars.complement(chars.WORD),
    "s": chars.SPACE,
    "S": chars.complement(chars.SPACE),
    "h": chars.HORIZONTAL,
    "H": chars.complement(chars.HORIZONTAL),
    "v": chars.VERTICAL,
    "V": chars.complement(chars.VERTICAL),
}
_ANCHOR_ESCAPES = {"A": r"\A", "G": r"\A", "b": r"\b", "B": r"\B", "z": r"\Z", "Z": r"\Z"}
_ANCHORS = {"^": r"\A", "$": r"\Z"}


def compile_java_regex(regex: str) -> BoundedPattern:
    """Return the pattern whose match() accepts exactly the topic names that Java's String.matches(regex) accepts.

    Raises: UnsupportedRegexError.
    """
    compiled = _compiled(regex)
    if isinstance(compiled, str):
        raise UnsupportedRegexError(regex, compiled)
    return compiled


# Cached, because each reading of the group asks again, and any client may register a filter that takes 25 ms for each
# topic (bounded_regex), or a second until it is refused.
@lru_cache(maxsize=1024)
def _compiled(regex: str) -> BoundedPattern | str:
    """Return the pattern, or the reason why there is none."""
    if len(regex) > LONGEST:
        return f"it is longer than {LONGEST} characters"
    try:
        return BoundedPattern(f"(?:{translate_java_regex(regex)})\\Z")
    except UnsupportedRegexError as error:
        return error.reason
    except (re.error, OverflowError, RecursionError) as error:
        return f"Python cannot express it: {error}"


def translate_java_regex(regex: str) -> str:
    """Translate a Java regular expression into one of Python. Raises: UnsupportedRegexError."""
    return _Parser(regex).translate()


@dataclass(frozen=True, slots=True)
class _Flags:
    """The inline flags in force; they end with the group they stand in."""

    ignore_case: bool = False
    unicode_case: bool = False
    dot_all: bool = False
    unix_lines: bool = False


@dataclass(frozen=True, slots=True)
class _Atom:
    """A translated part that a quantifier may follow.

    single: it is one character, which can match in one way only. may_be_empty: it can match the empty text.
    """

    text: str
    single: bool = False
    may_be_empty: bool = False


@dataclass(slots=True)
class _Group:
    """A capturing group. closed: the parser is past its closing bracket. repeated: a quantifier repeats it."""

    closed: bool = False
    repeated: bool = False


class _Parser:
    """One pass over a regular expression. at: the index of the next character."""

    def __init__(self, regex: str) -> None:
        self.regex = regex
        self.text = ""
        self.at = 0
        self.depth = 0
        self.behind = 0
        self.flags = _Flags()
        self.groups: list[_Group] = []
        self.names: dict[str, int] = {}
        self.referred: set[int] = set()

    def translate(self) -> str:
        self.text = self.unquote(self.regex)
        translated = self.alternatives()
        if self.at < len(self.text):
            self.refuse("unmatched )")
        return translated.text

    def refuse(self, reason: str) -> NoReturn:
        raise UnsupportedRegexError(self.regex, reason)

    # reading

    def peek(self, ahead: int = 0) -> str:
        """Return the character that many places ahead, or the empty text past the end."""
        at = self.at + ahead
        return self.text[at : at + 1]

    def take(self, wanted: str) -> bool:
        """Step over wanted if it is next."""
        if self.text.startswith(wanted, self.at):
            self.at += len(wanted)
            return True
        return False

    def next(self, missing: str) -> str:
        """Return the next character, and step over it."""
        character = self.peek()
        if not character:
            self.refuse(missing)
        self.at += 1
        return character

    def until(self, end: str, what: str) -> str:
        """Return the text before end, and step over both."""
        stop = self.text.find(end, self.at)
        if stop < 0:
            self.refuse(f"unclosed {what}")
        text = self.text[self.at : stop]
        self.at = stop + len(end)
        return text

    def unquote(self, regex: str) -> str:
        r"""Replace \Q...\E by escapes; Pattern.RemoveQEQuoting does it before it parses, classes included."""
        text = []
        at = 0
        while at < len(regex):
            if regex.startswith("\\Q", at):
                stop = regex.find("\\E", at + 2)
                quoted = regex[at + 2 :] if stop < 0 else regex[at + 2 : stop]
                at = len(regex) if stop < 0 else stop + 2
                if quoted[:1] in _DIGITS:
                    # unescaped, the digit could become part of an escape before the \Q
                    text.append(f"\\x3{quoted[0]}")
                    quoted = quoted[1:]
                text.extend(c if c.isalnum() or not c.isascii() else f"\\{c}" for c in quoted)
            else:
                length = 2 if regex[at] == "\\" else 1
                text.append(regex[at : at + length])
                at += length
        return "".join(text)

    # structure

    def alternatives(self) -> _Atom:
        """Parse a sequence, or several separated by |."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.refuse(f"nested more than {_MAX_DEPTH} deep")
        branches = [self.sequence()]
        while self.take("|"):
            branches.append(self.sequence())
        self.depth -= 1
        return _Atom("|".join(b.text for b in branches), may_be_empty=any(b.may_be_empty for b in branches))

    def sequence(self) -> _Atom:
        """Parse atoms with their quantifiers, up to | or ) or the end."""
        parts = []
        while (character := self.peek()) and character not in "|)":
            groups_before = len(self.groups)
            atom = self.atom(character)
            if atom is not None:
                parts.append(self.quantified(atom, groups_before))
        return _Atom("".join(p.text for p in parts), may_be_empty=all(p.may_be_empty for p in parts))

    def atom(self, character: str) -> _Atom | None:
        """Parse the next part that a quantifier may follow; return None for a group that only sets flags."""
        if character in "?*+":
            self.refuse(f"dangling {character}")
        if character == "{":
            self.refuse("{ without anything to repeat")
        if character == "(":
            return self.group()
        self.at += 1
        if character == "[":
            return self.of_set(self.char_class())
        if character == "\\":
            return self.escape()
        if character == ".":
            return self.of_set(self.dot())
        if character in _ANCHORS:
            return _Atom(_ANCHORS[character], may_be_empty=True)
        return self.literal(character)

    def dot(self) -> chars.CharSet:
        if self.flags.dot_all:
            return chars.EVERYTHING
        return chars.complement(chars.set_of("\n" if self.flags.unix_lines else "\n\r"))

    def of_set(self, characters: chars.CharSet) -> _Atom:
        return _Atom(chars.to_python_class(characters), single=True)

    def literal(self, character: str) -> _Atom:
        if not character.isascii():
            self.check_unicode_case()
            return _Atom(re.escape(character), single=True)
        if self.flags.ignore_case and character.isalpha():
            return self.of_set(chars.in_both_cases(chars.set_of(character)))
        return _Atom(re.escape(character), single=True)

    def check_unicode_case(self) -> None:
        """Refuse a character beyond ASCII under (?iu), where the Kelvin sign matches k: too rare to support."""
        if self.flags.ignore_case and self.flags.unicode_case:
            self.refuse("a character beyond ASCII under (?iu)")

    # quantifiers

    def quantified(self, atom: _Atom, groups_before: int) -> _Atom:
        """Parse the quantifier that follows the atom, if any; return both."""
        counts = self.counts()
        if counts is None:
            return atom
        least, text = counts
        if self.behind and (text in ("*", "+") or text.endswith(",}")):
            self.refuse("a repetition without an end inside a look-behind")
        if least > 1 and atom.may_be_empty:
            # a round that matches nothing ends the whole repetition in Java, and counts as one round in Python
            self.refuse("two or more repetitions of what may match nothing")
        for number in range(groups_before, len(self.groups)):
            self.groups[number].repeated = True
            if number + 1 in self.referred:
                self.refuse("a repeated group that holds a group and a reference to it")
        body = atom.text if atom.single else f"(?:{atom.text})"
        if self.take("?"):
            repeated = f"{body}{text}?"
        elif self.take("+"):
            if least > 1 and not atom.single:
                # Java keeps the first match of each round, Python only the first match of all rounds together
                self.refuse("a possessive quantifier that asks for two or more of a group")
            repeated = self.atomic(f"{body}{text}")
        else:
            repeated = f"{body}{text}"
        if self.peek() == "{":
            self.refuse("{ behind a quantifier")
        return _Atom(f"(?:{repeated})", may_be_empty=least == 0 or atom.may_be_empty)

    def counts(self) -> tuple[int, str] | None:
        """Parse a quantifier; return (least number, its text), or None if there is none."""
        character = self.peek()
        if character and character in "?*+":
            self.at += 1
            return (1 if character == "+" else 0), character
        if character != "{":
            return None
        found = re.compile(r"\{([0-9]+)(,([0-9]*))?\}").match(self.text, self.at)
        if not found:
            self.refuse("{ begins neither {n} nor {n,} nor {n,m}; note that a filter's commas become |")
        self.at = found.end()
        # compared as text lengths first: a number of a million digits is not worth parsing
        if any(len(number) > 10 or int(number) > _MAX_REPEAT for number in (found[1], found[3]) if number):
            self.refuse("a repetition above 2147483647")
        least = int(found[1])
        if found[3] and int(found[3]) < least:
            self.refuse(f"{{{least},{found[3]}}} ends before it begins")
        return least, found[0]

    def atomic(self, body: str) -> str:
        if not _HAS_ATOMIC_GROUPS:
            self.refuse("possessive quantifiers and atomic groups need Python 3.11 or newer")
        return f"(?>{body})"

    # groups

    def group(self) -> _Atom | None:
        """Parse a bracket, with or without (? and the signs that may follow it."""
        self.at += 1
        outer = self.flags
        if not self.take("?"):
            return self.capturing("", outer)
        if self.take(":"):
            return self.closed("(?:", outer)
        if self.take(">"):
            body = self.body(outer)
            return replace(body, text=self.atomic(body.text))
        for opening in ("=", "!"):
            if self.take(opening):
                return replace(self.closed(f"(?{opening}", outer), may_be_empty=True)
        for opening in ("<=", "<!"):
            if self.take(opening):
                self.behind += 1
                atom = self.closed(f"(?{opening}", outer)
                self.behind -= 1
                return replace(atom, may_be_empty=True)
        if self.take("<"):
            name = self.until(">", "group name")
            if not re.fullmatch(r"[a-zA-Z][a-zA-Z0-9]*", name):
                self.refuse(f"{name!r} is no group name")
            if name in self.names:
                self.refuse(f"two groups named {name}")
            self.names[name] = len(self.groups) + 1
            return self.capturing(f"?P<{name}>", outer)
        self.flags = self.read_flags()
        if self.take(")"):
            return None
        if not self.take(":"):
            self.refuse("unknown group type or inline flag")
        return self.closed("(?:", outer)

    def capturing(self, naming: str, outer: _Flags) -> _Atom:
        group = _Group()
        self.groups.append(group)
        atom = self.closed(f"({naming}", outer)
        group.closed = True
        return atom

    def closed(self, opening: str, outer: _Flags) -> _Atom:
        body = self.body(outer)
        return replace(body, text=f"{opening}{body.text})")

    def body(self, outer: _Flags) -> _Atom:
        """Parse the content of a bracket; return it and the bracket's end."""
        body = self.alternatives()
        if not self.take(")"):
            self.refuse("unclosed group")
        self.flags = outer
        return body

    def read_flags(self) -> _Flags:
        flags = self.flags
        value = True
        while character := self.peek():
            match character:
                case "-" if value:
                    value = False
                case "i":
                    flags = replace(flags, ignore_case=value)
                case "u":
                    flags = replace(flags, unicode_case=value)
                case "s":
                    flags = replace(flags, dot_all=value)
                case "d":
                    flags = replace(flags, unix_lines=value)
                case "m":
                    pass  # a topic name is one line
                case "x" | "U":
                    self.refuse(f"the inline flag {character}")
                case _:
                    break
            self.at += 1
        return flags

    # escapes

    def escape(self) -> _Atom:
        """Parse the text after a backslash outside a class."""
        character = self.next("a backslash at the end")
        if character in _ANCHOR_ESCAPES:
            if character == "b" and self.peek() == "{":
                self.refuse(r"\b{...}")
            return _Atom(_ANCHOR_ESCAPES[character], may_be_empty=True)
        if character in _CLASS_ESCAPES:
            return self.of_set(_CLASS_ESCAPES[character])
        if character in "pP":
            return self.of_set(self.char_property(negated=character == "P"))
        if character == "R":
            return _Atom(r"(?:\r\n|[\n-\r])")
        if character in "123456789":
            return self.numbered_reference(character)
        if character == "k":
            if not self.take("<"):
                self.refuse(r"\k without <name>")
            name = self.until(">", "group name")
            return self.reference(self.names.get(name, 0), rf"\k<{name}>")
        return self.literal(self.escaped_character(character))

    def numbered_reference(self, digit: str) -> _Atom:
        """Parse the number of a group. Java reads more digits as long as there is a group of that number."""
        number = int(digit)
        while (more := self.peek()) and more in "0123456789" and number * 10 + int(more) <= len(self.groups):
            number = number * 10 + int(more)
            self.at += 1
        return self.reference(number, f"\\{number}")

    def reference(self, number: int, shown: str) -> _Atom:
        if not 0 < number <= len(self.groups) or not self.groups[number - 1].closed:
            self.refuse(f"{shown} refers to no group that ends before it")
        if self.groups[number - 1].repeated:
            self.refuse(f"{shown} refers to a group that is repeated")
        if self.behind:
            self.refuse(f"{shown} inside a look-behind")
        self.referred.add(number)
        return _Atom(f"(?{'i' if self.flags.ignore_case else ''}:\\{number})", may_be_empty=True)

    def escaped_character(self, character: str) -> str:
        r"""Return the one character that \character stands for, inside a class or outside."""
        if character in _CONTROL_ESCAPES:
            return _CONTROL_ESCAPES[character]
        match character:
            case "0":
                return self.code_point(r"[0-3][0-7]{2}|[0-7]{1,2}", 8, r"\0 without an octal number")
            case "x" if self.take("{"):
                digits = self.until("}", r"\x{")
                if not re.fullmatch(r"[0-9a-fA-F]{1,8}", digits) or int(digits, 16) > sys.maxunicode:
                    self.refuse(rf"\x{{{digits}}} is no character")
                return chr(int(digits, 16))
            case "x":
                return self.code_point(r"[0-9a-fA-F]{2}", 16, r"\x without two hexadecimal digits")
            case "u":
                return self.code_point(r"[0-9a-fA-F]{4}", 16, r"\u without four hexadecimal digits")
            case "c":
                return chr(ord(self.next(r"\c at the end")) ^ 64)
        if character.isascii() and character.isalnum():
            self.refuse(f"\\{character} has no meaning here")
        return character

    def code_point(self, digits: str, base: int, missing: str) -> str:
        found = re.compile(digits).match(self.text, self.at)
        if not found:
            self.refuse(missing)
        self.at = found.end()
        return chr(int(found[0], base))

    def char_property(self, *, negated: bool) -> chars.CharSet:
        r"""Parse the text after \p or \P."""
        name = self.until("}", r"\p{") if self.take("{") else self.next(r"\p at the end")
        found = chars.PROPERTIES.get(name)
        if found is None:
            self.refuse(rf"the property \p{{{name}}} is not known here")
        if self.flags.ignore_case and name in chars.CASED_PROPERTIES:
            self.refuse(rf"\p{{{name}}} under (?i), which Java 15 changed")
        return chars.complement(found) if negated else found

    # classes

    def char_class(self) -> chars.CharSet:
        """Parse a class after its [, up to and including its ]."""
        self.depth += 1
        if self.depth > _MAX_DEPTH:
            self.refuse(f"nested more than {_MAX_DEPTH} deep")
        negated = self.take("^")
        begin = self.at
        found, plain = self.union(begin)
        while self.take("&&"):
            plain = False
            found &= self.right_operand()
        if not self.take("]"):
            self.refuse("unclosed character class")
        if negated and not plain:
            self.refuse("a negated class that holds a class or &&, which Java 9 changed")
        self.depth -= 1
        return chars.complement(found) if negated else found

    def right_operand(self) -> chars.CharSet:
        """Parse the text between && and the next && or ]."""
        if self.peek() in ("&", "]"):
            self.refuse("&& with nothing behind it")
        if self.peek() != "[":
            return self.union(-1)[0]
        found = chars.NOTHING
        while self.take("["):
            found |= self.char_class()
        if self.peek() != "]" and not self.text.startswith("&&", self.at):
            self.refuse("&& with a class and more behind it, which versions of Java read differently")
        return found

    def union(self, begin: int) -> tuple[chars.CharSet, bool]:
        """Parse elements up to ] or &&; return their set, and whether none was a class. A ] at begin is a literal."""
        found = chars.NOTHING
        plain = True
        first = self.at
        while True:
            character = self.peek()
            if not character:
                self.refuse("unclosed character class")
            if character == "]" and self.at != begin:
                return found, plain
            if character == "&" and self.peek(1) == "&":
                if self.at == first or self.peek(2) == "&":
                    self.refuse("&& with nothing before or behind it")
                return found, plain
            if character == "[":
                self.at += 1
                found |= self.char_class()
                plain = False
            else:
                found |= self.element()

    def element(self) -> chars.CharSet:
        """Parse one character, one range, or one escape that stands for a set."""
        start: str
        if self.take("\\"):
            character = self.next("a backslash at the end")
            if character in "pP":
                return self.char_property(negated=character == "P")
            if character in _CLASS_ESCAPES:
                if character == "v" and self.peek() == "-":
                    self.refuse(r"\v as the end of a range, which Java 8 changed")
                return _CLASS_ESCAPES[character]
            start = self.escaped_character(character)
        else:
            start = self.next("unclosed character class")
        end = start
        if self.peek() == "-" and self.peek(1) not in ("", "[", "]"):
            self.at += 1
            end = self.next("unclosed character class")
            if end == "\\":
                end = self.escaped_character(self.next("a backslash at the end"))
            if end < start:
                self.refuse(f"the range {start}-{end} ends before it begins")
        if not end.isascii():
            self.check_unicode_case()
        found = chars.set_of_range(ord(start), ord(end))
        return chars.in_both_cases(found) if self.flags.ignore_case else found
