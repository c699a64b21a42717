"""What docs/operations.md tells people to type exists."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import click
import pytest

from legacy_consumer.cli import main

TEXT = (Path(__file__).parents[3] / "docs" / "operations.md").read_text(encoding="utf-8")
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
