"""Parses the values of properties, which are texts, for consumers and for assignors."""

from __future__ import annotations

import re

_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")


def whole_number(text: str) -> int | None:
    """Return the number, in ASCII digits as in Java's property files; None for any other text, such as 1_0."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def true_or_false(text: str) -> bool | None:
    """True or false in any case; None for any other text."""
    return {"true": True, "false": False}.get(text.strip().lower())
