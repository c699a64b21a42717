"""Which fetcher fetches: the columnar one where it covers what is configured, librdkafka otherwise."""

from __future__ import annotations

import importlib
import importlib.util
import logging
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.fetcher import Fetcher, FetcherFactory, LogOffsets
from legacy_consumer.librdkafka import LibrdkafkaFetchers
from legacy_consumer.librdkafka import open_fetcher as open_librdkafka_fetcher
from legacy_consumer.librdkafka import open_log_offsets as open_librdkafka_log_offsets
from zk_layout.errors import ConfigError
from zk_layout.store import ZkStore

if TYPE_CHECKING:
    from legacy_consumer.librdkafka import LibrdkafkaLogOffsets
    from legacy_consumer.wire import ColumnarLogOffsets

logger = logging.getLogger(__name__)

COLUMNAR = "columnar"
NATIVE = "native"
LIBRDKAFKA = "librdkafka"

_MODULES = ("numba", "numpy", "pyarrow", "cramjam", "crc32c")
"""What the extra `fast` brings."""
_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
_SECURITY_COVERED = {
    "ssl.ca.location",
    "ssl.certificate.location",
    "ssl.key.location",
    "ssl.key.password",
    "ssl.cipher.suites",
    "ssl.endpoint.identification.algorithm",
    "enable.ssl.certificate.verification",
    "sasl.mechanism",
    "sasl.username",
    "sasl.password",
}


@dataclass(frozen=True, slots=True)
class FetcherChoice:
    """Which fetcher, and why not the other one; in words that follow `because`."""

    fetcher: str
    reason: str

    def __str__(self) -> str:
        return f"{self.fetcher}, because {self.reason}"


def missing_modules() -> tuple[str, ...]:
    """What of the extra `fast` is not installed; nothing is imported."""
    return tuple(name for name in _MODULES if importlib.util.find_spec(name) is None)


@cache
def _loading_trouble() -> str | None:
    """Why the columnar fetcher cannot be loaded although all that it needs is installed; said once in the log."""
    try:
        importlib.import_module("legacy_consumer.wire")
    except Exception as error:  # noqa: BLE001 - numba raises SystemError and others where it does not fit to Python or numpy
        logger.warning("the columnar fetcher cannot be loaded, librdkafka is left: %r", error)
        return f"the extra `fast` is installed and cannot be loaded: {error!r}"
    return None


def choose_fetcher(config: ConsumerConfig, missing: tuple[str, ...] | None = None) -> FetcherChoice:
    """Decide, by the configuration, what is installed, and whether it can be loaded.

    missing: as missing_modules says, for tests.
    Raises: ConfigError if fetcher=columnar or fetcher=native is wanted and cannot be.
    """
    if config.fetcher == LIBRDKAFKA:
        return FetcherChoice(LIBRDKAFKA, "fetcher=librdkafka is configured")
    obstacle = _obstacle(config, missing_modules() if missing is None else missing) or _loading_trouble()
    if config.fetcher == NATIVE:
        obstacle = obstacle or _native_obstacle()
    if config.fetcher in (COLUMNAR, NATIVE):
        if obstacle is not None:
            raise ConfigError("fetcher", config.fetcher, f"cannot be had: {obstacle}; set fetcher=auto or librdkafka")
        return FetcherChoice(COLUMNAR, f"fetcher={config.fetcher} is configured")
    if obstacle is not None:
        return FetcherChoice(LIBRDKAFKA, obstacle)
    return FetcherChoice(COLUMNAR, "it covers all that is configured")


def _native_obstacle() -> str | None:
    """Why the native decoder cannot be used."""
    from legacy_consumer.wire.native_module import native_obstacle

    return native_obstacle()


def speaks_for_itself(config: ConsumerConfig) -> bool:
    """Whether connections of our own can be opened to these brokers, whichever fetcher is configured."""
    return not missing_modules() and _security_obstacle(config) is None and _loading_trouble() is None


def _obstacle(config: ClusterConfig, missing: tuple[str, ...]) -> str | None:
    """Why librdkafka has to fetch."""
    if missing:
        return f"{', '.join(missing)} cannot be imported: install legacy-consumer[fast]"
    if config.rdkafka:
        return f"rdkafka.{config.rdkafka[0][0]} is set, which only librdkafka hears"
    return _security_obstacle(config)


def _security_obstacle(config: ClusterConfig) -> str | None:
    given = dict(config.kafka_security)
    protocol = config.security_protocol
    if protocol.startswith("SASL"):
        mechanism = given.get("sasl.mechanism", "GSSAPI").upper()
        if mechanism not in _MECHANISMS:
            return f"sasl.mechanism={mechanism} is spoken by librdkafka only"
    relevant = (("sasl.",) if protocol.startswith("SASL") else ()) + (
        ("ssl.", "enable.ssl.") if protocol.endswith("SSL") else ()
    )
    for name in given:
        if name not in _SECURITY_COVERED and name.startswith(relevant):
            return f"{name} is heard by librdkafka only"
    return None


def make_fetchers(config: ConsumerConfig, store: ZkStore, choice: FetcherChoice) -> FetcherFactory:
    """The factory of what was chosen. Raises: ConfigError for settings that it refuses, before any I/O."""
    logger.info("%s: fetches with %s", config.group_id, choice)
    if choice.fetcher == LIBRDKAFKA:
        return LibrdkafkaFetchers(config, store)
    from legacy_consumer.wire import ColumnarFetchers

    return ColumnarFetchers(config, store)


def open_log_offsets(config: ConsumerConfig, store: ZkStore) -> LibrdkafkaLogOffsets | ColumnarLogOffsets:
    """The ends of logs, for whoever has no connector."""
    if choose_fetcher(config).fetcher == LIBRDKAFKA:
        return open_librdkafka_log_offsets(config, store)
    from legacy_consumer.wire import open_log_offsets as open_columnar_log_offsets

    return open_columnar_log_offsets(config, store)


def open_fetcher(config: ConsumerConfig, store: ZkStore, log_offsets: LogOffsets) -> Fetcher:
    """A fetcher for whoever has no connector; a position outside the log is an error to it. log_offsets stays open."""
    choice = choose_fetcher(config)
    logger.info("%s: fetches with %s", config.client_id, choice)
    if choice.fetcher == LIBRDKAFKA:
        return open_librdkafka_fetcher(config, store, log_offsets)
    from legacy_consumer.wire import open_fetcher as open_columnar_fetcher

    return open_columnar_fetcher(config, store, log_offsets)
