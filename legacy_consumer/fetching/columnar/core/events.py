"""The output of the core: orders for connections, and events of partitions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.protocol.fetch import FetchLimits, FetchPartition, FetchSession
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Open:
    """Begin to connect to a broker; the caller then calls opened() or lost()."""

    broker: BrokerAddress


@dataclass(frozen=True, slots=True)
class HangUp:
    """Close the connection to a broker, or stop opening it. The core ignores its later responses."""

    broker: BrokerAddress


class Send(NamedTuple):
    """One fetch request to a broker, and the largest allowed size of its response."""

    broker: BrokerAddress
    version: int
    limits: FetchLimits
    session: FetchSession
    partitions: Mapping[TopicPartition, FetchPartition]
    forgotten: tuple[TopicPartition, ...]
    largest_bytes: int


Order = Open | HangUp | Send


@dataclass(frozen=True, slots=True)
class Records:
    """Bytes of one partition to decode, from position on. life: see FetchCore.is_live.

    aborted: as in FetchedPartition.
    """

    partition: TopicPartition
    life: int
    position: int
    records: memoryview
    aborted: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True)
class FindLeader:
    """Look for the leaders of these partitions, not before delay_s have passed; leader_found() takes the answers."""

    partitions: tuple[TopicPartition, ...]
    delay_s: float = 0.0


@dataclass(frozen=True, slots=True)
class FindPosition:
    """The position is EARLIEST, LATEST, or outside the log: find one that is inside; placed() takes the answer."""

    partition: TopicPartition
    life: int
    position: int


@dataclass(frozen=True, slots=True)
class Failed:
    """An error for the user's code, after all messages received before it.

    about: a partition, in this life; a broker; or None.
    """

    error: LegacyConsumerError
    about: TopicPartition | BrokerAddress | None = None
    life: int = 0


@dataclass(frozen=True, slots=True)
class Waiting:
    """A problem of a partition or a broker; reported once until it is over."""

    about: object
    reason: str


Event = Records | FindLeader | FindPosition | Failed | Waiting | HangUp
