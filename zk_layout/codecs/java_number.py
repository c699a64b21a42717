"""Numbers as Long.parseLong and Integer.parseInt of a JVM peer read them.

An optional sign, then ASCII digits, and nothing else: no blank, no newline, no underscore, no decimal point.
"""

from __future__ import annotations

MIN_INT, MAX_INT = -(2**31), 2**31 - 1
MIN_LONG, MAX_LONG = -(2**63), 2**63 - 1
_LONG_DIGITS = 19


def parse_long(text: bytes) -> int | None:
    """Return the number, or None where Long.parseLong throws."""
    digits = text[1:] if text[:1] in (b"+", b"-") else text
    if not digits.isdigit():
        return None
    if len(digits) > _LONG_DIGITS:  # only leading zeros can make a legal number that long
        digits = digits.lstrip(b"0") or b"0"
        if len(digits) > _LONG_DIGITS:
            return None
    value = -int(digits) if text[:1] == b"-" else int(digits)
    return value if MIN_LONG <= value <= MAX_LONG else None


def parse_int(text: bytes) -> int | None:
    """Return the number, or None where Integer.parseInt throws."""
    value = parse_long(text)
    return value if value is not None and MIN_INT <= value <= MAX_INT else None
