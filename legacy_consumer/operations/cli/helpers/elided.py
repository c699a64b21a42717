"""A name that is cut at its left on a narrow terminal: consumer ids differ at their ends."""

from __future__ import annotations

from collections.abc import Collection

from rich.console import Console, ConsoleOptions, RenderResult
from rich.measure import Measurement
from rich.text import Text

_SHORTEST = 8


def telling_length(names: Collection[str]) -> int:
    """Return how many last characters tell these names apart; at least 8, so that people recognise a name."""
    distinct = set(names)
    length = min(_SHORTEST, max(map(len, distinct), default=0))
    while len({name[-length:] for name in distinct}) < len(distinct):
        length += 1
    return length


class Elided:
    """A name that rich draws: whole, or as an ellipsis and its end; folded, if not even that fits.

    telling: the number of last characters that must be visible, see telling_length().
    """

    def __init__(self, name: Text, telling: int) -> None:
        self._name, self._shortest = name, min(len(name), telling + 1)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        """Return the smallest and the largest useful width, in columns."""
        return Measurement(self._shortest, len(self._name))

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        """Yield one line if the shortest form fits."""
        width, length = options.max_width, len(self._name)
        if width >= length or width < self._shortest:
            yield self._name
        else:
            yield Text("…", self._name.style) + self._name[length - width + 1 :]
