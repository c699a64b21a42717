"""SimpleConsumer: the second of the old Kafka's two consumers, for user's code that keeps the positions itself.

It belongs to no group and writes nothing to ZooKeeper. The caller passes the offset to each fetch. The consumer finds
the leader of a partition, and finds it again when another broker leads.

It uses the same two seams as a connector, a Fetcher and LogOffsets. The partitions of the last fetch stay assigned. A
fetch that continues where the last one ended uses the messages fetched ahead. Any other fetch begins anew at its
offset, and so does the next fetch after an exception.
"""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields, replace
from types import TracebackType
from typing import TypeVar

from legacy_consumer.config import PROPERTIES, ClusterConfig, ConsumerConfig
from legacy_consumer.config.sources import Value
from legacy_consumer.errors import (
    BrokerRefusedError,
    BrokersUnavailableError,
    ConsumerClosedError,
    FetchError,
    NoSuchPartitionError,
    NoSuchTopicError,
    OffsetOutOfRangeError,
)
from legacy_consumer.fetching.bootstrap import open_broker_store, parse_servers
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST, Fetcher, LogOffsets, Message
from legacy_consumer.fetching.fetchers import open_fetcher, open_log_offsets
from legacy_consumer.fetching.message_batch import MessageBatch
from legacy_consumer.member.arguments import (
    check_config,
    check_partition,
    check_topic,
    checked_fetches,
    checked_number,
    checked_offset,
    checked_seconds,
)
from legacy_consumer.member.interrupted_calls import is_inside, refuse_inside
from legacy_consumer.member.owning_process import OwningProcess
from zk_layout.closed_znodes import read_each
from zk_layout.codecs import decode_partition_state, decode_topic
from zk_layout.errors import LegacyConsumerError, MalformedZnodeError, NoNodeError, NotPermittedError
from zk_layout.kazoo_store import KazooStore
from zk_layout.loggers import safe_logger
from zk_layout.model import Broker, PartitionState, TopicAssignment, TopicPartition
from zk_layout.paths import PartitionStatePath, TopicPath
from zk_layout.signals import Flag
from zk_layout.store import ZkStore

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

logger = safe_logger(__name__)

Answer = TypeVar("Answer")

_CLIENT = "simple-consumer"
_SLICE_S = 0.1
"""The longest wait of one poll, in seconds: the next poll raises an error that the fetcher finds meanwhile."""
_LOOK_S = 1.0
"""The longest time without messages, in seconds, before a fetch checks that its partitions exist."""
_ANSWER_S = 10.0
"""The time, in seconds, for which a request for log offsets is retried while a partition has no leader."""
_LAST_VERSION_WITHOUT_TIMES = 2
"""The registration version of brokers up to 0.9, which look up a time by segment only."""
_NO_STATE = PartitionState(-1, -1, (), -1)


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """The brokers of a partition in ZooKeeper, by id; the preferred leader is the first of the replicas."""

    leader: Broker | None
    """The broker that answers fetches; None while there is none, or it is not registered."""
    leader_epoch: int
    """The number of leader changes; -1 before the first leader, and if brokers were asked instead of ZooKeeper."""
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]
    followers: tuple[Broker, ...] = ()
    """The other brokers that have a replica, as far as they are registered."""


class SimpleConsumer:
    """Reads partitions from given offsets, in no group. A context manager; fetches of several threads take turns.

    >>> with SimpleConsumer(zookeeper_connect="localhost:2181") as consumer:  # doctest: +SKIP
    ...     orders = TopicPartition("orders", 0)
    ...     (offset,) = consumer.offsets_before(orders, EARLIEST)
    ...     while messages := consumer.fetch(orders, offset):
    ...         offset = messages[-1].offset() + 1

    Without ZooKeeper it asks brokers for all metadata: SimpleConsumer(bootstrap_servers="broker1:9092,broker2:9092").

    Pass a configuration, or the properties themselves. Of a ConsumerConfig it uses the properties of the connection and
    of fetching (fetch.message.max.bytes and the like); it writes the group nowhere.

    A signal handler may always call close(). Its other calls raise CallInProgressError if it interrupts a call of this
    consumer.

    Raises: ConfigError before any I/O; with the first request ConnectTimeoutError, MissingChrootError,
    AuthenticationError, or with bootstrap_servers BrokersUnavailableError and BrokerRefusedError.
    """

    def __init__(
        self,
        config: ClusterConfig | None = None,
        *,
        bootstrap_servers: str | None = None,
        store: ZkStore | None = None,
        fetcher: Fetcher | str | None = None,
        log_offsets: LogOffsets | None = None,
        **properties: Value,
    ) -> None:
        if isinstance(fetcher, str):
            # the property `fetcher`, not a Fetcher object
            properties, fetcher = {**properties, "fetcher": fetcher}, None
        check_config(config, ClusterConfig)
        if config is not None and properties:
            msg = "give either a configuration or properties"
            raise TypeError(msg)
        self._process = OwningProcess()
        if bootstrap_servers is not None:
            servers = parse_servers(bootstrap_servers)
            if config is not None or "zookeeper_connect" in properties:
                msg = "give either bootstrap_servers or what names a ZooKeeper"
                raise TypeError(msg)
            # the fetchers of one cluster in this process share their connections by this name; no client connects to it
            properties["zookeeper_connect"] = bootstrap_servers
        if config is None:
            config = ConsumerConfig.load(None, None, **{"group_id": _CLIENT, **properties})
        settings = _with_fetch_settings(config)
        self._backoff_s = settings.refresh_leader_backoff_ms / 1000
        if store is None and bootstrap_servers is not None:
            store = open_broker_store(settings, servers)
        self._store = store or KazooStore(settings.zk_settings())
        # librdkafka returns one offset for a request, so the columnar client looks up log offsets if it can be used
        self._log_offsets = log_offsets or open_log_offsets(replace(settings, fetcher="auto"), self._store)
        self._fetcher = fetcher or open_fetcher(settings, self._store, self._log_offsets)
        self._warnings = settings.warnings
        self._closed = Flag()
        self._closing_is_told = _ClosingIsTold(self._closed)
        self._started = False
        self._starting = threading.Lock()
        self._turn = threading.Lock()
        """Held by one fetch at a time. Other calls do not wait for it."""
        self._is_sound = True
        """Whether the fetcher's positions are the ones in _positions."""
        self._positions: dict[TopicPartition, int] = {}
        """The assigned partitions, and the offset behind the last fetched message of each."""
        self._next_look = 0.0

    # Looking.

    def brokers(self) -> tuple[Broker, ...]:
        """Return the registered brokers, by id, with their listeners. Raises: ZooKeeperError."""
        with self._closing_is_told:
            self._start()
            return tuple(read_brokers(self._store))

    def partitions(self, topic: str) -> dict[TopicPartition, PartitionInfo]:
        """Return the partitions of a topic, in order, with the leaders and replicas that ZooKeeper names.

        Raises: ConfigError for an invalid topic; NoSuchTopicError, ZooKeeperError, MalformedZnodeError; FetchError if
        a broker that was asked refuses.
        """
        check_topic(topic)
        with self._closing_is_told:
            self._start()
            assignment = _sound(self._assignments([topic])[topic])
            return {tp: _sound(info) for tp, info in self._infos(topic, assignment).items()}

    def offsets_before(self, tp: TopicPartition, time_ms: int, max_offsets: int = 1) -> list[int]:
        """Return the offset from which to read the messages since a time: all messages before it are older.

        time_ms: ms since 1970, EARLIEST (where the log begins) or LATEST (where it ends).
        max_offsets: if it is more than 1, return up to this many offsets, newest first, as the old API did: the first
        offsets of segments that were last written to by then; with LATEST the log's end comes first. Brokers from 4.0
        on return one.

        Brokers from 0.10.1 on look for a message: the first with this timestamp or a later one, or the log's end if all
        are older. Older brokers know only the times of segments, as the old API did: they return the first offset of
        the newest segment that was last written to by then, or of the log. Messages from that offset on may be older
        than the time, but no later message lies before it.

        Raises: OffsetError for an invalid partition, TypeError and ValueError for an invalid time or number;
        NoSuchTopicError, NoSuchPartitionError; FetchError if the broker refuses, or for a time in a topic of
        message format 0 on a newer broker; BrokersUnavailableError if no leader answers in 10 s, MissingListenerError,
        ZooKeeperError, MalformedZnodeError.
        """
        check_partition(tp)
        time_ms = checked_number(time_ms, "time_ms (LATEST=-1, EARLIEST=-2)", EARLIEST)
        max_offsets = checked_number(max_offsets, "max_offsets")
        with self._closing_is_told:
            self._start()
            self._check_partition(tp)
            if max_offsets > 1:
                found = self._asked(lambda: self._log_offsets.before(tp, time_ms, max_offsets))
                return found or [self._end(tp, EARLIEST)]
            offset = self._asked(lambda: self._log_offsets.at_time(tp, time_ms))
            if offset is not None:
                return [offset]
            by_segment = min((b.version for b in read_brokers(self._store)), default=0) <= _LAST_VERSION_WITHOUT_TIMES
            return [self._end(tp, EARLIEST if by_segment else LATEST)]

    # Reading.

    def fetch(
        self, tp: TopicPartition, offset: int, max_messages: int = 1000, timeout: float = 1.0
    ) -> Sequence[Message]:
        """Return up to max_messages messages of the partition from this offset on; none if none came in time.

        timeout: seconds. While another thread fetches, the call waits for its turn first.

        Offsets ascend and may leave gaps, for example in compacted topics. Continue at the last message's offset + 1:
        that costs no new request to the leader while the fetcher has messages. An offset in a gap stands for the next
        message.

        Raises: OffsetError for an invalid partition or offset, TypeError and ValueError for an invalid number or time;
        OffsetOutOfRangeError with the log's range, and nothing is reset; NoSuchTopicError, NoSuchPartitionError;
        FetchError; BrokersUnavailableError (retriable) if no message came and the partition has no leader;
        MalformedZnodeError; BrokerRefusedError, MissingListenerError, ZooKeeperError.
        """
        check_partition(tp)
        offset = checked_offset(tp, offset)
        answer = self.fetch_many({tp: offset}, max_messages, timeout)[tp]
        if isinstance(answer, LegacyConsumerError):
            raise answer
        return answer

    def fetch_many(
        self, offsets: Mapping[TopicPartition, int], max_messages: int = 1000, timeout: float = 1.0
    ) -> dict[TopicPartition, Sequence[Message] | LegacyConsumerError]:
        """Fetch each partition from its offset on; return {partition: its messages, or its own error}.

        The call returns as soon as messages of any partition are there, at most max_messages of all together, or when
        every partition has an error, or after timeout seconds. A partition without messages by then has an empty
        result. Fetch again from the offset after the last message of each partition.

        Errors of one partition: OffsetOutOfRangeError, NoSuchTopicError, NoSuchPartitionError, FetchError also if the
        broker refuses its topic, MalformedZnodeError and ZooKeeperError of its own znodes, and BrokersUnavailableError
        if no partition had messages and this one has no leader. The topic of a partition that is already fetched is
        looked at again only while no partition has messages.
        Raises: OffsetError for another value than {partition: offset}, TypeError and ValueError for an invalid number
        or time; BrokerRefusedError, MissingListenerError, ZooKeeperError.
        """
        offsets = checked_fetches(offsets)
        max_messages = checked_number(max_messages, "max_messages")
        timeout = checked_seconds(timeout)
        with self._closing_is_told:
            self._start()
            with self._turn:
                if self._closed.is_set():
                    raise ConsumerClosedError
                if not self._is_sound:
                    self._release(self._positions.keys())
                self._is_sound = False
                answer = self._fetch(offsets, max_messages, timeout)
                self._is_sound = True
                return answer

    def _fetch(
        self, offsets: Mapping[TopicPartition, int], max_messages: int, timeout: float
    ) -> dict[TopicPartition, Sequence[Message] | LegacyConsumerError]:
        errors = self._begin(offsets, timeout)
        deadline = time.monotonic() + timeout
        messages: Mapping[TopicPartition, Sequence[Message]] = {}
        while not messages and len(errors) < len(offsets):
            left = max(0.0, deadline - time.monotonic())
            try:
                messages = self._poll(max_messages, min(left, _SLICE_S))
            except LegacyConsumerError as error:
                tp = getattr(error, "partition", None)
                if not isinstance(tp, TopicPartition):
                    raise
                if tp in self._positions:  # otherwise an earlier fetch asked for it, and this one does not
                    self._release([tp])  # the next fetch of it begins anew
                    errors[tp] = error
                continue
            if messages:
                break
            if self._closed.is_set():
                raise ConsumerClosedError
            if time.monotonic() >= self._next_look:
                missing = self._missing(self._positions.keys())
                self._release(missing.keys())
                errors |= missing
                if left <= 0:
                    errors |= self._leaderless(self._positions.keys())
                else:
                    self._next_look = min(time.monotonic() + _LOOK_S, deadline)
            if left <= 0:
                break
        return {tp: errors.get(tp) or MessageBatch(messages.get(tp, ())) for tp in offsets}

    # Leaving.

    def close(self) -> None:
        """Free the connections; twice is harmless, any thread may call, and a fetch in another thread ends.

        In a signal handler that interrupts a call of this consumer it returns at once, a thread does the work, and the
        interrupted call ends. In a forked child it does nothing: the connections belong to the parent.
        """
        if self._process.is_elsewhere:
            return
        if is_inside(self):
            # the interrupted call may hold locks, and continues only after this one returns
            threading.Thread(target=self._free, name=f"{_CLIENT}-close").start()
            return
        self._free()

    def _free(self) -> None:
        self._closed.set()
        with ExitStack() as closing:
            # ExitStack calls the last one first, and calls the others also after an error
            closing.callback(self._store.close)
            closing.callback(self._log_offsets.close)
            closing.callback(self._fetcher.close)
            closing.callback(self._fetcher.wake)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, exc_type: type[BaseException] | None, exc: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    # Inside.

    def _start(self) -> None:
        self._process.check()
        if self._closed.is_set():
            raise ConsumerClosedError
        refuse_inside(self)
        with self._starting:
            if not self._started:
                for warning in self._warnings:
                    logger.warning("%s", warning)
                self._store.start()
                self._started = True

    def _begin(
        self, offsets: Mapping[TopicPartition, int], timeout: float
    ) -> dict[TopicPartition, LegacyConsumerError]:
        """Assign these partitions and no others. Returns: the errors of partitions that cannot be assigned."""
        going_on = {tp for tp, offset in offsets.items() if self._positions.get(tp) == offset}
        self._release(self._positions.keys() - going_on)
        starting = {tp: offset for tp, offset in offsets.items() if tp not in going_on}
        if not starting:
            return {}
        errors = self._missing(starting)
        for tp, offset in starting.items():
            if offset < 0 and tp not in errors:
                errors[tp] = self._outside(tp, offset)
        starting = {tp: offset for tp, offset in starting.items() if tp not in errors}
        if starting:
            self._positions.update(starting)
            self._fetcher.assign(starting)
            # within this fetch, however short: if each fetch began anew, none would check otherwise
            self._next_look = time.monotonic() + min(_LOOK_S, timeout)
        return errors

    def _outside(self, tp: TopicPartition, offset: int) -> LegacyConsumerError:
        try:
            # patience 0, so one try: a fetch must not wait longer than its timeout
            return OffsetOutOfRangeError(tp, offset, *(self._end(tp, end, 0.0) for end in (EARLIEST, LATEST)))
        except BrokerRefusedError:
            raise
        except (BrokersUnavailableError, FetchError) as error:
            return error

    def _release(self, partitions: Collection[TopicPartition]) -> None:
        going = list(partitions)
        if going:
            self._fetcher.unassign(going)
        for tp in going:
            self._positions.pop(tp, None)

    def _poll(self, max_messages: int, timeout_s: float) -> Mapping[TopicPartition, Sequence[Message]]:
        batch = self._fetcher.poll(max_messages, timeout_s)
        messages = batch.messages() if batch is not None else ()
        if not messages:
            return {}
        found: dict[TopicPartition, Sequence[Message]] = {}
        if len(self._positions) == 1:
            found = dict.fromkeys(self._positions, messages)
        else:
            for message in messages:
                own = found.setdefault(TopicPartition(message.topic(), message.partition()), [])
                assert isinstance(own, list)
                own.append(message)
        self._positions.update((tp, own[-1].offset() + 1) for tp, own in found.items())
        self._next_look = time.monotonic() + _LOOK_S
        return found

    def _assignments(self, topics: Collection[str]) -> dict[str, TopicAssignment | LegacyConsumerError]:
        """Return the partitions of each topic, or the topic's own error."""
        found: dict[str, TopicAssignment | LegacyConsumerError] = {}
        paths = [TopicPath(topic).path for topic in topics]
        for topic, path, znode in zip(topics, paths, read_each(self._store, paths), strict=True):
            try:
                # None in the read of many topics has no reason: the read of this one raises it
                one = self._store.get_data(path) if znode is None else _sound(znode)
                found[topic] = decode_topic(path, one.data)
            except NoNodeError:
                found[topic] = NoSuchTopicError(topic)
            except BrokerRefusedError:
                raise
            except (MalformedZnodeError, NotPermittedError, BrokersUnavailableError, FetchError) as error:
                found[topic] = error
        return found

    def _infos(
        self, topic: str, assignment: TopicAssignment
    ) -> dict[TopicPartition, PartitionInfo | MalformedZnodeError | NotPermittedError]:
        """Return the brokers of each partition, or the partition's own error."""
        partitions = [TopicPartition(topic, number) for number in sorted(assignment.partitions)]
        brokers = {broker.broker_id: broker for broker in read_brokers(self._store)}
        paths = [PartitionStatePath(*tp).path for tp in partitions]
        found: dict[TopicPartition, PartitionInfo | MalformedZnodeError | NotPermittedError] = {}
        for tp, path, znode in zip(partitions, paths, read_each(self._store, paths), strict=True):
            replicas = assignment.partitions[tp.partition]
            try:
                # without the znode, the controller has not set a state yet
                state = _NO_STATE if znode is None else decode_partition_state(path, _sound(znode).data)
            except (MalformedZnodeError, NotPermittedError) as error:
                found[tp] = error
                continue
            followers = tuple(brokers[one] for one in replicas if one in brokers and one != state.leader)
            leader = brokers.get(state.leader)
            found[tp] = PartitionInfo(leader, state.leader_epoch, replicas, state.isr, followers)
        return found

    def _check_partition(self, tp: TopicPartition) -> None:
        for error in self._missing([tp]).values():
            raise error

    def _missing(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LegacyConsumerError]:
        """Return an error for each of the partitions that does not exist, or whose topic cannot be read."""
        errors: dict[TopicPartition, LegacyConsumerError] = {}
        known = self._assignments(sorted({tp.topic for tp in partitions}))
        for tp in partitions:
            topic = known[tp.topic]
            if isinstance(topic, LegacyConsumerError):
                errors[tp] = topic
            elif tp.partition not in topic.partitions:
                errors[tp] = NoSuchPartitionError(tp, len(topic.partitions))
        return errors

    def _leaderless(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, LegacyConsumerError]:
        """Return an error for each of the partitions that has no leader and can therefore bring no messages."""
        errors: dict[TopicPartition, LegacyConsumerError] = {}
        for topic, assignment in self._assignments(sorted({tp.topic for tp in partitions})).items():
            if isinstance(assignment, LegacyConsumerError):
                continue  # the topic changed a moment ago: the next fetch returns the error
            for tp, info in self._infos(topic, assignment).items():
                if tp not in partitions:
                    continue
                if isinstance(info, LegacyConsumerError):
                    errors[tp] = info
                elif info.leader is None:
                    replicas = ", ".join(map(str, info.replicas))
                    errors[tp] = BrokersUnavailableError(
                        f"{tp} has no leader: see whether its brokers run, which are {replicas}"
                    )
        return errors

    def _end(self, tp: TopicPartition, end: int, patience_s: float = _ANSWER_S) -> int:
        # a request for one partition raises the reason why there is no answer
        offset = self._asked(lambda: self._log_offsets.at_time(tp, end), patience_s)
        if offset is None:
            raise BrokersUnavailableError(f"the leader of {tp} does not tell where its log begins and ends")
        return offset

    def _asked(self, ask: Callable[[], Answer], patience_s: float = _ANSWER_S) -> Answer:
        """Return the answer; ask again after errors that may pass, as during a change of leaders."""
        deadline = time.monotonic() + patience_s
        while True:
            try:
                return ask()
            except BrokersUnavailableError as error:
                if isinstance(error, BrokerRefusedError) or time.monotonic() >= deadline:
                    raise
                if self._closed.wait(self._backoff_s):
                    raise ConsumerClosedError from error


class _ClosingIsTold:
    """Raises ConsumerClosedError if a call failed after close(), which closes its connections."""

    def __init__(self, closed: Flag) -> None:
        self._closed = closed

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        failed = isinstance(error, LegacyConsumerError) and not isinstance(error, ConsumerClosedError)
        if failed and self._closed.is_set():
            raise ConsumerClosedError from error


def _sound(found: Answer | LegacyConsumerError) -> Answer:
    """Return the answer. Raises: the error, if it is one."""
    if isinstance(found, LegacyConsumerError):
        raise found
    return found


def _with_fetch_settings(config: ClusterConfig) -> ConsumerConfig:
    """Return a ConsumerConfig of the same cluster, with defaults for the properties that a ClusterConfig lacks."""
    if isinstance(config, ConsumerConfig):
        return config
    values = {known.attribute: known.default for known in PROPERTIES}
    values.update({field.name: getattr(config, field.name) for field in fields(config)})
    # librdkafka ends the process for an empty name
    values["group_id"] = config.client_id or _CLIENT
    names = {field.name for field in fields(ConsumerConfig)}
    return ConsumerConfig(**{name: value for name, value in values.items() if name in names})  # type: ignore[arg-type]
