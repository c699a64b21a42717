"""Points in time on the command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import click

_DURATION = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+)s)?", re.IGNORECASE | re.ASCII)
_ISO_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE | re.ASCII)
_FIRST_MS, _LAST_MS = 1_293_840_000_000, 4_102_444_800_000
"""2011, the year of the first Kafka, to 2100: a number outside does not count milliseconds since 1970."""
_LONGEST = timedelta(days=36_500)
_FORMS = "write 2026-11-21T14:30:00, with Z or +01:00 for a zone, or ms since 1970"


class FiniteRange(click.FloatRange):
    """Numbers from min on, up to the most seconds that a thread can wait; nan and inf are refused."""

    def convert(self, value: float, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Convert and check the value. Raises: click.BadParameter."""
        number = float(super().convert(value, param, ctx))
        longest = _LONGEST.total_seconds()
        if not number <= longest:
            self.fail(f"{value} is not a number up to {longest:.0f}", param, ctx)
        return number


def parse_time_ms(text: str) -> int:
    """Parse an ISO date and time, UTC unless it names another zone, or ms since 1970. Raises: click.BadParameter."""
    if text.isascii() and text.isdigit():
        return _milliseconds(text)
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except ValueError as error:
        raise click.BadParameter(f"{text!r} is no time: {_FORMS}") from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    time_ms = (moment - datetime(1970, 1, 1, tzinfo=timezone.utc)) // timedelta(milliseconds=1)
    if time_ms < 0:
        raise click.BadParameter(f"{text!r} is before 1970, when the time of messages begins")
    if time_ms > _LAST_MS:
        raise click.BadParameter(f"{text!r} is after 2100: {_FORMS}")
    return time_ms


def shown_time(time_ms: int) -> str:
    """Return the time as 2026-11-21 14:30:00.000 UTC."""
    moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=time_ms)
    return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond // 1000:03} UTC"


def parse_duration_s(text: str) -> int:
    """Parse 30d, 12h, 1d6h or 90s, or P1DT6H as kafka-consumer-groups takes it. Raises: click.BadParameter."""
    found = _ISO_DURATION.fullmatch(text) if text[:1] in {"P", "p"} else _DURATION.fullmatch(text)
    if found is None or not any((number or "0").strip("0") for number in found.groups()):
        raise click.BadParameter(f"{text!r} is no duration: write 30d, 12h, 1d6h or P1DT6H")
    try:
        weeks, days, hours, minutes, seconds = (int(number or 0) for number in found.groups())
        duration = timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds)
    except (OverflowError, ValueError):
        duration = timedelta.max
    if duration > _LONGEST:
        raise click.BadParameter(f"{text[:40]!r} is longer than {_LONGEST.days} days, longer than there has been Kafka")
    return int(duration.total_seconds())


def _milliseconds(text: str) -> int:
    if len(text) <= len(str(_LAST_MS)) and _FIRST_MS <= int(text) <= _LAST_MS:
        return int(text)
    meant = _probably_meant(text)
    advice = _FORMS if meant is None else f"{meant}, if that was meant"
    raise click.BadParameter(f"{text[:40]!r} as ms since 1970 is no time at which there was a Kafka: {advice}")


def _probably_meant(text: str) -> str | None:
    """Return the right form of a number that is a date, or counts seconds, micro- or nanoseconds since 1970."""
    for form, shown in (("%Y%m%d", "%Y-%m-%d"), ("%Y%m%d%H%M%S", "%Y-%m-%dT%H:%M:%S")):
        try:
            moment = datetime.strptime(text, form).replace(tzinfo=timezone.utc)
        except ValueError:
            continue
        if len(text) == len(f"{moment:{form}}") and _FIRST_MS <= moment.timestamp() * 1000 <= _LAST_MS:
            return f"write {moment:{shown}} for the date"
    for digits, unit, time_ms in (
        (10, "seconds", int(text[:10]) * 1000),
        (16, "microseconds", int(text[:16]) // 1000),
        (19, "nanoseconds", int(text[:19]) // 1_000_000),
    ):
        if len(text) == digits and _FIRST_MS <= time_ms <= _LAST_MS:
            return f"write {time_ms} for these {unit}, {shown_time(time_ms)}"
    return None
