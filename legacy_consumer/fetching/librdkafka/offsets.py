"""A group's offsets in Kafka: reads them from the coordinator, and commits to it, as a client that is no Kafka member.

Checked with brokers 0.8.2.2, 0.10.2.2, 1.1.1, 2.8.2 and 3.9.1. A coordinator that has just started refuses for a
moment (not coordinator, load in progress), and librdkafka may keep a coordinator that is gone, with 0.8.2 for ever.
So after some failures in a row the next call opens a new handle, with the brokers that are registered at that time.
Not after the first failure: a connection takes a second, and with TLS over a long distance may take longer than the
caller's timeout.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka.client_offsets import OffsetsHandle
from legacy_consumer.fetching.librdkafka.settings import group_offsets_settings
from legacy_consumer.fetching.topic_names import NO_SUCH_NAME, has_a_possible_name
from legacy_consumer.offsets import KafkaOffset
from zk_layout.model import TopicPartition
from zk_layout.running_threads import is_running
from zk_layout.store import ZkStore

_PATIENCE = 3
"""The reader opens a new handle after this number of failed requests in a row."""


class LibrdkafkaGroupOffsets:
    """Implements GroupOffsets, from any thread. open_handle: connects to the brokers that are registered then."""

    def __init__(self, open_handle: Callable[[], OffsetsHandle]) -> None:
        self._open_handle = open_handle
        self._lock = threading.Lock()
        self._handle: OffsetsHandle | None = None
        self._failures = 0
        self._closed = False
        self._abandoned: list[threading.Thread] = []

    def read(self, partitions: Collection[TopicPartition], timeout_s: float) -> dict[TopicPartition, KafkaOffset]:
        """Return the committed offsets. Raises: BrokersUnavailableError, MissingListenerError, ConfigError."""
        possible = [tp for tp in partitions if has_a_possible_name(tp.topic)]
        with self._lock:
            handle = self._opened()
            try:
                found = handle.committed(possible, timeout_s)
            except BrokersUnavailableError:
                self._failures += 1
                if self._failures >= _PATIENCE:
                    self._abandon()
                raise
            self._failures = 0
        nothing = {tp: (None, "") for tp in partitions if not has_a_possible_name(tp.topic)}
        return {tp: KafkaOffset(offset, metadata) for tp, (offset, metadata) in {**found, **nothing}.items()}

    def write(self, offsets: Mapping[TopicPartition, KafkaOffset], timeout_s: float) -> str | None:
        """Commit. Returns: None, or why some were refused. Raises: BrokersUnavailableError without an answer."""
        wanted = {tp: (o.offset, o.metadata) for tp, o in offsets.items() if o.offset is not None}
        impossible = next((tp for tp in wanted if not has_a_possible_name(tp.topic)), None)
        if impossible is not None:
            return f"{impossible.topic[:40]}...: {NO_SUCH_NAME}"
        deadline = time.monotonic() + timeout_s
        with self._lock:
            self._outlive_abandoned(deadline)
            handle = self._opened()
            try:
                return handle.commit(wanted, max(0.0, deadline - time.monotonic()))
            except BrokersUnavailableError:
                self._abandon()
                raise

    def close(self) -> None:
        """Close the connections; twice is harmless."""
        with self._lock:
            self._closed = True
            handle, self._handle = self._handle, None
        if handle is not None:
            handle.close()

    def _opened(self) -> OffsetsHandle:
        if self._closed:
            raise BrokersUnavailableError("the connections to the brokers were closed")
        self._handle = self._handle or self._open_handle()
        return self._handle

    def _abandon(self) -> None:
        """Let the next call open a new handle. A thread closes the old one, since that may take most of a minute."""
        handle = self._handle
        self._failures = 0
        if handle is not None:
            thread = threading.Thread(target=handle.close, name="abandoned-offsets-handle", daemon=True)
            self._handle, self._abandoned = None, [*self._abandoned, thread]
            thread.start()

    def _outlive_abandoned(self, deadline: float) -> None:
        """Wait for the end of abandoned handles, since librdkafka could carry out an earlier commit after a later one.

        Raises: BrokersUnavailableError if an earlier commit may still be carried out after the deadline.
        """
        for thread in self._abandoned:
            if thread.ident is None:  # its start was interrupted by an exception, or the system had no thread left
                thread.start()
            thread.join(max(0.0, deadline - time.monotonic()))
        self._abandoned = [thread for thread in self._abandoned if is_running(thread)]
        if self._abandoned:
            raise BrokersUnavailableError("an earlier commit had no answer, and may still be carried out")


def open_group_offsets(config: ConsumerConfig, store: ZkStore) -> LibrdkafkaGroupOffsets:
    """Return the client of a group's coordinator; it connects at its first request."""
    return LibrdkafkaGroupOffsets(lambda: OffsetsHandle(group_offsets_settings(config, read_brokers(store))))
