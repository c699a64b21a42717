"""Registers the member: creates its ephemeral id znode, or finds the session that holds an existing one."""

from __future__ import annotations

from zk_layout.codecs import encode_registration
from zk_layout.errors import MultiFailedError, NodeExistsError, NoNodeError
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerRegistration, SubscriptionPattern
from zk_layout.paths import ConsumerIdPath
from zk_layout.store import Acl, CreateOp, DeleteOp, Watcher, ZkStore

logger = safe_logger(__name__)


class Registrar:
    """The id znode of one member of one group."""

    def __init__(self, store: ZkStore, group: str, consumer_id: str, registration: ConsumerRegistration) -> None:
        self._store = store
        self.group = group
        self.consumer_id = consumer_id
        self.path = ConsumerIdPath(group, consumer_id).path
        self.data = encode_registration(registration)
        """The data of the id znode."""
        is_static = registration.pattern is SubscriptionPattern.STATIC
        self.named = frozenset(topic for topic, _ in registration.subscription if is_static)
        """The topics that the member subscribes to by name."""
        self.in_the_way: int | None = None
        """The session that held the id when this was logged last; 0: a znode without a session; None: not logged."""

    def register(self, session_id: int, watcher: Watcher) -> bool:
        """Create the id znode; True if it exists under session_id, False if another session holds it.

        In the latter case its deletion is watched, since ZooKeeper deletes the id of my own expired session. One call
        creates the znode with its data, so no member ever reads an empty registration.
        Source: Scala consumer 0.9 to 1.1.1, registerConsumerInZK with ZKCheckedEphemeral: open ACL always.
        """
        for attempt in range(3):
            try:
                self._store.create(self.path, self.data, ephemeral=True, make_parents=True, acl=Acl.OPEN)
            except NodeExistsError:
                pass
            except NoNodeError:
                # an operator deleted the group after its directories were made, or the chroot is gone
                if attempt == 2:
                    raise
                continue
            else:
                self.in_the_way = None
                return True
            stat = self._store.exists(self.path, watcher)
            if stat is None:
                continue
            if stat.ephemeral_owner == session_id:
                # a create whose reply was lost
                self.in_the_way = None
                return True
            # log once, not with every try
            if self.in_the_way != stat.ephemeral_owner:
                self.in_the_way = stat.ephemeral_owner
                if stat.ephemeral_owner:
                    logger.warning("%s is held by session 0x%x, waiting for its end", self.path, stat.ephemeral_owner)
                else:
                    logger.warning(
                        "%s is not ephemeral: I wait until another client deletes it, for no session ends it", self.path
                    )
            return False
        return False

    def mend(self, session_id: int) -> None:
        """Register anew in one request if another client overwrote the registration, which any client may do.

        Members that read the registration before assign by the old data, later readers by the new data, and neither
        would give way. The new znode makes all of them read it again. Raises: ZooKeeper's errors.
        """
        try:
            znode = self._store.get_data(self.path)
        except NoNodeError:
            return  # the list of members shows that it is gone
        if znode.data == self.data or znode.stat.ephemeral_owner != session_id:
            return
        try:
            self._store.multi(
                [
                    DeleteOp(self.path, znode.stat.version),
                    CreateOp(self.path, self.data, ephemeral=True, acl=Acl.OPEN),
                ],
                session_id=session_id,
            )
        except MultiFailedError as error:
            raise error.cause from error
        logger.warning("%s: another client overwrote my registration, I have registered again", self.consumer_id)
