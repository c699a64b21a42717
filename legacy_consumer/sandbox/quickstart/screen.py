"""The output of a run: live on a terminal, plain lines elsewhere; and the summary at the end."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import TracebackType
from typing import Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from legacy_consumer.sandbox.quickstart.report import Report
from legacy_consumer.sandbox.quickstart.two_groups import KEYS

_REFRESH_S = 0.1
_BAR_WIDTH = 30
_LOOK_MS = 10
_COLOURS = ("cyan", "magenta", "yellow", "green")


@dataclass(frozen=True, slots=True)
class PartitionView:
    """One partition: the owner's progress and the committed offset."""

    number: int
    owner: str | None
    consumed: int
    committed: int
    end: int


@dataclass(frozen=True, slots=True)
class View:
    """The current view. members: {name: state}, in order of their start."""

    seconds: float
    doing: str
    partitions: tuple[PartitionView, ...] = ()
    members: Mapping[str, str] = field(default_factory=dict)


class Screen(Protocol):
    """Told by the story, whenever it likes."""

    def say(self, seconds: float, text: str) -> None:
        """Something happened that stays on the screen."""
        ...

    def show(self, view: View) -> None:
        """Show the current view; calls may be skipped."""
        ...


class PlainScreen:
    """One line for each thing that happened."""

    def __init__(self, console: Console) -> None:
        self._console = console

    def say(self, seconds: float, text: str) -> None:
        """A line with the time in seconds."""
        self._console.print(f"{seconds:6.1f} s  {text}", highlight=False, markup=False, soft_wrap=True)

    def show(self, view: View) -> None:
        """Nothing: lines cannot be taken back."""


class LiveScreen:
    """The lines, and below them the owners and the progress of all members. Only between enter and exit."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._live = Live(console=console, auto_refresh=False, transient=True)
        self._shown_at = 0.0

    def __enter__(self) -> LiveScreen:
        self._live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.stop()

    def say(self, seconds: float, text: str) -> None:
        """A line above the live part."""
        self._console.print(Text.assemble((f"{seconds:6.1f} s  ", "dim"), text))

    def show(self, view: View) -> None:
        """Draw it, at most ten times a second."""
        now = time.monotonic()
        if now - self._shown_at >= _REFRESH_S:
            self._shown_at = now
            self._live.update(draw(view), refresh=True)


def draw(view: View) -> RenderableType:
    """The live part: what is being done, the partitions, the members."""
    parts: list[RenderableType] = [Text(), Text.assemble((f"{view.seconds:6.1f} s  ", "dim"), (view.doing, "bold"))]
    if view.partitions:
        colours = {name: _COLOURS[place % len(_COLOURS)] for place, name in enumerate(view.members)}
        parts += [Text(), _draw_partitions(view.partitions, colours), Text(), _draw_members(view.members, colours)]
    return Group(*parts)


def _draw_partitions(partitions: tuple[PartitionView, ...], colours: Mapping[str, str]) -> Table:
    table = Table(box=None, padding=(0, 1), pad_edge=True)
    table.add_column("partition", justify="center")
    table.add_column("owner", width=10)
    table.add_column("delivered", width=_BAR_WIDTH)
    table.add_column("", justify="right", width=8)
    table.add_column("of", justify="right", width=8)
    table.add_column("committed", justify="right", width=9)
    for one in partitions:
        colour = colours.get(one.owner or "", "white")
        table.add_row(
            str(one.number),
            Text(one.owner, colour) if one.owner else Text("nobody", "bold red"),
            ProgressBar(max(1, one.end), one.consumed, _BAR_WIDTH, complete_style=colour, finished_style=colour),
            f"{one.consumed:,}",
            f"{one.end:,}",
            f"{one.committed:,}",
        )
    return table


def _draw_members(members: Mapping[str, str], colours: Mapping[str, str]) -> Table:
    table = Table.grid(padding=(0, 2))
    for name, doing in members.items():
        table.add_row(Text(f" {name}", colours[name]), doing)
    return table


def print_summary(console: Console, report: Report) -> None:
    """Print the table at the end, and the failures, if any."""
    verdict, kill = report.verdict, report.kill
    table = Table(title=f"quickstart: {report.seconds:.0f} s", title_justify="left", show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(justify="right", no_wrap=True)
    table.add_column()
    elsewhere = verdict.duplicated - verdict.duplicated_by_kill
    why = f"{kill.member} had processed them, but not committed, when it was killed"
    if elsewhere:
        why = f"{verdict.duplicated_by_kill:,}: {why}; {elsewhere:,} in other rebalances"
    settled = sum(1 for one in report.rebalances if one.moved)
    table.add_row("flights produced", f"{verdict.flights:,}", f"{len(report.log_ends)} partitions, keyed by carrier")
    table.add_row("delivered", f"{verdict.delivered:,}", "at least once, by the members' own records")
    table.add_row("lost", Text(f"{verdict.lost:,}", "bold red" if verdict.lost else "bold green"), "")
    table.add_row("delivered twice", f"{verdict.duplicated:,}", why if verdict.duplicated else "")
    table.add_row("members at most", str(report.members_most), f"{', '.join(report.idle) or 'nobody'} idle")
    table.add_row(
        "rebalances",
        str(len(report.rebalances)),
        f"{settled} moved partitions, median {spell_settling(report.median_settle_ms)} to settle",
    )
    table.add_row(
        "takeover after kill -9",
        f"{kill.takeover_seconds:.1f} s",
        f"of which {kill.expired_seconds:.1f} s until ZooKeeper ended the session "
        f"(timeout {kill.session_timeout_seconds:.0f} s)",
    )
    shares = ", ".join(
        f"{' + '.join(str(len(keys)) for keys in members.values())} in {group}"
        for group, members in report.two_groups.received.items()
    )
    table.add_row("one topic, two groups", str(len(KEYS)), f"messages: {shares}")
    table.add_row("committed lag", "?" if report.lag is None else str(report.lag), "from Spark, format zk_offsets")
    console.print(table)
    for failure in report.failures:
        console.print(Text(f"FAILED: {failure}", "bold red"))


def spell_settling(milliseconds: float) -> str:
    """The group is looked at every 10 ms: what is shorter is only known to be."""
    return f"{milliseconds:.0f} ms" if milliseconds >= _LOOK_MS else f"under {_LOOK_MS} ms"
