"""A group of commands that imports a command when it is used, so that no command loads the libraries of the others."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass

import click

from legacy_consumer.operations.cli.helpers.help_texts import example_last


@dataclass(frozen=True, slots=True)
class Place:
    """The module of a command in legacy_consumer.operations.cli, the command's name there, and its summary."""

    module: str
    name: str
    summary: str


class LazyGroup(click.Group):
    """Its commands are imported from places: {name on the command line: place}."""

    def __init__(self, *args: object, places: Mapping[str, Place], **kwargs: object) -> None:
        self._places = places
        super().__init__(*args, **kwargs)  # type: ignore[arg-type]  # as click.group() passes them on

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """Return the names of the commands, in the order of the places."""
        return list(self._places)

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        """Return the command, with its example at the end of its help; None if there is none of that name."""
        place = self._places.get(name)
        if place is None:
            return None
        command = getattr(importlib.import_module(f"legacy_consumer.operations.cli.{place.module}"), place.name)
        assert isinstance(command, click.Command)
        # a lazy group has its own example, and adds the examples of its commands itself
        return command if isinstance(command, LazyGroup) else example_last(command)

    @property  # type: ignore[override]  # click has a dictionary here, which would have to be full from the start
    def commands(self) -> dict[str, click.Command]:
        """All commands; reading it imports them."""
        ctx = click.Context(self)
        found = {name: self.get_command(ctx, name) for name in self.list_commands(ctx)}
        return {name: command for name, command in found.items() if command is not None}

    @commands.setter
    def commands(self, given: dict[str, click.Command]) -> None:
        """Take what click's constructor sets, which is nothing."""
        assert not given

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """List the commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self._places[name].summary) for name in self.list_commands(ctx)])
