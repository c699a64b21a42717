"""Chooses the fetcher: the columnar one if it supports the configuration, librdkafka otherwise."""

from __future__ import annotations

import importlib
import importlib.util
import os
import threading
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.fetching.fetcher import Fetcher, FetcherFactory, LogOffsets
from zk_layout.errors import ConfigError
from zk_layout.loggers import safe_logger
from zk_layout.store import ZkStore

if TYPE_CHECKING:
    from legacy_consumer.fetching.columnar import ColumnarLogOffsets
    from legacy_consumer.fetching.librdkafka import LibrdkafkaLogOffsets

logger = safe_logger(__name__)

loading = threading.RLock()
"""Held while a thread loads a fetcher, and during a fork. Otherwise the child could wait for a module that was being
loaded, and whose loading thread does not exist in the child.
"""
os.register_at_fork(before=loading.acquire, after_in_parent=loading.release, after_in_child=loading.release)

COLUMNAR = "columnar"
LIBRDKAFKA = "librdkafka"

_DECODER = "legacy_consumer_native"
DECODER_VERSION = "0.3.0"
"""The version in native/Cargo.toml. Another version may decode differently."""
_MODULES = (_DECODER,)
"""The modules of the extra `fast` that the columnar fetcher needs; pyarrow is only for Arrow batches."""
_INSTALL = "install legacy-consumer[fast], or run make native in a clone"
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
    """The chosen fetcher, and why not the other one, in words that follow `because`."""

    fetcher: str
    reason: str

    def __str__(self) -> str:
        return f"{self.fetcher}, because {self.reason}"


def missing_modules() -> tuple[str, ...]:
    """Return the missing modules of the columnar fetcher, without importing any."""
    return tuple(name for name in _MODULES if importlib.util.find_spec(name) is None)


def decoder_obstacle(missing: tuple[str, ...] | None = None) -> str | None:
    """Return why the decoder cannot be used, and how to install it. missing: as from missing_modules, for tests."""
    absent = missing_modules() if missing is None else missing
    if absent:
        return f"{', '.join(absent)} cannot be imported: {_INSTALL}"
    with loading:
        return _loading_trouble()


@cache
def _loading_trouble() -> str | None:
    """Return why the columnar fetcher cannot be loaded although its modules are installed; logged once."""
    try:
        version = getattr(importlib.import_module(_DECODER), "__version__", "a module without a version")
        if version == DECODER_VERSION:
            importlib.import_module("legacy_consumer.fetching.columnar")
            return None
        trouble = f"legacy-consumer-native {DECODER_VERSION} is needed, not {version}: {_INSTALL}"
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a module for another machine, or a panic, may raise anything
        trouble = f"the extra `fast` is installed and cannot be loaded ({error!r}): {_INSTALL}"
    logger.warning("the columnar fetcher cannot be used: %s", trouble)
    return trouble


def choose_fetcher(config: ConsumerConfig, missing: tuple[str, ...] | None = None) -> FetcherChoice:
    """Choose by the configuration, the installed modules, and whether they can be loaded.

    missing: as from missing_modules, for tests.
    Raises: ConfigError if fetcher=columnar is configured and cannot be used.
    """
    if config.fetcher == LIBRDKAFKA:
        return FetcherChoice(LIBRDKAFKA, "fetcher=librdkafka is configured")
    obstacle = _obstacle(config) or decoder_obstacle(missing)
    if config.fetcher == COLUMNAR:
        if obstacle is not None:
            raise ConfigError(
                "fetcher", config.fetcher, f"is not available: {obstacle}; set fetcher=auto or librdkafka"
            )
        return FetcherChoice(COLUMNAR, "fetcher=columnar is configured")
    if obstacle is not None:
        return FetcherChoice(LIBRDKAFKA, obstacle)
    return FetcherChoice(COLUMNAR, "it covers all that is configured")


def speaks_for_itself(config: ConsumerConfig) -> bool:
    """Return whether this project's own connections support these brokers' security, with either fetcher."""
    return _security_obstacle(config) is None and decoder_obstacle() is None


def _obstacle(config: ClusterConfig) -> str | None:
    """Return why librdkafka has to fetch, by the configuration; None if it need not."""
    if config.rdkafka:
        return f"rdkafka.{config.rdkafka[0][0]} is set, which only librdkafka hears"
    return _security_obstacle(config)


def _security_obstacle(config: ClusterConfig) -> str | None:
    given = dict(config.kafka_security)
    protocol = config.security_protocol
    if protocol.startswith("SASL"):
        mechanism = given.get("sasl.mechanism", "GSSAPI")
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
    """Return the factory of the chosen fetcher. Raises: ConfigError for settings that it refuses, before any I/O."""
    _tell(config.group_id, config, choice)
    if choice.fetcher == LIBRDKAFKA:
        with loading:  # only if needed: the import takes 30 ms and 8 MB
            from legacy_consumer.fetching.librdkafka import LibrdkafkaFetchers

        return LibrdkafkaFetchers(config, store)
    from legacy_consumer.fetching.columnar import ColumnarFetchers

    return ColumnarFetchers(config, store)


def _tell(who: str, config: ConsumerConfig, choice: FetcherChoice) -> None:
    logger.info("%s: fetches with %s", who, choice)
    if choice.fetcher == LIBRDKAFKA and config.broker_hosts is not None:
        logger.warning("%s: librdkafka also connects to brokers outside broker.hosts, if brokers inside name them", who)


def open_log_offsets(config: ConsumerConfig, store: ZkStore) -> LibrdkafkaLogOffsets | ColumnarLogOffsets:
    """Return a reader of log ends for callers without a connector."""
    if choose_fetcher(config).fetcher == LIBRDKAFKA:
        with loading:
            from legacy_consumer.fetching.librdkafka import open_log_offsets as open_librdkafka_log_offsets

        return open_librdkafka_log_offsets(config, store)
    from legacy_consumer.fetching.columnar import open_log_offsets as open_columnar_log_offsets

    return open_columnar_log_offsets(config, store)


def open_fetcher(config: ConsumerConfig, store: ZkStore, log_offsets: LogOffsets) -> Fetcher:
    """Return a fetcher without a connector; a position outside the log is an error. log_offsets stays open."""
    choice = choose_fetcher(config)
    _tell(config.client_id, config, choice)
    if choice.fetcher == LIBRDKAFKA:
        with loading:
            from legacy_consumer.fetching.librdkafka import open_fetcher as open_librdkafka_fetcher

        return open_librdkafka_fetcher(config, store, log_offsets)
    from legacy_consumer.fetching.columnar import open_fetcher as open_columnar_fetcher

    return open_columnar_fetcher(config, store, log_offsets)
