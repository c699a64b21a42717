"""Reads the members of a group on the brokers' side, which are never ZooKeeper members. Brokers from 0.9 on."""

from __future__ import annotations

from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient

from legacy_consumer.config import ClusterConfig
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka.settings import client_settings
from zk_layout.loggers import safe_logger
from zk_layout.store import ZkStore

logger = safe_logger(__name__)


class _Quiet:
    """Logs librdkafka's lines at level DEBUG: each failure is raised as an error, too."""

    def log(self, level: int, message: str, *args: object) -> None:  # noqa: ARG002
        logger.debug(message, *args)


def read_kafka_members(config: ClusterConfig, store: ZkStore, group: str, timeout_s: float) -> tuple[str, ...]:
    """Return the consumers that the group's coordinator knows, each as `<client id>@<host>`, sorted.

    Raises: BrokersUnavailableError, MissingListenerError.
    """
    admin = AdminClient(dict(client_settings(config, read_brokers(store))), logger=_Quiet())
    try:
        described = admin.describe_consumer_groups([group], request_timeout=timeout_s)[group].result()
    except KafkaException as error:
        reason = f"no broker tells who is in group {group!r}: {error.args[0].str()}"
        raise BrokersUnavailableError(reason) from error
    return tuple(sorted(f"{member.client_id}@{member.host.lstrip('/')}" for member in described.members))
