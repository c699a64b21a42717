"""Calls the leader's assignor, and keeps the group's shares if the assignor fails."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rebalance.assignors.checked import divide_group, keep_shares
from rebalance.assignors.seam import Assignor, Cluster, GroupAssignment, RebalanceProtocol, Subscription
from rebalance.errors import AssignorFailedError
from rebalance.led.records import decode_subscription
from zk_layout.errors import MalformedZnodeError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)

MAX_USER_DATA_BYTES = 400_000
"""The most bytes of user data of all members in one generation, which stores them in one znode, in base64."""


def divide(
    name: str,
    assignor: Assignor | None,
    strategy: str,
    told: Mapping[str, bytes],
    cluster: Cluster,
    previous: Mapping[str, Sequence[TopicPartition]],
) -> GroupAssignment:
    """Return the share of each member; its previous share if the assignor fails.

    name: the leader's consumer id. assignor: the leader's own for that strategy; None if it has none.
    told: {member: metadata}. previous: {member: partitions} of the last generation.
    """
    subscriptions: dict[str, Subscription] = {}
    for member, metadata in told.items():
        try:
            subscriptions[member] = decode_subscription(metadata)
        except MalformedZnodeError as error:
            logger.warning("%s: member %s gets no partitions: %s", name, member, error)
            subscriptions[member] = Subscription(())
    protocol = RebalanceProtocol.COOPERATIVE
    if assignor is not None and protocol not in assignor.protocols:
        protocol = RebalanceProtocol.EAGER
    try:
        if assignor is None:
            raise AssignorFailedError(strategy, "the member that leads does not have it")
        given = divide_group(assignor, protocol, cluster, subscriptions)
        size = sum(len(share.user_data) for share in given.values())
        if size > MAX_USER_DATA_BYTES:
            raise AssignorFailedError(
                strategy, f"its user data for all members are {size} bytes, {MAX_USER_DATA_BYTES} are allowed"
            )
    except AssignorFailedError as error:
        logger.warning("%s: all members keep their shares: %s", name, error)
        return keep_shares(protocol, cluster, subscriptions, previous)
    return given
