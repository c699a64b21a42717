# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore
"""Errors that librdkafka returns in place of messages, sorted by the fetcher's reaction."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto

import confluent_kafka

from legacy_consumer.fetching.librdkafka.client import RdMessage
from zk_layout.model import TopicPartition

_Code = confluent_kafka.KafkaError


class FaultKind(Enum):
    """The meaning of an error of librdkafka for a fetcher."""

    POSITION = auto()
    """The partition is not fetched until it gets a position inside its log."""
    PASSING = auto()
    """librdkafka retries by itself."""
    IRRELEVANT = auto()
    """An error of the group coordinator, which a ZooKeeper group does not use."""
    CORRUPT = auto()
    """librdkafka continues after a message that it cannot read."""
    LASTING = auto()
    """A retry does not help."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error in place of a message.

    The error's offset is left out: librdkafka may have read it from damaged bytes, or it may be that of a whole batch.
    """

    kind: FaultKind
    partition: TopicPartition | None
    reason: str


_KINDS: dict[int, FaultKind] = {
    _Code._AUTO_OFFSET_RESET: FaultKind.POSITION,
    _Code.OFFSET_OUT_OF_RANGE: FaultKind.POSITION,
    _Code._BAD_MSG: FaultKind.CORRUPT,
    _Code._BAD_COMPRESSION: FaultKind.CORRUPT,
    _Code._NOT_IMPLEMENTED: FaultKind.CORRUPT,  # an unknown message format or codec
    _Code.INVALID_MSG: FaultKind.CORRUPT,
    **dict.fromkeys(
        (
            _Code._ALL_BROKERS_DOWN,
            _Code._TRANSPORT,
            _Code._RESOLVE,
            _Code._TIMED_OUT,
            _Code._NOENT,
            _Code._UNKNOWN_TOPIC,
            _Code._UNKNOWN_PARTITION,
            _Code.UNKNOWN_TOPIC_OR_PART,
            _Code.LEADER_NOT_AVAILABLE,
            _Code.NOT_LEADER_FOR_PARTITION,
            _Code.REPLICA_NOT_AVAILABLE,
            _Code.BROKER_NOT_AVAILABLE,
            _Code.OFFSET_NOT_AVAILABLE,
            _Code.KAFKA_STORAGE_ERROR,
            _Code.REQUEST_TIMED_OUT,
            _Code.UNKNOWN,
            _Code.NETWORK_EXCEPTION,
            _Code.FENCED_LEADER_EPOCH,
            _Code.UNKNOWN_LEADER_EPOCH,
        ),
        FaultKind.PASSING,
    ),
    **dict.fromkeys(
        (
            _Code.GROUP_AUTHORIZATION_FAILED,
            _Code.COORDINATOR_NOT_AVAILABLE,
            _Code.COORDINATOR_LOAD_IN_PROGRESS,
            _Code.NOT_COORDINATOR,
        ),
        FaultKind.IRRELEVANT,
    ),
}


def kind_of(error: confluent_kafka.KafkaError) -> FaultKind:
    """Return the meaning of an error; unknown errors by librdkafka's own classification."""
    return _KINDS.get(error.code(), FaultKind.PASSING if error.retriable() else FaultKind.LASTING)


def has_faults(messages: Sequence[RdMessage]) -> bool:
    """Return whether errors are among these messages."""
    return any(map(confluent_kafka.Message.error, messages))


def take_faults(messages: Sequence[RdMessage]) -> tuple[list[RdMessage], list[Fault]]:
    """Separate messages and errors.

    After some errors librdkafka stops fetching a partition, or skips data that it cannot read. Such an error ends the
    partition: later messages are left out, and come again when the partition is assigned again.
    """
    sound: list[RdMessage] = []
    faults: list[Fault] = []
    ended: set[TopicPartition] = set()
    for message in messages:
        topic, partition = message.topic(), message.partition()
        tp = (
            TopicPartition(topic, partition) if topic is not None and partition is not None and partition >= 0 else None
        )
        if tp in ended:
            continue
        error = message.error()
        if error is None:
            sound.append(message)
            continue
        fault = Fault(kind_of(error), tp, error.str())
        faults.append(fault)
        if tp is not None and fault.kind in (FaultKind.POSITION, FaultKind.CORRUPT):
            ended.add(tp)
    return sound, faults
