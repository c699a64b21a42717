"""The fetchers of one connector, over their own connections. Brokers are read from ZooKeeper when first needed."""

from __future__ import annotations

import random
import socket
import threading
import time
from collections.abc import Callable, Collection

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.config.broker_hosts import BrokerHosts
from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError
from legacy_consumer.fetching.columnar.connection import Connection
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.fetcher import ColumnarFetcher
from legacy_consumer.fetching.columnar.leader_finder import LeaderFinder
from legacy_consumer.fetching.columnar.leaders import LeaderReader
from legacy_consumer.fetching.columnar.log_offsets import ColumnarLogOffsets
from legacy_consumer.fetching.columnar.opening import Opening, open_connection
from legacy_consumer.fetching.columnar.security import Security, security_of
from legacy_consumer.fetching.columnar.settings import FetchSettings
from legacy_consumer.fetching.fetcher import LogOffsets
from legacy_consumer.fetching.positions import PositionFinder
from zk_layout.loggers import safe_logger
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_ACCESS_TIMEOUT_S = 5.0
_OPENING_TIMEOUT_S = 10.0


class BrokerDoor:
    """Opens connections with one configuration. Raises: ConfigError for certificates that cannot be used."""

    def __init__(self, config: ClusterConfig, store: ZkStore) -> None:
        self._security: Security = security_of(config)
        self._client_id = config.client_id
        self._receive_buffer_bytes = config.socket_receive_buffer_bytes
        self._timeout_s = min(config.socket_timeout_ms / 1000, _OPENING_TIMEOUT_S)
        self.leaders = LeaderReader(
            store,
            config.security_protocol,
            self.open,
            timeout_s=min(self._timeout_s, _ACCESS_TIMEOUT_S),
            hosts=BrokerHosts(config.broker_hosts),
        )

    def open(
        self,
        address: BrokerAddress,
        timeout_s: float | None = None,
        opened: Callable[[socket.socket], None] | None = None,
    ) -> Connection:
        """Connect and log in. Raises: BrokersUnavailableError, BrokerRefusedError."""
        return open_connection(
            address,
            self._security,
            client_id=self._client_id,
            timeout_s=self._timeout_s if timeout_s is None else min(timeout_s, self._timeout_s),
            receive_buffer_bytes=self._receive_buffer_bytes,
            opened=opened,
        )

    def begin_opening(self, address: BrokerAddress, on_done: Callable[[], None]) -> Opening:
        """As open, on a new thread."""
        return Opening(lambda opened: self.open(address, opened=opened), on_done)

    def check_access(self) -> None:
        """Check whether a broker accepts this client.

        Raises: MissingListenerError, BrokerRefusedError if all refuse it.
        """
        try:
            addresses = list(self.leaders.brokers().values())
        except BrokersUnavailableError:
            return
        if self._security.tls is None and self._security.sasl is None:
            return  # there is nothing that a broker could refuse
        random.shuffle(addresses)
        deadline = time.monotonic() + _ACCESS_TIMEOUT_S
        refusal: BrokerRefusedError | None = None
        for address in addresses:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                break
            try:
                self.open(address, left_s).close()
            except BrokerRefusedError as error:
                refusal = refusal or error
            except BrokersUnavailableError as error:
                logger.debug("%s", error)
            else:
                return
        if refusal is not None:
            raise refusal


class ColumnarFetchers:
    """Implements FetcherFactory. Raises: ConfigError for certificates that cannot be used, before any I/O."""

    def __init__(self, config: ConsumerConfig, store: ZkStore) -> None:
        self._settings = FetchSettings.of(config)
        self._reset_to = config.reset_to
        self._door = BrokerDoor(config, store)
        self._log_offsets = _log_offsets(self._door, read_committed=self._settings.read_committed)
        self._lock = threading.Lock()
        self._fetchers: list[ColumnarFetcher] = []

    def check_access(self) -> None:
        """Check whether the brokers would accept this client; brokers that are down are no error.

        Raises: MissingListenerError, BrokerRefusedError.
        """
        self._door.check_access()

    def fetcher(self) -> ColumnarFetcher:
        """Return a fetcher for one stream; no I/O before its first poll."""
        fetcher = _fetcher(self._door, self._settings, self.log_offsets, self._reset_to)
        with self._lock:
            self._fetchers = [*(one for one in self._fetchers if not one.is_closed), fetcher]
        return fetcher

    def log_offsets(self) -> ColumnarLogOffsets:
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


def open_log_offsets(config: ClusterConfig, store: ZkStore, *, timeout_s: float = 5.0) -> ColumnarLogOffsets:
    """Return a reader of log ends for callers without a connector; it connects at its first request."""
    return _log_offsets(BrokerDoor(config, store), read_committed=False, timeout_s=timeout_s)


def open_fetcher(config: ConsumerConfig, store: ZkStore, log_offsets: LogOffsets) -> ColumnarFetcher:
    """Return a fetcher without a connector; a position outside the log is an error. log_offsets stays open."""
    return _fetcher(BrokerDoor(config, store), FetchSettings.of(config), lambda: log_offsets, None)


def _log_offsets(door: BrokerDoor, *, read_committed: bool, timeout_s: float = 5.0) -> ColumnarLogOffsets:
    return ColumnarLogOffsets(door.leaders, door.open, read_committed=read_committed, timeout_s=timeout_s)


def _fetcher(
    door: BrokerDoor, settings: FetchSettings, log_offsets: Callable[[], LogOffsets], reset_to: int | None
) -> ColumnarFetcher:
    return ColumnarFetcher(
        settings,
        begin_opening=door.begin_opening,
        make_leader_finder=lambda on_news: LeaderFinder(door.leaders, backoff_s=settings.backoff_s, on_news=on_news),
        finder=PositionFinder(log_offsets, reset_to=reset_to, backoff_s=settings.backoff_s),
    )
