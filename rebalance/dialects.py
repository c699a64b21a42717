"""The dialects of round-robin, values of partition.assignment.dialect; see assignors/roundrobin.py."""

from __future__ import annotations

from typing import Literal, TypeAlias, get_args

Dialect: TypeAlias = Literal["0.8.2", "0.10.2", "1.0"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
"""The newest last: it is the default."""
