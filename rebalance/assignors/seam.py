"""The input and output of an assignor, in a group led by a member or coordinated by a broker.

Each member has an assignor of its own. The member sends the leader its topics, its owned partitions, and bytes from its
assignor (`subscription_user_data`). The leader's assignor computes the assignment (`assign`). Every member's assignor
gets its member's share (`on_assignment`).

Inputs are sorted: topics by name, partitions by number, members as Java sorts text. The same input must give the same
answer, in every process and after every restart, so an assignor draws no random numbers and iterates over no set.

Members of a classic group each compute the assignment for themselves, by the functions in `range.py` and
`roundrobin.py`; they have no user data, and no assignor of this file.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, TypeAlias

from rebalance.assignors.java_hash import java_sorted
from zk_layout.model import TopicPartition

PropertyValue: TypeAlias = str | int | bool | None


class RebalanceProtocol(Enum):
    """When a member releases partitions. A group uses the highest that all its members' assignors support."""

    EAGER = "eager"
    """A member releases all before it joins: `assign` may give a partition to another member at once."""
    COOPERATIVE = "cooperative"
    """A member releases only partitions that move; such a partition has no owner for one generation."""


@dataclass(frozen=True, slots=True)
class AssignorProperty:
    """A property that an assignor reads. The type of `default` is that of the property: text, integer or true/false."""

    name: str
    default: str | int | bool
    meaning: str
    minimum: int = -(2**31)
    maximum: int = 2**31 - 1


@dataclass(frozen=True, slots=True)
class Broker:
    """A broker, and its configured rack."""

    id: int
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class PartitionPlace:
    """The broker ids of a partition. leader: None = there is no leader now, or it is not known."""

    leader: int | None = None
    replicas: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Cluster:
    """topics: {topic: its partitions, number n at index n}; a topic that does not exist is missing."""

    topics: Mapping[str, tuple[PartitionPlace, ...]]
    brokers: Mapping[int, Broker] = field(default_factory=dict)

    @classmethod
    def of_counts(cls, counts: Mapping[str, int]) -> Cluster:
        """Return a cluster of which only the numbers of partitions are known."""
        return cls({topic: (PartitionPlace(),) * counts[topic] for topic in sorted(counts)})

    def in_order(self) -> Cluster:
        """Return the cluster with topics sorted by name, brokers by id."""
        return Cluster(dict(sorted(self.topics.items())), dict(sorted(self.brokers.items())))

    def partitions(self, topic: str) -> list[TopicPartition]:
        """Return all partitions of a topic, by number; none if the topic does not exist."""
        return [TopicPartition(topic, number) for number in range(len(self.topics.get(topic, ())))]

    def place(self, partition: TopicPartition) -> PartitionPlace:
        """Return the brokers of a partition. Raises: KeyError or IndexError if it does not exist."""
        return self.topics[partition.topic][partition.partition]

    def has(self, partition: TopicPartition) -> bool:
        """Return whether the partition exists."""
        return 0 <= partition.partition < len(self.topics.get(partition.topic, ()))


@dataclass(frozen=True, slots=True)
class Subscription:
    """A member's data when it joins.

    owned: the partitions that the member still fetches while it joins (cooperative members), or says that it owned.
    generation: that of the assignment which gave `owned` to it; None if the member does not say.
    instance_id: group.instance.id of a static member.
    """

    topics: tuple[str, ...]
    user_data: bytes = b""
    owned: tuple[TopicPartition, ...] = ()
    generation: int | None = None
    instance_id: str | None = None
    rack: str | None = None


@dataclass(frozen=True, slots=True)
class MemberAssignment:
    """The share of one member, and bytes for its assignor."""

    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes = b""


Subscriptions: TypeAlias = Mapping[str, Subscription]
GroupAssignment: TypeAlias = Mapping[str, MemberAssignment]


class Assignor(ABC):
    """A rule for dividing partitions. A subclass must define `name` and `assign`."""

    name: ClassVar[str]
    """Members agree on an assignor by this name."""
    version: ClassVar[int] = 0
    """The version of the user data that it writes. An assignor reads the data of its earlier versions, too."""
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)
    properties: ClassVar[tuple[AssignorProperty, ...]] = ()

    def configure(self, properties: Mapping[str, PropertyValue]) -> None:  # noqa: B027  most need nothing
        """Called once, first, with every declared property: its configured value, or its default."""

    def subscription_user_data(self, topics: Sequence[str]) -> bytes:  # noqa: ARG002
        """Return the user data for the leader's assignor; called before each join."""
        return b""

    @abstractmethod
    def assign(self, cluster: Cluster, subscriptions: Subscriptions) -> GroupAssignment:
        """Assign all partitions of the subscribed topics; called at the leader only.

        Returns: {member: its share}; a member that is missing gets nothing. An exception is reported as an error of
        this assignor, and the group continues with its present shares.
        """

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:  # noqa: B027
        """Called at every member when it gets its share."""


def sorted_subscriptions(subscriptions: Subscriptions) -> dict[str, Subscription]:
    """Sort the input for `assign`: members as Java sorts text, their topics and owned partitions sorted, each once."""
    return {
        member: Subscription(
            topics=tuple(sorted(set(told.topics))),
            user_data=told.user_data,
            owned=tuple(sorted(set(told.owned))),
            generation=told.generation,
            instance_id=told.instance_id,
            rack=told.rack,
        )
        for member in java_sorted(subscriptions)
        for told in (subscriptions[member],)
    }


def given(shares: Mapping[str, Sequence[TopicPartition]]) -> dict[str, MemberAssignment]:
    """Return shares without user data, each sorted, in the form that `assign` returns."""
    return {member: MemberAssignment(tuple(sorted(share))) for member, share in shares.items()}
