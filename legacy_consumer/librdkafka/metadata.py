"""Asks any broker of a cluster for its metadata, where only librdkafka can; see legacy_consumer.bootstrap.

Brokers before 0.10 cannot be asked so: librdkafka has to be told what they speak.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from legacy_consumer.cluster_metadata import ClusterMetadata
from legacy_consumer.config import ClusterConfig
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.librdkafka.client_queries import QueryHandle
from legacy_consumer.librdkafka.settings import query_settings
from zk_layout.model import Broker, Endpoint

_TIMEOUT_S = 5.0
_ANSWERS_API_VERSIONS = 4


class LibrdkafkaMetadataAsker:
    """Over a handle that it keeps; not for two threads at once."""

    def __init__(self, config: ClusterConfig) -> None:
        # the user named the servers; brokers that they name are looked at by whoever speaks with them
        self._config = replace(config, broker_hosts=None)
        self._server: tuple[str, int] | None = None
        self._handle: QueryHandle | None = None

    def ask(self, server: tuple[str, int], topics: Collection[str]) -> ClusterMetadata:
        """What this broker says of all topics. Raises: BrokersUnavailableError, BrokerRefusedError."""
        del topics  # to name one may create it
        if self._handle is None or server != self._server:
            self.close()
            endpoint = Endpoint(self._config.security_protocol, self._config.security_protocol, *server)
            broker = Broker(0, *server, (endpoint,), version=_ANSWERS_API_VERSIONS)
            self._handle, self._server = QueryHandle(query_settings(self._config, [broker])), server
        try:
            return self._handle.metadata(_TIMEOUT_S)
        except BrokersUnavailableError:
            self.close()
            raise

    def close(self) -> None:
        """Hang up; twice is harmless, and the next question connects again."""
        handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()
