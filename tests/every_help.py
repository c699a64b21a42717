"""Asks every command for its help, each in a process of its own, as a user's shell does. Prints how many there are."""

from __future__ import annotations

import concurrent.futures
import os
import subprocess
import sys

import click

from legacy_consumer.operations.cli.main import main


def commands_below(group: click.Group, name: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """The words of every command, groups of commands included."""
    context = click.Context(group)
    found = [name]
    for word in group.list_commands(context):
        command = group.get_command(context, word)
        assert command is not None
        found += commands_below(command, (*name, word)) if isinstance(command, click.Group) else [(*name, word)]
    return found


def problem_of(words: tuple[str, ...]) -> str:
    """What a command printed instead of its help; empty if it showed it."""
    asked = [sys.executable, "-W", "error", "-m", "legacy_consumer", *words, "--help"]
    told = subprocess.run(asked, capture_output=True, text=True)
    if told.returncode == 0 and told.stdout.startswith("Usage:"):
        return ""
    return f"legacy-consumer {' '.join(words)} --help ended with {told.returncode}:\n{told.stderr[-2000:]}\n"


if __name__ == "__main__":
    commands = commands_below(main)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        problems = "".join(pool.map(problem_of, commands))
    print(problems or f"{len(commands)} commands show their help")
    sys.exit(bool(problems))
