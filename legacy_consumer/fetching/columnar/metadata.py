"""Asks any broker of a cluster for its metadata, without ZooKeeper; see legacy_consumer.fetching.bootstrap."""

from __future__ import annotations

import time
from collections.abc import Collection
from dataclasses import replace

from legacy_consumer.config import ClusterConfig
from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, MalformedResponseError
from legacy_consumer.fetching.cluster_metadata import ClusterMetadata
from legacy_consumer.fetching.columnar.connection import Connection
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.opening import open_connection
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.metadata import (
    FIRST_THAT_CREATES_NO_TOPIC,
    decode_metadata,
    encode_metadata,
)
from legacy_consumer.fetching.columnar.security import security_of
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

_TIMEOUT_S = 5.0
_ANSWERS_API_VERSIONS = 4
_NOBODY = -1


class MetadataAsker:
    """Implements bootstrap.MetadataAsker over one connection, which it keeps. Only one thread at a time may use it.

    A broker before 0.10 closes the connection when it is asked for its versions. It is then asked once more, as one
    that registers in version 1 (0.8), or in version 2 (0.9) if 0.8 has no such listener.
    """

    def __init__(self, config: ClusterConfig) -> None:
        self._config = config
        self._security = security_of(config)
        self._oldest = 1 if config.security_protocol == "PLAINTEXT" else 2
        self._timeout_s = min(config.socket_timeout_ms / 1000, _TIMEOUT_S)
        self._connection: Connection | None = None

    def ask(self, server: tuple[str, int], topics: Collection[str]) -> ClusterMetadata:
        """Return this broker's metadata of these topics, maybe of others too; no topic is created.

        Raises: BrokersUnavailableError, BrokerRefusedError.
        """
        connection = self._connection
        if connection is not None and (connection.address.host, connection.address.port) == server:
            try:
                return self._ask_over(connection, topics)
            except BrokersUnavailableError as error:
                # the broker may have closed the idle connection
                logger.debug("asked anew: %s", error)
        self.close()
        begun = time.monotonic()
        try:
            return self._ask_over(self._open(server, _ANSWERS_API_VERSIONS), topics)
        except BrokerRefusedError:
            raise
        except BrokersUnavailableError as error:
            if time.monotonic() - begun >= self._timeout_s / 2:
                raise  # a broker is silent while it starts; asked again it might answer, and would count as old
            try:
                found = self._ask_over(self._open(server, self._oldest), topics)
            except BrokersUnavailableError as again:
                logger.debug("nor as a broker before 0.10: %s", again)
                raise error from None
        logger.info("%s:%d is a broker before 0.10", *server)
        return found

    def _ask_over(self, connection: Connection, topics: Collection[str]) -> ClusterMetadata:
        try:
            version = connection.versions.of(Api.METADATA)
            creates_none = version >= FIRST_THAT_CREATES_NO_TOPIC or (version >= 1 and not topics)
            wanted = sorted(topics) if creates_none else None
            answer = connection.ask(Api.METADATA, encode_metadata(version, wanted), self._timeout_s)
            found = decode_metadata(version, answer)
        except MalformedResponseError as error:
            self.close()
            raise BrokersUnavailableError(str(error)) from error
        except BaseException:
            # Ctrl-C may come between a request and its answer: the next request would read that answer
            self.close()
            raise
        return replace(found, registration_version=connection.address.registration_version)

    def close(self) -> None:
        """Close the connection; twice is harmless, and the next request connects again."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()

    def _open(self, server: tuple[str, int], registration_version: int) -> Connection:
        self._connection = connection = open_connection(
            BrokerAddress(_NOBODY, *server, registration_version),
            self._security,
            client_id=self._config.client_id,
            timeout_s=self._timeout_s,
            receive_buffer_bytes=-1,
        )
        return connection
