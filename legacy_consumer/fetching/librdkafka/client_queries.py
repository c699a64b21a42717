# ruff: noqa: SLF001 - the codes of librdkafka's own errors begin with an underscore
"""A handle of librdkafka that only reads from brokers, and makes no broker create a topic.

It is an admin client: every consumer of librdkafka looks for its group's coordinator by itself, and the first such
request in a cluster makes the brokers create `__consumer_offsets`.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import confluent_kafka
from confluent_kafka import IsolationLevel, KafkaException
from confluent_kafka.admin import AdminClient, OffsetSpec  # type: ignore[attr-defined]

from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, FetchError, KafkaError
from legacy_consumer.fetching.cluster_metadata import ClusterMetadata, PartitionMetadata, refusal
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.librdkafka.client import Client, Settings, open_handle
from legacy_consumer.fetching.librdkafka.client_faults import FaultKind, kind_of
from zk_layout.model import TopicPartition

_Code = confluent_kafka.KafkaError
_NO_ANSWER = -1001
"""The offset, without an error, of a partition whose leader did not answer in time."""
_LOST = {_Code._NOENT, _Code.UNKNOWN_TOPIC_OR_PART, _Code.NOT_LEADER_FOR_PARTITION}
"""librdkafka knows no leader, or asked a former one. By itself it looks for the new one only every five minutes."""
_SILENT = {_Code._TIMED_OUT, _Code._TRANSPORT, _Code._ALL_BROKERS_DOWN}
_SHORTEST_S = 0.1
_Answer: TypeAlias = "int | confluent_kafka.KafkaError"
_EARLIEST: OffsetSpec = OffsetSpec.earliest()  # type: ignore[no-untyped-call]
_LATEST: OffsetSpec = OffsetSpec.latest()  # type: ignore[no-untyped-call]


class QueryHandle(Client):
    """Only one thread at a time may use it. Raises: ConfigError for a setting that librdkafka does not accept.

    read_committed: a log ends at its first open transaction.
    """

    def __init__(self, settings: Settings, *, read_committed: bool = False) -> None:
        super().__init__(settings)
        self._isolation = IsolationLevel.READ_COMMITTED if read_committed else IsolationLevel.READ_UNCOMMITTED
        self._admin = open_handle(AdminClient, settings, {"error_cb": self.on_error})
        self._is_connected = False

    def offsets_for_times(
        self, times: Mapping[TopicPartition, int], timeout_s: float
    ) -> dict[TopicPartition, int | KafkaError]:
        """Return the first offset at or after each time (ms), -1 = the log's end, -2 = its first offset; or an error.

        A FetchError lasts, a BrokersUnavailableError may pass.
        Raises: BrokersUnavailableError if no broker answers in time.
        """
        deadline = time.monotonic() + timeout_s
        refused: dict[str, str] = {}
        if times and not self._is_connected:
            # if librdkafka needs leaders before a broker is connected, it may ask again only after 1 s, or after 3
            self._refused_topics([next(iter(times)).topic], deadline, timeout_s)
            self._is_connected = True
        found = self._list_offsets(times, _left_s(deadline))
        lost = {tp.topic for tp, one in found.items() if not isinstance(one, int) and one.code() in _LOST}
        if lost:
            # This request makes librdkafka connect again to lost brokers and read the leaders again, and its answer
            # names the topics that this client may not read.
            refused = self._refused_topics(sorted(lost), deadline, timeout_s)
            found = self._list_offsets(times, _left_s(deadline))
        silent = [one for one in found.values() if _is_silence(one)]
        if silent and len(silent) == len(found):
            reason = "the leaders are silent" if isinstance(silent[0], int) else silent[0].str()
            raise self._unavailable(reason, timeout_s)
        self._admin.poll(0)
        return {
            tp: FetchError(tp, refused[tp.topic]) if tp.topic in refused else _answer(tp, one)
            for tp, one in found.items()
        }

    def _refused_topics(self, topics: Sequence[str], deadline: float, timeout_s: float) -> dict[str, str]:
        """Return {topic: why brokers will never answer us for it}. Raises: BrokersUnavailableError."""
        refused: dict[str, str] = {}
        for topic in topics:
            try:
                error = self._admin.list_topics(topic, _left_s(deadline)).topics[topic].error
            except KafkaException as silence:
                raise self._unavailable(silence.args[0].str(), timeout_s) from silence
            if error is not None and kind_of(error) is FaultKind.LASTING:
                refused[topic] = error.str()
        return refused

    def _list_offsets(self, times: Mapping[TopicPartition, int], timeout_s: float) -> dict[TopicPartition, _Answer]:
        if not times:
            return {}
        wanted = {confluent_kafka.TopicPartition(*tp): _spec_of(time_ms) for tp, time_ms in times.items()}
        found: dict[TopicPartition, _Answer] = {}
        for one, future in self._admin.list_offsets(
            wanted, isolation_level=self._isolation, request_timeout=timeout_s
        ).items():
            tp = TopicPartition(one.topic, one.partition)
            try:
                found[tp] = future.result().offset
            except KafkaException as error:
                found[tp] = error.args[0]
        return found

    def metadata(self, timeout_s: float) -> ClusterMetadata:
        """Return the metadata of the whole cluster; no broker creates a topic for this request.

        Raises: BrokersUnavailableError, BrokerRefusedError.
        """
        try:
            told = self._admin.list_topics(timeout=timeout_s)
        except KafkaException as error:
            raise self._unavailable(error.args[0].str(), timeout_s) from error
        partitions = {
            TopicPartition(topic, number): PartitionMetadata(known.leader, tuple(known.replicas), tuple(known.isrs))
            for topic, of in told.topics.items()
            for number, known in of.partitions.items()
        }
        brokers = {broker.id: (str(broker.host), int(broker.port)) for broker in told.brokers.values()}
        refused = {
            topic: refusal(topic, of.error.str(), passes=kind_of(of.error) is not FaultKind.LASTING)
            for topic, of in told.topics.items()
            if of.error is not None
        }
        return ClusterMetadata(brokers, partitions, refused)

    def try_access(self, timeout_s: float) -> None:
        """Wait until a broker accepts this client, all refuse it, or the time is over. Raises: BrokerRefusedError."""
        deadline = time.monotonic() + timeout_s
        slice_s = 0.25
        while (left_s := deadline - time.monotonic()) > 0:
            try:
                self._admin.list_topics("", min(slice_s, left_s))
            except KafkaException:
                self._admin.poll(0)
                failure = self.lasting_failure()
                if isinstance(failure, BrokerRefusedError):
                    raise failure from None
                slice_s *= 2  # an answer that takes longer than the first slices comes in a later one
            else:
                return

    def _unavailable(self, reason: str, timeout_s: float) -> BrokersUnavailableError:
        self._admin.poll(0)
        failure = self.lasting_failure()
        if isinstance(failure, BrokerRefusedError):
            return failure
        return BrokersUnavailableError(f"no answer from the brokers within {timeout_s:.1f} s: {self.refusal or reason}")

    def close(self) -> None:
        """Stop, and free the handle; it cannot be used again."""
        del self._admin


def _spec_of(time_ms: int) -> OffsetSpec:
    if time_ms == EARLIEST:
        return _EARLIEST
    return _LATEST if time_ms == LATEST else OffsetSpec.for_timestamp(time_ms)


def _left_s(deadline: float) -> float:
    return max(_SHORTEST_S, deadline - time.monotonic())


def _is_silence(found: _Answer) -> bool:
    return found == _NO_ANSWER if isinstance(found, int) else found.code() in _SILENT


def _answer(tp: TopicPartition, found: _Answer) -> int | KafkaError:
    if _is_silence(found):
        return BrokersUnavailableError(f"{tp}: its leader does not answer")
    if isinstance(found, int):
        return found
    if found.code() == _Code.UNSUPPORTED_FOR_MESSAGE_FORMAT:
        return FetchError(tp, "its messages have no timestamps (format 0), so none can be found by time")
    if kind_of(found) is FaultKind.LASTING:
        return FetchError(tp, found.str())
    return BrokersUnavailableError(f"{tp}: {found.str()}")
