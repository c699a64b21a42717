"""Reads metadata from any broker of a cluster, if only librdkafka can connect to it; see fetching/bootstrap.py."""

from __future__ import annotations

import socket
from collections.abc import Collection
from dataclasses import replace

from legacy_consumer.config import ClusterConfig
from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError
from legacy_consumer.fetching.cluster_metadata import ClusterMetadata
from legacy_consumer.fetching.librdkafka.client_queries import QueryHandle
from legacy_consumer.fetching.librdkafka.settings import query_settings
from zk_layout.loggers import safe_logger
from zk_layout.model import Broker, Endpoint

logger = safe_logger(__name__)

_TIMEOUT_S = 5.0
_ANSWERS_API_VERSIONS = 4


class LibrdkafkaMetadataAsker:
    """Implements MetadataAsker over one librdkafka handle. Only one thread at a time may use it.

    A broker before 0.10 closes the connection when librdkafka asks for its versions, and librdkafka retries until its
    time is over. So a broker that accepts connections and never answers is asked once more, as one that registers in
    version 1 (0.8), or in version 2 (0.9) if 0.8 has no such listener. All brokers of a cluster count as equally old.
    """

    def __init__(self, config: ClusterConfig, *, timeout_s: float = _TIMEOUT_S) -> None:
        # the user named the servers; the caller checks the brokers that they name
        self._config = replace(config, broker_hosts=None)
        self._timeout_s = timeout_s
        self._oldest = 1 if config.security_protocol == "PLAINTEXT" else 2
        self._version = _ANSWERS_API_VERSIONS
        """The registration version of this cluster's brokers, as far as it is known."""
        self._server: tuple[str, int] | None = None
        self._handle: QueryHandle | None = None

    def ask(self, server: tuple[str, int], topics: Collection[str]) -> ClusterMetadata:
        """Return this broker's metadata of all topics. Raises: BrokersUnavailableError, BrokerRefusedError."""
        del topics  # a request that names a topic may create it
        try:
            return self._ask_as(self._version, server)
        except BrokerRefusedError:
            raise
        except BrokersUnavailableError:
            if self._version == self._oldest or not _takes_connections(server, self._timeout_s):
                raise
            found = self._ask_as(self._oldest, server)
        logger.info("%s:%d is a broker before 0.10", *server)
        self._version = self._oldest
        return found

    def _ask_as(self, version: int, server: tuple[str, int]) -> ClusterMetadata:
        if self._handle is None or server != self._server:
            self.close()
            endpoint = Endpoint(self._config.security_protocol, self._config.security_protocol, *server)
            broker = Broker(0, *server, (endpoint,), version=version)
            self._handle, self._server = QueryHandle(query_settings(self._config, [broker])), server
        try:
            return replace(self._handle.metadata(self._timeout_s), registration_version=version)
        except BrokersUnavailableError:
            self.close()
            raise

    def close(self) -> None:
        """Close the connection; twice is harmless, and the next request connects again."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()


def _takes_connections(server: tuple[str, int], timeout_s: float) -> bool:
    try:
        socket.create_connection(server, timeout_s).close()
    except OSError:
        return False
    return True
