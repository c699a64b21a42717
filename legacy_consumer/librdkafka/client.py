# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore
"""The only file that imports confluent_kafka: typed handles whose errors are this project's.

Traps of confluent-kafka 2.16, measured: calls on one handle are serialised, and behind a running consume() a call from
another thread waits for it. So each handle belongs to one thread at a time; fetcher.py sees to that.
"""

from __future__ import annotations

import logging
import re
import time
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any, TypeAlias, TypeVar

import confluent_kafka
from confluent_kafka import KafkaException

from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, FetchError, KafkaError
from zk_layout.errors import ConfigError
from zk_layout.model import TopicPartition

logger = logging.getLogger(__name__)

RdMessage: TypeAlias = "confluent_kafka.Message[bytes, bytes]"
Settings: TypeAlias = Mapping[str, str | int | float | bool]

_Code = confluent_kafka.KafkaError
_FEW_PARTITIONS = 16
"""Up to so many it costs nothing to ask librdkafka for the positions of all."""
_MANY_CANDIDATES = 64


class FaultKind(Enum):
    """What an error of librdkafka means for a fetcher."""

    POSITION = auto()
    """The partition stands still until it is given a position inside its log."""
    PASSING = auto()
    """librdkafka tries again by itself."""
    IRRELEVANT = auto()
    """Of the group coordinator, which a ZooKeeper group has no use for."""
    CORRUPT = auto()
    """librdkafka would go on behind a message that cannot be read."""
    LASTING = auto()
    """Waiting does not help."""


@dataclass(frozen=True, slots=True)
class Fault:
    """An error that came in the place of a message; offset -1 if it names none."""

    kind: FaultKind
    partition: TopicPartition | None
    offset: int
    reason: str


_KINDS: dict[int, FaultKind] = {
    _Code._AUTO_OFFSET_RESET: FaultKind.POSITION,
    _Code.OFFSET_OUT_OF_RANGE: FaultKind.POSITION,
    _Code._BAD_MSG: FaultKind.CORRUPT,
    _Code._BAD_COMPRESSION: FaultKind.CORRUPT,
    _Code.INVALID_MSG: FaultKind.CORRUPT,
    **dict.fromkeys(
        (
            _Code._ALL_BROKERS_DOWN,
            _Code._TRANSPORT,
            _Code._RESOLVE,
            _Code._TIMED_OUT,
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
_REFUSED = {_Code._AUTHENTICATION, _Code.SASL_AUTHENTICATION_FAILED, _Code._SSL}


_REFUSALS_IN_A_ROW = 3
"""So often a broker must have refused us for that to be final: one that is shutting down may break off a handshake."""
_STATE = re.compile(r" ?\(after \d+ms in state [^)]*\)")
_SAME_AGAIN_S = 30.0
_LINES_REMEMBERED = 64


class _Log:
    """Takes librdkafka's own log lines; confluent_kafka calls log() as it would a Logger's."""

    def __init__(self) -> None:
        self._said: dict[str, float] = {}

    def log(self, level: int, message: str, *args: object) -> None:
        # CONFWARN only repeats that settings which old brokers need are deprecated; a lost connection is no error yet
        facility = str(args[0]) if args else ""
        hushed = facility == "CONFWARN" or self._was_said(_STATE.sub("", str(args)))
        logger.log(logging.DEBUG if hushed else min(level, logging.WARNING), message, *args)

    def _was_said(self, line: str) -> bool:
        """A broker that refuses us does so twenty times a second, with a line for each."""
        now = time.monotonic()
        if now - self._said.get(line, -_SAME_AGAIN_S) < _SAME_AGAIN_S:
            return True
        if len(self._said) >= _LINES_REMEMBERED:
            self._said.clear()
        self._said[line] = now
        return False


class _Client:
    """What consumers and producers share: their errors that concern no partition."""

    def __init__(self, settings: Settings) -> None:
        self.bootstrap_servers = str(settings.get("bootstrap.servers", ""))
        self.brokers_down = False
        """No broker can be reached; until a message comes."""
        self.refusal: str | None = None
        """Why a broker did not let us in, if one did not."""
        self._refusals = 0

        self._oversize: str | None = None

    def lasting_failure(self) -> KafkaError | None:
        """What keeps us from the brokers and does not pass by waiting; whoever goes on hears of it again.

        No broker lets us in, or an answer is larger than we may take, which librdkafka would ask for for ever.
        """
        if self._oversize is not None:
            oversize, self._oversize = self._oversize, None
            return FetchError(None, f"{oversize}, as rdkafka.receive.message.max.bytes")
        if self.brokers_down and self._refusals >= _REFUSALS_IN_A_ROW:
            self._refusals = 0
            return BrokerRefusedError(self.bootstrap_servers, self.refusal or "")
        return None

    def _on_error(self, error: confluent_kafka.KafkaError) -> None:
        if error.code() == _Code._ALL_BROKERS_DOWN:
            if not self.brokers_down:
                logger.warning("no broker can be reached: %s", error.str())
            self.brokers_down = True
        elif error.code() in _REFUSED:
            self._refusals += 1
            reason = _STATE.sub("", error.str())
            if self.refusal is None:
                logger.warning("a broker refuses us: %s", reason)
            self.refusal = reason
        elif error.code() == _Code._BAD_MSG and "receive.message.max.bytes" in error.str():
            self._oversize = _STATE.sub("", error.str())
        else:
            if error.code() == _Code._TRANSPORT:
                self._refusals = 0
            logger.debug("%s: %s", error.name(), error.str())


_Handle = TypeVar("_Handle", confluent_kafka.Consumer, confluent_kafka.Producer)


def _made(kind: type[_Handle], config: dict[str, Any]) -> _Handle:
    """Construct a handle.

    Ctrl-C in the midst of it comes out as a TypeError about a property's name, and the interruption is forgotten. Names
    are always texts here, so the error can mean nothing else.
    """
    try:
        return kind(config, logger=_Log())
    except TypeError as error:
        if "property name" in str(error):
            raise KeyboardInterrupt from error
        raise


class ConsumerHandle(_Client):
    """One librdkafka consumer that is told its partitions. Not for two threads at once.

    Raises: ConfigError for a setting that librdkafka does not take.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._assigned: dict[TopicPartition, confluent_kafka.TopicPartition] = {}
        self._by_number: dict[int, list[TopicPartition]] = {}
        self._positions: dict[TopicPartition, int] = {}
        self._starts: dict[TopicPartition, int] = {}
        config: dict[str, Any] = {**settings, "error_cb": self._on_error}
        try:
            self._consumer = _made(confluent_kafka.Consumer, config)
        except KafkaException as error:
            raise _as_config_error(error, settings) from error

    @property
    def assigned(self) -> Collection[TopicPartition]:
        """The partitions that are being fetched."""
        return self._assigned.keys()

    def assign(self, positions: Mapping[TopicPartition, int]) -> None:
        """Begin to fetch these, or begin again."""
        self.unassign(positions)
        if positions:
            self._consumer.incremental_assign(
                [confluent_kafka.TopicPartition(tp.topic, tp.partition, offset) for tp, offset in positions.items()]
            )
        for tp in positions:
            self._assigned[tp] = confluent_kafka.TopicPartition(tp.topic, tp.partition)
        self._starts.update(positions)
        self._index()

    def unassign(self, partitions: Iterable[TopicPartition]) -> None:
        """Stop fetching these; unknown ones are ignored."""
        going = [tp for tp in partitions if tp in self._assigned]
        if going:
            self._consumer.incremental_unassign([self._assigned[tp] for tp in going])
        for tp in going:
            del self._assigned[tp], self._starts[tp]
        self._index()

    def resume_positions(self) -> dict[TopicPartition, int]:
        """Where another handle would go on."""
        return {tp: position if position >= 0 else self._starts[tp] for tp, position in self._positions.items()}

    def _index(self) -> None:
        self._by_number = {}
        for tp in self._assigned:
            self._by_number.setdefault(tp.partition, []).append(tp)
        # a partition's position is void from its assignment to its first message: then it stands in no batch
        positions = self._consumer.position(list(self._assigned.values())) if self._assigned else []
        self._positions = {tp: found.offset for tp, found in zip(self._assigned, positions, strict=True)}

    def consume(self, max_messages: int, timeout_s: float) -> list[RdMessage]:
        """What is queued; with nothing queued wait, and then take what came. Faults are among the messages.

        librdkafka itself would wait until max_messages have come, so it is asked to wait for one only.
        """
        messages = self._consumer.consume(max_messages, 0)
        if not messages and timeout_s > 0:
            messages = self._consumer.consume(1, timeout_s)
            if messages and max_messages > 1:
                messages += self._consumer.consume(max_messages - 1, 0)
        if messages:
            self.brokers_down = False
        return messages

    def next_offsets(self, messages: Sequence[RdMessage]) -> dict[TopicPartition, int]:
        """The offset after the last of these messages for each of their partitions.

        They must be the ones that consume returned last, without faults. librdkafka counts positions as it hands
        messages out, so asking for these costs less than looking at each message: 0 instead of a quarter of the time of
        a batch of 500 with 4 partitions. With many partitions only those are asked for whose number is in the batch.
        """
        known = self._positions
        asked = self._assigned
        if len(asked) > _FEW_PARTITIONS:
            numbers = set(map(confluent_kafka.Message.partition, messages))
            asked = {tp: self._assigned[tp] for number in numbers for tp in self._by_number.get(number or 0, ())}
            if len(asked) > _MANY_CANDIDATES:
                offsets = offsets_after(messages)
                known.update(offsets)
                return offsets
        moved: dict[TopicPartition, int] = {}
        for tp, position in zip(asked, self._consumer.position(list(asked.values())), strict=True):
            offset = position.offset
            if offset != known[tp]:
                moved[tp] = known[tp] = offset
        return moved

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float
    ) -> dict[TopicPartition, int | str]:
        """The first offset at or after a time (ms), -1 = the log's end, -2 = its begin; or why there is none.

        Raises: BrokersUnavailableError if there is no answer at all in time; FetchError for a time where the broker
        keeps messages without timestamps.
        """
        wanted = [confluent_kafka.TopicPartition(tp.topic, tp.partition, time) for tp, time in times.items()]
        try:
            found = self._consumer.offsets_for_times(wanted, timeout_s) if wanted else []
        except KafkaException as error:
            if error.args[0].code() == _Code.UNSUPPORTED_FOR_MESSAGE_FORMAT:
                raise FetchError(
                    min(times), "its messages have no timestamps (format 0), so none can be found by time"
                ) from error
            raise self._unavailable(error, timeout_s) from error
        finally:
            self.serve()
        return {
            TopicPartition(one.topic, one.partition): one.offset if one.error is None else one.error.str()
            for one in found
        }

    def leaders(self, topics: Collection[str], timeout_s: float) -> dict[TopicPartition, int]:
        """The leading broker of each partition of these topics; partitions without one are left out.

        Raises: BrokersUnavailableError.
        """
        found: dict[TopicPartition, int] = {}
        for topic in topics:
            try:
                metadata = self._consumer.list_topics(topic, timeout_s)
            except KafkaException as error:
                raise self._unavailable(error, timeout_s) from error
            for known in metadata.topics[topic].partitions.values():
                if known.leader >= 0:
                    found[TopicPartition(topic, known.id)] = known.leader
        return found

    def _unavailable(self, error: KafkaException, timeout_s: float) -> BrokersUnavailableError:
        self.serve()
        failure = self.lasting_failure()
        if isinstance(failure, BrokerRefusedError):
            return failure
        reason = self.refusal or error.args[0].str()
        return BrokersUnavailableError(f"no answer from the brokers within {timeout_s:.1f} s: {reason}")

    def serve(self) -> None:
        """Let librdkafka call back and log, where nobody consumes."""
        self._consumer.poll(0)

    def close(self) -> None:
        """Stop and free everything; the handle cannot be used again."""
        self._consumer.close()


class OffsetsHandle(_Client):
    """One librdkafka consumer that only asks a group's coordinator. Not for two threads at once.

    A commit is queued in librdkafka until it knows a coordinator, however long that takes, and would be carried out
    then; and closing waits for it (43 s, measured). So ask first, and abandon a handle whose commit had no answer.
    Raises: ConfigError for a setting that librdkafka does not take.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self._answers: list[str | None] = []
        config: dict[str, Any] = {**settings, "error_cb": self._on_error, "on_commit": self._on_commit}
        try:
            self._consumer = _made(confluent_kafka.Consumer, config)
        except KafkaException as error:
            raise _as_config_error(error, settings) from error

    def committed(
        self, partitions: Collection[TopicPartition], timeout_s: float
    ) -> dict[TopicPartition, tuple[int | None, str]]:
        """(offset, metadata) of each partition; offset None = there is none.

        Raises: BrokersUnavailableError if the coordinator does not answer, or says that it cannot.
        """
        wanted = [confluent_kafka.TopicPartition(tp.topic, tp.partition) for tp in partitions]
        try:
            answered = self._consumer.committed(wanted, timeout_s)
        except KafkaException as error:
            raise BrokersUnavailableError(self._reason(error.args[0], timeout_s)) from error
        finally:
            self._consumer.poll(0)
        found: dict[TopicPartition, tuple[int | None, str]] = {}
        for one in answered:
            # 0.8.2 says so of a partition without an offset
            if one.error is not None and one.error.code() != _Code.UNKNOWN_TOPIC_OR_PART:
                raise BrokersUnavailableError(self._reason(one.error, timeout_s))
            offset = one.offset if one.error is None and one.offset >= 0 else None
            found[TopicPartition(one.topic, one.partition)] = (offset, one.metadata or "")
        return found

    def commit(self, offsets: Mapping[TopicPartition, tuple[int, str]], timeout_s: float) -> str | None:
        """Commit {partition: (offset, metadata)}; None, or why some were refused.

        Raises: BrokersUnavailableError without an answer in time; the handle must then be abandoned.
        """
        deadline = time.monotonic() + timeout_s
        wanted = [
            confluent_kafka.TopicPartition(tp.topic, tp.partition, offset, metadata)
            for tp, (offset, metadata) in offsets.items()
        ]
        self._answers.clear()
        try:
            self._consumer.commit(offsets=wanted, asynchronous=True)
            while not self._answers:
                left_s = deadline - time.monotonic()
                if left_s <= 0:
                    raise BrokersUnavailableError(f"no answer to a commit within {timeout_s:.1f} s")
                self._consumer.poll(min(left_s, 0.1))
        except KafkaException as error:
            raise BrokersUnavailableError(self._reason(error.args[0], timeout_s)) from error
        return self._answers.pop(0)

    def _on_commit(self, error: confluent_kafka.KafkaError | None, _: object) -> None:
        self._answers.append(None if error is None else error.str())

    def _reason(self, error: confluent_kafka.KafkaError, timeout_s: float) -> str:
        if error.code() == _Code._TIMED_OUT:
            return self.refusal or f"no group coordinator answered within {timeout_s:.1f} s"
        return self.refusal or error.str()

    def close(self) -> None:
        """Stop and free everything; the handle cannot be used again."""
        self._consumer.close()


class ProducerHandle(_Client):
    """One librdkafka producer that reports failures only; what is not reported by the end of flush was acknowledged.

    Raises: ConfigError for a setting that librdkafka does not take.
    """

    def __init__(self, settings: Settings) -> None:
        super().__init__(settings)
        self.failed = 0
        self.first_failure: str | None = None
        config: dict[str, Any] = {
            **settings,
            "error_cb": self._on_error,
            "on_delivery": self._on_failure,
            "delivery.report.only.error": True,
        }
        try:
            self._producer = _made(confluent_kafka.Producer, config)
        except KafkaException as error:
            raise _as_config_error(error, settings) from error

    def _on_failure(self, error: confluent_kafka.KafkaError | None, _message: object) -> None:
        self.failed += 1
        if self.first_failure is None and error is not None:
            self.first_failure = error.str()

    def produce(
        self,
        topic: str,
        key: bytes | None,
        value: bytes | None,
        partition: int,
        timestamp_ms: int,
        headers: list[tuple[str, bytes | None]] | None,
    ) -> None:
        """Queue one record, waiting for room. Raises: FetchError if it can never be sent."""
        while True:
            try:
                self._producer.produce(
                    topic,
                    value,
                    key,
                    partition,
                    timestamp=timestamp_ms,
                    headers=headers or None,  # type: ignore[arg-type]
                )
            except BufferError:
                self._producer.poll(0.1)
            except KafkaException as error:
                raise FetchError(None, f"{topic}: {error.args[0].str()}") from error
            else:
                return

    def flush(self, timeout_s: float) -> int:
        """Wait until all is sent or has failed; returns how many are still on their way."""
        return self._producer.flush(timeout_s)

    def drop(self) -> None:
        """Forget what was not sent."""
        self._producer.purge()
        self._producer.flush(1.0)


def has_faults(messages: Sequence[RdMessage]) -> bool:
    """Whether errors stand among these messages."""
    return any(map(confluent_kafka.Message.error, messages))


def take_faults(messages: Sequence[RdMessage]) -> tuple[list[RdMessage], list[Fault]]:
    """Part messages and errors."""
    sound: list[RdMessage] = []
    faults: list[Fault] = []
    for message in messages:
        error = message.error()
        if error is None:
            sound.append(message)
            continue
        topic, partition, offset = message.topic(), message.partition(), message.offset()
        named = topic is not None and partition is not None and partition >= 0
        faults.append(
            Fault(
                kind=_KINDS.get(error.code(), FaultKind.PASSING if error.retriable() else FaultKind.LASTING),
                partition=TopicPartition(topic or "", partition or 0) if named else None,
                offset=offset if offset is not None and offset >= 0 else -1,
                reason=error.str(),
            )
        )
    return sound, faults


def offsets_after(messages: Sequence[RdMessage]) -> dict[TopicPartition, int]:
    """The offset after the last of these messages for each partition, from the messages alone."""
    last = dict(
        zip(
            zip(
                map(confluent_kafka.Message.topic, messages),
                map(confluent_kafka.Message.partition, messages),
                strict=True,
            ),
            map(confluent_kafka.Message.offset, messages),
            strict=True,
        )
    )
    return {
        TopicPartition(topic or "", partition or 0): (offset or 0) + 1 for (topic, partition), offset in last.items()
    }


def check_settings(settings: Settings) -> None:
    """Refuse what librdkafka would refuse, without connecting. Raises: ConfigError."""
    ConsumerHandle({**settings, "bootstrap.servers": ""}).close()


def _as_config_error(error: KafkaException, settings: Settings) -> ConfigError:
    reason = error.args[0].str()
    name = next((n for n in sorted(settings, key=len, reverse=True) if n in reason), "rdkafka")
    if name != "rdkafka" and not name.startswith(("ssl.", "sasl.", "enable.ssl.")):
        name = f"rdkafka.{name}"
    return ConfigError(name, None, f"librdkafka says: {reason}")
