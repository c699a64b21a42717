"""Every command in docs/operations.md exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from legacy_consumer.operations.cli import main

TEXT = (Path(__file__).parents[5] / "docs" / "operations.md").read_text(encoding="utf-8")
TYPED = sorted(
    {
        line.removeprefix("$ ").removeprefix("legacy-consumer ")
        for line in [*re.findall(r"`([^`\n]+)`", TEXT), *re.findall(r"(?m)^(?:\$ )?(legacy-consumer .+)$", TEXT)]
        if re.match(
            r"(legacy-consumer|groups|offsets|doctor|topics|brokers|describe|migrate)(?= |$)", line.removeprefix("$ ")
        )
    }
)


@pytest.mark.parametrize("typed", TYPED)
def test_a_command_and_its_options_exist(typed):
    command, ctx = main, click.Context(main)
    words = shlex.split(typed)
    if words[0] == "describe":
        words.insert(0, "groups")
    while words and isinstance(command, click.Group) and not words[0].startswith("-") and words[0].islower():
        command = command.get_command(ctx, words.pop(0))
        assert command is not None, typed
    options = {option for param in command.params for option in [*param.opts, *param.secondary_opts]}
    named = {word.partition("=")[0] for word in words if word.startswith("--")} - {"--help"}
    assert named <= options


def test_commands_are_found_in_the_text():
    assert len(TYPED) > 20


def test_every_complaint_has_a_run_book():
    headings = re.findall(r"(?m)^### (.+)$", TEXT.partition("## Run-books")[2])
    assert len(headings) == len(set(headings)) >= 15


COMPLAINTS = {
    "JVM and other clients in one group read the same": "Both a Python and a JVM member read the same partition",
    "can't rebalance after N retries": "can't rebalance after N retries",
    "gave up, stays registered, consumes nothing": "A member is registered, and reads nothing",
    "owner conflict with its own dead predecessor": "can't rebalance after N retries",
    "a session is gone, and fetching goes on": "Messages come twice",
    "any blip kills the consumer": "Every blip of ZooKeeper stops the consumers",
    "partitions without owner": "A partition has no owner",
    "half-made claims left behind": "A partition's owner is no living member",
    "duplicates in rebalance": "Messages come twice",
    "offsets go back": "Messages come twice",
    "a slow handler blocks the rebalance": "One slow handler holds up the whole group",
    "the herd, and unrelated topics": "The group rebalances all the time",
    "rebalances on a restart of a broker": "The group rebalances all the time",
    "added partitions not noticed": "A partition has no owner",
    "topic deleted and made again": "The topic was deleted and made again, and messages are missing",
    "no brokers, no leader": "A broker is down",
    "shutdown hangs": "A member does not stop",
    "lost on an unclean stop": "Messages are missing after a crash",
    "a bad registration breaks everybody": "One bad registration, and the whole group stands still",
    "commits hammer ZooKeeper": "ZooKeeper groans under commits",
    "dead groups, old offsets": "Hundreds of unknown groups",
    "false alarms": "Monitoring shouts about groups that are dead",
    "monitors show a lag that only grows": "The lag only grows",
    "monitors show a negative lag": "The lag is below zero",
    "no supported migration": "ZooKeeper is to go",
    "Spark from a group's offsets": "A Spark job is to begin where a group stands",
    "two dialects of round-robin": "Members own other partitions than they should, or some have no owner for good",
    "a newline behind an offset": "An offset cannot be read",
    "secured ensembles": "A command says that an ACL forbids it",
    "brokers with TLS listeners only": "A client is not allowed into the group's brokers, or only to some",
}
"""{a public complaint of users of ZooKeeper groups: the heading in docs/operations.md that helps}."""


@pytest.mark.parametrize("complaint", sorted(COMPLAINTS))
def test_a_known_complaint_has_its_run_book(complaint):
    run_books = TEXT.partition("## Run-books")[2]
    found = re.search(rf'(?m)^### "?{re.escape(COMPLAINTS[complaint])}"?$', run_books)
    assert found is not None
    text = run_books[found.end() :].partition("\n### ")[0]
    assert len(text.split()) > 15, "a heading alone helps nobody"
