"""What a member asks of its own assignors: data for the leader's, and to hear what the member was given."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import replace

from rebalance.assignors.checked import MAX_USER_DATA_BYTES
from rebalance.assignors.seam import Assignor, MemberAssignment, Subscription
from rebalance.coordination.requests import Protocol
from rebalance.errors import AssignorFailedError
from rebalance.led.records import encode_subscription

logger = logging.getLogger(__name__)


class OwnAssignors:
    """Those that the member's configuration names, in their order."""

    def __init__(self, consumer_id: str, assignors: Sequence[Assignor]) -> None:
        self._consumer_id = consumer_id
        self._assignors = tuple(assignors)
        self.complaint: AssignorFailedError | None = None
        """What on_assignment() did when it was called last, if it failed."""

    def offer(self, told: Subscription) -> tuple[Protocol, ...]:
        """What a member tells for each strategy. Raises: AssignorFailedError if one of them cannot say its part."""
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
                logger.exception("%s: has its share all the same: %s", self._consumer_id, self.complaint)


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
    return " ".join(f"its {method} raised {type(error).__name__}: {error}".split())
