"""Where everything lives in ZooKeeper: one small class per znode, its path, and the parse back.

    OffsetPath("g", "t", 0).path                      -> "/consumers/g/offsets/t/0"
    OffsetPath.parse("/consumers/g/offsets/t/0")      -> OffsetPath("g", "t", 0)
    OffsetPath.parse("/consumers/g/offsets/t/0-1")    -> None: a partition of Kafka 0.7
    parse_path("/consumers/g/offsets/t/0")            -> OffsetPath("g", "t", 0)

Paths are absolute inside the chroot of zookeeper.connect; names must not be empty or hold a slash. A
TopicPartition fills two fields: OwnerPath("g", *tp). Parents are persistent; their data differs by version and
says nothing: never read it.

Where a template has {name:d} stands a number as Kafka writes it: decimal, no sign, no leading zero. Others
write `<broker>-<partition>` (Kafka 0.7) or `<leader>-<partition>` (pykafka); for those parse gives None.
"""

from __future__ import annotations

import re
from collections import defaultdict
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, ClassVar

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Self

_FIELD = re.compile(r"\{(\w+)(:d)?\}")
_NUMBER = "(0|[1-9][0-9]{0,9})"
_NAME = "([^/]+)"
_MAX_INT = 2**31 - 1


class ZnodePath:
    """Base of all path classes, which add the template and its fields, in the template's order."""

    __slots__ = ()

    template: ClassVar[str]
    _format: ClassVar[str]
    _numeric: ClassVar[tuple[bool, ...]]
    _values: ClassVar[attrgetter[object] | None]
    _pattern: ClassVar[re.Pattern[str] | None]  # compiled when somebody parses

    if TYPE_CHECKING:

        def __init__(self, *values: str | int) -> None: ...

    def __init_subclass__(cls) -> None:
        if not hasattr(cls, "template"):
            return  # fields that several paths have
        fields = _FIELD.findall(cls.template)
        cls._format = _FIELD.sub("%s", cls.template)
        cls._numeric = tuple(bool(number) for _, number in fields)
        cls._values = attrgetter(*(name for name, _ in fields)) if fields else None
        cls._pattern = None

    @property
    def path(self) -> str:
        """The absolute path inside the chroot."""
        if self._values is None:
            return self._format
        return self._format % self._values(self)

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """The object that has this path, or None if it is the path of something else."""
        if cls._pattern is None:
            cls._pattern = re.compile(_FIELD.sub(lambda field: _NUMBER if field[2] else _NAME, cls.template))
        found = cls._pattern.fullmatch(path)
        if found is None:
            return None
        values = [int(v) if number else v for v, number in zip(found.groups(), cls._numeric, strict=True)]
        if any(type(value) is int and value > _MAX_INT for value in values):
            return None
        return cls(*values)


def parse_path(path: str) -> ZnodePath | None:
    """The object for any path that this module knows, or None."""
    for path_class in _CLASSES_BY_SHAPE.get(_shape(path), ()):
        found = path_class.parse(path)
        if found is not None:
            return found
    return None


# --- the fields that several paths have: making a dataclass takes a millisecond, and every command would wait for 36


@dataclass(frozen=True, slots=True)
class _FixedPath(ZnodePath):
    pass


@dataclass(frozen=True, slots=True)
class _OfGroup(ZnodePath):
    group: str


@dataclass(frozen=True, slots=True)
class _OfGroupTopic(ZnodePath):
    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class _OfGroupPartition(ZnodePath):
    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class _OfTopic(ZnodePath):
    topic: str


@dataclass(frozen=True, slots=True)
class _OfPartition(ZnodePath):
    topic: str
    partition: int


# --- the root


class RootPath(_FixedPath):
    """Parent of everything."""

    __slots__ = ()
    template: ClassVar[str] = "/"


# --- consumers


class ConsumersPath(_FixedPath):
    """Parent of the groups. Its children are all groups that ever were, not the living ones."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers"


class GroupPath(_OfGroup):
    """Parent of a group's ids, owners and offsets."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers/{group}"


class ConsumerIdsPath(_OfGroup):
    """Parent of the registrations; every member watches its children."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers/{group}/ids"


@dataclass(frozen=True, slots=True)
class ConsumerIdPath(ZnodePath):
    """Ephemeral: a member's registration."""

    template: ClassVar[str] = "/consumers/{group}/ids/{consumer_id}"

    group: str
    consumer_id: str


class OwnersPath(_OfGroup):
    """Parent of the topics that the group owned at any time."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers/{group}/owners"


class TopicOwnersPath(_OfGroupTopic):
    """Parent of the owner znodes of one topic."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers/{group}/owners/{topic}"


class OwnerPath(_OfGroupPartition):
    """Ephemeral: the consumer thread id that owns the partition, bare text."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers/{group}/owners/{topic}/{partition:d}"


class OffsetsPath(_OfGroup):
    """Parent of the topics that the group has committed."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers/{group}/offsets"


class TopicOffsetsPath(_OfGroupTopic):
    """Parent of the offsets of one topic."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers/{group}/offsets/{topic}"


class OffsetPath(_OfGroupPartition):
    """Persistent: the next offset to consume, in decimal, bare text."""

    __slots__ = ()
    template: ClassVar[str] = "/consumers/{group}/offsets/{topic}/{partition:d}"


# --- brokers and topics


class BrokersPath(_FixedPath):
    """Parent of ids, topics and seqid."""

    __slots__ = ()
    template: ClassVar[str] = "/brokers"


class BrokerIdsPath(_FixedPath):
    """Parent of the living brokers."""

    __slots__ = ()
    template: ClassVar[str] = "/brokers/ids"


@dataclass(frozen=True, slots=True)
class BrokerIdPath(ZnodePath):
    """Ephemeral: a broker's registration."""

    template: ClassVar[str] = "/brokers/ids/{broker_id:d}"

    broker_id: int


def broker_ids(names: Iterable[str]) -> list[int]:
    """The ids that these children of /brokers/ids stand for, ascending; a name that no broker has is left out."""
    parent = BrokerIdsPath().path
    found = (BrokerIdPath.parse(f"{parent}/{name}") for name in names)
    return sorted(one.broker_id for one in found if one is not None)


class BrokerSeqIdPath(_FixedPath):
    """Persistent, 0.9+: empty; generated broker ids come from its data version."""

    __slots__ = ()
    template: ClassVar[str] = "/brokers/seqid"


class TopicsPath(_FixedPath):
    """Parent of the topics; wildcard consumers watch its children."""

    __slots__ = ()
    template: ClassVar[str] = "/brokers/topics"


class TopicPath(_OfTopic):
    """Persistent: a topic's partitions and their replicas; every subscriber watches its data."""

    __slots__ = ()
    template: ClassVar[str] = "/brokers/topics/{topic}"


class PartitionsPath(_OfTopic):
    """Parent of the partitions, made by the controller. Which there are stands in TopicPath only."""

    __slots__ = ()
    template: ClassVar[str] = "/brokers/topics/{topic}/partitions"


class PartitionPath(_OfPartition):
    """Parent of a partition's state."""

    __slots__ = ()
    template: ClassVar[str] = "/brokers/topics/{topic}/partitions/{partition:d}"


class PartitionStatePath(_OfPartition):
    """Persistent: leader and in-sync replicas."""

    __slots__ = ()
    template: ClassVar[str] = "/brokers/topics/{topic}/partitions/{partition:d}/state"


# --- controller and cluster


class ControllerPath(_FixedPath):
    """Ephemeral: which broker is the controller."""

    __slots__ = ()
    template: ClassVar[str] = "/controller"


class ControllerEpochPath(_FixedPath):
    """Persistent: how often the controller has changed, in decimal."""

    __slots__ = ()
    template: ClassVar[str] = "/controller_epoch"


class ClusterPath(_FixedPath):
    """Parent of id, 0.10.1+."""

    __slots__ = ()
    template: ClassVar[str] = "/cluster"


class ClusterIdPath(_FixedPath):
    """Persistent, 0.10.1+: the cluster's id."""

    __slots__ = ()
    template: ClassVar[str] = "/cluster/id"


class FeaturePath(_FixedPath):
    """Persistent, 2.7+: the finalized features."""

    __slots__ = ()
    template: ClassVar[str] = "/feature"


class LatestProducerIdBlockPath(_FixedPath):
    """Persistent, 0.11+: the producer ids handed out last; empty before the first."""

    __slots__ = ()
    template: ClassVar[str] = "/latest_producer_id_block"


class IsrChangeNotificationPath(_FixedPath):
    """Parent of short-lived notes from leaders to the controller, 0.9+."""

    __slots__ = ()
    template: ClassVar[str] = "/isr_change_notification"


class LogDirEventNotificationPath(_FixedPath):
    """Parent of short-lived notes about failed log directories, 1.0+."""

    __slots__ = ()
    template: ClassVar[str] = "/log_dir_event_notification"


# --- admin and config


class AdminPath(_FixedPath):
    """Parent of what is asked of the controller."""

    __slots__ = ()
    template: ClassVar[str] = "/admin"


class DeleteTopicsPath(_FixedPath):
    """Parent of the topics to delete."""

    __slots__ = ()
    template: ClassVar[str] = "/admin/delete_topics"


class DeleteTopicPath(_OfTopic):
    """Persistent: the topic is to be deleted; empty. Gone when the controller has done it."""

    __slots__ = ()
    template: ClassVar[str] = "/admin/delete_topics/{topic}"


class ReassignPartitionsPath(_FixedPath):
    """Persistent: the replicas that partitions are to get, 0.8 to 2.8. Gone when the controller has done it."""

    __slots__ = ()
    template: ClassVar[str] = "/admin/reassign_partitions"


class PreferredReplicaElectionPath(_FixedPath):
    """Persistent: the partitions whose preferred replicas are to lead. Gone when the controller has done it."""

    __slots__ = ()
    template: ClassVar[str] = "/admin/preferred_replica_election"


class ConfigPath(_FixedPath):
    """Parent of the kinds of configuration."""

    __slots__ = ()
    template: ClassVar[str] = "/config"


class ConfigChangesPath(_FixedPath):
    """Parent of the notes that tell brokers what was changed."""

    __slots__ = ()
    template: ClassVar[str] = "/config/changes"


class TopicConfigsPath(_FixedPath):
    """Parent of the topics' configurations."""

    __slots__ = ()
    template: ClassVar[str] = "/config/topics"


class TopicConfigPath(_OfTopic):
    """Persistent: the settings that a topic overrides."""

    __slots__ = ()
    template: ClassVar[str] = "/config/topics/{topic}"


@dataclass(frozen=True, slots=True)
class EntityConfigsPath(ZnodePath):
    """Parent of another kind's configurations: clients (0.9+), users, brokers (0.10.1+), ips (2.8+)."""

    template: ClassVar[str] = "/config/{entity_type}"

    entity_type: str


PATH_CLASSES: tuple[type[ZnodePath], ...] = (
    RootPath,
    ConsumersPath,
    GroupPath,
    ConsumerIdsPath,
    ConsumerIdPath,
    OwnersPath,
    TopicOwnersPath,
    OwnerPath,
    OffsetsPath,
    TopicOffsetsPath,
    OffsetPath,
    BrokersPath,
    BrokerIdsPath,
    BrokerIdPath,
    BrokerSeqIdPath,
    TopicsPath,
    TopicPath,
    PartitionsPath,
    PartitionPath,
    PartitionStatePath,
    ControllerPath,
    ControllerEpochPath,
    ClusterPath,
    ClusterIdPath,
    FeaturePath,
    LatestProducerIdBlockPath,
    IsrChangeNotificationPath,
    LogDirEventNotificationPath,
    AdminPath,
    DeleteTopicsPath,
    DeleteTopicPath,
    ReassignPartitionsPath,
    PreferredReplicaElectionPath,
    ConfigPath,
    ConfigChangesPath,
    TopicConfigsPath,
    TopicConfigPath,
    EntityConfigsPath,
)
"""Every class above. Where two could have the same path, the more particular one stands first."""


def _shape(path: str) -> tuple[str, int]:
    return path.split("/", 2)[1] if path.startswith("/") else "", path.count("/")


_CLASSES_BY_SHAPE: dict[tuple[str, int], list[type[ZnodePath]]] = defaultdict(list)
for _path_class in PATH_CLASSES:
    _CLASSES_BY_SHAPE[_shape(_path_class.template)].append(_path_class)


def acl_models(path: str) -> tuple[str, ...]:
    """Whose ACL a new znode should have, the best first: the folders above it that there may be.

    A group's own folder and its `ids` are open to members of the JVM even where the rest is not: what is created beside
    them is like what else the group has.
    """
    parts = path.strip("/").split("/")
    above = ["/" + "/".join(parts[:depth]) for depth in range(len(parts) - 1, -1, -1)]
    if parts[0] != "consumers" or len(parts) < 3:
        return tuple(above)
    group = f"/consumers/{parts[1]}"
    inside = [folder for folder in above if folder.startswith(f"{group}/")]
    beside = [f"{group}/{name}" for name in ("offsets", "owners", "requests", "migration")]
    return tuple(dict.fromkeys([*inside, *(one for one in beside if one != path), *above]))
