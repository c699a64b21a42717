"""Answers the questions of a plan: which partitions exist, the ends of their logs, and the group's offsets."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, NoSuchTopicError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.fetcher import LATEST
from legacy_consumer.fetching.librdkafka import LibrdkafkaLogOffsets, open_log_offsets
from legacy_consumer.fetching.topic_names import has_a_possible_name
from legacy_consumer.offsets.judgement import TopicOrigin
from legacy_consumer.offsets.store import refuse_unreadable
from legacy_consumer.offsets.topic_lives import origin_paths, origins_in, read_topic_origins
from legacy_consumer.offsets.zookeeper import ZooKeeperOffsetStore
from legacy_consumer.operations.admin.log_times import BrokerLogTimes
from rebalance.clock import Clock, SystemClock
from spark_source.broker_access import check_access
from spark_source.errors import NoSuchPartitionsError, NoTopicsError
from spark_source.messages.offset_spec import OffsetKind, OffsetSpec
from spark_source.messages.options import MessageOptions
from spark_source.messages.positions import Logs, Offsets, Stand
from zk_layout.closed_znodes import read_or_stat
from zk_layout.codecs import decode_topic
from zk_layout.errors import (
    ConnectionLostError,
    ConnectTimeoutError,
    MalformedZnodeError,
    NoNodeError,
    NotPermittedError,
)
from zk_layout.kazoo_store import KazooStore
from zk_layout.loggers import safe_logger
from zk_layout.model import Broker, TopicPartition
from zk_layout.paths import TopicPath, TopicsPath
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_ANSWER_S = 30.0
_AGAIN_S = 0.2
_READ_COMMITTED = "read_committed"

Answer = TypeVar("Answer")


@dataclass(frozen=True, slots=True)
class Topics:
    """The topics at one moment.

    partitions: the partitions to read, sorted. existing: all partitions of the chosen topics. names: the chosen topics,
    whether or not they exist. origins: {topic: its origin} for the topics that were read and exist.
    """

    partitions: Sequence[TopicPartition]
    existing: Collection[TopicPartition]
    names: Collection[str]
    origins: Mapping[str, TopicOrigin]


class Cluster:
    """A connection to ZooKeeper and the brokers, for a plan or for as long as a stream runs. Used by one thread.

    open connects; every method may raise the errors of a store and of LogOffsets, within the configured timeouts.
    store, log_offsets, high_watermarks, clock: of a cluster in memory; None = of the cluster that the options name.
    log_offsets answers by isolation.level, high_watermarks as if there were no transactions. answer_s: the longest time
    for which a request to the brokers is repeated while a partition has no leader.
    """

    def __init__(
        self,
        options: MessageOptions,
        store: ZkStore | None = None,
        log_offsets: LibrdkafkaLogOffsets | None = None,
        clock: Clock | None = None,
        answer_s: float = _ANSWER_S,
        high_watermarks: LibrdkafkaLogOffsets | None = None,
    ) -> None:
        self._options = options
        self.store: ZkStore = store or KazooStore(options.config.zk_settings())
        self._answer_s = min(answer_s, options.config.socket_timeout_ms / 1000)
        self._log_offsets = log_offsets or open_log_offsets(
            options.config,
            self.store,
            read_committed=options.config.isolation_level == _READ_COMMITTED,
            timeout_s=self._answer_s,
        )
        # connects with its first request, which most queries never send
        self._high_watermarks = high_watermarks or open_log_offsets(
            options.config, self.store, timeout_s=self._answer_s
        )
        self.clock: Clock = clock or SystemClock()
        self._silent: set[TopicPartition] = set()
        """Optional partitions of which no broker answered the last request."""

    def open(self) -> None:
        """Connect. Raises: ConnectTimeoutError, AuthenticationError, MissingChrootError."""
        self.store.start()

    def close(self) -> None:
        """Close all connections; twice is harmless."""
        self._log_offsets.close()
        self._high_watermarks.close()
        self.store.close()

    def check_access(self) -> None:
        """Check that the brokers accept this client.

        Raises: BrokersUnavailableError, BrokerRefusedError, MissingListenerError.
        """
        check_access(self._options.config, self.brokers())

    def brokers(self) -> tuple[Broker, ...]:
        """Return the registered brokers. Raises: BrokersUnavailableError if none is registered."""
        brokers = tuple(read_brokers(self.store))
        if not brokers:
            raise BrokersUnavailableError("no broker is registered in ZooKeeper under /brokers/ids: is Kafka running?")
        return brokers

    def partitions(self) -> list[TopicPartition]:
        """Return the partitions of the chosen topics, sorted. Raises: NoSuchTopicError, NoTopicsError."""
        return list(self.topics().partitions)

    def topics(self, beside: Collection[str] = (), *, must_exist: bool = True) -> Topics:
        """Return the chosen topics at this moment, with the origins of these and of the topics in `beside`.

        must_exist: whether named topics must exist. A topic that cannot be read is left out if a filter chose it and it
        is not in `beside`. Raises: NoSuchTopicError, NoTopicsError, NoSuchPartitionsError, MalformedZnodeError,
        NotPermittedError.
        """
        choice = self._options.topics
        if choice.filter is None:
            named = chosen = list(choice.names)
        else:
            known = self._topics()
            internal_out = self._options.config.exclude_internal_topics
            # another client may have created a topic with an impossible name in ZooKeeper: no broker has it
            known_or_gone = sorted(filter(has_a_possible_name, {*known, *beside}))
            named = [t for t in known_or_gone if choice.filter.allows(t, exclude_internal_topics=internal_out)]
            chosen = [topic for topic in named if topic in known]
            if not chosen and must_exist:
                raise NoTopicsError(f"{choice.filter.pattern.value.replace('_', '')} {choice.filter.raw}", len(known))
        names = [*chosen, *sorted(set(beside) - set(chosen))]
        found: list[TopicPartition] = []
        znodes, closed = read_or_stat(self.store, origin_paths(names))
        for topic, znode in zip(chosen, znodes[1:], strict=False):
            path = TopicPath(topic).path
            if znode is not None or path in closed:
                try:
                    if znode is None or path in closed:
                        raise closed[path]
                    numbers = decode_topic(path, znode.data).partitions
                except (MalformedZnodeError, NotPermittedError) as reason:
                    if choice.filter is None or topic in beside:
                        raise
                    logger.warning("topic %s is left out: %s", topic, reason)
                    continue
                found += [TopicPartition(topic, number) for number in numbers]
            elif choice.filter is None and must_exist:
                raise NoSuchTopicError(topic)
        existing = frozenset(found)
        if choice.partitions:
            missing = choice.partitions - existing
            if missing and must_exist:
                raise NoSuchPartitionsError(tuple(sorted(missing)))
            found = [tp for tp in found if tp in choice.partitions]
        return Topics(sorted(found), existing, named, origins_in(names, znodes))

    def origins(self, partitions: Collection[TopicPartition]) -> dict[str, TopicOrigin]:
        """Return {topic: its origin} of the existing topics of these partitions, chosen or not."""
        return read_topic_origins(self.store, {tp.topic for tp in partitions})

    def still_there(self, partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        """Return the partitions that still exist; all of them while ZooKeeper does not answer."""
        paths = {topic: TopicPath(topic).path for topic in sorted({tp.topic for tp in partitions})}
        if not paths:
            return []
        try:
            znodes = dict(zip(paths, self.store.get_data_many(list(paths.values())), strict=True))
        except (ConnectionLostError, ConnectTimeoutError):
            return partitions
        numbers = {
            topic: decode_topic(paths[topic], znode.data).partitions
            for topic, znode in znodes.items()
            if znode is not None
        }
        return [tp for tp in partitions if tp.partition in numbers.get(tp.topic, ())]

    def _topics(self) -> tuple[str, ...]:
        try:
            return self.store.get_children(TopicsPath().path)
        except NoNodeError:
            return ()

    def logs(self, partitions: Collection[TopicPartition]) -> Logs:
        """Return the first offsets and the ends of these logs.

        Raises: BrokersUnavailableError naming partitions without an answer; NoSuchTopicError.
        """
        latest = self.log_ends(partitions)
        earliest = self.log_begins(latest)
        vanished = sorted(set(partitions) - earliest.keys())
        if vanished:
            raise NoSuchTopicError(vanished[0].topic)
        return Logs(earliest=earliest, latest=latest)

    def log_begins(
        self, partitions: Collection[TopicPartition], optional: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """Return the first offsets of these logs, without deleted topics. Raises: BrokersUnavailableError.

        optional: left out if no broker answers for them. The first request for them waits as for others, later ones do
        not.
        """
        return self._ask_all("begins", self._log_offsets.earliest, partitions, optional)

    def log_ends(
        self, partitions: Collection[TopicPartition], optional: Collection[TopicPartition] = ()
    ) -> dict[TopicPartition, int]:
        """Return the ends of these logs, without deleted topics. Raises: BrokersUnavailableError.

        optional: as in log_begins.
        """
        return self._ask_all("ends", self._log_offsets.latest, partitions, optional)

    def undecided(self, positions: Offsets, ends: Offsets) -> dict[TopicPartition, int]:
        """Return the positions that lie beyond the end of their log, but not beyond its high watermark.

        Only for isolation.level=read_committed. Then a log ends at its first open transaction, but a member of a group
        reads all messages and may be further. ends: as log_ends returns them.
        Raises: BrokersUnavailableError.
        """
        behind = {tp: at for tp, at in positions.items() if at > ends.get(tp, at)}
        if not behind or self._options.config.isolation_level != _READ_COMMITTED:
            return {}
        marks = self._ask_all("ends", self._high_watermarks.latest, behind)
        return {tp: at for tp, at in behind.items() if at <= marks.get(tp, -1)}

    def stand(self, spec: OffsetSpec, partitions: Collection[TopicPartition], *, is_end: bool = False) -> Stand:
        """Return the group's offsets, or the offsets of a time, as the spec needs them. Raises: OffsetError.

        is_end: whether a read ends there. If the brokers cannot tell the exact offset of a time, that is the log's end.
        """
        reset_to = self._options.config.reset_to
        assert reset_to is not None, "refused with the options"
        if spec.kind is OffsetKind.TIME:
            return Stand(reset_to=reset_to, at_time=self._at_time(partitions, spec.time_ms, is_end=is_end))
        if spec.kind is not OffsetKind.COMMITTED or self._options.group is None:
            return Stand(reset_to=reset_to)
        read = ZooKeeperOffsetStore(self.store, self._options.group).read(sorted(partitions))
        refuse_unreadable(read)
        return Stand(
            committed={tp: found.offset for tp, found in read.items() if found.offset is not None},
            outlived=frozenset(tp for tp, found in read.items() if found.outlived is not None),
            reset_to=reset_to,
        )

    def _at_time(
        self, partitions: Collection[TopicPartition], time_ms: int, *, is_end: bool
    ) -> dict[TopicPartition, int]:
        """Return the first offset at the time or later in each log; without one EARLIEST or LATEST, see BrokerLogTimes.

        Brokers that know only segments answer with an earlier offset. A read that ended there would leave out messages
        unnoticed, so it reads to the end of the log.
        """
        times = BrokerLogTimes(self._log_offsets, self.brokers())
        if is_end and times.may_go_by_segments:
            return dict.fromkeys(partitions, LATEST)
        nothing = times.nothing

        def ask(rest: Collection[TopicPartition]) -> dict[TopicPartition, int]:
            there = self._log_offsets.latest(rest)  # not of topics that are deleted meanwhile
            answers = self._log_offsets.at_times(dict.fromkeys(there, time_ms))
            return {tp: nothing if offset is None else offset for tp, offset in answers.items()}

        found = self._ask_all("holds a time", ask, partitions)
        for tp in sorted(set(partitions) - found.keys()):
            raise NoSuchTopicError(tp.topic)
        return found

    def _ask_all(
        self,
        what: str,
        ask: Callable[[Collection[TopicPartition]], dict[TopicPartition, int]],
        partitions: Collection[TopicPartition],
        optional: Collection[TopicPartition] = (),
    ) -> dict[TopicPartition, int]:
        found: dict[TopicPartition, int] = {}
        waived = self._silent.intersection(optional)

        def ask_rest() -> None:
            found.update(ask([tp for tp in partitions if tp not in found]))
            missing = sorted(self.still_there(set(partitions) - found.keys() - waived))
            if missing:
                some = ", ".join(map(str, missing[:5]))
                raise BrokersUnavailableError(f"no broker says where the log {what} of {len(missing)}: {some}")

        if partitions:
            try:
                self._repeat(ask_rest)
            except BrokersUnavailableError as error:
                missing = self.still_there(set(partitions) - found.keys())
                if isinstance(error, BrokerRefusedError) or not set(missing) <= set(optional):
                    raise
                logger.warning("%s; what is there is read on when a broker answers", error)
            self._silent = self._silent.difference(partitions) | (set(partitions).intersection(optional) - found.keys())
        return found

    def _repeat(self, ask: Callable[[], Answer]) -> Answer:
        """Repeat a request until there is an answer: a partition may have no leader for a moment."""
        deadline = self.clock.monotonic() + self._answer_s
        while True:
            try:
                return ask()
            except BrokersUnavailableError as error:
                if isinstance(error, BrokerRefusedError) or self.clock.monotonic() >= deadline:
                    raise
            self.pause(_AGAIN_S)

    def pause(self, seconds: float) -> None:
        """Wait for this time."""
        self.clock.wait(threading.Event(), seconds)
