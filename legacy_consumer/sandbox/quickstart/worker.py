"""One member of the group, a process of its own: `python -m legacy_consumer.sandbox.quickstart.worker` with arguments.

Each line of standard input sets how many flights it may process in a second, 0 for no limit. It ends when standard
input ends, since its parent process is then gone. It writes its progress to standard output, one JSON object a line:
{"joined": true}, then {"processed": count, "positions": {partition: next offset}}. On SIGTERM it finishes and commits
the batch in hand and leaves cleanly.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path

from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.member.connector import ConsumerConnector
from legacy_consumer.sandbox.quickstart.flights import TOPIC
from legacy_consumer.sandbox.quickstart.group import COMMIT_INTERVAL_MS, GROUP, SESSION_TIMEOUT_MS
from legacy_consumer.sandbox.quickstart.record import encode_batch
from zk_layout.errors import LegacyConsumerError

_BATCH = 50
"""Small, so that a slowed member asks for messages often: a rebalance waits for the messages in hand."""
_TELL_S = 0.1
_EXIT_ORPHANED = 3


class Brake:
    """Limits the flights per second; any thread may change the limit."""

    def __init__(self, rate: float) -> None:
        self._rate = rate
        self._changed = threading.Event()
        self._due = time.monotonic()

    def set_rate(self, rate: float) -> None:
        """Flights a second from now on, 0 = no limit."""
        self._rate = rate
        self._changed.set()

    def wait_after(self, count: int) -> None:
        """Wait until this many flights are due."""
        rate = self._rate
        if rate <= 0:
            return
        now = time.monotonic()
        # what was not processed in time is not made up for
        self._due = max(self._due, now) + count / rate
        self._changed.wait(self._due - now)
        if self._changed.is_set():
            self._changed.clear()
            self._due = time.monotonic()


class Teller:
    """Says how far the member is, at most ten times a second, but at once when a partition is new."""

    def __init__(self) -> None:
        self._processed = 0
        self._positions: dict[int, int] = {}
        self._known: set[int] = set()
        self._told_at = 0.0

    def note(self, batch: Sequence[Message]) -> None:
        """These were processed; an empty batch gives a late word its chance."""
        for message in batch:
            self._positions[message.partition()] = message.offset() + 1
        self._processed += len(batch)
        now = time.monotonic()
        if self._positions and (now - self._told_at >= _TELL_S or not self._known >= self._positions.keys()):
            self._known |= self._positions.keys()
            tell({"processed": self._processed, "positions": self._positions})
            self._positions = {}
            self._told_at = now


def tell(what: dict[str, object]) -> None:
    """Write one line to the parent process."""
    sys.stdout.write(json.dumps(what) + "\n")
    sys.stdout.flush()


def consume(zookeeper: str, name: str, record: Path, brake: Brake) -> None:
    """Join, process until SIGTERM, leave. Raises: LegacyConsumerError."""
    teller = Teller()
    connector = ConsumerConnector(
        zookeeper_connect=zookeeper,
        group_id=GROUP,
        consumer_id=name,
        auto_offset_reset="smallest",
        auto_commit_interval_ms=COMMIT_INTERVAL_MS,
        zookeeper_session_timeout_ms=SESSION_TIMEOUT_MS,
    )
    # unbuffered: a line is with the system, out of reach of kill -9, before the batch counts as consumed
    with connector, record.open("ab", buffering=0) as lines:
        [stream] = connector.create_message_streams({TOPIC: 1})[TOPIC]
        threading.Thread(target=_leave_at_sigterm, args=(connector,), daemon=True).start()
        tell({"joined": True})
        for batch in stream.batches(_BATCH, timeout=_TELL_S):
            if batch:
                lines.write(encode_batch(batch))
            teller.note(batch)
            brake.wait_after(len(batch))


def _leave_at_sigterm(connector: ConsumerConnector) -> None:
    signal.sigwait({signal.SIGTERM})
    connector.end_streams()


def _obey(brake: Brake) -> None:
    pending = b""
    # not sys.stdin: a thread inside it when the interpreter ends is a fatal error
    while chunk := os.read(0, 4096):
        *lines, pending = (pending + chunk).split(b"\n")
        for line in lines:
            brake.set_rate(float(line))
    os._exit(_EXIT_ORPHANED)


def main(zookeeper: str, name: str, record: str, rate: str) -> int:
    """Consume; 1 and one line on standard error if that fails."""
    # waited for by a thread: a handler would run in the middle of the consuming thread, with its locks held
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    brake = Brake(float(rate))
    threading.Thread(target=_obey, args=(brake,), daemon=True).start()
    try:
        consume(zookeeper, name, Path(record), brake)
    except LegacyConsumerError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
