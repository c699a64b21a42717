r"""Sets of characters as Java's regular expressions know them, computed instead of translated.

A set is an integer: bit n says that the ASCII character n is in it, bit 128 that the characters beyond
ASCII are. So `[a-z&&[^aeiou]]` is arithmetic, and the result is a plain Python class. Legal topic names
are ASCII (`[a-zA-Z0-9._-]`), therefore the sets are exact for them; beyond ASCII a set holds all or nothing.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable
from typing import TypeAlias

CharSet: TypeAlias = int

BEYOND_ASCII: CharSet = 1 << 128
EVERYTHING: CharSet = (1 << 129) - 1
NOTHING: CharSet = 0


def set_of(characters: Iterable[str]) -> CharSet:
    """Return the set of these characters, without characters beyond ASCII, which are in no topic name."""
    found = NOTHING
    for character in characters:
        if ord(character) < 128:
            found |= 1 << ord(character)
    return found


def set_of_range(first: int, last: int) -> CharSet:
    """Return the set of the ASCII code points from first to last, both included."""
    last = min(last, 127)
    return ((1 << (last + 1)) - (1 << first)) if first <= last else NOTHING


def complement(characters: CharSet) -> CharSet:
    """Every character that is not in the set."""
    return EVERYTHING ^ characters


def in_both_cases(characters: CharSet) -> CharSet:
    """Return the set with its letters in both cases, as CASE_INSENSITIVE changes a literal or a range."""
    upper = characters & UPPER
    lower = characters & LOWER
    return characters | (upper << 32) | (lower >> 32)


def to_python_class(characters: CharSet) -> str:
    """The set as a Python character class."""
    if characters == EVERYTHING:
        return r"[\s\S]"
    if characters == NOTHING:
        return r"[^\s\S]"
    if characters & BEYOND_ASCII:
        return f"[^{_runs(complement(characters))}]"
    return f"[{_runs(characters)}]"


def _runs(characters: CharSet) -> str:
    """Return the ASCII characters as the inside of a Python class: ranges, all but letters and digits escaped."""
    text = []
    code = 0
    while code < 128:
        if not characters >> code & 1:
            code += 1
            continue
        first = code
        while code < 128 and characters >> code & 1:
            code += 1
        text.append(_escaped(first) if code - first == 1 else f"{_escaped(first)}-{_escaped(code - 1)}")
    return "".join(text)


def _escaped(code: int) -> str:
    character = chr(code)
    return character if character.isalnum() else f"\\x{code:02x}"


def _category(*prefixes: str) -> CharSet:
    return set_of(chr(code) for code in range(128) if unicodedata.category(chr(code)).startswith(prefixes))


ASCII: CharSet = set_of_range(0, 127)
UPPER: CharSet = set_of_range(ord("A"), ord("Z"))
LOWER: CharSet = set_of_range(ord("a"), ord("z"))
ALPHA: CharSet = UPPER | LOWER
DIGIT: CharSet = set_of_range(ord("0"), ord("9"))
ALNUM: CharSet = ALPHA | DIGIT
WORD: CharSet = ALNUM | set_of("_")
SPACE: CharSet = set_of(" \t\n\x0b\f\r")
BLANK: CharSet = set_of(" \t")
HORIZONTAL: CharSet = BLANK
VERTICAL: CharSet = set_of("\n\x0b\f\r")
CONTROL: CharSet = set_of_range(0, 31) | set_of("\x7f")
GRAPH: CharSet = set_of_range(0x21, 0x7E)
PUNCTUATION: CharSet = GRAPH & ~ALNUM

_CATEGORY_PREFIXES = ("Is", "gc=", "general_category=")
_CASED = ("Lu", "Ll", "Lt", "LC")

CASED_PROPERTIES = frozenset(
    {"Lower", "Upper", "IsLowercase", "IsUppercase", "javaLowerCase", "javaUpperCase", *_CASED}
    | {f"{prefix}{name}" for name in _CASED for prefix in _CATEGORY_PREFIXES}
)
"""Properties of one case: under (?i) they match both cases in Java 15 and newer, only their own before."""

_CATEGORIES = (
    *("L", "Lu", "Ll", "Lt", "Lm", "Lo", "M", "Mn", "Me", "Mc", "N", "Nd", "Nl", "No", "Z", "Zs", "Zl", "Zp"),
    *("C", "Cc", "Cf", "P", "Pd", "Ps", "Pe", "Pc", "Po", "Pi", "Pf", "S", "Sm", "Sc", "Sk", "So"),
)

PROPERTIES: dict[str, CharSet] = {
    # POSIX, ASCII only in Java
    "Lower": LOWER,
    "Upper": UPPER,
    "ASCII": ASCII,
    "Alpha": ALPHA,
    "Digit": DIGIT,
    "Alnum": ALNUM,
    "Punct": PUNCTUATION,
    "Graph": GRAPH,
    "Print": GRAPH | set_of(" "),
    "Blank": BLANK,
    "Cntrl": CONTROL,
    "XDigit": DIGIT | set_of("abcdefABCDEF"),
    "Space": SPACE,
    # the methods of java.lang.Character
    "javaLowerCase": LOWER,
    "javaUpperCase": UPPER,
    "javaLetter": ALPHA,
    "javaDigit": DIGIT,
    "javaLetterOrDigit": ALNUM,
    # general categories and binary properties, cut down to ASCII
    **{name: _category(name) for name in _CATEGORIES},
    **{f"{prefix}{name}": _category(name) for name in _CATEGORIES for prefix in _CATEGORY_PREFIXES},
    **dict.fromkeys(("LC", *(f"{prefix}LC" for prefix in _CATEGORY_PREFIXES)), ALPHA),
    "LD": ALNUM,
    "IsAlphabetic": ALPHA,
    "IsLetter": ALPHA,
    "IsDigit": DIGIT,
    "IsLowercase": LOWER,
    "IsUppercase": UPPER,
    "IsPunctuation": _category("P"),
    "IsWhite_Space": SPACE,
    "IsControl": CONTROL,
    # scripts and blocks, where ASCII ends at a border of theirs
    **dict.fromkeys(("IsLatin", "script=Latin", "sc=Latin"), ALPHA),
    **dict.fromkeys(
        ("InBasicLatin", "InBasic_Latin", "InBASIC_LATIN", "block=BasicLatin", "blk=BasicLatin"), ASCII
    ),  # Latin 1 and everything
    "L1": ASCII,
    "all": EVERYTHING,
}
