"""Reads a group into a GroupSnapshot, and watches what it read in the same call.

The reader reads little. A registration does not change while its id lives, so each is read once. There are two
exceptions. The reader watches a registration that is unreadable or was overwritten, because kafka-node creates its
znode empty and fills it in later. And it reads all registrations again when the list of ids had more changes than two
lists show, because a member may have come back under its id with another registration. The list of ids, the list of
topics and the data of each topic are read again only after their watch fired. So a rebalance after one join reads the
children of `ids` and one registration. If no watch fired, the reader reads nothing and returns the same snapshot.

Only topics with a subscribed member are read: round-robin divides all of them together.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass

from rebalance.assignors.java_hash import java_sorted
from rebalance.group_warnings import member_warnings
from rebalance.member_kinds import MemberKind, registration_kind
from rebalance.snapshot import GroupSnapshot
from rebalance.subscription import is_wildcard, subscribed_topics, unreadable_reason
from zk_layout.closed_znodes import read_each
from zk_layout.codecs import decode_registration, decode_topic
from zk_layout.errors import MalformedZnodeError, NoNodeError, NotPermittedError
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerRegistration, TopicPartition
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath, OwnerPath, TopicPath, TopicsPath
from zk_layout.store import Children, WatchEvent, ZkStore

logger = safe_logger(__name__)

_TOPICS = TopicsPath().path
_CHANGES_WRAP = 1 << 32


@dataclass(frozen=True, slots=True)
class _Member:
    """The content of an id znode when it was read.

    registration: None if it is unreadable or no member could assign by it; reason says why. holder: the session that
    owns the znode, None if an ACL hides it. is_overwritten: its own client, or another one, has written it again since
    its creation.
    """

    data: bytes | None
    kind: MemberKind
    registration: ConsumerRegistration | None
    reason: str | None
    holder: int | None
    is_overwritten: bool


@dataclass(frozen=True, slots=True)
class _Topic:
    """A topic as it was read. partitions: empty if it does not exist. created: the zxid of its creation, or None."""

    partitions: tuple[int, ...]
    created: int | None


class GroupReader:
    """One member's knowledge of its group. Used by the coordinator's thread alone, except for the watch callbacks."""

    def __init__(
        self,
        store: ZkStore,
        group: str,
        *,
        exclude_internal_topics: bool,
        on_change: Callable[[WatchEvent], None] | None,
    ) -> None:
        """on_change is called on a thread of the store and must only enqueue; give the event to notice() later.

        None: read once, without watches, and log no warnings.
        """
        self._store = store
        self._group = group
        self._exclude_internal_topics = exclude_internal_topics
        self._on_change = on_change
        self._ids_path = ConsumerIdsPath(group).path
        self._warned: dict[str, str] = {}
        self.lists_read = 0
        """How often the list of members was read."""
        self.forget()

    def forget(self) -> None:
        """Read everything again next time: watches may have been missed."""
        self._members: dict[str, _Member] = {}
        self._ids: tuple[str, ...] | None = None
        self._listed: Children | None = None
        self._cluster_topics: tuple[str, ...] | None = None
        self._topics: dict[str, _Topic] = {}
        self._snapshot: GroupSnapshot | None = None

    def knows(self, topics: Collection[str]) -> bool:
        """Return whether these topics were read and no change of them is known since."""
        return self._topics.keys() >= set(topics)

    def forget_members(self, name: str | None = None) -> None:
        """Read the list of members again next time, and the registration of the named one, which may have changed."""
        if name is not None:
            self._forget_member(name)
        self._ids = None
        self._snapshot = None

    def notice(self, event: WatchEvent) -> str:
        """Handle a fired watch: mark its znode to be read again. Returns a description of the change."""
        self._snapshot = None
        if event.path == self._ids_path:
            self.forget_members()
            return "members changed"
        if event.path == _TOPICS:
            self._cluster_topics = None
            return "topics came or went"
        parent, _, topic = event.path.rpartition("/")
        if parent == self._ids_path:
            self.forget_members(topic)
            return f"registration of {topic} changed"
        self._topics.pop(topic, None)
        return f"topic {topic} changed"

    def read(self) -> GroupSnapshot:
        """Return the group as it is now; the same object as before if nothing changed.

        Raises: ZooKeeperError.
        """
        if self.has_hidden:
            # a change of an ACL fires no watch
            self.forget_members()
        if self._snapshot is None:
            self._read_members()
            topics = self._read_topics()
            self._read_partitions(topics)
            self._snapshot = self._frozen(sorted(topics))
            self._warn(self._snapshot)
        return self._snapshot

    def _frozen(self, topics: Sequence[str]) -> GroupSnapshot:
        known = {topic: self._topics[topic] for topic in topics}
        readable = {name: one.registration for name, one in self._members.items() if one.registration is not None}
        return GroupSnapshot(
            group=self._group,
            members={name: readable[name] for name in java_sorted(readable)},
            # without topics that do not exist, which no topic filter may match
            partitions={topic: one.partitions for topic, one in known.items() if one.partitions},
            unreadable={name: one.reason for name, one in self._members.items() if one.reason is not None},
            exclude_internal_topics=self._exclude_internal_topics,
            kinds={name: one.kind for name, one in self._members.items()},
            created={topic: one.created for topic, one in known.items() if one.created is not None},
        )

    def created(self, topics: Collection[str], changed: Collection[str] = ()) -> dict[str, int | None]:
        """Return {topic: the transaction that created it, None if it does not exist}.

        changed: the paths of watch events that notice() has not got yet.
        """
        for topic in topics:
            if TopicPath(topic).path in changed:
                self._topics.pop(topic, None)
        self._read_partitions(set(topics))
        return {topic: self._topics[topic].created for topic in topics}

    @property
    def has_hidden(self) -> bool:
        """Whether an ACL hid the registration of a member of the list."""
        return any(one.holder is None for one in self._members.values())

    def holder_of(self, name: str) -> int | None:
        """The session of a member's id znode when it was read; 0 if there was none, or if it is not ephemeral.

        None if an ACL forbids to read it.
        """
        member = self._members.get(name)
        return 0 if member is None else member.holder

    def has_read(self, name: str) -> bool:
        """Whether the list showed this member, readable or not."""
        return name in self._members

    def data_of(self, name: str) -> bytes | None:
        """Return the data of a member's id znode when it was read."""
        member = self._members.get(name)
        return None if member is None else member.data

    def _read_members(self) -> None:
        if self._ids is not None:
            return
        try:
            listed = self._store.list_children(self._ids_path, self._on_change)
        except NoNodeError:
            # no member has ever joined; the watch is set at the first reading after I have joined
            listed = None
        self.lists_read += 1
        ids = () if listed is None else listed.names
        for gone in self._members.keys() - set(ids):
            self._forget_member(gone)
        # if not, a member may have come back under its id, or another client may have replaced my znode
        shows_all = _shows_all_changes(self._listed, listed)
        self._read_registrations([name for name in ids if name not in self._members or not shows_all])
        if self._on_change is not None:
            # read again, now with a watch, so that no change is missed; unless the group is broken, they are few
            changing = {name for name, one in self._members.items() if one.reason is not None or one.is_overwritten}
            self._read_registrations([name for name in ids if name in changing], self._on_change)
        self._ids = ids
        self._listed = listed

    def _read_registrations(self, names: list[str], watcher: Callable[[WatchEvent], None] | None = None) -> None:
        paths = [ConsumerIdPath(self._group, name).path for name in names]
        for name, path, znode in zip(names, paths, read_each(self._store, paths, watcher), strict=True):
            before = self._members.get(name)
            if isinstance(znode, NotPermittedError):
                self._members[name] = _Member(None, MemberKind.UNKNOWN, None, str(znode), None, is_overwritten=False)
                continue
            if znode is None:
                # the member left between the list and the read: the watch on the list fires
                self._forget_member(name)
                continue
            if before is not None and before.data == znode.data:
                registration, reason, kind = before.registration, before.reason, before.kind
            else:
                registration, reason, kind = _understand(name, path, znode.data)
                if reason is None or before is None or before.reason != reason:
                    self._warned.pop(name, None)
            holder, is_overwritten = znode.stat.ephemeral_owner, znode.stat.version > 0
            self._members[name] = _Member(znode.data, kind, registration, reason, holder, is_overwritten)

    def _forget_member(self, name: str) -> None:
        self._members.pop(name, None)
        self._warned.pop(name, None)

    def _warn(self, group: GroupSnapshot) -> None:
        """Log once about each member that is unreadable or has faults."""
        if self._on_change is None:
            return
        odd: dict[str, str] = {}
        for name, reason in group.unreadable.items():
            odd[name] = f"leaves out member {name} ({group.kinds[name].value}), which is unreadable: {reason}"
        for name in group.members:
            if name not in self._warned:
                odd[name] = "; ".join(warning.text for warning in member_warnings(group, name))
        for name, text in odd.items():
            if text and self._warned.get(name) != text:
                logger.warning("group %s: %s", self._group, text)
        self._warned |= odd

    def _read_topics(self) -> set[str]:
        """Return the topics to which a member subscribes; a topic filter is tried on all topics of the cluster."""
        named: set[str] = set()
        wildcards: list[ConsumerRegistration] = []
        # a group of many members has few different subscriptions
        known = [one.registration for one in self._members.values() if one.registration is not None]
        for pattern, subscription in {(one.pattern, one.subscription) for one in known}:
            registration = ConsumerRegistration(pattern, subscription, 0)
            if is_wildcard(registration):
                wildcards.append(registration)
            else:
                named.update([topic for topic, _ in subscription])
        # a topic of any other name cannot exist, and ZooKeeper would refuse its path
        static = {topic for topic in named if topic and "/" not in topic and topic not in {".", ".."}}
        if not wildcards:
            return static
        if self._cluster_topics is None:
            self._cluster_topics = self._list_topics()
        matched = {
            topic
            for registration in wildcards
            for topic in subscribed_topics(
                registration, self._cluster_topics, exclude_internal_topics=self._exclude_internal_topics
            )
        }
        return static | matched

    def _list_topics(self) -> tuple[str, ...]:
        try:
            return self._store.get_children(_TOPICS, self._on_change)
        except NoNodeError:
            # no broker has ever started here; the member waits for the creation of this znode
            if self._store.exists(_TOPICS, self._on_change) is None:
                return ()
        # created between the two requests
        return self._store.get_children(_TOPICS, self._on_change)

    def _read_partitions(self, topics: set[str]) -> None:
        unread = sorted(topics - self._topics.keys())
        paths = [TopicPath(topic).path for topic in unread]
        for topic, path, znode in zip(unread, paths, self._store.get_data_many(paths, self._on_change), strict=True):
            if znode is None:
                # a topic that does not exist has no partitions; the watch fires when it is created
                self._topics[topic] = _Topic((), None)
                continue
            try:
                partitions = tuple(decode_topic(path, znode.data).partitions)
            except MalformedZnodeError as error:
                logger.warning("group %s: topic %s counts as empty: %s", self._group, topic, error)
                partitions = ()
            self._topics[topic] = _Topic(partitions, znode.stat.czxid)


def _shows_all_changes(before: Children | None, now: Children | None) -> bool:
    """Return whether the difference of two lists of children shows every change between them."""
    if before is None or now is None or before.czxid != now.czxid:
        return False
    return (now.changes - before.changes) % _CHANGES_WRAP == len(set(before.names) ^ set(now.names))


def _understand(name: str, path: str, data: bytes | None) -> tuple[ConsumerRegistration | None, str | None, MemberKind]:
    """Decode a registration; return it, or the reason why it is unreadable, and the kind of client that wrote it."""
    kind = registration_kind(name, data)
    try:
        registration = decode_registration(path, data)
    except MalformedZnodeError as error:
        return None, str(error), kind
    reason = unreadable_reason(registration)
    return (registration if reason is None else None), reason, kind


def read_owners(
    store: ZkStore, group: GroupSnapshot, partitions: Sequence[TopicPartition] | None = None
) -> Mapping[TopicPartition, str]:
    """Return {partition: text of its owner znode} for these or all topics of the group, without ownerless partitions.

    Raises: ZooKeeperError.
    """
    if partitions is None:
        partitions = [
            TopicPartition(topic, number) for topic, numbers in group.partitions.items() for number in numbers
        ]
    znodes = store.get_data_many([OwnerPath(group.group, *tp).path for tp in partitions])
    return {
        tp: (znode.data or b"").decode("utf-8", "backslashreplace")
        for tp, znode in zip(partitions, znodes, strict=True)
        if znode is not None
    }
