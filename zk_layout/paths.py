"""The path of every znode: one small class per znode, which makes the path and parses it.

    OffsetPath("g", "t", 0).path                      -> "/consumers/g/offsets/t/0"
    OffsetPath.parse("/consumers/g/offsets/t/0")      -> OffsetPath("g", "t", 0)
    OffsetPath.parse("/consumers/g/offsets/t/0-1")    -> None: a partition of Kafka 0.7
    parse_path("/consumers/g/offsets/t/0")            -> OffsetPath("g", "t", 0)

Paths are absolute inside the chroot of zookeeper.connect; names must not be empty or hold a slash. A
TopicPartition fills two fields: OwnerPath("g", *tp). Parents are persistent; their data differs by version and
says nothing: never read it.

Where a template has {name:d} stands a number as Kafka writes it: decimal, no sign, no leading zero. Others
write `<broker>-<partition>` (Kafka 0.7) or `<leader>-<partition>` (pykafka); for such names parse gives None.
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
_IN_NO_NAME = re.compile("[/\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\U0010ffff]")

PATH_CLASSES: list[type[ZnodePath]] = []
"""Every class below that has a template. If two could match the same path, the more specific one stands first."""
_CLASSES_BY_SHAPE: defaultdict[tuple[str, int], list[type[ZnodePath]]] = defaultdict(list)


def _shape(path: str) -> tuple[str, int]:
    return path.split("/", 2)[1] if path.startswith("/") else "", path.count("/")


class ZnodePath:
    """Base of all path classes, which have a template and its fields, in the template's order."""

    __slots__ = ()

    template: ClassVar[str]
    _format: ClassVar[str]
    _numeric: ClassVar[tuple[bool, ...]]
    _values: ClassVar[attrgetter[object] | None]
    _pattern: ClassVar[re.Pattern[str] | None]  # compiled at the first parse

    if TYPE_CHECKING:

        def __init__(self, *values: str | int) -> None: ...

    def __init_subclass__(cls, template: str = "") -> None:
        if not template:
            return  # fields that several paths have
        cls.template = template
        PATH_CLASSES.append(cls)
        _CLASSES_BY_SHAPE[_shape(template)].append(cls)
        fields = _FIELD.findall(template)
        cls._format = _FIELD.sub("%s", template)
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
        """Return the object that has this path, or None for the path of another class."""
        if cls._pattern is None:
            cls._pattern = re.compile(_FIELD.sub(lambda field: _NUMBER if field[2] else _NAME, cls.template))
        found = cls._pattern.fullmatch(path)
        if found is None:
            return None
        values = [int(v) if number else v for v, number in zip(found.groups(), cls._numeric, strict=True)]
        if any(type(value) is int and value > _MAX_INT for value in values):
            return None
        return cls(*values)


def is_znode_name(name: str) -> bool:
    """Return whether ZooKeeper's server accepts the name for a znode. Source: ZooKeeper's PathUtils.validatePath."""
    return name not in {"", ".", ".."} and not _IN_NO_NAME.search(name)


def number_of(name: str) -> int | None:
    """Return the number that a name is, written as Kafka writes one; None for any other name."""
    # matched first: int() refuses thousands of digits, which any client can write
    number = int(name) if re.fullmatch(_NUMBER, name) else None
    return number if number is not None and number <= _MAX_INT else None


def parse_path(path: str) -> ZnodePath | None:
    """Return the object for any path that this module knows, or None."""
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
class _OfMember(ZnodePath):
    group: str
    consumer_id: str


@dataclass(frozen=True, slots=True)
class _OfTopic(ZnodePath):
    topic: str


@dataclass(frozen=True, slots=True)
class _OfPartition(ZnodePath):
    topic: str
    partition: int


@dataclass(frozen=True, slots=True)
class _OfBroker(ZnodePath):
    broker_id: int


@dataclass(frozen=True, slots=True)
class _OfEntity(ZnodePath):
    entity_type: str


# --- the root


class RootPath(_FixedPath, template="/"):
    """Parent of everything."""


# --- consumers


class ConsumersPath(_FixedPath, template="/consumers"):
    """Parent of the groups. Its children are all groups that ever were, not the living ones."""


class GroupPath(_OfGroup, template="/consumers/{group}"):
    """Parent of a group's ids, owners and offsets."""


class ConsumerIdsPath(_OfGroup, template="/consumers/{group}/ids"):
    """Parent of the registrations; every member watches its children."""


class ConsumerIdPath(_OfMember, template="/consumers/{group}/ids/{consumer_id}"):
    """Ephemeral: a member's registration."""


class OwnersPath(_OfGroup, template="/consumers/{group}/owners"):
    """Parent of the topics that the group owned at any time."""


class TopicOwnersPath(_OfGroupTopic, template="/consumers/{group}/owners/{topic}"):
    """Parent of the owner znodes of one topic."""


class OwnerPath(_OfGroupPartition, template="/consumers/{group}/owners/{topic}/{partition:d}"):
    """Ephemeral: the consumer thread id that owns the partition, bare text."""


class OffsetsPath(_OfGroup, template="/consumers/{group}/offsets"):
    """Parent of the topics that the group has committed."""


class TopicOffsetsPath(_OfGroupTopic, template="/consumers/{group}/offsets/{topic}"):
    """Parent of the offsets of one topic."""


class OffsetPath(_OfGroupPartition, template="/consumers/{group}/offsets/{topic}/{partition:d}"):
    """Persistent: the next offset to consume, in decimal, bare text."""


# --- brokers and topics


class BrokersPath(_FixedPath, template="/brokers"):
    """Parent of ids, topics and seqid."""


class BrokerIdsPath(_FixedPath, template="/brokers/ids"):
    """Parent of the living brokers."""


class BrokerIdPath(_OfBroker, template="/brokers/ids/{broker_id:d}"):
    """Ephemeral: a broker's registration."""


def broker_ids(names: Iterable[str]) -> list[int]:
    """Return the broker ids among the names of these children of /brokers/ids, ascending; skip other names."""
    parent = BrokerIdsPath().path
    found = (BrokerIdPath.parse(f"{parent}/{name}") for name in names)
    return sorted(one.broker_id for one in found if one is not None)


class BrokerSeqIdPath(_FixedPath, template="/brokers/seqid"):
    """Persistent, 0.9+: empty; generated broker ids come from its data version."""


class TopicsPath(_FixedPath, template="/brokers/topics"):
    """Parent of the topics; wildcard consumers watch its children."""


class TopicPath(_OfTopic, template="/brokers/topics/{topic}"):
    """Persistent: a topic's partitions and their replicas; every subscriber watches its data."""


class PartitionsPath(_OfTopic, template="/brokers/topics/{topic}/partitions"):
    """Parent of the partitions, made by the controller. Only the data of TopicPath says which partitions exist."""


class PartitionPath(_OfPartition, template="/brokers/topics/{topic}/partitions/{partition:d}"):
    """Parent of a partition's state."""


class PartitionStatePath(_OfPartition, template="/brokers/topics/{topic}/partitions/{partition:d}/state"):
    """Persistent: leader and in-sync replicas."""


# --- controller and cluster


class ControllerPath(_FixedPath, template="/controller"):
    """Ephemeral: which broker is the controller."""


class ControllerEpochPath(_FixedPath, template="/controller_epoch"):
    """Persistent: how often the controller has changed, in decimal."""


class ClusterPath(_FixedPath, template="/cluster"):
    """Parent of id, 0.10.1+."""


class ClusterIdPath(_FixedPath, template="/cluster/id"):
    """Persistent, 0.10.1+: the cluster's id."""


class FeaturePath(_FixedPath, template="/feature"):
    """Persistent, 2.7+: the finalized features."""


class LatestProducerIdBlockPath(_FixedPath, template="/latest_producer_id_block"):
    """Persistent, 0.11+: the producer ids handed out last; empty before the first."""


class IsrChangeNotificationPath(_FixedPath, template="/isr_change_notification"):
    """Parent of short-lived notes from leaders to the controller, 0.9+."""


class LogDirEventNotificationPath(_FixedPath, template="/log_dir_event_notification"):
    """Parent of short-lived notes about failed log directories, 1.0+."""


# --- admin and config


class AdminPath(_FixedPath, template="/admin"):
    """Parent of the requests to the controller."""


class DeleteTopicsPath(_FixedPath, template="/admin/delete_topics"):
    """Parent of the topics to delete."""


class DeleteTopicPath(_OfTopic, template="/admin/delete_topics/{topic}"):
    """Persistent: the topic is to be deleted; empty. Gone when the controller has done it."""


class ReassignPartitionsPath(_FixedPath, template="/admin/reassign_partitions"):
    """Persistent: the replicas that partitions are to get, 0.8 to 2.8. Gone when the controller has done it."""


class PreferredReplicaElectionPath(_FixedPath, template="/admin/preferred_replica_election"):
    """Persistent: the partitions whose preferred replicas are to lead. Gone when the controller has done it."""


class ConfigPath(_FixedPath, template="/config"):
    """Parent of the kinds of configuration."""


class ConfigChangesPath(_FixedPath, template="/config/changes"):
    """Parent of the notes that tell brokers what was changed."""


class TopicConfigsPath(_FixedPath, template="/config/topics"):
    """Parent of the topics' configurations."""


class TopicConfigPath(_OfTopic, template="/config/topics/{topic}"):
    """Persistent: the settings that a topic overrides."""


class EntityConfigsPath(_OfEntity, template="/config/{entity_type}"):
    """Parent of another kind's configurations: clients (0.9+), users, brokers (0.10.1+), ips (2.8+)."""


def acl_models(path: str) -> tuple[str, ...]:
    """Return the folders whose ACL a new znode should copy, the best first; some of them may not exist.

    A group's own folder and its `ids` are open to JVM members even where the rest is secured. A znode that is created
    beside them is therefore like the group's other znodes.
    """
    parts = path.strip("/").split("/")
    above = ["/" + "/".join(parts[:depth]) for depth in range(len(parts) - 1, -1, -1)]
    if parts[0] != "consumers" or len(parts) < 3:
        return tuple(above)
    group = f"/consumers/{parts[1]}"
    inside = [folder for folder in above if folder.startswith(f"{group}/")]
    beside = [f"{group}/{name}" for name in ("offsets", "owners", "requests", "migration")]
    return tuple(dict.fromkeys([*inside, *(one for one in beside if one != path), *above]))
