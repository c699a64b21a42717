"""Shortens texts of other clients for people, such as a name of 40 KB, and shows errors of the user's code."""

from __future__ import annotations

MOST = 1000
"""The most characters of a line; it is hardly longer while topics and members have names that a person gives."""


def shown(text: str, most: int = MOST) -> str:
    """Return the text; of a longer one its beginning, which names the actor, and its end, which says what to do."""
    if len(text) <= most:
        return text
    begin, end = most // 2, most // 4
    return f"{text[:begin]}... ({len(text) - begin - end} characters) ...{text[-end:]}"


def in_one_line(error: BaseException) -> str:
    """Return the type and text of an error that the user's code may have raised, and whose str() may raise, too."""
    try:
        text = str(error)
    except BaseException as failed:  # noqa: BLE001  (any code of the user's)
        text = f"(its text raised {type(failed).__name__})"
    return " ".join(f"{type(error).__name__}: {text}".split())
