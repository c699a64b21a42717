"""The dialects of round-robin, values of partition.assignment.dialect; see assignors/roundrobin.py."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias, get_args

Dialect: TypeAlias = Literal["0.8.2", "0.10.2", "1.0"]
DIALECTS: tuple[Dialect, ...] = get_args(Dialect)
"""The newest last: it is the default."""
LAST_VERSIONS: Mapping[Dialect, str] = {"0.8.2": "0.10.1", "0.10.2": "0.11", "1.0": "1.1.1"}
"""The last Kafka whose members use the dialect."""
