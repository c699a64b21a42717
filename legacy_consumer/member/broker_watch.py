"""Watches the list of registered brokers: /brokers/ids, read once and watched from then on.

A broker that comes or goes causes no rebalance, as in Kafka's own consumers from 0.8 on. This class notifies the
fetchers. The columnar fetcher then looks again for missing leaders and positions at once, and closes its connections to
a broker that left; librdkafka does that by its own timers.

The store's callback only notes that the watch fired. A short-lived thread reads the list again; it ends when it has the
list.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection

from zk_layout.errors import LegacyConsumerError, NoNodeError, NotPermittedError
from zk_layout.loggers import safe_logger
from zk_layout.paths import BrokerIdsPath, broker_ids
from zk_layout.running_threads import OwnThread, is_running
from zk_layout.signals import Flag
from zk_layout.store import WatchEvent, ZkStore

logger = safe_logger(__name__)

_PAUSE_S = 1.0
"""The wait between two tries while ZooKeeper does not answer, or an ACL closes the list."""
_JOIN_S = 1.0


class BrokerWatch:
    """Watches the brokers for one member.

    tell: called on the watch's own thread when brokers came or left, with the ids of the brokers that left.
    """

    def __init__(self, store: ZkStore, consumer_id: str, tell: Callable[[Collection[int]], None]) -> None:
        self._store = store
        self._consumer_id = consumer_id
        self._tell = tell
        self._lock = threading.Lock()
        self._closed = Flag()
        self._thread: threading.Thread | None = None
        self._is_old = False
        """Whether the watch fired since the last read."""
        self._is_known = False
        self.brokers: tuple[int, ...] = ()
        """The ids of the registered brokers, sorted, as last read."""

    def start(self) -> None:
        """Begin to watch; twice is harmless."""
        if not self._is_known:
            self._look()

    def close(self) -> None:
        """Watch no longer; twice is harmless."""
        self._closed.set()
        with self._lock:
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(_JOIN_S)

    def _fired(self, event: WatchEvent) -> None:
        del event  # whatever happened, the list is read again
        self._look()

    def _look(self) -> None:
        with self._lock:
            self._is_old = True
            if not self._closed.is_set() and not is_running(self._thread):
                self._thread = OwnThread(target=self._run, name=f"{self._consumer_id}-brokers")
                self._thread.start()

    def _run(self) -> None:
        is_closed = False
        while True:
            with self._lock:
                if not self._is_old or self._closed.is_set():
                    self._thread = None
                    return
                self._is_old = False
            try:
                self._note(self._read())
                is_closed = False
            except LegacyConsumerError as error:
                # an ACL may be opened again; the warning is logged once for all tries while it is closed
                is_first, is_closed = not is_closed, isinstance(error, NotPermittedError)
                level = logging.WARNING if is_closed and is_first else logging.DEBUG
                logger.log(level, "%s: cannot watch the brokers, it is tried again: %s", self._consumer_id, error)
                self._is_old = True
                self._closed.wait(_PAUSE_S)
            except Exception:
                # if this thread ended, the list would stay old
                logger.exception("%s: reading the brokers failed unexpectedly; it is tried again", self._consumer_id)
                self._is_old = True
                self._closed.wait(_PAUSE_S)

    def _read(self) -> tuple[int, ...]:
        parent = BrokerIdsPath().path
        try:
            names = self._store.get_children(parent, self._fired)
        except NoNodeError:
            names = ()
            created_meanwhile = self._store.exists(parent, self._fired) is not None
            if created_meanwhile:
                self._is_old = True
        return tuple(broker_ids(names))

    def _note(self, brokers: tuple[int, ...]) -> None:
        before, self.brokers = self.brokers, brokers
        was_known, self._is_known = self._is_known, True
        came, gone = sorted(set(brokers) - set(before)), sorted(set(before) - set(brokers))
        if not was_known or not (came or gone):
            return
        for word, ids in (("left", gone), ("came", came)):
            if ids:
                logger.info("%s: brokers that %s: %s; registered now: %s", self._consumer_id, word, ids, [*brokers])
        self._tell(gone)
