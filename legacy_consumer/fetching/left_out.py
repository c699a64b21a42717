"""What the log says of brokers whose registrations cannot be read: anybody writes thousands of them."""

from __future__ import annotations

from collections.abc import Sequence

from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

_SHOWN = 5


def warn_of_left_out(reasons: Sequence[str]) -> None:
    """A line for each of the first, and one for how many more there are."""
    for reason in reasons[:_SHOWN]:
        logger.warning("a broker is left out: %s", reason)
    if len(reasons) > _SHOWN:
        logger.warning("%d more brokers are left out", len(reasons) - _SHOWN)
