"""Findings of an examination: each has a severity, a description and an advice."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from zk_layout.errors import NotPermittedError, ZooKeeperError


class Severity(Enum):
    """From the worst to the best."""

    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """Something will not work, or not as its users believe."""
    NOTE = "note"
    """Worth knowing."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing. code: a word for programs. subject: what it is about. advice: what to do.

    commands: what to type, without the program's name and without where ZooKeeper is. One that changes something shows
    what it would do, and does it with --execute; it changes nothing but what the text names.
    """

    severity: Severity
    code: str
    subject: str
    text: str
    advice: str
    commands: tuple[tuple[str, ...], ...] = ()


def sort_findings(findings: list[Finding]) -> list[Finding]:
    """The worst first, otherwise in the order found."""
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def not_permitted(subject: str, text: str) -> Finding:
    """Something may not be read with these credentials."""
    advice = "give the credentials of its members: --config with zookeeper.auth.digest or zookeeper.sasl.*"
    return Finding(Severity.ERROR, "not_permitted", subject, text, advice)


def permitted(findings: Iterable[Finding]) -> Iterator[Finding]:
    """An examination as far as it comes: a znode that everything in it is about may be closed."""
    try:
        yield from findings
    except NotPermittedError as error:
        yield not_permitted(error.path, str(error))


def as_far_as_it_comes(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Examinations one after the other. If ZooKeeper does not answer any more, that is the last finding."""
    try:
        yield from findings
    except ZooKeeperError as error:
        yield Finding(
            Severity.ERROR,
            "not_examined",
            "ZooKeeper",
            f"the examination ended early, and whatever else there is was not looked at: {error}",
            "run the command again when ZooKeeper answers",
        )


_SHOWN = 3


def some(things: Iterable[str], between: str = ", ") -> str:
    """A few of them, for a line."""
    names = list(things)
    return between.join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def shell_command(group: str, *words: str) -> str:
    """A command about a group as it can be pasted into a shell; where the cluster is has to be added."""
    typed = about_group(group, *words)
    return f"`{shlex.join(['legacy-consumer', *typed[0]])}`" if typed else f"`legacy-consumer {' '.join(words)}`"


def about_group(group: str, *words: str) -> tuple[tuple[str, ...], ...]:
    """The command for a group; none if its name cannot be typed."""
    return ((*words, *argument(group)),) if group.isprintable() else ()


def argument(name: str) -> tuple[str, ...]:
    """Return the words for a name that ends a command. Options such as --execute may be added behind it.

    A name that begins with a dash would be taken for an option: it stands behind --, and options stand before that.
    """
    return ("--", name) if name.startswith("-") else (name,)
