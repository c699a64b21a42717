"""examples/exactly_once_sqlite.py, killed again and again: each message is counted exactly once."""

import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.support.waiting import eventually

EXAMPLE = Path(__file__).parents[2] / "examples" / "exactly_once_sqlite.py"
MESSAGES = 12_000
KEYS = 5
PARTITIONS = 3
KILLS = 3


@pytest.mark.kafka
@pytest.mark.parametrize("broker_version", ["2.8.2"])
def test_totals_and_offsets_in_one_transaction_are_exact_though_members_are_killed(cluster, tmp_path):
    topic = cluster.new_topic(PARTITIONS)
    records = [(b"key-%d" % (n % KEYS), b"%d" % n, n % PARTITIONS) for n in range(MESSAGES)]
    database = tmp_path / "totals.db"
    running = []

    def start():
        command = [
            *(sys.executable, str(EXAMPLE), "--zookeeper", cluster.kafka.zookeeper_connect, "--group", f"g-{topic}"),
            *("--topic", topic, "--property", "zookeeper.session.timeout.ms=2000"),
            *("--property", "fetcher=librdkafka", str(database)),  # librdkafka starts in a third of the time
        ]
        with (tmp_path / "log").open("ab") as log:
            running.append(subprocess.Popen(command, stdout=log, stderr=log))

    def counted():
        if not database.exists():
            return 0
        with closing(sqlite3.connect(database, timeout=60)) as connection:
            try:
                return connection.execute("SELECT coalesce(sum(messages), 0) FROM totals").fetchone()[0]
            except sqlite3.OperationalError:
                return 0  # the example has not created its table yet

    try:
        start()
        start()
        seen = 0
        for kill in range(KILLS):
            cluster.produce(topic, records[kill * MESSAGES // KILLS : (kill + 1) * MESSAGES // KILLS])
            eventually(lambda seen=seen: counted() > seen)
            seen = counted()
            # at any point: between two transactions, or in the middle of one
            victim = running.pop(0)
            victim.kill()
            victim.wait(30)
            start()
        eventually(lambda: counted() >= MESSAGES)
        for process in running:
            process.send_signal(signal.SIGTERM)
        # the youngest process may not have set its signal handler yet
        first, youngest = [process.wait(60) for process in running]
        assert first == 0, (tmp_path / "log").read_text()
        assert youngest in {0, -signal.SIGTERM}, (tmp_path / "log").read_text()
    finally:
        for process in running:
            process.kill()
            process.wait(30)
    with closing(sqlite3.connect(database)) as connection:
        totals = {key: (count, total) for key, count, total in connection.execute("SELECT * FROM totals")}
        offsets = dict(connection.execute("SELECT part, next FROM offsets"))
    numbers = [range(key, MESSAGES, KEYS) for key in range(KEYS)]
    assert totals == {f"key-{key}": (len(own), sum(own)) for key, own in enumerate(numbers)}
    assert offsets == dict.fromkeys(range(PARTITIONS), MESSAGES // PARTITIONS)


@pytest.mark.kafka
@pytest.mark.parametrize("broker_version", ["2.8.2"])
def test_an_offset_outside_the_log_ends_the_example_before_messages_are_left_out_as_counted(cluster, tmp_path):
    topic = cluster.new_topic(1)
    cluster.produce(topic, [(b"key", b"1", 0)] * 5)
    database = tmp_path / "totals.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("CREATE TABLE offsets (topic TEXT, part INTEGER, next INTEGER, PRIMARY KEY (topic, part))")
        connection.execute("INSERT INTO offsets VALUES (?, 0, 9)", (topic,))
        connection.commit()
    command = [
        *(sys.executable, str(EXAMPLE), "--zookeeper", cluster.kafka.zookeeper_connect, "--group", f"g-{topic}"),
        *("--topic", topic, "--property", "fetcher=librdkafka", str(database)),
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1] == f"Error: {topic}/0: offset 9 is outside the log, which holds 0 to 5"
