"""Makes consumer ids in the form of a JVM member's id."""

from __future__ import annotations

import socket
import uuid

from rebalance.clock import Clock


def make_consumer_id(group: str, configured: str | None, clock: Clock) -> str:
    """Return `<group>_<host>-<ms since 1970>-<8 hex digits>`; consumer.id, if set, is the part after the underscore.

    Source: Scala consumer, ZookeeperConsumerConnector: the first eight digits of a random UUID's high half.
    """
    if configured is None:
        configured = f"{socket.gethostname()}-{clock.wall_ms()}-{uuid.uuid4().hex[:8]}"
    return f"{group}_{configured}"
