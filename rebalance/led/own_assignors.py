"""Calls a member's own assignors: for the user data, and with the member's share."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from rebalance.assignors.checked import MAX_USER_DATA_BYTES
from rebalance.assignors.seam import Assignor, MemberAssignment, Subscription
from rebalance.coordination.requests import Protocol
from rebalance.errors import AssignorFailedError
from rebalance.led.records import encode_subscription
from zk_layout.shown import in_one_line

logger = logging.getLogger(__name__)


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
            Protocol(assignor.name, encode_subscription(replace(told, user_data=_user_data(assignor, told.topics))))
            for assignor in self._assignors
        )

    def hear(self, strategy: str, given: MemberAssignment, generation: int) -> None:
        """Tell the assignor what its member was given. The member has its share also if the assignor fails."""
        self.complaint = None
        for assignor in self._assignors:
            if assignor.name != strategy:
                continue
            try:
                assignor.on_assignment(given, generation)
            except BaseException as error:
                self.complaint = AssignorFailedError(strategy, _raised("on_assignment", error))
                logger.exception(
                    "%s: keeps its share although its assignor failed: %s", self._consumer_id, self.complaint
                )


def _user_data(assignor: Assignor, topics: Sequence[str]) -> bytes:
    try:
        data: object = assignor.subscription_user_data(topics)
    except BaseException as error:
        raise AssignorFailedError(assignor.name, _raised("subscription_user_data", error)) from error
    if not isinstance(data, bytes):
        what = f"its subscription_user_data returned {type(data).__name__} and not bytes"
        raise AssignorFailedError(assignor.name, what)
    if len(data) > MAX_USER_DATA_BYTES:
        what = f"its subscription_user_data returned {len(data)} bytes, {MAX_USER_DATA_BYTES} are allowed"
        raise AssignorFailedError(assignor.name, what)
    return data


def _raised(method: str, error: BaseException) -> str:
    return f"its {method} raised {in_one_line(error)}"
