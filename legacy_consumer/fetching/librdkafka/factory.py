"""The fetchers of one connector, over librdkafka. Brokers are read from ZooKeeper when first needed."""

from __future__ import annotations

import threading
from collections.abc import Collection, Container
from contextlib import suppress
from dataclasses import replace

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.fetcher import LogOffsets
from legacy_consumer.fetching.librdkafka.client import check_settings
from legacy_consumer.fetching.librdkafka.client_consumer import ConsumerHandle
from legacy_consumer.fetching.librdkafka.client_queries import QueryHandle
from legacy_consumer.fetching.librdkafka.fetcher import LibrdkafkaFetcher
from legacy_consumer.fetching.librdkafka.log_offsets import LibrdkafkaLogOffsets
from legacy_consumer.fetching.librdkafka.settings import SettingsDict, fetcher_settings, query_settings
from legacy_consumer.fetching.positions import PositionFinder
from zk_layout.closed_znodes import read_each
from zk_layout.codecs import decode_topic
from zk_layout.errors import MalformedZnodeError, NotPermittedError
from zk_layout.loggers import safe_logger
from zk_layout.model import Broker, Endpoint, TopicPartition
from zk_layout.paths import TopicPath
from zk_layout.store import ZkStore, Znode

logger = safe_logger(__name__)

_ACCESS_TIMEOUT_S = 5.0


class LibrdkafkaFetchers:
    """Implements FetcherFactory. Raises: ConfigError for settings that librdkafka refuses, before any I/O."""

    def __init__(self, config: ConsumerConfig, store: ZkStore) -> None:
        self._config = config
        self._store = store
        self._lock = threading.Lock()
        self._fetchers: list[LibrdkafkaFetcher] = []
        self._log_offsets = open_log_offsets(config, store, read_committed=config.isolation_level == "read_committed")
        check_settings(_without_brokers(config))

    def check_access(self) -> None:
        """Check whether the brokers accept us; brokers that are down are no error.

        Without TLS and SASL a broker can refuse nothing, so no request is sent.
        Raises: MissingListenerError, BrokerRefusedError.
        """
        try:
            settings = query_settings(self._config, read_brokers(self._store))
        except BrokersUnavailableError:
            return
        if self._config.security_protocol != "PLAINTEXT":
            handle = QueryHandle(settings)
            try:
                handle.try_access(_ACCESS_TIMEOUT_S)
            finally:
                handle.close()

    def fetcher(self) -> LibrdkafkaFetcher:
        """Return a fetcher for one stream; no I/O before its first poll."""
        backoff_s = self._config.refresh_leader_backoff_ms / 1000
        finder = PositionFinder(self.log_offsets, reset_to=self._config.reset_to, backoff_s=backoff_s)
        fetcher = LibrdkafkaFetcher(self._open_handle, finder, backoff_s=backoff_s)
        with self._lock:
            # forget the fetchers of closed streams: the others share the buffer
            self._fetchers = [*(one for one in self._fetchers if not one.is_closed), fetcher]
        return fetcher

    def log_offsets(self) -> LibrdkafkaLogOffsets:
        """Return the client for the ends of logs; it connects at its first request."""
        return self._log_offsets

    def note_brokers(self, gone: Collection[int]) -> None:
        """Note that brokers registered or left; see FetcherFactory."""
        with self._lock:
            fetchers = list(self._fetchers)
        for fetcher in fetchers:
            fetcher.note_brokers(gone)

    def close(self) -> None:
        """Close every fetcher and their shared parts; twice is harmless."""
        with self._lock:
            fetchers = list(self._fetchers)
        for fetcher in fetchers:
            fetcher.close()
        self._log_offsets.close()

    def _open_handle(self) -> ConsumerHandle:
        settings = fetcher_settings(self._config, read_brokers(self._store), max(1, len(self._fetchers)))
        logger.debug("fetching from %s", settings["bootstrap.servers"])
        return ConsumerHandle(settings)


def open_log_offsets(
    config: ClusterConfig, store: ZkStore, *, read_committed: bool = False, timeout_s: float = 5.0
) -> LibrdkafkaLogOffsets:
    """Return a reader of log ends; it connects at its first request.

    read_committed: a log ends at its first open transaction.
    """

    def existing(partitions: Collection[TopicPartition]) -> Collection[TopicPartition]:
        topics = sorted({tp.topic for tp in partitions})
        znodes = dict(zip(topics, read_each(store, [TopicPath(topic).path for topic in topics]), strict=True))
        numbers = {topic: _numbers(topic, znode) for topic, znode in znodes.items() if znode is not None}
        return {tp for tp in partitions if tp.topic in numbers and tp.partition in numbers[tp.topic]}

    def handle() -> QueryHandle:
        return QueryHandle(query_settings(config, read_brokers(store)), read_committed=read_committed)

    return LibrdkafkaLogOffsets(handle, existing, timeout_s=timeout_s)


def _numbers(topic: str, znode: Znode | NotPermittedError) -> Container[int]:
    if not isinstance(znode, NotPermittedError):
        with suppress(MalformedZnodeError):
            return decode_topic(TopicPath(topic).path, znode.data).partitions
    return range(2**31)  # brokers may know the topic even if its znode cannot be read


def open_fetcher(config: ConsumerConfig, store: ZkStore, log_offsets: LogOffsets) -> LibrdkafkaFetcher:
    """Return a fetcher for callers without a connector; a position outside the log is an error. log_offsets stays open.

    Raises: ConfigError for settings that librdkafka refuses.
    """
    check_settings(_without_brokers(config))
    backoff_s = config.refresh_leader_backoff_ms / 1000
    finder = PositionFinder(lambda: log_offsets, reset_to=None, backoff_s=backoff_s)
    return LibrdkafkaFetcher(
        lambda: ConsumerHandle(fetcher_settings(config, read_brokers(store), 1)), finder, backoff_s=backoff_s
    )


def _without_brokers(config: ConsumerConfig) -> SettingsDict:
    nowhere = Endpoint(config.security_protocol, config.security_protocol, "localhost", 9)
    return fetcher_settings(replace(config, broker_hosts=None), [Broker(0, "localhost", 9, (nowhere,), version=4)], 1)
