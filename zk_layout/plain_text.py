r"""Text of strangers, for people: what stands in ZooKeeper may move a cursor, forge a line or reverse letters.

Every way to a person (terminal, log) sends its text through here, so that nobody before it has to think of it.
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
