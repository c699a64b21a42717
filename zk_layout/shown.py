"""How much of a text people are shown. Any client can give a znode a name of 40 KB, which stands in errors and logs."""

from __future__ import annotations

MOST = 1000
"""Longer than any text of ours with names that Kafka's brokers take."""


def shown(text: str, most: int = MOST) -> str:
    """The text; of a longer one its begin, which names the actor, and its end, which says what to do."""
    if len(text) <= most:
        return text
    begin, end = most // 2, most // 4
    return f"{text[:begin]}... ({len(text) - begin - end} characters) ...{text[-end:]}"
