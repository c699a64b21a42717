"""Asks the brokers where logs begin and end, for one task or one plan."""

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
    """Refuse, before any task runs, what cannot reach a broker; no broker at all is only worth a warning.

    Raises: ConfigError for a setting that librdkafka does not take, MissingListenerError, BrokerRefusedError.
    """
    try:
        check_access(config, read_brokers(store))
    except BrokerRefusedError:
        raise
    except BrokersUnavailableError as error:
        logger.warning("log_start, log_end and lag will be null: %s", error)


class LogEndsReader:
    """Where logs begin and end, as far as wanted. Once no broker answers none is asked again: all is null then."""

    def __init__(self, config: ClusterConfig, store: ZkStore, wanted: frozenset[Need]) -> None:
        timeout_s = min(_LONGEST_ANSWER_S, config.socket_timeout_ms / 1000)
        self._offsets = open_log_offsets(config, store, timeout_s=timeout_s)
        self._wanted = wanted
        self._silent = False

    def read(self, partitions: Collection[TopicPartition]) -> tuple[Offsets, Offsets]:
        """The begins and the ends of these logs, as far as wanted. Raises: ConfigError, MissingListenerError."""
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
        """Free the connections; twice is harmless."""
        self._offsets.close()
