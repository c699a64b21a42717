"""A name that gives way from the left where the terminal is too narrow: a consumer id is told apart by its end."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_SHORTEST = 8


def telling_length(names: Collection[str]) -> int:
    """Return how many characters of their ends tell these names apart; 8 at least, so that one is recognised."""
    distinct = set(names)
    length = min(_SHORTEST, max(map(len, distinct), default=0))
    while len({name[-length:] for name in distinct}) < len(distinct):
        length += 1
    return length


class Elided:
    """A name that rich draws: whole, or an ellipsis and its end; folded, whole, where not even that has room.

    telling: how much of the end has to be seen, see telling_length().
    """

    def __init__(self, name: Text, telling: int) -> None:
        self._name, self._shortest = name, min(len(name), telling + 1)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """From the shortest that tells it apart to all of it, in columns."""
        return Measurement(self._shortest, len(self._name))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """One line if there is room for the shortest."""
        width, length = options.max_width, len(self._name)
        if width >= length or width < self._shortest:
            yield self._name
        else:
            yield Text("…", self._name.style) + self._name[length - width + 1 :]
