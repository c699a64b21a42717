"""Asks the brokers for the first offsets and the ends of logs, for one task or one plan."""

from __future__ import annotations

from collections.abc import Collection

from legacy_consumer.config import ClusterConfig
from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka import open_log_offsets
from spark_source.broker_access import check_access
from spark_source.offsets import Need
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

_LONGEST_ANSWER_S = 10.0

Offsets = dict[TopicPartition, int]


def check_brokers(config: ClusterConfig, store: ZkStore) -> None:
    """Before any task runs, refuse settings with which no broker can be reached. Without any broker only log a warning.

    Raises: ConfigError for a setting that librdkafka does not accept, MissingListenerError, BrokerRefusedError.
    """
    try:
        check_access(config, read_brokers(store))
    except BrokerRefusedError:
        raise
    except BrokersUnavailableError as error:
        logger.warning("log_start, log_end and lag will be null: %s", error)


class LogEndsReader:
    """Reads first offsets and ends of logs, as far as wanted. Once no broker answers, it asks no more: all are null."""

    def __init__(self, config: ClusterConfig, store: ZkStore, wanted: frozenset[Need]) -> None:
        timeout_s = min(_LONGEST_ANSWER_S, config.socket_timeout_ms / 1000)
        self._offsets = open_log_offsets(config, store, timeout_s=timeout_s)
        self._wanted = wanted
        self._silent = False

    def read(self, partitions: Collection[TopicPartition]) -> tuple[Offsets, Offsets]:
        """Return the wanted first offsets and ends of these logs. Raises: ConfigError, MissingListenerError."""
        if self._silent or not partitions:
            return {}, {}
        try:
            return (
                self._offsets.earliest(partitions) if Need.LOG_START in self._wanted else {},
                self._offsets.latest(partitions) if Need.LOG_END in self._wanted else {},
            )
        except BrokersUnavailableError as error:
            self._silent = True
            logger.warning("log_start, log_end and lag are null: %s", error)
            return {}, {}

    def close(self) -> None:
        """Close the connections; twice is harmless."""
        self._offsets.close()
