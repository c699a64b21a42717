"""The core's state of one assigned partition."""

from __future__ import annotations

from dataclasses import dataclass

from legacy_consumer.fetching.columnar.core.address import BrokerAddress


@dataclass(slots=True, eq=False)
class Partition:
    """life: changes when the user's code or an error moves the position; responses to an earlier life do not count.

    position: the next offset to ask the broker for; while is_placed is False the search begins with it. leader: the
    broker to ask; None during the search for it. larger_bytes: the size of a waiting batch that is larger than the
    fetch size; else 0. failures: errors since the broker's last answer without one. not_before: no request before this
    time.
    """

    life: int
    position: int
    is_placed: bool
    leader: BrokerAddress | None = None
    larger_bytes: int = 0
    failures: int = 0
    not_before: float = float("-inf")
