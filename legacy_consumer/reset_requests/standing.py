"""What of a reset stands in ZooKeeper: for tools that tell why a group hands out nothing."""

from __future__ import annotations

from dataclasses import dataclass

from legacy_consumer.reset_requests.records import RequestState, decode_request, request_path
from zk_layout.errors import MalformedZnodeError, NoNodeError
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore


@dataclass(frozen=True, slots=True)
class StandingReset:
    """A request for a reset that is there now.

    holds: the partitions that the members hand nothing out of because of it. heeded: False if it is not of a command
    that runs, or is unreadable: then somebody left it, and it only keeps others from resetting. since_ms: since 1970.
    """

    path: str
    holds: frozenset[TopicPartition]
    heeded: bool
    since_ms: int


def standing_reset(store: ZkStore, group: str) -> StandingReset | None:
    """The group's request, None if there is none. Raises: ZooKeeperError."""
    path = request_path(group)
    try:
        znode = store.get_data(path)
    except NoNodeError:
        return None
    since_ms = znode.stat.ctime_ms
    try:
        request = decode_request(path, znode.data)
    except MalformedZnodeError:
        return StandingReset(path, frozenset(), False, since_ms)
    heeded = znode.stat.ephemeral_owner != 0
    holding = heeded and request.state is RequestState.PREPARE
    return StandingReset(path, request.partitions if holding else frozenset(), heeded, since_ms)
