"""Findings of an examination: each has a severity, a description and an advice."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import Enum

from zk_layout.errors import NotPermittedError, ZooKeeperError


class Severity(Enum):
    """The severities, the worst first."""

    ERROR = "error"
    """Something does not work."""
    WARNING = "warning"
    """Something will not work, or not as its users believe."""
    NOTE = "note"
    """The operator should know it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One finding. code: a word for programs. subject: the name that it is about, as of a group. advice: what to do.

    commands: their words, without the program's name and the options that name the cluster. A command that changes
    something only shows the change unless --execute is given; it changes only what the text names.
    """

    severity: Severity
    code: str
    subject: str
    text: str
    advice: str
    commands: tuple[tuple[str, ...], ...] = ()


def sort_findings(findings: list[Finding]) -> list[Finding]:
    """Return the findings with the worst first; findings of one severity keep their order."""
    order = list(Severity)
    return sorted(findings, key=lambda finding: order.index(finding.severity))


def not_permitted(subject: str, text: str) -> Finding:
    """Return the finding that an ACL forbids these credentials to read something."""
    advice = "give the credentials of its members: --config with zookeeper.auth.digest or zookeeper.sasl.*"
    return Finding(Severity.ERROR, "not_permitted", subject, text, advice)


def permitted(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings until a znode that the whole examination needs cannot be read; then yield a finding about that."""
    try:
        yield from findings
    except NotPermittedError as error:
        yield not_permitted(error.path, str(error))


def as_far_as_it_comes(findings: Iterable[Finding]) -> Iterator[Finding]:
    """Yield findings; if ZooKeeper does not answer any more, end with a finding that says so."""
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
    """Return the first few things as text, and the number of the others."""
    names = list(things)
    return between.join(names[:_SHOWN]) + (f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else "")


def shell_command(group: str, *words: str) -> str:
    """Return a command about a group for a shell; the reader adds the options that name the cluster."""
    typed = about_group(group, *words)
    return f"`{shlex.join(['legacy-consumer', *typed[0]])}`" if typed else f"`legacy-consumer {' '.join(words)}`"


def about_group(group: str, *words: str) -> tuple[tuple[str, ...], ...]:
    """Return the command for a group; none if a shell cannot take its name."""
    return ((*words, *argument(group)),) if group.isprintable() else ()


def argument(name: str) -> tuple[str, ...]:
    """Return the words for a name that ends a command. Options such as --execute may be added after it.

    A name that begins with a dash would be read as an option. It follows a --, and options are added before that.
    """
    return ("--", name) if name.startswith("-") else (name,)
