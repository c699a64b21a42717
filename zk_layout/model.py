"""The records that znodes are decoded into. No I/O: the codecs make them, paths.py has their paths."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import NamedTuple

_THREAD_ID = re.compile("(.+)-(0|[1-9][0-9]{0,9})", re.DOTALL)


class TopicPartition(NamedTuple):
    """One partition of one topic. A tuple, because it is the key of every map on the hot path.

    Sorts by topic, then by partition number.
    """

    topic: str
    partition: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}"


class ConsumerThreadId(NamedTuple):
    """One stream of one member, as it stands in an owner znode: `<consumer id>-<thread>`."""

    consumer_id: str
    thread: int

    def __str__(self) -> str:
        return f"{self.consumer_id}-{self.thread}"

    @classmethod
    def parse(cls, text: str) -> ConsumerThreadId:
        """Cut at the last dash, as Kafka's tools do. str() of the result is the text again.

        Raises: ValueError if there is no dash, or no number behind it as Kafka writes one.
        """
        found = _THREAD_ID.fullmatch(text)
        if found is None:
            msg = f"{text!r} is not <consumer id>-<thread number>"
            raise ValueError(msg)
        return cls(found[1], int(found[2]))


class SubscriptionPattern(Enum):
    """The meaning of the keys of a registration's subscription. Values are the words in the JSON."""

    STATIC = "static"
    WHITE_LIST = "white_list"
    BLACK_LIST = "black_list"


@dataclass(frozen=True, slots=True)
class ConsumerRegistration:
    """The value of `/consumers/G/ids/C`, format of 0.8.1 to 1.1.1.

    subscription keeps the order of the JSON: ((topic or regex, stream count), ...). Each count is at least 1;
    but of a white or black list only the first entry counts, and no member reads the others.
    timestamp_ms: when the member registered; 0 if it does not say. No reader uses it.
    coordination: "leader" if the member follows a leader; no member of the JVM does, nor looks at it.
    """

    pattern: SubscriptionPattern
    subscription: tuple[tuple[str, int], ...]
    timestamp_ms: int
    version: int = 1
    coordination: str = "classic"


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One listener of a broker. Before 0.10.2 the listener's name is the protocol's.

    An empty host means any interface of the broker's machine: the registration does not say which.
    """

    listener_name: str
    security_protocol: str
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class Broker:
    """The value of `/brokers/ids/<id>`, versions 1 to 5.

    host and port are taken from the first PLAINTEXT endpoint; None and -1 if it has none.
    """

    broker_id: int
    host: str | None
    port: int
    endpoints: tuple[Endpoint, ...]
    version: int
    timestamp_ms: int | None = None
    jmx_port: int = -1
    rack: str | None = None
    features: Mapping[str, tuple[int, int]] = field(default_factory=dict)

    def endpoint(self, security_protocol: str) -> Endpoint | None:
        """The first listener that speaks the protocol, or None."""
        return next((e for e in self.endpoints if e.security_protocol == security_protocol), None)


@dataclass(frozen=True, slots=True)
class TopicAssignment:
    """The value of `/brokers/topics/T`, versions 1 to 3: {partition: replica broker ids}, ascending."""

    partitions: Mapping[int, tuple[int, ...]]
    version: int = 1
    topic_id: str | None = None
    adding_replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)
    removing_replicas: Mapping[int, tuple[int, ...]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PartitionState:
    """The value of `/brokers/topics/T/partitions/P/state`; leader -1 = none."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    leader_recovery_state: int = 0
    version: int = 1


@dataclass(frozen=True, slots=True)
class Reassignment:
    """The value of `/admin/reassign_partitions`: {partition: the replicas that it is to have}."""

    replicas: Mapping[TopicPartition, tuple[int, ...]]
    version: int = 1


@dataclass(frozen=True, slots=True)
class PreferredElection:
    """The value of `/admin/preferred_replica_election`: the partitions whose first replica is to lead."""

    partitions: tuple[TopicPartition, ...]
    version: int = 1


@dataclass(frozen=True, slots=True)
class Controller:
    """The value of `/controller`."""

    broker_id: int
    timestamp_ms: int | None = None
    version: int = 1
    kraft_controller_epoch: int | None = None


@dataclass(frozen=True, slots=True)
class TopicConfig:
    """The value of `/config/topics/T`."""

    config: Mapping[str, str]
    version: int = 1


@dataclass(frozen=True, slots=True)
class ClusterFeatures:
    """The value of `/feature`, versions 1 and 2: {feature: finalized level}, and whether they are enabled."""

    levels: Mapping[str, int]
    enabled: bool
    version: int = 1


@dataclass(frozen=True, slots=True)
class ProducerIdBlock:
    """The value of `/latest_producer_id_block`: the ids from block_start to block_end, both included."""

    broker_id: int
    block_start: int
    block_end: int
    version: int = 1
