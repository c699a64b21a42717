"""`legacy-consumer groups`, run as people run it, against real servers."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
from pathlib import Path

import pytest

from legacy_consumer import ConsumerConnector
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.fetching.librdkafka import produce_all
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
GARBAGE = "billing_other-host-1416392398000-1a2b3c4d"


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka("1.1.1", chroot="/kafka") as started:
        yield started


@pytest.fixture(scope="module")
def store(kafka):
    made = KazooStore(ZkSettings(kafka.zookeeper_connect))
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def billing(kafka, store):
    """Run a group that is 30 messages behind, with an unreadable registration and with offsets of a deleted topic."""
    kafka.create_topic("orders", 3)
    records = [(None, b"order", n % 3) for n in range(60)]
    produce_all("orders", records, {"bootstrap.servers": kafka.bootstrap_servers})
    with ConsumerConnector(
        zookeeper_connect=kafka.zookeeper_connect, group_id="billing", auto_offset_reset="smallest"
    ) as connector:
        streams = connector.create_message_streams({"orders": 2})["orders"]
        connector.commit_offsets(dict.fromkeys(connector.status.owned, 10))
        for name, data in {
            f"ids/{GARBAGE}": b"not json",
            "offsets/gone/0": b"17",
            "offsets/gone/1": b"bad\x1b[31m",
            "owners/gone/0": b"billing_dead-host-1416392398000-1a2b3c4d-0",
        }.items():
            store.create(f"/consumers/billing/{name}", data, make_parents=True)
        yield connector
        assert len(streams) == 2
        store.delete(f"/consumers/billing/ids/{GARBAGE}")


def groups(kafka, *args, **environment):
    return subprocess.run(
        [sys.executable, "-m", "legacy_consumer", "groups", *args, "--zookeeper", kafka.zookeeper_connect],
        capture_output=True,
        text=True,
        cwd=ROOT,
        timeout=60,
        env={**os.environ, **environment},
    )


def on_a_terminal(columns, *args):
    """Run the command on a terminal of this width. Returns: its output."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES", "NO_COLOR"}}
        with subprocess.Popen(
            [sys.executable, "-m", "legacy_consumer", *args],
            stdout=theirs,
            cwd=ROOT,
            env={**environment, "TERM": "xterm"},
        ) as process:
            os.close(theirs)
            shown = b""
            try:
                while part := os.read(ours, 65536):
                    shown += part
            except OSError:  # Linux raises it once the other side is closed
                pass
            assert process.wait(30) == 0
    finally:
        os.close(ours)
    return shown.decode()


def test_groups_are_listed_one_on_a_line(kafka, billing, store):
    store.ensure_path("/consumers/\u200eodd")
    done = groups(kafka, "list")
    assert (done.returncode, done.stderr) == (0, "")
    names = json.loads(groups(kafka, "list", "--json").stdout)
    assert {"billing", "\u200eodd"} <= set(names)
    assert names == sorted(names)
    assert done.stdout.splitlines() == [name.replace("\u200e", "\\u200e") for name in names]


def test_describe_shows_owner_offset_end_and_lag_of_each_partition(kafka, billing):
    done = groups(kafka, "describe", "billing")
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    # the lag does not count offsets of a deleted topic
    assert lines[0] == "Group billing: 1 member and 1 unreadable, 5 partitions, lag 30"
    table = [line.split() for line in lines[2:8]]
    assert table[0] == ["TOPIC", "PARTITION", "COMMITTED", "LOG", "END", "LAG", "VERDICT", "AGE", "HELD", "OWNER"]
    rows = {(row[0], row[1]): row[2:] for row in table[1:]}
    assert list(rows) == [("gone", "0"), ("gone", "1"), ("orders", "0"), ("orders", "1"), ("orders", "2")]
    for partition, thread in (("0", "0"), ("1", "0"), ("2", "1")):
        committed, end, lag, verdict, _age, _unit, _held, _held_unit, owner = rows["orders", partition]
        assert (committed, end, lag, verdict, owner) == ("10", "20", "10", "ok", f"{billing.consumer_id}-{thread}")
    assert rows["gone", "0"][:3] == ["17", "-", "-"]
    assert rows["gone", "0"][-2:] == ["billing_dead-host-1416392398000-1a2b3c4d-0", "#"]
    assert rows["gone", "1"][:2] == ["-", "*"]


def test_describe_shows_the_members_and_why_one_cannot_be_read(kafka, billing):
    lines = groups(kafka, "describe", "billing").stdout.splitlines()
    [heading] = [n for n, line in enumerate(lines) if line.startswith("MEMBER")]
    assert lines[heading].split() == ["MEMBER", "CLIENT", "SUBSCRIPTION", "STREAMS", "PARTITIONS", "BROKERS", "JOINED"]
    row = [billing.consumer_id, "Kafka", "0.8.1+", "orders", "x", "2", "2", "3", "1"]
    assert lines[heading + 1].split()[:9] == row
    assert lines[heading + 2].split()[:5] == [GARBAGE, "unknown", "unreadable,", "see", "below"]
    notes = lines[heading + 4 :]
    assert notes[0] == "# the owner znode is not ephemeral: it blocks the partition until somebody deletes it"
    assert notes[1].startswith("* /consumers/billing/offsets/gone/1 holds b'bad\\x1b[31m': an offset is a decimal")
    assert notes[2].startswith(f"unreadable: /consumers/billing/ids/{GARBAGE} holds b'not json': ")
    assert notes[3] == "not counted, because they are gone or no member subscribes to them: gone"
    assert notes[4] == "owners as divided by range"
    assert notes[5].startswith(f"warning: {GARBAGE}: its registration cannot be read")
    assert notes[6].startswith("a member with the settings of this command would fetch with columnar, because ")
    assert len(notes) == 7


def test_in_a_pipe_nothing_is_cut_drawn_or_coloured(kafka, billing):
    wide = groups(kafka, "describe", "billing", COLUMNS="200")
    narrow = groups(kafka, "describe", "billing", COLUMNS="20", FORCE_COLOR="1", TERM="xterm")
    assert [line.split()[:3] for line in wide.stdout.splitlines()] == [
        line.split()[:3] for line in narrow.stdout.splitlines()
    ]
    assert narrow.stdout.isascii()
    assert "\x1b" not in narrow.stdout
    assert billing.consumer_id + "-1\n" in narrow.stdout


@pytest.mark.parametrize("columns", [80, 120])
def test_on_a_terminal_the_table_is_styled_and_fits(kafka, billing, columns):
    shown = on_a_terminal(columns, "groups", "describe", "billing", "--zookeeper", kafka.zookeeper_connect)
    assert "\x1b[1m" in shown
    assert "bad\\x1b[31m" in shown, "what others wrote must not reach the terminal as it is"
    plain = "".join(part.partition("m")[2] if n else part for n, part in enumerate(shown.split("\x1b[")))
    drawn = plain[plain.index("TOPIC") : plain.index("# the owner")]
    assert all(len(line.rstrip("\r")) <= columns for line in drawn.split("\n"))
    assert "\u2500" * 20 in drawn


def test_describe_as_data_says_the_same(kafka, billing):
    done = groups(kafka, "describe", "billing", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    document = json.loads(done.stdout)
    assert (document["group"], document["total_lag"], document["unowned"]) == ("billing", 30, 0)
    [member] = document["members"]
    assert member["registered_at_ms"] > 0
    assert member.pop("session_id") == f"0x{billing._store.session_id:x}"
    assert {**member, "registered_at_ms": 0} == {
        "consumer_id": billing.consumer_id,
        "pattern": "static",
        "subscription": [["orders", 2]],
        "threads": 2,
        "partitions": 3,
        "registered_at_ms": 0,
        "kind": "Kafka 0.8.1+",
        "divides_by": ["range"],
        "brokers": 1,
    }
    assert document["divides_by"] == ["range"]
    assert [(warning["code"], warning["consumer_ids"]) for warning in document["warnings"]] == [
        ("unreadable_member", [GARBAGE])
    ]
    assert [bad["consumer_id"] for bad in document["unreadable"]] == [GARBAGE]
    row = document["partitions"][2]
    assert (row["topic"], row["partition"], row["committed"], row["log_end"], row["lag"]) == ("orders", 0, 10, 20, 10)
    assert row["owner"] == f"{billing.consumer_id}-0"
    assert row["owner_is_member"] is True
    assert "holds b'bad" in document["partitions"][1]["error"]


def test_a_lag_below_zero_is_shown_and_explained(kafka, store):
    kafka.create_topic("made-anew", 1)
    store.create("/consumers/ahead/offsets/made-anew/0", b"5", make_parents=True)
    done = groups(kafka, "describe", "ahead")
    assert done.stdout.splitlines()[0] == "Group ahead: 0 members, 1 partition, 1 without owner, lag 0, 1 error"
    assert done.stdout.splitlines()[3].split()[:6] == ["made-anew", "0", "5", "0", "-5", "!"]
    assert "! the committed offset lies beyond the end of the log" in done.stdout


def test_a_missing_group_is_an_error_of_one_line(kafka, store):
    done = groups(kafka, "describe", "no-such-group")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: group 'no-such-group' does not exist: `legacy-consumer groups list` names those that do\n"
    )


def test_without_brokers_a_group_is_described_without_log_ends():
    with EmbeddedZooKeeper() as zookeeper:
        store = KazooStore(ZkSettings(zookeeper.connect))
        store.start()
        try:
            store.create("/consumers/g/offsets/t/0", b"5", make_parents=True)
            store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0]}}', make_parents=True)
        finally:
            store.close()
        args = ["groups", "describe", "g", "--zookeeper", zookeeper.connect]
        done = subprocess.run(
            [sys.executable, "-m", "legacy_consumer", *args], capture_output=True, text=True, cwd=ROOT, timeout=60
        )
        empty = subprocess.run(
            [sys.executable, "-m", "legacy_consumer", *args, "--json"],
            capture_output=True,
            text=True,
            cwd=ROOT,
            timeout=60,
        )
    assert done.returncode == 0
    assert done.stdout.splitlines()[0] == "Group g: 0 members, 1 partition, 1 without owner, lag unknown, 1 unknown"
    assert done.stdout.splitlines()[3].split()[:5] == ["t", "0", "5", "-", "-"]
    [warning] = done.stderr.splitlines()
    assert warning.startswith("Warning: log ends and lag are not known: ")
    assert "broker" in warning
    assert json.loads(empty.stdout)["no_log_ends"] == warning.removeprefix("Warning: log ends and lag are not known: ")


def test_a_cluster_without_groups_lists_none():
    with EmbeddedZooKeeper() as zookeeper:
        args = ["groups", "list", "--zookeeper", zookeeper.connect]
        done = subprocess.run(
            [sys.executable, "-m", "legacy_consumer", *args], capture_output=True, text=True, cwd=ROOT, timeout=60
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "There is no group in /consumers.\n")
