"""Values of properties, which come as text: of consumers and of assignors alike."""

from __future__ import annotations

import re

_WHOLE_NUMBER = re.compile(r"\s*[+-]?[0-9]{1,19}\s*")


def whole_number(text: str) -> int | None:
    """The number, in ASCII digits as in Java's property files; None for any other text, 1_0 too."""
    return int(text) if _WHOLE_NUMBER.fullmatch(text) else None


def true_or_false(text: str) -> bool | None:
    """True or false in any case; None for any other text."""
    return {"true": True, "false": False}.get(text.strip().lower())
