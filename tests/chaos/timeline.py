"""Draws a history as SVG: the owner of each partition over time, the members that handed out its messages, the faults.

Each member has a row: hatched while it is frozen, with a cross where it was killed. Each partition has a row with a bar
in the colour of its owner in ZooKeeper; a gap means no owner. The dark line below the bar has the colour of the member
that handed out messages: a line that differs from its bar shows a member that did not own the partition. Faults are
numbered bands from their beginning to their end, with their names at the foot.
"""

from __future__ import annotations

import colorsys
from collections import defaultdict
from collections.abc import Iterable
from html import escape

from tests.chaos.history import Event
from tests.chaos.lives import JVM, Story

LEFT, TOP, RIGHT = 64, 56, 16
ROW, GAP, BAR, LINE = 18, 4, 11, 4
WIDTH_PER_S, LEAST_WIDTH, MOST_WIDTH = 9.0, 700, 2400
FONT = "font-family='DejaVu Sans, Arial, sans-serif' font-size='11'"
FOOT_COLUMNS = 3


class Canvas:
    """The SVG elements of a picture, in the order of drawing."""

    def __init__(self) -> None:
        self.elements: list[str] = []

    def box(self, x, y, width, height, fill, title="", extra=""):
        size = f"width='{max(width, 0.6):.1f}' height='{height:.1f}'"
        shape = f"<rect x='{x:.1f}' y='{y:.1f}' {size} fill='{fill}' {extra}"
        self.elements.append(f"{shape}><title>{escape(title)}</title></rect>" if title else f"{shape}/>")

    def line(self, x1, y1, x2, y2, stroke, width=1):
        ends = f"x1='{x1:.1f}' y1='{y1:.1f}' x2='{x2:.1f}' y2='{y2:.1f}'"
        self.elements.append(f"<line {ends} stroke='{stroke}' stroke-width='{width:g}'/>")

    def text(self, x, y, text, anchor="start", fill="#222", bold=False):
        weight = " font-weight='bold'" if bold else ""
        self.elements.append(
            f"<text x='{x:.1f}' y='{y:.1f}' {FONT}{weight} text-anchor='{anchor}' fill='{fill}'>{escape(text)}</text>"
        )


class Timeline:
    """The picture of one history."""

    def __init__(self, events: Iterable[Event], title: str) -> None:
        self.story = Story(events)
        self.title = title
        times = [event.at for event in self.story.events]
        self.start, self.end = times[0], times[-1]
        self.width = min(MOST_WIDTH, max(LEAST_WIDTH, (self.end - self.start) * WIDTH_PER_S))
        self.members = list(self.story.kinds)
        self.colours = colours_of(self.story.kinds)
        self.partitions = sorted({event["partition"] for event in self.story.events if "partition" in event.details})
        self.faults = sorted(self.story.faults, key=lambda fault: fault.began)
        self.canvas = Canvas()

    def svg(self) -> str:
        members_end = TOP + len(self.members) * (ROW + GAP)
        partitions_top = members_end + 3 * GAP
        bottom = partitions_top + len(self.partitions) * (ROW + GAP)
        foot_rows = -(-len(self.faults) // FOOT_COLUMNS)
        height = bottom + 34 + 15 * foot_rows + 10
        width = LEFT + self.width + RIGHT
        self.canvas.box(0, 0, width, height, "#ffffff")
        self.canvas.text(LEFT, 16, self.title, bold=True)
        self._faults(TOP - 6, bottom)
        for row, name in enumerate(self.members):
            self._member(name, TOP + row * (ROW + GAP))
        for row, partition in enumerate(self.partitions):
            self._partition(partition, partitions_top + row * (ROW + GAP))
        self._axis(bottom + 4)
        self._foot(bottom + 44)
        hatch = (
            "<defs><pattern id='hatch' width='6' height='6' patternUnits='userSpaceOnUse' "
            "patternTransform='rotate(45)'><rect width='6' height='6' fill='#d8e6ff'/>"
            "<line x1='0' y1='0' x2='0' y2='6' stroke='#3366cc' stroke-width='3'/></pattern></defs>"
        )
        size = f"width='{width:.0f}' height='{height:.0f}' viewBox='0 0 {width:.0f} {height:.0f}'"
        body = "\n".join(self.canvas.elements)
        return f"<svg xmlns='http://www.w3.org/2000/svg' {size}>\n{hatch}\n{body}\n</svg>\n"

    def x(self, at: float) -> float:
        return LEFT + (min(at, self.end) - self.start) / max(self.end - self.start, 1e-9) * self.width

    def _faults(self, top: float, bottom: float) -> None:
        last_label = [-99.0, -99.0, -99.0]
        for number, fault in enumerate(self.faults, 1):
            x, end = self.x(fault.began), self.x(fault.ended)
            told = f"{number}. {fault.name}: {fault.target}, {fault.ended - fault.began:.1f} s"
            joins = fault.name == "member joins"
            self.canvas.box(x, top, end - x, bottom - top, "#f3f3f3" if joins else "#ffe3d6", told)
            self.canvas.line(x, top, x, bottom, "#bbbbbb" if joins else "#d04a02")
            row = next((row for row, taken in enumerate(last_label) if x - taken > 16), 0)
            last_label[row] = x
            self.canvas.text(x, top - 2 - 11 * row, str(number), "middle", "#888888" if joins else "#d04a02", bold=True)

    def _member(self, name: str, y: float) -> None:
        mine = [e for e in self.story.events if e.who == name or e.details.get("name") == name]
        began = mine[0].at
        ended = next((e.at for e in mine if e.what in ("killed", "ended")), self.end)
        killed = any(e.what == "killed" for e in mine)
        kind = self.story.kinds[name]
        self.canvas.text(LEFT - 6, y + 12, f"{name} {'JVM' if kind == JVM else ''}".strip(), "end", bold=True)
        x = self.x(began)
        self.canvas.box(x, y, self.x(ended) - x, BAR, self.colours[name], f"{name}, {kind}")
        for frozen, thawed in self.story.freezes[name]:
            x = self.x(frozen)
            self.canvas.box(x, y, self.x(thawed) - x, BAR, "url(#hatch)", f"{name} is frozen")
        if killed:
            self.canvas.text(self.x(ended), y + BAR, "✕", "middle", "#c00000", bold=True)

    def _partition(self, partition: int, y: float) -> None:
        self.canvas.text(LEFT - 6, y + 12, str(partition), "end")
        changes = [e for e in self.story.events if e.what == "owner" and e["partition"] == partition]
        for change, after in zip(changes, [*changes[1:], None], strict=True):
            if change["owner"] is None:
                continue
            name = change["owner"].rpartition("-")[0].partition("_")[2]
            end = self.end if after is None else after.at
            x = self.x(change.at)
            told = f"partition {partition}: {name} for {end - change.at:.2f} s"
            self.canvas.box(x, y, self.x(end) - x, BAR, self.colours.get(name, "#000000"), told)
        for name, start, end in self._flow(partition):
            self.canvas.box(start, y + BAR, max(end - start, 1), LINE, self.colours.get(name, "#000000"), "",
                            "style='filter:brightness(0.7)'")  # fmt: skip

    def _flow(self, partition: int) -> list[tuple[str, float, float]]:
        """Return (member, from, to) in pixels of deliveries without a gap of a second or more."""
        spans: dict[str, list[list[float]]] = defaultdict(list)
        for delivery in self.story.deliveries:
            if delivery.partition == partition:
                mine = spans[delivery.who]
                if mine and delivery.at - mine[-1][1] < 1.0:
                    mine[-1][1] = delivery.at
                else:
                    mine.append([delivery.at, delivery.at])
        return [(name, self.x(start), self.x(end)) for name, all_ in spans.items() for start, end in all_]

    def _axis(self, y: float) -> None:
        step = next(s for s in (5, 10, 30, 60, 300, 600) if (self.end - self.start) / s <= 40 or s == 600)
        for second in range(0, int(self.end - self.start) + 1, step):
            x = self.x(self.start + second)
            self.canvas.line(x, y, x, y + 5, "#222222")
            self.canvas.text(x, y + 17, f"{second} s", "middle")

    def _foot(self, y: float) -> None:
        rows = -(-len(self.faults) // FOOT_COLUMNS)
        for number, fault in enumerate(self.faults):
            x = LEFT + (number // rows) * self.width / FOOT_COLUMNS
            self.canvas.text(x, y + 15 * (number % rows), f"{number + 1}. {fault.name}: {fault.target}"[:60])


def colours_of(kinds: dict[str, str]) -> dict[str, str]:
    """Return {member: colour}: blues and greens for Python members, oranges and reds for JVM members."""
    ours = [name for name, kind in kinds.items() if kind != JVM]
    theirs = [name for name, kind in kinds.items() if kind == JVM]
    found = {}
    for names, low, high in ((ours, 0.28, 0.78), (theirs, 0.0, 0.14)):
        for number, name in enumerate(names):
            hue = low + (high - low) * (number * 0.618 % 1)
            lightness = 0.62 if number % 2 else 0.5
            red, green, blue = (round(255 * part) for part in colorsys.hls_to_rgb(hue, lightness, 0.6))
            found[name] = f"#{red:02x}{green:02x}{blue:02x}"
    return found


def draw(events: Iterable[Event], title: str) -> str:
    """Return the whole picture as SVG."""
    return Timeline(events, title).svg()
