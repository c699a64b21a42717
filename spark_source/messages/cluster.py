"""What planning asks: which partitions there are, where their logs begin and end, where the group stands."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Sequence
from typing import TypeVar

from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, NoSuchTopicError
from legacy_consumer.fetcher import EARLIEST, LATEST
from legacy_consumer.librdkafka import open_log_offsets, read_brokers
from legacy_consumer.offsets.store import refuse_unreadable
from legacy_consumer.offsets.zookeeper import ZooKeeperOffsetStore
from spark_source.errors import NoTopicsError
from spark_source.messages.offset_spec import OffsetKind, OffsetSpec
from spark_source.messages.options import MessageOptions
from spark_source.messages.positions import Logs, Stand
from zk_layout.codecs import decode_topic
from zk_layout.errors import ConnectionLostError, ConnectTimeoutError, MalformedZnodeError, NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import Broker, TopicPartition
from zk_layout.paths import TopicPath, TopicsPath
from zk_layout.store import ZkStore

logger = logging.getLogger(__name__)

_ANSWER_S = 30.0
"""How long a question to the brokers is repeated while a partition has no leader, at most."""
_AGAIN_S = 0.2
_LAST_VERSION_WITHOUT_TIMES = 2
"""Registration version of brokers to 0.9, which find a time by segment."""

Answer = TypeVar("Answer")


class Cluster:
    """A connection to ZooKeeper and the brokers, for a plan or for as long as a stream runs. Used by one thread.

    open connects; every method may raise what a store and LogOffsets raise, each within the configured timeouts.
    """

    def __init__(self, options: MessageOptions) -> None:
        self._options = options
        self.store: ZkStore = KazooStore(options.config.zk_settings())
        self._answer_s = min(_ANSWER_S, options.config.socket_timeout_ms / 1000)
        self._log_offsets = open_log_offsets(options.config, self.store, timeout_s=self._answer_s)
        self.created: dict[str, int] = {}
        """{topic: the transaction that created it}, as partitions() saw it last: another one is another topic."""

    def open(self) -> None:
        """Connect. Raises: ConnectTimeoutError, AuthenticationError, MissingChrootError."""
        self.store.start()

    def close(self) -> None:
        """Free everything; twice is harmless."""
        self._log_offsets.close()
        self.store.close()

    def brokers(self) -> tuple[Broker, ...]:
        """Those that are registered. Raises: BrokersUnavailableError if none is."""
        brokers = tuple(read_brokers(self.store))
        if not brokers:
            raise BrokersUnavailableError("no broker is registered in ZooKeeper under /brokers/ids: is Kafka running?")
        return brokers

    def partitions(self, *, must_exist: bool = True) -> list[TopicPartition]:
        """The partitions of the chosen topics, sorted.

        must_exist: whether topics that are named must be there. Raises: NoSuchTopicError, NoTopicsError.
        """
        choice = self._options.topics
        if choice.filter is None:
            topics: Sequence[str] = choice.names
        else:
            known = self._topics()
            internal_out = self._options.config.exclude_internal_topics
            topics = [t for t in known if choice.filter.allows(t, exclude_internal_topics=internal_out)]
            if not topics and must_exist:
                raise NoTopicsError(f"{choice.filter.pattern.value.replace('_', '')} {choice.filter.raw}", len(known))
        found: list[TopicPartition] = []
        paths = [TopicPath(topic).path for topic in topics]
        for topic, path, znode in zip(topics, paths, self.store.get_data_many(paths), strict=True):
            if znode is not None:
                try:
                    numbers = decode_topic(path, znode.data).partitions
                except MalformedZnodeError:
                    if choice.filter is None:
                        raise
                    logger.warning("topic %s is left out, its znode cannot be read", topic)
                    continue
                found += [TopicPartition(topic, number) for number in numbers]
                self.created[topic] = znode.stat.czxid
            elif choice.filter is None and must_exist:
                raise NoSuchTopicError(topic)
        return sorted(found)

    def created_now(self, partitions: Collection[TopicPartition]) -> dict[str, int]:
        """{topic: the transaction that created it} of the topics that there are, chosen or not."""
        topics = sorted({tp.topic for tp in partitions})
        znodes = self.store.get_data_many([TopicPath(topic).path for topic in topics])
        return {topic: znode.stat.czxid for topic, znode in zip(topics, znodes, strict=True) if znode is not None}

    def still_there(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Those of these whose topics there are; all while ZooKeeper does not answer."""
        try:
            topics = self.created_now(partitions) if partitions else {}
        except (ConnectionLostError, ConnectTimeoutError):
            return partitions
        return [tp for tp in partitions if tp.topic in topics]

    def _topics(self) -> tuple[str, ...]:
        try:
            return self.store.get_children(TopicsPath().path)
        except NoNodeError:
            return ()

    def logs(self, partitions: Collection[TopicPartition], *, may_vanish: bool = False) -> Logs:
        """Where these logs begin and end.

        may_vanish: leave out topics that are deleted meanwhile. Raises: BrokersUnavailableError naming partitions
        without an answer; NoSuchTopicError.
        """
        latest = self.log_ends(partitions)
        earliest = self._ask_all("begins", self._log_offsets.earliest, latest)
        vanished = sorted(set(partitions) - earliest.keys())
        if vanished and not may_vanish:
            raise NoSuchTopicError(vanished[0].topic)
        return Logs(earliest=earliest, latest={tp: latest[tp] for tp in earliest})

    def log_ends(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, int]:
        """Where these logs end, but for topics that are deleted meanwhile. Raises: BrokersUnavailableError."""
        return self._ask_all("ends", self._log_offsets.latest, partitions)

    def stand(self, spec: OffsetSpec, partitions: Collection[TopicPartition]) -> Stand:
        """Whatever of the group or of a time the spec needs. Raises: OffsetError for a committed offset."""
        reset_to = EARLIEST if self._options.config.auto_offset_reset == "smallest" else LATEST
        if spec.kind is OffsetKind.TIME:
            return Stand(reset_to=reset_to, at_time={tp: self._at_time(tp, spec.time_ms) for tp in partitions})
        if spec.kind is not OffsetKind.COMMITTED or self._options.group is None:
            return Stand(reset_to=reset_to)
        read = ZooKeeperOffsetStore(self.store, self._options.group).read(sorted(partitions))
        refuse_unreadable(read)
        return Stand(
            committed={tp: found.offset for tp, found in read.items() if found.offset is not None},
            outlived=frozenset(tp for tp, found in read.items() if found.outlived is not None),
            reset_to=reset_to,
        )

    def _at_time(self, tp: TopicPartition, time_ms: int) -> int:
        """The first offset at the time or later; where the log ends if all is older.

        Brokers before 0.10.1 know times of segments only: then it is the begin of the segment that may hold it.
        """
        offset = self._repeat(lambda: self._log_offsets.at_time(tp, time_ms))
        if offset is not None:
            return offset
        return EARLIEST if min(b.version for b in self.brokers()) <= _LAST_VERSION_WITHOUT_TIMES else LATEST

    def _ask_all(
        self,
        what: str,
        ask: Callable[[Collection[TopicPartition]], dict[TopicPartition, int]],
        partitions: Collection[TopicPartition],
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}

        def ask_rest() -> dict[TopicPartition, int]:
            found.update(ask([tp for tp in partitions if tp not in found]))
            missing = sorted(self.still_there(set(partitions) - found.keys()))
            if missing:
                some = ", ".join(map(str, missing[:5]))
                raise BrokersUnavailableError(f"no broker says where the log {what} of {len(missing)}: {some}")
            return found

        return self._repeat(ask_rest) if partitions else {}

    def _repeat(self, ask: Callable[[], Answer]) -> Answer:
        """Ask until there is an answer: a partition may be without leader for a moment."""
        deadline = time.monotonic() + self._answer_s
        while True:
            try:
                return ask()
            except BrokersUnavailableError as error:
                if isinstance(error, BrokerRefusedError) or time.monotonic() >= deadline:
                    raise
            time.sleep(_AGAIN_S)
