r"""Makes text from ZooKeeper safe for people: it may move a cursor, forge a line or reverse letters.

Each output to a terminal or a log sends its text through here, so the code that makes the text need not.
"""

from __future__ import annotations


def printable(text: str) -> str:
    r"""One line: control characters, line ends and marks of direction as \x1b, \n, \u202e."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)


def printable_lines(text: str) -> str:
    """As printable, but for line feeds and tabs: for text of ours that has several lines."""
    return "\n".join("\t".join(map(printable, line.split("\t"))) for line in text.split("\n"))
