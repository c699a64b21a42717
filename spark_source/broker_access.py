"""Checks whether the brokers accept this client, before a request to them would run into its timeout."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing

from legacy_consumer.config import ClusterConfig
from legacy_consumer.fetching.librdkafka.client import check_settings
from legacy_consumer.fetching.librdkafka.client_queries import QueryHandle
from legacy_consumer.fetching.librdkafka.settings import query_settings
from zk_layout.model import Broker

_TIMEOUT_S = 5.0


def check_access(config: ClusterConfig, brokers: Sequence[Broker]) -> None:
    """Refuse settings that can never work. A broker that does not answer is no error, and PLAINTEXT is not tried.

    Raises: ConfigError for a setting that librdkafka does not accept, MissingListenerError; BrokerRefusedError for
    credentials or certificates.
    """
    settings = query_settings(config, brokers)
    check_settings(settings)
    if config.security_protocol != "PLAINTEXT":
        with closing(QueryHandle(settings)) as handle:
            handle.try_access(_TIMEOUT_S)
