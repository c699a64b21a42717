"""The consumer's branch of the error tree.

LegacyConsumerError (zk_layout.errors)
  StreamError
    ConsumerTimeoutError            no message within consumer.timeout.ms; the stream can be used again
    MessageStreamsExistError        streams can be created once, until unsubscribe(); listeners set only before
    UnsubscribeError                the member did not leave the group in order; the connector was shut down
    ConsumerClosedError             the connector was shut down
    NotJoinedError                  no message streams were created yet
    ForkedConsumerError             the consumer was made in another process, which forked this one
    StreamInUseError                another thread waits for messages of this stream
    NotAssignedError                this member does not own the partition, or not any more
    CallInProgressError             a signal or logging handler makes a call inside another one of this consumer
  KafkaError
    BrokersUnavailableError         retriable; no broker is registered, or none can be reached
      BrokerRefusedError            the brokers refuse these credentials or certificates
      GroupRefusedError             the brokers accept the client, but not in this group
    MissingListenerError            no broker offers the wanted security protocol
    FetchError                      a broker answered a fetch with an error
      CorruptRecordsError           records in the log are damaged, or not in Kafka's format
    SegmentFileError                a stored log segment is missing, or cannot be read
    CorruptSegmentError             a stored log segment is damaged from some byte on
    MalformedResponseError          retriable; a broker's answer breaks the protocol
    ProduceError                    the brokers did not acknowledge some records
    PositionError                   a partition waits until the user's code sets its position
      OffsetOutOfRangeError         the position lies outside the log
      NoCommittedOffsetError        the group has committed none, with auto.offset.reset=none
    NoSuchPartitionError            the topic has no partition of this number
  OffsetError
    OffsetsNotCommittedError        some offsets were not committed, each for its own reason
    CommitFailedError               retriable; Kafka did not accept the offsets, with offsets.storage=kafka
    GroupOffsetsUnavailableError    retriable; Kafka does not return the group's offsets
  EmbeddedError
    JavaMissingError                no usable Java
    JarsUnavailableError            the jars cannot be resolved
    ServerStartError                a server ended or did not answer while starting; quotes its log
    PortInUseError                  the wanted port is in use
  MetricsServerError                metrics and health cannot be served at the wanted address
  AdminError
    NoSuchGroupError                ZooKeeper has no znode of the group
    NoSuchTopicError                the cluster has no topic of this name
    ActiveGroupError                the group has members, which would write its znodes again
    MigrationRefusedError           a precondition of a step fails; nothing was written
    MigrationIncompleteError        retriable; a step stopped halfway, the same command continues it
"""

from __future__ import annotations

from typing import ClassVar

from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition


class StreamError(LegacyConsumerError):
    """A call of a connector, a stream or a SimpleConsumer cannot be carried out."""


class ConsumerTimeoutError(StreamError):
    """No message within consumer.timeout.ms. The stream is sound and can be read again."""

    def __init__(self, timeout_ms: int) -> None:
        super().__init__(timeout_ms)
        self.timeout_ms = timeout_ms

    def _text(self) -> str:
        return f"no message within consumer.timeout.ms={self.timeout_ms}"


class MessageStreamsExistError(StreamError):
    """The connector's streams exist already."""

    def _text(self) -> str:
        return (
            "this connector has its streams already: call unsubscribe() first, or create another connector, or set "
            "listeners before the streams"
        )


class UnsubscribeError(StreamError):
    """The member did not leave the group in order, so the connector was shut down."""

    def __init__(self, consumer_id: str, timeout_s: float) -> None:
        super().__init__(consumer_id, timeout_s)
        self.consumer_id = consumer_id
        self.timeout_s = timeout_s

    def _text(self) -> str:
        return (
            f"{self.consumer_id} did not leave its group in order (timeout: {self.timeout_s:.1f} s), so the connector "
            "was shut down, and the end of its session frees what it owned: create another connector"
        )


class ConsumerClosedError(StreamError):
    """The connector was shut down."""

    def _text(self) -> str:
        return "this consumer was shut down"


class NotJoinedError(StreamError):
    """The connector is no member yet."""

    def _text(self) -> str:
        return "no message streams were created yet: call create_message_streams first"


class ForkedConsumerError(StreamError):
    """The consumer belongs to another process, which made it and forked this one."""

    def _text(self) -> str:
        return "this consumer belongs to the process that made it: make another one in the forked process"


class StreamInUseError(StreamError):
    """Another thread waits for messages of this stream. Nothing is lost."""

    def __init__(self, thread: str) -> None:
        super().__init__(thread)
        self.thread = thread

    def _text(self) -> str:
        return (
            f"thread {self.thread!r} uses this stream at the same time: let one thread take the messages, or join with "
            "a stream for each thread"
        )


class NotAssignedError(StreamError):
    """This member or this stream does not have the partition, or not any more; or it could not begin yet."""

    def __init__(self, partition: TopicPartition) -> None:
        super().__init__(partition)
        self.partition = partition

    def _text(self) -> str:
        return (
            f"{self.partition} is not assigned here, or not any more, or has not begun: see the connector's "
            "status.owned and status.error"
        )


class CallInProgressError(StreamError):
    """A signal handler or a logging handler makes a call inside another one of this consumer. Nothing is done."""

    def _text(self) -> str:
        return (
            "this call was made by a signal handler or a logging handler inside another call of this consumer, which "
            "goes on only when the handler returns: set a flag there, or call shutdown() or end_streams()"
        )


class KafkaError(LegacyConsumerError):
    """A broker, or the connection to it, is at fault."""


class BrokersUnavailableError(KafkaError):
    """No broker answers."""

    retriable: ClassVar[bool] = True

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _text(self) -> str:
        return self.reason


class BrokerRefusedError(BrokersUnavailableError):
    """The brokers refuse this client, or it does not trust them; reason: librdkafka's words."""

    retriable: ClassVar[bool] = False

    def __init__(self, brokers: str, reason: str) -> None:
        super().__init__(reason)
        self.args = (brokers, reason)
        self.brokers = brokers

    def _text(self) -> str:
        return f"brokers {self.brokers} refuse this client: {self.reason}; check security.protocol, sasl.* and ssl.*"


class GroupRefusedError(BrokersUnavailableError):
    """The brokers do not let this client into the group: asking again does not help; reason: librdkafka's words."""

    retriable: ClassVar[bool] = False

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(reason)
        self.args = (group, reason)
        self.group = group

    def _text(self) -> str:
        return (
            f"the brokers do not let this client into group {self.group!r}: {self.reason}; allow this "
            "client's principal Read on the group and on its topics, or give the credentials of its members"
        )


class MissingListenerError(KafkaError):
    """No registered broker has a listener with the wanted protocol."""

    def __init__(self, security_protocol: str, offered: tuple[str, ...]) -> None:
        super().__init__(security_protocol, offered)
        self.security_protocol = security_protocol
        self.offered = offered

    def _text(self) -> str:
        return (
            f"no broker offers a {self.security_protocol} listener, only {', '.join(self.offered) or 'none'}: "
            "set security.protocol to one of them"
        )


class FetchError(KafkaError):
    """A broker answered a fetch with an error that a retry does not cure."""

    def __init__(self, partition: TopicPartition | None, reason: str) -> None:
        super().__init__(partition, reason)
        self.partition = partition
        self.reason = reason

    def _text(self) -> str:
        return f"{self.partition}: {self.reason}" if self.partition else self.reason


class MalformedResponseError(KafkaError):
    """A broker's answer breaks the protocol; the client does not use that connection again."""

    retriable: ClassVar[bool] = True

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def _text(self) -> str:
        return f"the answer to {self.what} is not what Kafka's protocol says: {self.reason}"


class CorruptRecordsError(FetchError):
    """The records at this offset cannot be read: they are damaged, or not in Kafka's format."""

    def __init__(self, partition: TopicPartition, offset: int, reason: str) -> None:
        super().__init__(partition, reason)
        self.args = (partition, offset, reason)
        self.offset = offset

    def _text(self) -> str:
        return (
            f"{self.partition}: the records at offset {self.offset} are corrupt: {self.reason}; look at the segment "
            "on the brokers, or set the position behind it"
        )


class SegmentFileError(KafkaError):
    """No stored segment can be read at this path."""

    def __init__(self, path: str, reason: str) -> None:
        super().__init__(path, reason)
        self.path = path
        self.reason = reason

    def _text(self) -> str:
        return f"{self.path}: {self.reason}"


class CorruptSegmentError(KafkaError):
    """A stored segment is damaged from this byte on; the bytes before it are sound.

    last_offset: the offset of the last sound entry, -1 if there is none; None if only one entry was read.
    """

    def __init__(self, name: str, position: int, reason: str, last_offset: int | None = None) -> None:
        super().__init__(name, position, reason, last_offset)
        self.name = name
        self.position = position
        self.reason = reason
        self.last_offset = last_offset

    def _text(self) -> str:
        offset = "" if self.last_offset is None else f", last offset {self.last_offset}"
        return f"{self.name}: sound to byte {self.position}{offset}; then: {self.reason}"


class PositionError(KafkaError):
    """The partition waits until the user's code sets its position; its log holds [earliest, latest]."""

    partition: TopicPartition
    earliest: int
    latest: int


class OffsetOutOfRangeError(PositionError):
    """The position lies outside the log."""

    def __init__(self, partition: TopicPartition, offset: int, earliest: int, latest: int) -> None:
        super().__init__(partition, offset, earliest, latest)
        self.partition = partition
        self.offset = offset
        self.earliest = earliest
        self.latest = latest

    def _text(self) -> str:
        return (
            f"{self.partition}: offset {self.offset} is outside the log, which holds {self.earliest} to {self.latest}"
        )


class NoCommittedOffsetError(PositionError):
    """The group has committed no offset of the partition, and auto.offset.reset=none chooses none."""

    def __init__(self, partition: TopicPartition, earliest: int, latest: int) -> None:
        super().__init__(partition, earliest, latest)
        self.partition = partition
        self.earliest = earliest
        self.latest = latest

    def _text(self) -> str:
        return (
            f"{self.partition}: the group has committed no offset, and auto.offset.reset is none: seek to where it is "
            f"to begin in the log, which holds {self.earliest} to {self.latest}, or write it with `legacy-consumer "
            "offsets reset`"
        )


class NoSuchPartitionError(KafkaError):
    """The topic is there, but not this partition of it."""

    def __init__(self, partition: TopicPartition, partitions: int) -> None:
        super().__init__(partition, partitions)
        self.partition = partition
        self.partitions = partitions

    def _text(self) -> str:
        return f"{self.partition} does not exist: the topic has {self.partitions} partitions, numbered from 0"


class ProduceError(KafkaError):
    """The brokers did not acknowledge some records."""

    def __init__(self, topic: str, failed: int, produced: int, reason: str) -> None:
        super().__init__(topic, failed, produced, reason)
        self.topic = topic
        self.failed = failed
        self.produced = produced
        self.reason = reason

    def _text(self) -> str:
        return f"{self.failed} of {self.produced} records were not acknowledged by {self.topic}: {self.reason}"


class OffsetError(LegacyConsumerError):
    """An offset is invalid, or cannot be committed or read."""


class OffsetsNotCommittedError(OffsetError):
    """Some offsets of a commit were not written: reasons is {partition: why}. All other offsets are committed."""

    def __init__(self, group: str, reasons: dict[TopicPartition, str]) -> None:
        super().__init__(group, reasons)
        self.group = group
        self.reasons = reasons

    def _text(self) -> str:
        some = "; ".join(f"{tp}: {reason}" for tp, reason in sorted(self.reasons.items())[:3])
        return f"{len(self.reasons)} offsets of group {self.group!r} were not committed ({some})"


class CommitFailedError(OffsetError):
    """Kafka did not accept these offsets; ZooKeeper did, with dual.commit.enabled."""

    retriable: ClassVar[bool] = True

    def __init__(self, group: str, partitions: tuple[TopicPartition, ...], reason: str) -> None:
        super().__init__(group, partitions, reason)
        self.group = group
        self.partitions = partitions
        self.reason = reason

    def _text(self) -> str:
        some = ", ".join(map(str, self.partitions[:3])) + (", ..." if len(self.partitions) > 3 else "")
        return f"offsets of group {self.group!r} were not committed to Kafka ({some}): {self.reason}"


class GroupOffsetsUnavailableError(OffsetError):
    """The group's offsets are in Kafka, and no group coordinator returns them."""

    retriable: ClassVar[bool] = True

    def __init__(self, group: str, reason: str) -> None:
        super().__init__(group, reason)
        self.group = group
        self.reason = reason

    def _text(self) -> str:
        return (
            f"offsets of group {self.group!r} cannot be read from Kafka: {self.reason}; see whether the brokers run "
            "and __consumer_offsets has leaders, or set offsets.storage=zookeeper in all members"
        )


class EmbeddedError(LegacyConsumerError):
    """An embedded server cannot be started."""


class JavaMissingError(EmbeddedError):
    """Java is missing, or too old."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _text(self) -> str:
        return f"{self.reason}: install Java 17 or newer and put it on PATH, or set JAVA_HOME"


class JarsUnavailableError(EmbeddedError):
    """The jars of a Kafka version cannot be resolved or do not match the lock."""

    def __init__(self, what: str, reason: str) -> None:
        super().__init__(what, reason)
        self.what = what
        self.reason = reason

    def _text(self) -> str:
        return f"the jars of {self.what} are not available: {self.reason}"


class ServerStartError(EmbeddedError):
    """A server did not start; log_tail is the end of its log."""

    def __init__(self, server: str, reason: str, log_tail: str) -> None:
        super().__init__(server, reason, log_tail)
        self.server = server
        self.reason = reason
        self.log_tail = log_tail

    def _text(self) -> str:
        return f"{self.server} did not start: {self.reason}"

    def __str__(self) -> str:
        # the error shows the server's log with all its lines
        return super().__str__() + (f"; its log ends:\n{self.log_tail}" if self.log_tail else "")


class PortInUseError(EmbeddedError):
    """The wanted port is in use already."""

    def __init__(self, server: str, port: int) -> None:
        super().__init__(server, port)
        self.server = server
        self.port = port

    def _text(self) -> str:
        return f"{self.server} cannot have port {self.port}, something listens there: choose another, 0 for any"


class MetricsServerError(LegacyConsumerError):
    """The server cannot listen at this address."""

    def __init__(self, host: str, port: int, reason: str) -> None:
        super().__init__(host, port, reason)
        self.host = host
        self.port = port
        self.reason = reason

    def _text(self) -> str:
        return f"metrics cannot be served at {self.host}:{self.port}: {self.reason}"


class AdminError(LegacyConsumerError):
    """An operator's command cannot be carried out."""


class NoSuchGroupError(AdminError):
    """ZooKeeper has no znode /consumers/G."""

    def __init__(self, group: str) -> None:
        super().__init__(group)
        self.group = group

    def _text(self) -> str:
        return f"group {self.group!r} does not exist: `legacy-consumer groups list` names those that do"


class NoSuchTopicError(AdminError):
    """ZooKeeper has no znode /brokers/topics/T."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def _text(self) -> str:
        return f"topic {self.topic!r} does not exist: check its name, and the chroot if zookeeper.connect is set"


class MigrationRefusedError(AdminError):
    """A step of a migration would lose or repeat messages or move a group back, or an operator has to decide first."""

    def __init__(self, group: str, reasons: tuple[str, ...]) -> None:
        super().__init__(group, reasons)
        self.group = group
        self.reasons = reasons

    def _text(self) -> str:
        return f"nothing was written for group {self.group!r}: {'; '.join(self.reasons)}"


class MigrationIncompleteError(AdminError):
    """A step of a migration stopped halfway; the written offsets stay, and the same command continues from there.

    written: the number of partitions known to be written. is_unanswered: the last request may have written more.
    """

    retriable: ClassVar[bool] = True

    def __init__(
        self, group: str, target: str, written: int, total: int, reason: str, is_unanswered: bool = False
    ) -> None:
        super().__init__(group, target, written, total, reason, is_unanswered)
        self.group = group
        self.target = target
        self.written = written
        self.total = total
        self.reason = reason
        self.is_unanswered = is_unanswered

    def _text(self) -> str:
        unknown = ", and it is not known whether more were" if self.is_unanswered else ""
        return (
            f"{self.written} of {self.total} partitions of group {self.group!r} were written to {self.target}{unknown}"
            f", then: {self.reason}; the same command goes on from there"
        )


class ActiveGroupError(AdminError):
    """Members of the group are registered, and would write the changed or deleted znodes again."""

    def __init__(self, group: str, members: tuple[str, ...]) -> None:
        super().__init__(group, members)
        self.group = group
        self.members = members

    def _text(self) -> str:
        some = ", ".join(self.members[:3]) + (", ..." if len(self.members) > 3 else "")
        them = "1 member: stop it" if len(self.members) == 1 else f"{len(self.members)} members: stop them"
        return (
            f"group {self.group!r} has {them} first ({some}); `doctor` names registrations that are not "
            "ephemeral, which stay when their member is gone"
        )
