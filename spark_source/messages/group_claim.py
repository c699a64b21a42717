"""Membership of a stream that wants its group for itself: one member, which owns every partition that is read.

A member of the JVM that comes meanwhile finds the owner znodes in its way, gets nothing and says so; nobody reads
beside the stream. The session is that of the stream's connection; should it expire, everything is claimed again before
the next batch is planned, and the stream ends if somebody else has it by then.
"""

from __future__ import annotations

import logging
from collections.abc import Collection

from legacy_consumer.consumer_id import make_consumer_id
from rebalance.clock import SystemClock
from rebalance.errors import PartitionOwnedError
from rebalance.ownership import Ownership
from rebalance.registrar import Registrar
from spark_source.errors import LiveGroupError, OwnershipLostError
from zk_layout.errors import LegacyConsumerError, NoNodeError, SessionExpiredError
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, SubscriptionPattern, TopicPartition
from zk_layout.paths import ConsumerIdsPath
from zk_layout.store import WatchEvent, ZkStore

logger = logging.getLogger(__name__)


def living_members(store: ZkStore, group: str) -> tuple[str, ...]:
    """The registered members. Raises: ZooKeeperError."""
    try:
        return store.get_children(ConsumerIdsPath(group).path)
    except NoNodeError:
        return ()


class GroupClaim:
    """The stream as the only member of its group. Used by one thread."""

    def __init__(self, store: ZkStore, group: str, consumer_id: str | None = None) -> None:
        clock = SystemClock()
        self._store = store
        self._group = group
        self.consumer_id = make_consumer_id(group, consumer_id, clock)
        self._now_ms = clock.wall_ms()
        self._ownership = Ownership(store, group, self.consumer_id)
        self._session_id = 0

    def hold(self, partitions: Collection[TopicPartition]) -> None:
        """Be registered and own all of these, and no others; cheap when nothing changed.

        Raises: LiveGroupError if the group has other members, OwnershipLostError if one owns a partition;
        ZooKeeperError.
        """
        topics = sorted({tp.topic for tp in partitions})
        if self._store.session_id != self._session_id:
            self._register(topics)
        wanted = set(partitions)
        lost = self._ownership.lost()
        if lost:
            logger.warning("group %s: owner znodes of %d partitions are gone", self._group, len(lost))
        self._ownership.release(self._ownership.owned.keys() - wanted)
        thread = ConsumerThreadId(self.consumer_id, 0)
        try:
            self._ownership.claim(dict.fromkeys(sorted(wanted - self._ownership.owned.keys()), thread))
        except PartitionOwnedError as error:
            self.release()
            raise OwnershipLostError(self._group, dict(error.owners)) from error
        except SessionExpiredError:
            self._session_id = 0
            raise

    def release(self) -> None:
        """Own nothing and leave the group; twice is harmless."""
        if self._session_id:
            self._ownership.leave()
            self._session_id = 0

    @property
    def session_id(self) -> int:
        """The session that registered."""
        return self._session_id

    def _register(self, topics: Collection[str]) -> None:
        registration = ConsumerRegistration(
            SubscriptionPattern.STATIC, tuple((topic, 1) for topic in topics), self._now_ms
        )
        self._refuse_others()
        session_id = self._store.session_id
        registrar = Registrar(self._store, self._group, self.consumer_id, registration)
        if not registrar.register(session_id, _ignore):
            raise OwnershipLostError(self._group, {})
        self._ownership.begin_session(session_id)
        self._session_id = session_id
        try:
            # two that came at once see each other here, and both step back
            self._refuse_others()
        except LegacyConsumerError:
            self.release()
            raise
        logger.info("group %s: registered as %s", self._group, self.consumer_id)

    def _refuse_others(self) -> None:
        others = tuple(member for member in living_members(self._store, self._group) if member != self.consumer_id)
        if others:
            raise LiveGroupError(self._group, others)


def _ignore(_: WatchEvent) -> None:
    """An own registration of a dead session is waited out by nobody: the id is made anew with each query."""
