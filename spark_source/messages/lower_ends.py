"""Log ends that lie before an offset that the log has reached before: brokers are asked again for a while.

A broker that was killed reports for some seconds after its start the last end that it had noted, and for longer if a
follower does not come back. Messages after this end are not lost, but a range up to it would miss them. From 2.2 on, a
leader that is not sure reports no end at all (KIP-207); then Cluster repeats the request.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import TypeVar

from rebalance.clock import Clock
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)

_AGAIN_S = 0.5

Offsets = Mapping[TopicPartition, int]
Seen = TypeVar("Seen")


def look_until_reached(
    look: Callable[[], tuple[Seen, Offsets, Offsets]], patience_s: float, clock: Clock
) -> tuple[Seen, dict[TopicPartition, int]]:
    """Look repeatedly until each log has reached its known end again, or has not for patience_s.

    look: returns any result, the ends of logs, and the offsets that they are known to have reached.
    Returns: the last result; and for logs that are still too short the lowest end that was reported.
    """
    lower_since: dict[TopicPartition, float] = {}
    lowest: dict[TopicPartition, int] = {}
    while True:
        seen, ends, reached = look()
        lower = {tp: end for tp, end in ends.items() if end < reached.get(tp, end)}
        now = clock.monotonic()
        for tp in lower.keys() - lower_since.keys():
            logger.warning(
                "%s: its log ends at %d, before the wanted %d: asked again for %g s",
                tp,
                lower[tp],
                reached[tp],
                patience_s,
            )
        lower_since = {tp: lower_since.get(tp, now) for tp in lower}
        lowest = {tp: min(end, lowest.get(tp, end)) for tp, end in lower.items()}
        if all(now - since >= patience_s for since in lower_since.values()):
            return seen, lowest
        clock.wait(threading.Event(), _AGAIN_S)
