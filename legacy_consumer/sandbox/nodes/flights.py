"""The flights again and again, at an even rate: something to consume."""

from __future__ import annotations

import itertools
import time
from collections.abc import Iterator

from legacy_consumer.config import ClusterConfig
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.fetching.librdkafka.settings import client_settings
from legacy_consumer.sandbox.quickstart.flights import find_flights, read_flights
from zk_layout.kazoo_store import KazooStore
from zk_layout.signals import Flag

_STEP_S = 0.1
_TIMEOUT_S = 120.0


def produce_flights(
    config: ClusterConfig, topic: str, *, rate: float = 0.0, limit: int | None = None, stop: Flag | None = None
) -> int:
    """Produce flights keyed by carrier until the limit is reached or stop is set; returns how many were acknowledged.

    rate: flights a second, 0 = as fast as the brokers take them. limit: None = once all flights.
    Raises: QuickstartError without the data, ProduceError, BrokersUnavailableError, ZooKeeperError.
    """
    path = find_flights()
    store = KazooStore(config.zk_settings())
    try:
        store.start()
        settings = client_settings(config, read_brokers(store))
    finally:
        store.close()
    flights = itertools.chain.from_iterable(read_flights(path) for _ in itertools.repeat(None))
    chosen = read_flights(path) if limit is None else itertools.islice(flights, limit)
    return produce_all(topic, _paced(chosen, rate, stop or Flag()), settings, timeout_s=_TIMEOUT_S)


def _paced(flights: Iterator[tuple[bytes, bytes]], rate: float, stop: Flag) -> Iterator[tuple[bytes, bytes]]:
    began = time.monotonic()
    step = max(1, int(rate * _STEP_S))
    for count, flight in enumerate(flights):
        if rate and count % step == 0:
            stop.wait(max(0.0, began + count / rate - time.monotonic()))
        if stop.is_set():
            return
        yield flight
