"""Measures how busy the machine was with other work during a scene, since that makes a row noisy."""

from __future__ import annotations

import os
import resource
from dataclasses import dataclass
from pathlib import Path

_STAT = Path("/proc/stat")


@dataclass(frozen=True, slots=True)
class Load:
    """Shares of the machine's processor time, 0 to 1. stolen: by the host. others: by processes that are not ours."""

    stolen: float
    others: float


class LoadMeter:
    """Measures from its creation on. A scene's processes count as ours once they have ended and were waited for."""

    def __init__(self) -> None:
        self._began = _look()

    def read(self) -> Load | None:
        """Return the load until now; None except on Linux."""
        now = _look()
        if self._began is None or now is None:
            return None
        total, busy, stolen, own = (after - before for before, after in zip(self._began, now, strict=True))
        if total <= 0:
            return Load(0.0, 0.0)
        return Load(round(stolen / total, 3), round(max(0.0, busy - own) / total, 3))


def _look() -> tuple[float, float, float, float] | None:
    """Return (all, busy, stolen, own) processor seconds since a fixed moment."""
    try:
        first = _STAT.read_text(encoding="ascii").split("\n", 1)[0].split()[1:9]
    except OSError:
        return None
    user, nice, system, idle, waiting, irq, soft_irq, stolen = (int(n) / os.sysconf("SC_CLK_TCK") for n in first)
    busy = user + nice + system + irq + soft_irq
    own = 0.0
    for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN):
        used = resource.getrusage(whose)
        own += used.ru_utime + used.ru_stime
    return busy + idle + waiting + stolen, busy, stolen, own
