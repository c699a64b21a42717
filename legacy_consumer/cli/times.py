"""Points in time on the command line."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import click

_DURATION = re.compile(r"(?:(\d+)w)?(?:(\d+)d)?(?:(\d+)h)?(?:(\d+)m(?:in)?)?(?:(\d+)s)?", re.IGNORECASE)
_ISO_DURATION = re.compile(r"P(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+)S)?)?", re.IGNORECASE)


def parse_time_ms(text: str) -> int:
    """An ISO date and time, UTC unless it names another zone, or ms since 1970. Raises: click.BadParameter."""
    if text.isascii() and text.isdigit():
        return int(text)
    try:
        moment = datetime.fromisoformat(re.sub(r"[zZ]$", "+00:00", text.strip()))
    except ValueError as error:
        raise click.BadParameter(
            f"{text!r} is no time: write 2026-11-21T14:30:00, with Z or +01:00 for a zone, or ms since 1970"
        ) from error
    if moment.tzinfo is None:
        moment = moment.replace(tzinfo=timezone.utc)
    return round(moment.timestamp() * 1000)


def parse_duration_s(text: str) -> int:
    """30d, 12h, 1d6h, 90s, or as kafka-consumer-groups has it: P1DT6H. Raises: click.BadParameter."""
    found = _ISO_DURATION.fullmatch(text) if text[:1] in {"P", "p"} else _DURATION.fullmatch(text)
    numbers = [int(number or 0) for number in found.groups()] if found is not None else []
    if not text or not any(numbers):
        raise click.BadParameter(f"{text!r} is no duration: write 30d, 12h, 1d6h or P1DT6H")
    weeks, days, hours, minutes, seconds = numbers
    return int(timedelta(weeks=weeks, days=days, hours=hours, minutes=minutes, seconds=seconds).total_seconds())
