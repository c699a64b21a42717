"""Filters, joins and groups two topics in one loop, with the result in sqlite; each message counts exactly once.

    python examples/join_in_one_loop.py --zookeeper localhost:2181 --group revenue orders payments revenue.db

Orders and payments have the order's number as their key, and both topics have as many partitions, so an order and its
payment stand in partitions of the same number. The assignor `range` gives partitions of the same number to one member,
and a filter that chooses both topics brings them through one stream. So an order and its payment always reach the same
loop, and no two members handle the same order.

The waiting halves, the totals and the offsets change in one transaction, and a partition starts at the database's
offset. So a member that takes over partitions, after a rebalance or a kill, continues with the waiting halves of the
previous owner. If a log does not hold that offset, the program ends with an error: see exactly_once_sqlite.py.

An order's value is JSON as {"city": "Ulm", "amount": 12}, a payment's as {"accepted": true}. The result is the number
and the value of the paid orders in each city. Unpaid orders wait without end: a service would delete them after some
days. Run as many of these at a time as the topics have partitions, on one machine: the database is a file.
"""

from __future__ import annotations

import json
import signal
import sqlite3
import threading
from collections.abc import Iterable, Mapping
from types import FrameType

import click

from legacy_consumer import (
    ConsumerConfig,
    ConsumerConnector,
    ConsumerThreadId,
    LegacyConsumerError,
    Message,
    SimpleConsumer,
    TopicPartition,
    Whitelist,
)
from legacy_consumer.fetching.fetcher import EARLIEST

BATCH = 100

TABLES = """
CREATE TABLE IF NOT EXISTS offsets (topic TEXT, part INTEGER, next INTEGER NOT NULL, PRIMARY KEY (topic, part));
CREATE TABLE IF NOT EXISTS waiting (topic TEXT, part INTEGER, key TEXT, value TEXT, PRIMARY KEY (topic, part, key));
CREATE TABLE IF NOT EXISTS revenue (city TEXT PRIMARY KEY, orders INTEGER NOT NULL, amount INTEGER NOT NULL);
"""
NEXT = "SELECT next FROM offsets WHERE topic = ? AND part = ?"
MOVE = "INSERT INTO offsets VALUES (?, ?, ?) ON CONFLICT (topic, part) DO UPDATE SET next = excluded.next"
WAIT = "INSERT OR REPLACE INTO waiting VALUES (?, ?, ?, ?)"
FIND = "SELECT value FROM waiting WHERE topic = ? AND part = ? AND key = ?"
FOUND = "DELETE FROM waiting WHERE topic = ? AND part = ? AND key = ?"
ADD = """
INSERT INTO revenue VALUES (?, 1, ?)
ON CONFLICT (city) DO UPDATE SET orders = orders + 1, amount = amount + excluded.amount
"""


class Revenue:
    """The database. It is also the listener that says where partitions start; a lock lets two threads use it."""

    def __init__(self, path: str, orders: str, payments: str) -> None:
        self._orders, self._payments = orders, payments
        self._lock = threading.Lock()
        # transactions are begun and ended here, not by the module; another process may hold the database for a moment
        self._database = sqlite3.connect(path, timeout=60, isolation_level=None, check_same_thread=False)
        self._database.executescript("PRAGMA journal_mode = WAL;" + TABLES)

    def add(self, messages: Iterable[Message]) -> None:
        """Join these messages and move the offsets, both or neither."""
        # an error rolls back; a process that dies has done nothing
        with self._lock, self._database:
            # from here on no other process writes, so what is read stays true
            self._database.execute("BEGIN IMMEDIATE")
            for message in messages:
                tp = TopicPartition(message.topic(), message.partition())
                # a member that has lost the partition may be late with messages that the next one has joined already
                if message.offset() >= (self._next(tp) or 0):
                    self._join(tp, (message.key() or b"").decode(), (message.value() or b"{}").decode())
                    self._database.execute(MOVE, (*tp, message.offset() + 1))

    def _join(self, tp: TopicPartition, number: str, value: str) -> None:
        is_order = tp.topic == self._orders
        if not is_order and not json.loads(value)["accepted"]:  # filter: a payment that was refused is none
            return
        other = (self._payments if is_order else self._orders, tp.partition, number)
        half = self._database.execute(FIND, other).fetchone()
        if half is None:
            self._database.execute(WAIT, (*tp, number, value))
            return
        self._database.execute(FOUND, other)
        order = json.loads(value if is_order else half[0])
        self._database.execute(ADD, (order["city"], order["amount"]))  # group by: the city

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
        """Nothing to do: what waits for its other half is in the database."""


def check_co_partitioned(config: ConsumerConfig, topics: Iterable[str]) -> None:
    """Raises: ClickException if partitions of one number could go to two members, or hold other keys."""
    if config.partition_assignment_strategy != "range":
        raise click.ClickException(
            "only partition.assignment.strategy=range gives one member the same partitions of two topics"
        )
    with SimpleConsumer(config) as cluster:
        counts = {topic: len(cluster.partitions(topic)) for topic in topics}
    if len(set(counts.values())) > 1:
        told = ", ".join(f"{topic} has {count}" for topic, count in counts.items())
        raise click.ClickException(f"both topics must have as many partitions: {told}")


@click.command(
    epilog="Example: python examples/join_in_one_loop.py --zookeeper localhost:2181 --group g orders payments out.db"
)
@click.option("--zookeeper", required=True, help="Where ZooKeeper is, with the chroot.")
@click.option("--group", required=True, help="The group to join.")
@click.option(
    "--property", "properties", multiple=True, metavar="NAME=VALUE", help="More of the consumer's properties."
)
@click.argument("orders")
@click.argument("payments")
@click.argument("database")
def main(zookeeper: str, group: str, properties: tuple[str, ...], orders: str, payments: str, database: str) -> None:
    """Join the topics ORDERS and PAYMENTS, and add up in DATABASE what was paid in each city."""
    given = dict(each.partition("=")[::2] for each in properties)
    fixed = {"zookeeper.connect": zookeeper, "group.id": group, "auto.offset.reset": "none"}
    config = ConsumerConfig.load(None, {**fixed, **given})
    check_co_partitioned(config, (orders, payments))
    revenue = Revenue(database, orders, payments)
    with ConsumerConnector(config) as connector:

        def end(_signal: int, _frame: FrameType | None) -> None:
            connector.end_streams()

        for ending in (signal.SIGINT, signal.SIGTERM):
            signal.signal(ending, end)
        connector.set_rebalance_listener(revenue)
        both = f"{orders}|{payments}".replace(".", r"\.")  # a filter is a pattern, in which a dot is any character
        (stream,) = connector.create_message_streams_by_filter(Whitelist(both), 1)
        for batch in stream.batches(BATCH):
            revenue.add(batch)


if __name__ == "__main__":
    try:
        main()
    except LegacyConsumerError as error:
        raise SystemExit(f"Error: {error}") from None
