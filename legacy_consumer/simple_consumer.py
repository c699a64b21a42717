"""SimpleConsumer: the second of the two consumers that the old Kafka offered, for whoever keeps positions himself.

It belongs to no group, writes nothing to ZooKeeper, and remembers nothing between two calls that the caller would have
to know: each fetch says where it begins. Finding the leader of a partition, and following it to another broker, is its
business.

Behind it are the same two seams as behind a connector, a Fetcher and LogOffsets. The partition that was fetched last
stays assigned, so that a fetch that goes on where the last one ended finds what was brought in ahead; any other fetch
begins anew at its offset.
"""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from types import TracebackType

from legacy_consumer.arguments import (
    check_config,
    check_offset,
    check_partition,
    check_topic,
    checked_number,
    checked_seconds,
)
from legacy_consumer.config import PROPERTIES, ClusterConfig, ConsumerConfig
from legacy_consumer.config.sources import Value
from legacy_consumer.errors import (
    BrokerRefusedError,
    BrokersUnavailableError,
    ConsumerClosedError,
    NoSuchPartitionError,
    NoSuchTopicError,
    OffsetOutOfRangeError,
)
from legacy_consumer.fetcher import EARLIEST, LATEST, Fetcher, LogOffsets, Message
from legacy_consumer.fetchers import open_fetcher, open_log_offsets
from legacy_consumer.interrupted_calls import is_inside, refuse_inside
from legacy_consumer.librdkafka import read_brokers
from legacy_consumer.owning_process import OwningProcess
from zk_layout.codecs import decode_partition_state, decode_topic
from zk_layout.errors import LegacyConsumerError, NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import Broker, TopicAssignment, TopicPartition
from zk_layout.paths import PartitionStatePath, TopicPath
from zk_layout.store import ZkStore

if sys.version_info >= (3, 11):
    from typing import Self
else:
    from typing_extensions import Self

logger = logging.getLogger(__name__)

_CLIENT = "simple-consumer"
_SLICE_S = 0.1
"""How long one poll may wait: errors found meanwhile show with the next one."""
_LOOK_S = 1.0
"""So long may nothing come before ZooKeeper is asked whether anything can."""
_ANSWER_S = 10.0
"""How long a question about offsets is repeated, while a partition has no leader."""
_LAST_VERSION_WITHOUT_TIMES = 2
"""Registration version of brokers to 0.9, which find a time by segment."""


@dataclass(frozen=True, slots=True)
class PartitionInfo:
    """Who has a partition, as ZooKeeper says it: broker ids, the preferred leader first among the replicas."""

    leader: Broker | None
    """The broker that answers fetches; None while there is none, or it is not registered."""
    leader_epoch: int
    """How often the leader changed; -1 before the first."""
    replicas: tuple[int, ...]
    in_sync_replicas: tuple[int, ...]


class SimpleConsumer:
    """Reads partitions from given offsets, in no group. A context manager; for one thread at a time.

    >>> with SimpleConsumer(zookeeper_connect="localhost:2181") as consumer:  # doctest: +SKIP
    ...     orders = TopicPartition("orders", 0)
    ...     (offset,) = consumer.offsets_before(orders, EARLIEST)
    ...     while messages := consumer.fetch(orders, offset):
    ...         offset = messages[-1].offset() + 1

    Give it a configuration, or the properties themselves. Of a ConsumerConfig it uses what says how to reach the
    cluster and how to fetch (fetch.message.max.bytes and the like); its group is nowhere written.

    A signal handler may close it whatever it interrupts; its other calls raise CallInProgressError where it interrupts
    one of this consumer.

    Raises: ConfigError before any I/O; with the first question ConnectTimeoutError, MissingChrootError,
    AuthenticationError.
    """

    def __init__(
        self,
        config: ClusterConfig | None = None,
        *,
        store: ZkStore | None = None,
        fetcher: Fetcher | str | None = None,
        log_offsets: LogOffsets | None = None,
        **properties: Value,
    ) -> None:
        if isinstance(fetcher, str):
            # the property of that name, not the object behind the seam
            properties, fetcher = {**properties, "fetcher": fetcher}, None
        check_config(config, ClusterConfig)
        if config is not None and properties:
            msg = "give either a configuration or properties"
            raise TypeError(msg)
        self._process = OwningProcess()
        if config is None:
            config = ConsumerConfig.load(None, None, **{"group_id": _CLIENT, **properties})
        settings = _with_fetch_settings(config)
        self._backoff_s = settings.refresh_leader_backoff_ms / 1000
        self._store = store or KazooStore(settings.zk_settings())
        self._log_offsets = log_offsets or open_log_offsets(settings, self._store)
        self._fetcher = fetcher or open_fetcher(settings, self._store, self._log_offsets)
        self._warnings = settings.warnings
        self._closed = threading.Event()
        self._started = False
        self._assigned: TopicPartition | None = None
        self._position = -1
        self._next_look = 0.0

    # Looking.

    def partitions(self, topic: str) -> dict[TopicPartition, PartitionInfo]:
        """The partitions of a topic with their leaders and replicas, by ZooKeeper, in order.

        Raises: ConfigError for what is no topic; NoSuchTopicError, ZooKeeperError, MalformedZnodeError.
        """
        check_topic(topic)
        self._start()
        assignment = self._assignment(topic)
        partitions = [TopicPartition(topic, number) for number in sorted(assignment.partitions)]
        brokers = {broker.broker_id: broker for broker in read_brokers(self._store)}
        paths = [PartitionStatePath(*tp).path for tp in partitions]
        found: dict[TopicPartition, PartitionInfo] = {}
        for tp, path, znode in zip(partitions, paths, self._store.get_data_many(paths), strict=True):
            replicas = assignment.partitions[tp.partition]
            if znode is None:  # the controller has not come to it yet
                found[tp] = PartitionInfo(None, -1, replicas, ())
            else:
                state = decode_partition_state(path, znode.data)
                found[tp] = PartitionInfo(brokers.get(state.leader), state.leader_epoch, replicas, state.isr)
        return found

    def offsets_before(self, tp: TopicPartition, time_ms: int, max_offsets: int = 1) -> list[int]:
        """Where to begin to read what came from a time on: all messages before this offset are older.

        time_ms: ms since 1970, EARLIEST (where the log begins) or LATEST (where it ends).
        max_offsets: for the old API's sake; one offset is what brokers answer today, so at most one is returned.

        Brokers from 0.10.1 on answer by message: the first with this timestamp or a later one, or the log's end if all
        are older. Older ones know times of segments only, as the old API did: the begin of the newest segment that was
        last written to by then, or of the log. There the messages that follow may be older than the time, none that
        came since is left out.

        Raises: OffsetError for what is no partition, TypeError and ValueError for what is no time or number;
        NoSuchTopicError, NoSuchPartitionError; FetchError for a time in a topic of message format 0 on a newer
        broker; BrokersUnavailableError if no leader answers in 10 s, MissingListenerError, ZooKeeperError.
        """
        check_partition(tp)
        time_ms = checked_number(time_ms, "time_ms (LATEST=-1, EARLIEST=-2)", EARLIEST)
        checked_number(max_offsets, "max_offsets")
        self._start()
        self._check_partition(tp)
        if time_ms in (EARLIEST, LATEST):
            return [self._end(tp, time_ms)]
        deadline = time.monotonic() + _ANSWER_S
        while True:
            try:
                offset = self._log_offsets.at_time(tp, time_ms)
                break
            except BrokersUnavailableError as error:
                self._wait_or_raise(error, deadline)
        if offset is not None:
            return [offset]
        by_segment = min((b.version for b in read_brokers(self._store)), default=0) <= _LAST_VERSION_WITHOUT_TIMES
        return [self._end(tp, EARLIEST if by_segment else LATEST)]

    # Reading.

    def fetch(
        self, tp: TopicPartition, offset: int, max_messages: int = 1000, timeout: float = 1.0
    ) -> Sequence[Message]:
        """Up to max_messages messages of the partition from this offset on; empty if none came within timeout seconds.

        Offsets ascend and may leave gaps, in compacted topics for one: go on at the last message's offset + 1, which
        costs no new request to the leader while messages are there. An offset in a gap stands for the next message.

        Raises: OffsetError for what is no partition or no offset, TypeError and ValueError for what is no number or no
        time; OffsetOutOfRangeError with the log's range, nothing is reset; NoSuchTopicError, NoSuchPartitionError;
        FetchError; BrokersUnavailableError (retriable) when nothing came and the partition has no leader;
        BrokerRefusedError, MissingListenerError, ZooKeeperError.
        """
        check_partition(tp)
        check_offset(tp, offset)
        max_messages = checked_number(max_messages, "max_messages")
        timeout = checked_seconds(timeout)
        self._start()
        if (tp, offset) != (self._assigned, self._position):
            self._check_partition(tp)
            self._begin(tp, offset)
        self._fetcher.prepare()
        deadline = time.monotonic() + timeout
        while True:
            left = max(0.0, deadline - time.monotonic())
            messages = self._poll(max_messages, min(left, _SLICE_S))
            if messages:
                return messages
            if self._closed.is_set():
                raise ConsumerClosedError
            if time.monotonic() >= self._next_look:
                self._check_partition(tp)
                if left <= 0:
                    self._check_leader(tp)
                else:
                    self._next_look = min(time.monotonic() + _LOOK_S, deadline)
            if left <= 0:
                return ()

    # Leaving.

    def close(self) -> None:
        """Free the connections; twice is harmless, any thread may call, and a fetch in another thread ends.

        In a signal handler that interrupts a call of this consumer it returns at once, a thread does the work, and the
        interrupted call ends. In a forked child it does nothing: the connections are the parent's.
        """
        if self._process.is_elsewhere:
            return
        if is_inside(self):
            # what the signal interrupted may hold locks, and goes on only when this returns
            threading.Thread(target=self._free, name=f"{_CLIENT}-close").start()
            return
        self._free()

    def _free(self) -> None:
        self._closed.set()
        with ExitStack() as closing:
            # the last one first; an error of one leaves none of the others open
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
        if not self._started:
            for warning in self._warnings:
                logger.warning("%s", warning)
            self._store.start()
            self._started = True

    def _begin(self, tp: TopicPartition, offset: int) -> None:
        self._release()
        if offset < 0:
            raise OffsetOutOfRangeError(tp, offset, self._end(tp, EARLIEST), self._end(tp, LATEST))
        self._fetcher.assign({tp: offset})
        self._assigned, self._position = tp, offset
        self._next_look = time.monotonic() + _LOOK_S

    def _release(self) -> None:
        if self._assigned is not None:
            self._fetcher.unassign([self._assigned])
        self._assigned, self._position = None, -1

    def _poll(self, max_messages: int, timeout_s: float) -> Sequence[Message]:
        try:
            batch = self._fetcher.poll(max_messages, timeout_s)
        except LegacyConsumerError:
            self._release()  # the next fetch asks again
            raise
        messages = batch.messages() if batch is not None else ()
        if messages:
            self._position = messages[-1].offset() + 1
            self._next_look = time.monotonic() + _LOOK_S
        return messages

    def _assignment(self, topic: str) -> TopicAssignment:
        path = TopicPath(topic).path
        try:
            return decode_topic(path, self._store.get_data(path).data)
        except NoNodeError as error:
            raise NoSuchTopicError(topic) from error

    def _check_partition(self, tp: TopicPartition) -> None:
        partitions = self._assignment(tp.topic).partitions
        if tp.partition not in partitions:
            raise NoSuchPartitionError(tp, len(partitions))

    def _check_leader(self, tp: TopicPartition) -> None:
        """Raises: BrokersUnavailableError if no broker leads the partition, so that nothing can come."""
        info = self.partitions(tp.topic)[tp]
        if info.leader is None:
            replicas = ", ".join(map(str, info.replicas))
            raise BrokersUnavailableError(f"{tp} has no leader: see whether its brokers run, which are {replicas}")

    def _end(self, tp: TopicPartition, end: int) -> int:
        deadline = time.monotonic() + _ANSWER_S
        while True:
            try:
                found = self._log_offsets.earliest([tp]) if end == EARLIEST else self._log_offsets.latest([tp])
                if tp in found:
                    return found[tp]
                raise BrokersUnavailableError(f"the leader of {tp} does not tell where its log begins and ends")
            except BrokersUnavailableError as error:
                self._wait_or_raise(error, deadline)

    def _wait_or_raise(self, error: BrokersUnavailableError, deadline: float) -> None:
        """After an error that may pass, as while a leader changes."""
        if isinstance(error, BrokerRefusedError) or time.monotonic() >= deadline:
            raise error
        if self._closed.wait(self._backoff_s):
            raise ConsumerClosedError from error


def _with_fetch_settings(config: ClusterConfig) -> ConsumerConfig:
    """The same cluster, with the defaults for what a ClusterConfig does not say."""
    if isinstance(config, ConsumerConfig):
        return config
    values = {known.attribute: known.default for known in PROPERTIES}
    values.update({field.name: getattr(config, field.name) for field in fields(config)})
    values["group_id"] = config.client_id
    names = {field.name for field in fields(ConsumerConfig)}
    return ConsumerConfig(**{name: value for name, value in values.items() if name in names})  # type: ignore[arg-type]
