"""Log lines about brokers whose registrations cannot be read; any client may create thousands of them."""

from __future__ import annotations

from collections.abc import Sequence

from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

_SHOWN = 5


def warn_of_left_out(reasons: Sequence[str]) -> None:
    """Log a line for each of the first reasons, and one with the number of the others."""
    for reason in reasons[:_SHOWN]:
        logger.warning("a broker is left out: %s", reason)
    if len(reasons) > _SHOWN:
        logger.warning("%d more brokers are left out", len(reasons) - _SHOWN)
