"""One form for the help of every command: a summary line, the options, and an example at the end."""

from __future__ import annotations

import inspect
import re

import click

_EXAMPLE = re.compile(r"^(?:\x08\n)? *Examples?:\n", re.MULTILINE)
_FIRST_SENTENCE = re.compile(r".+?[.:](?=\s|$)", re.DOTALL)


def example_last(command: click.Command) -> click.Command:
    """Move the example of a command, and of commands below it, from its help to the end, after the options.

    A group without an example shows that of its first command. Twice is harmless.
    """
    text = inspect.cleandoc(command.help or "")
    found = _EXAMPLE.search(text)
    if found is not None:
        command.help = text[: found.start()].rstrip()
        command.epilog = "\n\n\b\n" + text[found.start() :].removeprefix("\b\n")
    if isinstance(command, click.Group):
        for below in command.commands.values():
            example_last(below)
            # click would shorten the text to fit into the list
            below.short_help = below.short_help or _first_sentence(below.help or "")
        if not command.epilog:
            command.epilog = next((below.epilog for below in command.commands.values() if below.epilog), None)
    return command


def _first_sentence(text: str) -> str:
    found = _FIRST_SENTENCE.match(text)
    return " ".join((found[0] if found else text).split())
