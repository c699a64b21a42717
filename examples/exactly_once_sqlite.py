"""Keeps totals by key in sqlite; each message counts exactly once, even if processes are killed.

    python examples/exactly_once_sqlite.py --zookeeper localhost:2181 --group accounts --topic payments totals.db

The database holds the totals and, for each partition, the next offset to read. Each batch changes both in one
transaction, and a partition starts where the database says (starting_offsets). So a process that is killed between two
batches, or in the middle of one, has counted a message with its offset or not at all.

A member that has lost a partition may still work on messages of it (it stood still, for example) while the next owner
has begun. The transaction leaves out messages that are already counted, so the order of the two does not matter.

If a log does not hold the database's offset, the program ends with an error (auto.offset.reset=none). Either messages
are lost, and with --property auto.offset.reset=smallest it goes on behind them; or the topic was created again, and its
offsets are to be deleted from the database, for the new messages would be left out as counted.

The member also commits the group's offsets to ZooKeeper, so that operators see the lag. Nothing depends on them.

A message's key names the total, its value is a whole number to add. Run as many of these at a time as the topic has
partitions, on one machine: the database is a file.
"""

from __future__ import annotations

import signal
import sqlite3
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping
from types import FrameType

import click

from legacy_consumer import (
    ConsumerConfig,
    ConsumerConnector,
    ConsumerThreadId,
    LegacyConsumerError,
    Message,
    TopicPartition,
)
from legacy_consumer.fetching.fetcher import EARLIEST

BATCH = 100

TABLES = """
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, part INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, part));
CREATE TABLE IF NOT EXISTS totals (key TEXT PRIMARY KEY, messages INTEGER NOT NULL, total INTEGER NOT NULL);
"""
NEXT = "SELECT next FROM offsets WHERE topic = ? AND part = ?"
MOVE = "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT (topic, part) DO UPDATE SET next = excluded.next"
ADD = """
INSERT INTO totals VALUES (?, 1, ?)
ON CONFLICT (key) DO UPDATE SET messages = messages + 1, total = total + excluded.total
"""


class Totals:
    """The database. It is also the listener that says where partitions start; a lock lets two threads use it."""

    def __init__(self, path: str) -> None:
        self._lock = threading.Lock()
        # transactions are begun and ended here, not by the module; another process may hold the database for a moment
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        self._database.executescript("PRAGMA journal_mode = WAL;" + TABLES)

    def add(self, messages: Iterable[Message]) -> None:
        """Count these messages and move the offsets, both or neither; what is counted already is left out."""
        by_partition: dict[TopicPartition, list[Message]] = defaultdict(list)
        for message in messages:
            by_partition[TopicPartition(message.topic(), message.partition())].append(message)
        # an error rolls back; a process that dies has done nothing
        with self._lock, self._database:
            # from here on no other process writes, so what is read stays true
            self._database.execute("BEGIN IMMEDIATE")
            for tp, own in by_partition.items():
                counted = self._next(tp) or 0
                for message in own:
                    if message.offset() >= counted:
                        self._database.execute(ADD, ((message.key() or b"").decode(), int(message.value() or b"0")))
                self._database.execute(MOVE, (*tp, max(counted, own[-1].offset() + 1)))

    def _next(self, tp: TopicPartition) -> int | None:
        row = self._database.execute(NEXT, tp).fetchone()
        return None if row is None else row[0]

    # What the connector calls.

    def starting_offsets(self, partitions: Mapping[TopicPartition, int | None]) -> dict[TopicPartition, int]:
        """Return the database's offsets; an unknown partition begins with its log, whatever the group has committed."""
        with self._lock:
            offsets = {tp: self._next(tp) for tp in partitions}
        return {tp: EARLIEST if offset is None else offset for tp, offset in offsets.items()}

    def before_starting_fetchers(
        self, partitions: Mapping[TopicPartition, ConsumerThreadId], assignment: object
    ) -> None:
        """Nothing to do."""

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Nothing to do: what is counted is in the database."""


@click.command(
    epilog="Example: python examples/exactly_once_sqlite.py --zookeeper localhost:2181 --group g --topic t totals.db"
)
@click.option("--zookeeper", required=True, help="Where ZooKeeper is, with the chroot.")
@click.option("--group", required=True, help="The group to join.")
@click.option("--topic", required=True, help="What to count.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE", help="More of the consumer's properties."
)
@click.argument("database")
def main(zookeeper: str, group: str, topic: str, properties: tuple[str, ...], database: str) -> None:
    """Add up the messages of a topic by key in DATABASE, each exactly once."""
    totals = Totals(database)
    given = dict(each.partition("=")[::2] for each in properties)
    fixed = {"zookeeper.connect": zookeeper, "group.id": group, "auto.offset.reset": "none"}
    with ConsumerConnector(ConsumerConfig.load(None, {**fixed, **given})) as connector:

        def end(_signal: int, _frame: FrameType | None) -> None:
            connector.end_streams()

        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, end)
        connector.set_rebalance_listener(totals)
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        for batch in stream.batches(BATCH):
            totals.add(batch)


if __name__ == "__main__":
    try:
        main()
    except LegacyConsumerError as error:
        raise SystemExit(f"Error: {error}") from None
