"""examples/join_in_one_loop.py over members that join, leave and are killed: each order meets its payment once."""

import json
import runpy
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.waiting import eventually
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import OwnerPath
from zk_layout.settings import ZkSettings

pytestmark = [pytest.mark.kafka, pytest.mark.parametrize("broker_version", ["2.8.2"])]

EXAMPLE = Path(__file__).parents[2] / "examples" / "join_in_one_loop.py"
ORDERS = 6_000
CITIES = 4
PARTITIONS = 3
STEPS = 3


@pytest.fixture
def store(cluster):
    opened = KazooStore(ZkSettings(cluster.kafka.zookeeper_connect))
    opened.start()
    yield opened
    opened.close()


def order(number):
    value = json.dumps({"city": f"city-{number % CITIES}", "amount": number})
    return b"%d" % number, value.encode(), number % PARTITIONS


def payments(number):
    """Return the payments of an order: every fifth order is first refused, every seventh is never paid."""
    said = [False] * (number % 5 == 0) + [True] * (number % 7 != 0)
    return [(b"%d" % number, json.dumps({"accepted": each}).encode(), number % PARTITIONS) for each in said]


def test_two_topics_are_joined_in_one_loop_though_members_come_go_and_are_killed(cluster, store, tmp_path):
    topics = orders_topic, payments_topic = cluster.new_topic(PARTITIONS), cluster.new_topic(PARTITIONS)
    group = f"g-{orders_topic}"
    database = tmp_path / "revenue.db"
    running = []

    def start():
        command = [
            *(sys.executable, str(EXAMPLE), "--zookeeper", cluster.kafka.zookeeper_connect, "--group", group),
            *("--property", "zookeeper.session.timeout.ms=2000"),
            *("--property", "fetcher=librdkafka", *topics, str(database)),  # librdkafka starts in a third of the time
        ]
        with (tmp_path / "log").open("ab") as log:
            running.append(subprocess.Popen(command, stdout=log, stderr=log))

    def asked(question):
        with closing(sqlite3.connect(database, timeout=60)) as connection:
            return connection.execute(question).fetchall()

    def read():
        if not database.exists():
            return 0
        try:
            return asked("SELECT coalesce(sum(next), 0) FROM offsets")[0][0]
        except sqlite3.OperationalError:
            return 0  # the example has not created its table yet

    def owners():
        """Return, for each topic, the owners of its partitions in order."""
        paths = [[OwnerPath(group, topic, n).path for n in range(PARTITIONS)] for topic in topics]
        return [[data and data.data for data in store.get_data_many(own)] for own in paths]

    produced = 0
    try:
        start()
        start()
        for step in range(STEPS):
            numbers = range(step * ORDERS // STEPS, (step + 1) * ORDERS // STEPS)
            # half of the payments come before their orders
            late = [each for number in numbers[::2] for each in payments(number)]
            early = [each for number in numbers[1::2] for each in payments(number)]
            before = read()
            cluster.produce(payments_topic, early)
            cluster.produce(orders_topic, map(order, numbers))
            cluster.produce(payments_topic, late)
            produced += len(early) + len(numbers) + len(late)
            eventually(lambda before=before: read() > before)
            # at any point, between two transactions or in one; every other time the member leaves in order
            running[0].send_signal(signal.SIGKILL if step % 2 else signal.SIGTERM)
            running.pop(0).wait(60)
            start()
        eventually(lambda: read() >= produced)
        assert read() == produced
        eventually(lambda: all(map(all, owners())) and len(set(owners()[0])) == 2)
        assert owners()[0] == owners()[1]
    finally:
        for process in running:
            process.kill()
            process.wait(30)
    paid = [number for number in range(ORDERS) if number % 7 != 0]
    cities = [[number for number in paid if number % CITIES == city] for city in range(CITIES)]
    assert asked("SELECT * FROM revenue ORDER BY city") == [
        (f"city-{city}", len(own), sum(own)) for city, own in enumerate(cities)
    ], (tmp_path / "log").read_text()
    waiting = {int(number) for (number,) in asked("SELECT key FROM waiting")}
    assert waiting == set(range(ORDERS)) - set(paid)


def test_topics_that_one_loop_cannot_join_are_refused_in_one_line(cluster, tmp_path, monkeypatch, capsys):
    two, three = cluster.new_topic(2), cluster.new_topic(3)

    def refused(orders, payments, *more):
        whole = ["--zookeeper", cluster.kafka.zookeeper_connect, "--group", "g", *more, orders, payments]
        monkeypatch.setattr("sys.argv", [str(EXAMPLE), *whole, str(tmp_path / "revenue.db")])
        with pytest.raises(SystemExit) as ended:
            runpy.run_path(str(EXAMPLE), run_name="__main__")
        # sys.exit() got a text, or click has printed its own error
        return ended.value.code if isinstance(ended.value.code, str) else capsys.readouterr().err.rstrip("\n")

    assert refused(two, three) == f"Error: both topics must have as many partitions: {two} has 2, {three} has 3"
    by_turns = ("--property", "partition.assignment.strategy=roundrobin")
    assert "strategy=range gives one member" in refused(two, two, *by_turns)
    assert refused(two, "no-such-topic").startswith("Error: topic 'no-such-topic' does not exist")
