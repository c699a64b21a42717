"""The membership of a stream with claimOwnership: the only member of its group, which owns every partition it reads.

A JVM member that joins meanwhile finds the owner znodes of the stream, gets no partition and logs that. No member
reads beside the stream. The session is that of the stream's connection. If it expires, the stream claims everything
again before it plans the next batch, and ends if another member owns a partition by then.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress

from legacy_consumer.member.consumer_id import make_consumer_id
from rebalance.clock import SystemClock
from rebalance.errors import PartitionOwnedError
from rebalance.ownership import Ownership
from rebalance.registrar import Registrar
from spark_source.errors import LiveGroupError, OwnershipLostError
from zk_layout.errors import (
    ConnectionLostError,
    ConnectTimeoutError,
    LegacyConsumerError,
    NoNodeError,
    SessionExpiredError,
)
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, SubscriptionPattern, TopicPartition
from zk_layout.paths import ConsumerIdsPath, OwnerPath
from zk_layout.store import WatchEvent, ZkStore

logger = safe_logger(__name__)

_TRIES = 3
"""The tries to claim all partitions, while sessions expire one after the other."""


def refuse_members(store: ZkStore, group: str, but: str | None = None) -> None:
    """Refuse a group with registered members other than `but`. Raises: LiveGroupError, ZooKeeperError."""
    try:
        members = store.get_children(ConsumerIdsPath(group).path)
    except NoNodeError:
        return
    others = tuple(member for member in members if member != but)
    if others:
        raise LiveGroupError(group, others)


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
        """Be registered and own these partitions, and no others; without changes it costs few requests.

        Partitions that were lost with an expired session are claimed again. Raises: LiveGroupError if the group has
        other members, OwnershipLostError if one owns a partition; SessionExpiredError while an earlier session of this
        stream still lives, or if the new one expires; other ZooKeeperErrors.
        """
        for tries_left in reversed(range(_TRIES)):
            try:
                self._hold(partitions)
            except SessionExpiredError:
                self._session_id = 0
                if not tries_left:
                    raise
            else:
                return

    def _hold(self, partitions: Collection[TopicPartition]) -> None:
        registrar = self._registrar({tp.topic for tp in partitions})
        if self._store.session_id != self._session_id:
            self._register(registrar)
        else:
            self._stay_registered(registrar)
        wanted = set(partitions)
        lost = self._ownership.lost()
        if lost:
            logger.warning("group %s: owner znodes of %d partitions were deleted", self._group, len(lost))
        self._ownership.release(self._ownership.owned.keys() - wanted)
        thread = ConsumerThreadId(self.consumer_id, 0)
        try:
            self._ownership.claim(dict.fromkeys(wanted - self._ownership.owned.keys(), thread), lambda: None)
        except PartitionOwnedError as error:
            if set(error.owners.values()) == {str(thread)} and self._end_with_a_session(error.owners):
                raise self._not_over_yet() from error
            self.release()
            raise OwnershipLostError(self._group, dict(error.owners)) from error

    def _end_with_a_session(self, partitions: Collection[TopicPartition]) -> bool:
        """Return whether the owner znodes are ephemeral; a restored copy of ZooKeeper's data may hold others."""
        stats = self._store.exists_many([OwnerPath(self._group, *tp).path for tp in partitions])
        return all(stat is None or stat.ephemeral_owner for stat in stats)

    def _not_over_yet(self) -> SessionExpiredError:
        return SessionExpiredError(f"an earlier session of {self.consumer_id} is not over yet")

    def release(self) -> None:
        """Release all partitions and leave the group; twice is harmless.

        Without ZooKeeper the end of the session does it.
        """
        if not self._session_id:
            return
        self._session_id = 0
        try:
            self._ownership.leave()
        except (ConnectionLostError, ConnectTimeoutError, SessionExpiredError) as error:
            logger.warning(
                "group %s: not released; the owner znodes stay until the session ends: %s", self._group, error
            )

    @property
    def session_id(self) -> int:
        """The session of the registration."""
        return self._session_id

    def _registrar(self, topics: Collection[str]) -> Registrar:
        subscription = tuple((topic, 1) for topic in sorted(topics))
        registration = ConsumerRegistration(SubscriptionPattern.STATIC, subscription, self._now_ms)
        return Registrar(self._store, self._group, self.consumer_id, registration)

    def _stay_registered(self, registrar: Registrar) -> None:
        """Write the present topics into the registration, and create it again if another client deleted or replaced it.

        Without it no commit succeeds, and `groups verify` reports partitions of other topics as wrongly owned. One that
        another client made stays when this session ends, and the next query would find the group taken.
        """
        [znode] = self._store.get_data_many([registrar.path])
        if znode is not None and znode.stat.ephemeral_owner != self._session_id:
            with suppress(NoNodeError):
                self._store.delete(registrar.path)
            znode = None
        if znode is None:
            logger.warning(
                "group %s: another client deleted or replaced %s, I register again", self._group, registrar.path
            )
            registrar.register(self._session_id, _ignore)
        elif znode.data != registrar.data:
            self._store.set_data(registrar.path, registrar.data)

    def _register(self, registrar: Registrar) -> None:
        refuse_members(self._store, self._group, self.consumer_id)
        session_id = self._store.session_id
        if not registrar.register(session_id, _ignore):
            raise self._not_over_yet()
        self._ownership.begin_session(session_id)
        self._session_id = session_id
        try:
            # if two streams register at once, each sees the other here, and both leave
            refuse_members(self._store, self._group, self.consumer_id)
        except LegacyConsumerError:
            self.release()
            raise
        logger.info("group %s: registered as %s", self._group, self.consumer_id)


def _ignore(_: WatchEvent) -> None:
    """Ignore watches: the stream reads the znodes of its earlier session again before the next batch."""
