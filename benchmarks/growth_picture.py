"""Draws the growth of a change's cost as SVG: over members at 500 partitions, over partitions at 16 and 100 members.

Both axes are logarithmic: a straight line is a power, and twice as steep is twice the power.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from html import escape
from typing import Protocol

_PANEL_W, _PANEL_H = 380, 300
_LEFT, _TOP, _GAP, _FOOT = 62, 44, 70, 92
_FONT = "font-family='DejaVu Sans, Arial, sans-serif'"
_COLOURS = {"start_s": "#1b6ca8", "join_s": "#c8553d", "leave_s": "#3a7d44"}
_WORDS = {"start_s": "all start", "join_s": "one joins", "leave_s": "one leaves"}
_LEAST_S, _MOST_S = 0.01, 100.0
_MEMBERS, _PARTITIONS = (16, 100), 500


class Measured(Protocol):
    """A point to draw; it also has start_s, join_s and leave_s."""

    @property
    def side(self) -> str: ...
    @property
    def members(self) -> int: ...
    @property
    def partitions(self) -> int: ...


def draw(points: Iterable[Measured]) -> str:
    """Return the picture as SVG."""
    points = list(points)
    width = _LEFT + 3 * _PANEL_W + 2 * _GAP + 20
    height = _TOP + _PANEL_H + _FOOT
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{width}' height='{height}' viewBox='0 0 {width} {height}'>",
        f"<rect width='{width}' height='{height}' fill='#fff'/>",
    ]
    by_members = [point for point in points if point.partitions == _PARTITIONS]
    parts += _panel(_LEFT, by_members, lambda p: p.members, f"members, on {_PARTITIONS} partitions")
    for place, members in enumerate(_MEMBERS, start=1):
        left = _LEFT + place * (_PANEL_W + _GAP)
        own = [point for point in points if point.members == members]
        parts += _panel(left, own, lambda p: p.partitions, f"partitions, of {members} members")
    parts += _legend(height)
    parts.append("</svg>\n")
    return "\n".join(parts)


def _panel(left: int, points: list[Measured], x_of: Callable[[Measured], int], title: str) -> list[str]:
    ticks = sorted({x_of(point) for point in points})
    if not ticks:
        return []
    low, high = math.log(ticks[0]), math.log(max(ticks[-1], ticks[0] + 1))

    def x_at(value: int) -> float:
        return left + 14 + (math.log(value) - low) / (high - low) * (_PANEL_W - 28)

    parts = [f"<rect x='{left}' y='{_TOP}' width='{_PANEL_W}' height='{_PANEL_H}' fill='none' stroke='#888'/>"]
    for exponent in range(round(math.log10(_LEAST_S)), round(math.log10(_MOST_S)) + 1):
        seconds = 10.0**exponent
        y = _y_at(seconds)
        parts.append(f"<line x1='{left}' y1='{y:.1f}' x2='{left + _PANEL_W}' y2='{y:.1f}' stroke='#ddd'/>")
        parts.append(_text(left - 6, y + 4, f"{seconds:g} s", "end"))
    for tick in ticks:
        x = x_at(tick)
        parts.append(f"<line x1='{x:.1f}' y1='{_TOP}' x2='{x:.1f}' y2='{_TOP + _PANEL_H}' stroke='#eee'/>")
        parts.append(_text(x, _TOP + _PANEL_H + 16, f"{tick:,}", "middle"))
    parts.append(_text(left + _PANEL_W / 2, _TOP + _PANEL_H + 36, title, "middle"))
    for side in ("jvm", "ours"):
        own = sorted((point for point in points if point.side == side), key=x_of)
        for name, colour in _COLOURS.items():
            places = [(x_at(x_of(point)), _y_at(getattr(point, name)), point) for point in own]
            line = " ".join(f"{x:.1f},{y:.1f}" for x, y, _ in places)
            dashes = " stroke-dasharray='6 4'" if side == "jvm" else ""
            parts.append(f"<polyline points='{line}' fill='none' stroke='{colour}' stroke-width='2'{dashes}/>")
            for x, y, point in places:
                told = escape(f"{side}, {_WORDS[name]}: {getattr(point, name):g} s")
                fill = "#fff" if side == "jvm" else colour
                parts.append(
                    f"<circle cx='{x:.1f}' cy='{y:.1f}' r='3.5' fill='{fill}' stroke='{colour}' stroke-width='1.5'>"
                    f"<title>{told}</title></circle>"
                )
    return parts


def _legend(height: int) -> list[str]:
    parts = [_text(_LEFT, 26, "Seconds until a group has settled", "start", bold=True)]
    y = height - 22
    x = float(_LEFT)
    for name, colour in _COLOURS.items():
        parts.append(f"<line x1='{x}' y1='{y - 4}' x2='{x + 26}' y2='{y - 4}' stroke='{colour}' stroke-width='3'/>")
        parts.append(_text(x + 32, y, _WORDS[name], "start"))
        x += 130
    for words, dashes in (("this project", ""), ("Kafka's Scala consumer", " stroke-dasharray='6 4'")):
        parts.append(f"<line x1='{x}' y1='{y - 4}' x2='{x + 30}' y2='{y - 4}' stroke='#444' stroke-width='2'{dashes}/>")
        parts.append(_text(x + 36, y, words, "start"))
        x += 150
    return parts


def _y_at(seconds: float) -> float:
    seconds = min(max(seconds, _LEAST_S), _MOST_S)
    share = (math.log10(seconds) - math.log10(_LEAST_S)) / (math.log10(_MOST_S) - math.log10(_LEAST_S))
    return _TOP + _PANEL_H - share * _PANEL_H


def _text(x: float, y: float, words: str, anchor: str, *, bold: bool = False) -> str:
    weight = " font-weight='bold'" if bold else ""
    return (
        f"<text x='{x:.1f}' y='{y:.1f}' {_FONT} font-size='{13 if bold else 12}'{weight} text-anchor='{anchor}' "
        f"fill='#222'>{escape(words)}</text>"
    )
