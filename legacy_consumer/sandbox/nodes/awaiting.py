"""Waits for a cluster that starts at the same time, with a bound, and reports what it waits for."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from threading import Event

from legacy_consumer.config import ClusterConfig
from legacy_consumer.offsets.topic_partitions import is_topic_name
from legacy_consumer.sandbox.nodes.errors import ClusterNotReadyError
from zk_layout.errors import ConfigError, ConnectTimeoutError, MissingChrootError, NoNodeError, ZooKeeperError
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import BrokerIdPath, BrokerIdsPath, TopicPath, broker_ids
from zk_layout.store import ZkStore

_LOOK_S = 0.25
_TRY_MS = 2000
"""One try to connect: a name that is not known yet is not asked for again within one."""


def await_cluster(
    config: ClusterConfig,
    timeout_s: float,
    *,
    brokers: int = 0,
    topic: str | None = None,
    without_broker: int | None = None,
    chroot: str = "",
    tell: Callable[[str], None] = lambda _: None,
) -> None:
    """Wait until ZooKeeper answers, this many brokers are registered and the topic exists.

    without_broker: this id must not be registered, since a broker does not start while ZooKeeper still lists its killed
    predecessor; chroot is a prefix of its path, as the chroot itself may not exist yet. tell gets a sentence for each
    condition that it waits for. Raises: ClusterNotReadyError naming the condition that did not hold within timeout_s
    seconds; errors that waiting cannot cure, such as ConfigError for a name that no topic can have.
    """
    if topic is not None and not is_topic_name(topic):
        raise ConfigError("topic", topic, "is no name that a topic can have")
    waiting = _Waiting(time.monotonic() + timeout_s, timeout_s, tell)
    with _connected(config, waiting) as store:
        if brokers:
            waiting.until(
                lambda: len(broker_ids(_children(store, BrokerIdsPath().path))) >= brokers,
                f"{brokers} registered broker{'' if brokers == 1 else 's'}",
            )
        if without_broker is not None:
            path = chroot + BrokerIdPath(without_broker).path
            waiting.until(
                lambda: store.exists(path) is None, f"the end of the former session of broker {without_broker}"
            )
        if topic is not None:
            waiting.until(lambda: store.exists(TopicPath(topic).path) is not None, f"topic {topic}")


class _Waiting:
    def __init__(self, deadline: float, timeout_s: float, tell: Callable[[str], None]) -> None:
        self._deadline = deadline
        self._timeout_s = timeout_s
        self._tell = tell
        self._told = ""
        self._pause = Event()

    def until(self, is_met: Callable[[], bool], what: str) -> None:
        """Raises: ClusterNotReadyError."""
        while True:
            try:
                if is_met():
                    return
            except ZooKeeperError as error:
                if not error.retriable:
                    raise
            self.announce(what)
            self._pause.wait(_LOOK_S)

    def announce(self, what: str) -> None:
        """Say once what is waited for. Raises: ClusterNotReadyError when the time is over."""
        left_s = self._deadline - time.monotonic()
        if left_s <= 0:
            raise ClusterNotReadyError(what, self._timeout_s)
        if what != self._told:
            # the first try has already taken some time, which was not reported
            bound_s = left_s if self._told else self._timeout_s
            self._told = what
            self._tell(f"waiting up to {bound_s:.0f} s for {what}")


class _connected:  # noqa: N801  (used like a function)
    """A store once ZooKeeper answers."""

    def __init__(self, config: ClusterConfig, waiting: _Waiting) -> None:
        settings = config.zk_settings()
        self._settings = dataclasses.replace(
            settings, connection_timeout_ms=min(_TRY_MS, settings.connection_timeout_ms)
        )
        self._waiting = waiting
        self._store: KazooStore | None = None

    def __enter__(self) -> ZkStore:
        self._waiting.until(self._try, f"ZooKeeper at {self._settings.connect}")
        assert self._store is not None
        return self._store

    def _try(self) -> bool:
        store = KazooStore(self._settings)
        try:
            store.start()
        except (ConnectTimeoutError, MissingChrootError):
            # a chroot comes into being with the first broker
            store.close()
            return False
        except BaseException:
            store.close()
            raise
        self._store = store
        return True

    def __exit__(self, *_: object) -> None:
        if self._store is not None:
            self._store.close()


def _children(store: ZkStore, path: str) -> tuple[str, ...]:
    try:
        return store.get_children(path)
    except NoNodeError:
        return ()
