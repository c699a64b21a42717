"""Calls a member's own assignors: for the user data, and with the member's share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rebalance.assignors.checked import tell_share, user_data_of
from rebalance.assignors.seam import Assignor, MemberAssignment, Subscription
from rebalance.coordination.requests import Protocol
from rebalance.errors import AssignorFailedError
from rebalance.led.records import encode_subscription
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)


class OwnAssignors:
    """The assignors of the member's configuration, in their order."""

    def __init__(self, consumer_id: str, assignors: Sequence[Assignor]) -> None:
        self._consumer_id = consumer_id
        self._assignors = tuple(assignors)
        self.complaint: AssignorFailedError | None = None
        """The failure of the last call of on_assignment(), if it failed."""

    def offer(self, told: Subscription) -> tuple[Protocol, ...]:
        """Return a member's data for each strategy. Raises: AssignorFailedError if one assignor fails."""
        return tuple(
            Protocol(assignor.name, encode_subscription(replace(told, user_data=user_data_of(assignor, told.topics))))
            for assignor in self._assignors
        )

    def hear(self, strategy: str, given: MemberAssignment, generation: int) -> None:
        """Pass the member's share to its assignor. The member keeps the share even if the assignor fails."""
        self.complaint = None
        for assignor in self._assignors:
            if assignor.name != strategy:
                continue
            try:
                tell_share(assignor, given, generation)
            except AssignorFailedError as error:
                self.complaint = error
                logger.exception(
                    "%s: keeps its share although its assignor failed: %s", self._consumer_id, self.complaint
                )
