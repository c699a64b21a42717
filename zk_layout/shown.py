"""Texts of others as people are shown them: names of 40 KB, which any client can write, and errors of users' code."""

from __future__ import annotations

MOST = 1000
"""Longer than any text of ours with names that Kafka's brokers take."""


def shown(text: str, most: int = MOST) -> str:
    """The text; of a longer one its begin, which names the actor, and its end, which says what to do."""
    if len(text) <= most:
        return text
    begin, end = most // 2, most // 4
    return f"{text[:begin]}... ({len(text) - begin - end} characters) ...{text[-end:]}"


def in_one_line(error: BaseException) -> str:
    """Type and text of an error that code of the user's may have raised: its own text may fail, too."""
    try:
        text = str(error)
    except BaseException as failed:  # noqa: BLE001  (any code of the user's)
        text = f"(its text raised {type(failed).__name__})"
    return " ".join(f"{type(error).__name__}: {text}".split())
