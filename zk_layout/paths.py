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
    _pattern: ClassVar[re.Pattern[str]]

    if TYPE_CHECKING:

        def __init__(self, *values: str | int) -> None: ...

    def __init_subclass__(cls) -> None:
        fields = _FIELD.findall(cls.template)
        cls._format = _FIELD.sub("%s", cls.template)
        cls._numeric = tuple(bool(number) for _, number in fields)
        cls._values = attrgetter(*(name for name, _ in fields)) if fields else None
        cls._pattern = re.compile(_FIELD.sub(lambda field: _NUMBER if field[2] else _NAME, cls.template))

    @property
    def path(self) -> str:
        """The absolute path inside the chroot."""
        if self._values is None:
            return self._format
        return self._format % self._values(self)

    @classmethod
    def parse(cls, path: str) -> Self | None:
        """The object that has this path, or None if it is the path of something else."""
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


@dataclass(frozen=True, slots=True)
class RootPath(ZnodePath):
    """Parent of everything."""

    template: ClassVar[str] = "/"


# --- consumers


@dataclass(frozen=True, slots=True)
class ConsumersPath(ZnodePath):
    """Parent of the groups. Its children are all groups that ever were, not the living ones."""

    template: ClassVar[str] = "/consumers"


@dataclass(frozen=True, slots=True)
class GroupPath(ZnodePath):
    """Parent of a group's ids, owners and offsets."""

    template: ClassVar[str] = "/consumers/{group}"

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerIdsPath(ZnodePath):
    """Parent of the registrations; every member watches its children."""

    template: ClassVar[str] = "/consumers/{group}/ids"

    group: str


@dataclass(frozen=True, slots=True)
class ConsumerIdPath(ZnodePath):
    """Ephemeral: a member's registration."""

    template: ClassVar[str] = "/consumers/{group}/ids/{consumer_id}"

    group: str
    consumer_id: str


@dataclass(frozen=True, slots=True)
class OwnersPath(ZnodePath):
    """Parent of the topics that the group owned at any time."""

    template: ClassVar[str] = "/consumers/{group}/owners"

    group: str


@dataclass(frozen=True, slots=True)
class TopicOwnersPath(ZnodePath):
    """Parent of the owner znodes of one topic."""

    template: ClassVar[str] = "/consumers/{group}/owners/{topic}"

    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class OwnerPath(ZnodePath):
    """Ephemeral: the consumer thread id that owns the partition, bare text."""

    template: ClassVar[str] = "/consumers/{group}/owners/{topic}/{partition:d}"

    group: str
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class OffsetsPath(ZnodePath):
    """Parent of the topics that the group has committed."""

    template: ClassVar[str] = "/consumers/{group}/offsets"

    group: str


@dataclass(frozen=True, slots=True)
class TopicOffsetsPath(ZnodePath):
    """Parent of the offsets of one topic."""

    template: ClassVar[str] = "/consumers/{group}/offsets/{topic}"

    group: str
    topic: str


@dataclass(frozen=True, slots=True)
class OffsetPath(ZnodePath):
    """Persistent: the next offset to consume, in decimal, bare text."""

    template: ClassVar[str] = "/consumers/{group}/offsets/{topic}/{partition:d}"

    group: str
    topic: str
    partition: int


# --- brokers and topics


@dataclass(frozen=True, slots=True)
class BrokersPath(ZnodePath):
    """Parent of ids, topics and seqid."""

    template: ClassVar[str] = "/brokers"


@dataclass(frozen=True, slots=True)
class BrokerIdsPath(ZnodePath):
    """Parent of the living brokers."""

    template: ClassVar[str] = "/brokers/ids"


@dataclass(frozen=True, slots=True)
class BrokerIdPath(ZnodePath):
    """Ephemeral: a broker's registration."""

    template: ClassVar[str] = "/brokers/ids/{broker_id:d}"

    broker_id: int


@dataclass(frozen=True, slots=True)
class BrokerSeqIdPath(ZnodePath):
    """Persistent, 0.9+: empty; generated broker ids come from its data version."""

    template: ClassVar[str] = "/brokers/seqid"


@dataclass(frozen=True, slots=True)
class TopicsPath(ZnodePath):
    """Parent of the topics; wildcard consumers watch its children."""

    template: ClassVar[str] = "/brokers/topics"


@dataclass(frozen=True, slots=True)
class TopicPath(ZnodePath):
    """Persistent: a topic's partitions and their replicas; every subscriber watches its data."""

    template: ClassVar[str] = "/brokers/topics/{topic}"

    topic: str


@dataclass(frozen=True, slots=True)
class PartitionsPath(ZnodePath):
    """Parent of the partitions, made by the controller. Which there are stands in TopicPath only."""

    template: ClassVar[str] = "/brokers/topics/{topic}/partitions"

    topic: str


@dataclass(frozen=True, slots=True)
class PartitionPath(ZnodePath):
    """Parent of a partition's state."""

    template: ClassVar[str] = "/brokers/topics/{topic}/partitions/{partition:d}"

    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class PartitionStatePath(ZnodePath):
    """Persistent: leader and in-sync replicas."""

    template: ClassVar[str] = "/brokers/topics/{topic}/partitions/{partition:d}/state"

    topic: str
    partition: int


# --- controller and cluster


@dataclass(frozen=True, slots=True)
class ControllerPath(ZnodePath):
    """Ephemeral: which broker is the controller."""

    template: ClassVar[str] = "/controller"


@dataclass(frozen=True, slots=True)
class ControllerEpochPath(ZnodePath):
    """Persistent: how often the controller has changed, in decimal."""

    template: ClassVar[str] = "/controller_epoch"


@dataclass(frozen=True, slots=True)
class ClusterPath(ZnodePath):
    """Parent of id, 0.10.1+."""

    template: ClassVar[str] = "/cluster"


@dataclass(frozen=True, slots=True)
class ClusterIdPath(ZnodePath):
    """Persistent, 0.10.1+: the cluster's id."""

    template: ClassVar[str] = "/cluster/id"


@dataclass(frozen=True, slots=True)
class FeaturePath(ZnodePath):
    """Persistent, 2.7+: the finalized features."""

    template: ClassVar[str] = "/feature"


@dataclass(frozen=True, slots=True)
class LatestProducerIdBlockPath(ZnodePath):
    """Persistent, 0.11+: the producer ids handed out last; empty before the first."""

    template: ClassVar[str] = "/latest_producer_id_block"


@dataclass(frozen=True, slots=True)
class IsrChangeNotificationPath(ZnodePath):
    """Parent of short-lived notes from leaders to the controller, 0.9+."""

    template: ClassVar[str] = "/isr_change_notification"


@dataclass(frozen=True, slots=True)
class LogDirEventNotificationPath(ZnodePath):
    """Parent of short-lived notes about failed log directories, 1.0+."""

    template: ClassVar[str] = "/log_dir_event_notification"


# --- admin and config


@dataclass(frozen=True, slots=True)
class AdminPath(ZnodePath):
    """Parent of what is asked of the controller."""

    template: ClassVar[str] = "/admin"


@dataclass(frozen=True, slots=True)
class DeleteTopicsPath(ZnodePath):
    """Parent of the topics to delete."""

    template: ClassVar[str] = "/admin/delete_topics"


@dataclass(frozen=True, slots=True)
class DeleteTopicPath(ZnodePath):
    """Persistent: the topic is to be deleted; empty. Gone when the controller has done it."""

    template: ClassVar[str] = "/admin/delete_topics/{topic}"

    topic: str


@dataclass(frozen=True, slots=True)
class ConfigPath(ZnodePath):
    """Parent of the kinds of configuration."""

    template: ClassVar[str] = "/config"


@dataclass(frozen=True, slots=True)
class ConfigChangesPath(ZnodePath):
    """Parent of the notes that tell brokers what was changed."""

    template: ClassVar[str] = "/config/changes"


@dataclass(frozen=True, slots=True)
class TopicConfigsPath(ZnodePath):
    """Parent of the topics' configurations."""

    template: ClassVar[str] = "/config/topics"


@dataclass(frozen=True, slots=True)
class TopicConfigPath(ZnodePath):
    """Persistent: the settings that a topic overrides."""

    template: ClassVar[str] = "/config/topics/{topic}"

    topic: str


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
