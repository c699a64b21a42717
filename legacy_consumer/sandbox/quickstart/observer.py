"""The group seen from outside, all of it from ZooKeeper: members, owners and committed offsets."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from legacy_consumer.sandbox.quickstart.flights import PARTITIONS, TOPIC
from legacy_consumer.sandbox.quickstart.group import GROUP
from rebalance.assignors.range import range_assign
from rebalance.snapshot import GroupSnapshot
from zk_layout.codecs import decode_offset, decode_owner
from zk_layout.errors import NoNodeError
from zk_layout.model import ConsumerRegistration, SubscriptionPattern
from zk_layout.paths import ConsumerIdsPath, OffsetPath, OwnerPath
from zk_layout.store import ZkStore

_ALL = range(PARTITIONS)
_IDS = ConsumerIdsPath(GROUP).path
_OWNERS = [OwnerPath(GROUP, TOPIC, number).path for number in _ALL]
_OFFSETS = [OffsetPath(GROUP, TOPIC, number).path for number in _ALL]
_PREFIX = f"{GROUP}_"


@dataclass(frozen=True, slots=True)
class Sight:
    """One look at the group; at: seconds of the monotonic clock.

    members: by name, sorted. owners: {partition: member}, of owned partitions. committed: {partition: offset}.
    """

    at: float
    members: tuple[str, ...] = ()
    owners: Mapping[int, str] = field(default_factory=dict)
    committed: Mapping[int, int] = field(default_factory=dict)


def look(store: ZkStore) -> Sight:
    """Read the group in two requests. Raises: ZooKeeperError, MalformedZnodeError."""
    try:
        ids = store.get_children(_IDS)
    except NoNodeError:
        ids = ()
    znodes = store.get_data_many(_OWNERS + _OFFSETS)
    owners = {
        number: decode_owner(path, znode.data).consumer_id.removeprefix(_PREFIX)
        for number, path, znode in zip(_ALL, _OWNERS, znodes, strict=False)
        if znode is not None
    }
    committed = {
        number: decode_offset(path, znode.data)
        for number, path, znode in zip(_ALL, _OFFSETS, znodes[PARTITIONS:], strict=True)
        if znode is not None
    }
    return Sight(time.monotonic(), tuple(sorted(name.removeprefix(_PREFIX) for name in ids)), owners, committed)


def expected_owners(members: Collection[str]) -> dict[int, str]:
    """Return the assignment of the range assignor for these members."""
    registration = ConsumerRegistration(SubscriptionPattern.STATIC, ((TOPIC, 1),), 0)
    group = GroupSnapshot(GROUP, dict.fromkeys(sorted(members), registration), {TOPIC: tuple(_ALL)})
    return {tp.partition: thread.consumer_id for tp, thread in range_assign(group).items()}
