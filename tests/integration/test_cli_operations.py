"""The operator's commands on real servers, compared with Kafka's tools of 0.10.2.2 and 1.1.1 on the same tree."""

from __future__ import annotations

import csv
import fcntl
import io
import itertools
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
from collections import Counter
from pathlib import Path

import confluent_kafka
import pytest
from kazoo.client import KazooClient
from kazoo.security import CREATOR_ALL_ACL, OPEN_ACL_UNSAFE, READ_ACL_UNSAFE, make_acl

from legacy_consumer import ConsumerConnector
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.operations.admin.deletion import delete_group
from tests.support.jvm_member import JvmMember, KafkaTools, Subscription
from tests.support.program import run_program
from tests.support.waiting import eventually
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import TopicPartition
from zk_layout.settings import ZkSettings

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
TOOLS = ("0.10.2.2", "1.1.1")
_numbers = itertools.count()
GROUPS_TOOL = "kafka.admin.ConsumerGroupCommand"


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka("1.1.1", chroot="/kafka") as started:
        for topic, partitions in {"orders": 3, "clicks": 2}.items():
            started.create_topic(topic, partitions)
            records = [(None, b"m", n % partitions) for n in range(20 * partitions)]
            produce_all(topic, records, {"bootstrap.servers": started.bootstrap_servers})
        yield started


@pytest.fixture(scope="module")
def store(kafka):
    made = KazooStore(ZkSettings(kafka.zookeeper_connect))
    made.start()
    yield made
    made.close()


@pytest.fixture(scope="module")
def tools(programs):
    """Yield a function that returns Kafka's tools of a version, and starts them at the first call."""
    running = {}

    def of(version):
        if version not in running:
            running[version] = KafkaTools(programs, version)
        return running[version]

    yield of
    for process in running.values():
        process.kill()


@pytest.fixture(scope="module")
def mixed(kafka, store, programs):
    """Run a group of a JVM member and one of ours, which consumes nothing and is 13 messages behind."""
    settings = {"zookeeper.connect": kafka.zookeeper_connect, "group.id": "mixed", "auto.commit.enable": "false"}
    jvm = JvmMember(programs, "1.1.1", "jvm", Subscription("static", "orders:1"), {**settings, "consumer.id": "jvm"})
    with ConsumerConnector(
        zookeeper_connect=kafka.zookeeper_connect, group_id="mixed", consumer_id="ours", auto_commit_enable=False
    ) as ours:
        ours.create_message_streams({"orders": 1})
        jvm.await_event("ready")
        # wait, because a JVM member that rebalances first releases all its partitions, which the commands would show
        eventually(lambda: sorted(Counter(owners(store)).values()) == [1, 2])
        ours.commit_offsets({TopicPartition("orders", n): 7 for n in range(3)}, unfenced=True)
        yield ours
        jvm.kill()


@pytest.fixture(scope="module")
def cluster(kafka):
    return ["--zookeeper", kafka.zookeeper_connect]


@pytest.fixture
def stopped(store):
    """Make a group without members, for this test alone, with offset 5 in every partition."""
    name = f"stopped-{next(_numbers)}"
    for topic, partitions in {"orders": 3, "clicks": 2}.items():
        for number in range(partitions):
            store.create(f"/consumers/{name}/offsets/{topic}/{number}", b"5", make_parents=True)
    return name


def offsets_of(store, group):
    found = {}
    for topic in ("clicks", "orders"):
        path = f"/consumers/{group}/offsets/{topic}"
        if store.exists(path) is not None:
            found |= {f"{topic}/{n}": int(store.get_data(f"{path}/{n}").data) for n in store.get_children(path)}
    return found


def owners(store):
    """Return the owners of the running group's partitions, in the partitions' order."""
    znodes = store.get_data_many([f"/consumers/mixed/owners/orders/{number}" for number in range(3)])
    return [znode.data.rpartition(b"-")[0] for znode in znodes if znode is not None]


def sorted_lines(lines):
    return sorted(line for line in lines if line.strip())


# The output of Kafka's own tools.


@pytest.mark.parametrize(("version", "ours"), [("0.10.2.2", "0.10.2"), ("1.1.1", "1.1")])
def test_describe_prints_the_same_as_kafka_consumer_groups(kafka, cluster, mixed, tools, version, ours):
    theirs = tools(version).run(GROUPS_TOOL, "--zookeeper", kafka.zookeeper_connect, "--describe", "--group", "mixed")
    done = run_program("groups", "describe", "mixed", "--kafka-format", ours, *cluster)
    assert (done.code, done.err) == (0, "")
    assert done.out.startswith("\nTOPIC ")
    assert sorted_lines(done.out.splitlines()) == sorted_lines(theirs)


def test_describe_prints_the_same_as_consumer_offset_checker(kafka, cluster, mixed, tools):
    theirs = tools("0.10.2.2").run(
        "kafka.tools.ConsumerOffsetChecker", "--zookeeper", kafka.zookeeper_connect, "--group", "mixed"
    )
    done = run_program("groups", "describe", "mixed", "--kafka-format", "checker", *cluster)
    assert done.out.splitlines() == theirs


@pytest.mark.parametrize(("version", "ours"), [("0.10.2.2", "0.10.2"), ("1.1.1", "1.1")])
def test_offsets_in_kafka_are_shown_as_kafkas_tool_does_and_a_reset_says_that_they_stay(
    kafka, cluster, store, stopped, tools, version, ours
):
    for folder in ("ids", "owners/orders"):  # Kafka's tools fail without the folder ids
        store.ensure_path(f"/consumers/{stopped}/{folder}")
    consumer = confluent_kafka.Consumer({"bootstrap.servers": kafka.bootstrap_servers, "group.id": stopped})
    consumer.commit(offsets=[confluent_kafka.TopicPartition("orders", 1, 9)], asynchronous=False)
    consumer.close()
    theirs = tools(version).run(GROUPS_TOOL, "--zookeeper", kafka.zookeeper_connect, "--describe", "--group", stopped)
    done = run_program("groups", "describe", stopped, "--kafka-format", ours, *cluster)
    assert (done.code, done.err) == (0, "")
    assert sorted_lines(done.out.splitlines()) == sorted_lines(theirs)
    assert [line.split()[2] for line in sorted_lines(done.out.splitlines())[1:]] == ["5", "9", "5"]
    done = run_program("offsets", "reset", stopped, "--to-latest", *cluster)
    assert done.code == 0
    assert "has offsets in Kafka too (orders/1 at 9): " in done.err
    done = run_program("offsets", "reset", stopped, "--to-latest", "--topic", "orders:0,2", *cluster)
    assert (done.code, done.err) == (0, "")


@pytest.mark.parametrize("version", TOOLS)
def test_list_names_the_same_groups_as_kafka_consumer_groups(kafka, cluster, mixed, stopped, tools, version):
    theirs = tools(version).run(GROUPS_TOOL, "--zookeeper", kafka.zookeeper_connect, "--list")
    done = run_program("groups", "list", *cluster)
    assert done.out.splitlines() == sorted(theirs)
    assert {"mixed", stopped} <= set(theirs)


@pytest.mark.parametrize("version", TOOLS)
def test_verify_prints_the_same_as_verify_consumer_rebalance(kafka, cluster, mixed, store, tools, version):
    def verdicts():
        theirs = tools(version).run(
            "kafka.tools.VerifyConsumerRebalance", "--zookeeper.connect", kafka.zookeeper_connect, "--group", "mixed"
        )
        ours = run_program("groups", "verify", "mixed", "--kafka-format", *cluster)
        return [theirs, ours.out.splitlines()], ours.code

    sound = [["Rebalance operation successful !"]] * 2, 0
    eventually(lambda: verdicts() == sound)
    # the registration of a member that alone subscribes to clicks, and claims nothing
    path = f"/consumers/mixed/ids/mixed_{version}"
    store.create(path, b'{"version":1,"subscription":{"clicks":1},"pattern":"static","timestamp":"1"}')
    try:
        assert verdicts() == ([["Rebalance operation failed !"]] * 2, 1)
        problems = json.loads(run_program("groups", "verify", "mixed", "--json", *cluster).out)["problems"]
        assert {("no_owner", "clicks", 0), ("no_owner", "clicks", 1)} <= {
            (problem["code"], problem["topic"], problem["partition"]) for problem in problems
        }
    finally:
        store.delete(path)
        # the members rebalance again
        eventually(lambda: verdicts() == sound)


@pytest.mark.parametrize("version", TOOLS)
def test_kafkas_tools_import_our_exports_and_we_import_theirs(kafka, cluster, store, stopped, tools, version, tmp_path):
    ours, theirs = tmp_path / "ours", tmp_path / "theirs"
    assert run_program("offsets", "export", stopped, "--output", ours, *cluster).code == 0
    tools(version).run(
        "kafka.tools.ExportZkOffsets", "--zkconnect", kafka.zookeeper_connect, "--group", stopped,
        "--output-file", str(theirs),
    )  # fmt: skip
    assert sorted(ours.read_text().splitlines()) == sorted(theirs.read_text().splitlines())
    before = offsets_of(store, stopped)
    moved = tmp_path / "moved"
    moved.write_text(ours.read_text().replace(":5", ":9"))
    tools(version).run(
        "kafka.tools.ImportZkOffsets", "--zkconnect", kafka.zookeeper_connect, "--input-file", str(moved)
    )
    assert set(offsets_of(store, stopped).values()) == {9}
    done = run_program("offsets", "import", theirs, "--execute", "--backup-dir", tmp_path, *cluster)
    assert (done.code, done.out.splitlines()[-1]) == (0, "Written: 5 offsets of 1 group.")
    assert offsets_of(store, stopped) == before


@pytest.mark.parametrize("version", TOOLS)
def test_kafkas_tool_says_of_a_group_that_we_deleted_that_it_is_not_there(
    kafka, cluster, stopped, tools, version, tmp_path
):
    assert run_program("groups", "delete", stopped, "--execute", "--backup-dir", tmp_path, *cluster).code == 0
    printed = tools(version).run(GROUPS_TOOL, "--zookeeper", kafka.zookeeper_connect, "--describe", "--group", stopped)
    assert f"Error: The consumer group '{stopped}' does not exist." in "\n".join(printed)


# Seeing.


def test_json_and_csv_tell_the_same(cluster, mixed):
    document = json.loads(run_program("groups", "describe", "mixed", "--json", *cluster).out)
    rows = list(
        csv.DictReader(io.StringIO(run_program("groups", "describe", "mixed", "--format", "csv", *cluster).out))
    )
    assert [(r["topic"], int(r["partition"]), r["owner"]) for r in rows] == [
        (p["topic"], p["partition"], p["owner"]) for p in document["partitions"]
    ]
    assert {(r["committed"], r["log_end"], r["lag"], r["hold"], r["verdict"]) for r in rows} == {
        ("7", "20", "13", "live", "ok")
    }
    assert {p["owner_session"] for p in document["partitions"]} == {m["session_id"] for m in document["members"]}
    assert all(
        p["owned_since_ms"] >= document["members"][0]["registered_at_ms"] - 60_000 for p in document["partitions"]
    )


def test_members_topics_and_brokers_are_shown(kafka, cluster, mixed, stopped):
    members = json.loads(run_program("groups", "members", "mixed", "--json", *cluster).out)
    assert [(m["consumer_id"], m["partitions"]) for m in members] in (
        [("mixed_jvm", 2), ("mixed_ours", 1)],
        [("mixed_jvm", 1), ("mixed_ours", 2)],
    )
    topics = {t["topic"]: t for t in json.loads(run_program("topics", "--json", *cluster).out)}
    assert topics["orders"]["partitions"] == 3
    assert {"mixed", stopped} <= set(topics["orders"]["groups"])
    assert (topics["orders"]["no_leader"], topics["orders"]["under_replicated"]) == (0, 0)
    [broker] = json.loads(run_program("brokers", "--json", *cluster).out)
    assert (broker["is_controller"], broker["controller_epoch"]) == (True, 1)
    led = json.loads(run_program("topics", "orders", "--json", *cluster).out)
    shown = [(one["leader"], one["leader_epoch"], one["replicas"], one["in_sync"], one["next_leader"]) for one in led]
    assert shown == [(0, 0, [0], [0], None)] * 3
    assert [member["brokers"] for member in members] == [1, 1]
    assert broker["endpoints"] == [f"PLAINTEXT://{kafka.bootstrap_servers}"]
    listed = list(
        csv.DictReader(io.StringIO(run_program("groups", "list", "--details", "--format", "csv", *cluster).out))
    )
    assert next(row for row in listed if row["group"] == "mixed")["members"] == "2"
    for command in (["groups", "members", "--all-groups"], ["topics"], ["brokers"], ["groups", "list", "--details"]):
        done = run_program(*command, *cluster)
        assert (done.code, done.err) == (0, "")


# Changing a stopped group.


@pytest.mark.parametrize(
    ("target", "orders", "clicks"),
    [
        (["--to-earliest"], 0, 0),
        (["--to-latest"], 20, 20),
        (["--to-offset", "11"], 11, 11),
        (["--shift-by", "3"], 8, 8),
        (["--shift-by=-30"], 0, 0),
        (["--to-time", "1970-01-02T00:00:00"], 0, 0),
        (["--to-time", "2099-01-01T00:00:00Z"], 20, 20),
        (["--by-duration", "1d"], 0, 0),
        (["--to-latest", "--topic", "orders:0-1"], 20, 5),
        (["--to-offset", "99", "--clamp"], 20, 20),
    ],
)
def test_reset_moves_a_group(cluster, store, stopped, tmp_path, target, orders, clicks):
    store.delete(f"/consumers/{stopped}/offsets/orders/2")
    before = offsets_of(store, stopped)
    chosen = [] if "--topic" in target else ["--topic", "orders:0,1", "--topic", "clicks"]
    command = ["offsets", "reset", stopped, *target, *chosen]
    assert run_program(*command, *cluster).out.splitlines()[-1].startswith("Dry run: nothing was written")
    assert offsets_of(store, stopped) == before
    done = run_program(*command, "--execute", "--backup-dir", tmp_path, *cluster)
    assert done.code == 0, done
    assert offsets_of(store, stopped) == {
        "orders/0": orders, "orders/1": orders, "clicks/0": clicks, "clicks/1": clicks
    }  # fmt: skip


def test_the_command_names_its_backup_which_restores_everything(cluster, store, stopped, tmp_path):
    store.delete(f"/consumers/{stopped}/offsets/orders/1")
    before = offsets_of(store, stopped)
    done = run_program("offsets", "reset", stopped, "--to-latest", "--execute", "--backup-dir", tmp_path, *cluster)
    [file] = tmp_path.iterdir()
    assert done.err.startswith(f"Backup: {file} (`legacy-consumer offsets import {file}`, with this --zookeeper or ")
    assert file.name.startswith(f"{stopped}-offsets-")
    assert set(offsets_of(store, stopped).values()) == {20}
    back = run_program("offsets", "import", file, "--execute", "--no-backup", *cluster)
    assert (back.code, back.err) == (0, "")
    assert offsets_of(store, stopped) == before


def test_the_plan_is_a_document_for_programs_too(cluster, stopped):
    done = run_program("offsets", "reset", stopped, "--to-latest", "--topic", "clicks", "--json", *cluster)
    assert json.loads(done.out) == {
        "executed": False,
        "backup": None,
        "groups": [{"group": stopped, "members": [], "backup": None}],
        "changes": [
            {"group": stopped, "topic": "clicks", "partition": n, "before": 5, "after": 20, "owner": None}
            for n in (0, 1)
        ],
    }


def test_copy_gives_another_group_the_same_offsets(cluster, store, stopped, tmp_path):
    target = f"{stopped}-copy"
    done = run_program("offsets", "copy", stopped, target, "--execute", "--backup-dir", tmp_path, *cluster)
    assert done.code == 0, done
    assert offsets_of(store, target) == offsets_of(store, stopped)


def test_prune_removes_old_groups_and_nothing_else(cluster, store, stopped, mixed, tmp_path):
    assert run_program("groups", "prune", "--older-than", "1d", *cluster).err.startswith("No group of ")
    only = ["--older-than", "1s", "--name", f"{stopped}*"]
    eventually(lambda: stopped in run_program("groups", "prune", *only, *cluster).out)
    assert store.exists(f"/consumers/{stopped}") is not None, "a dry run"
    before = offsets_of(store, stopped)
    done = run_program("groups", "prune", *only, "--execute", "--backup-dir", tmp_path, *cluster)
    assert (done.code, done.out.splitlines()[-1]) == (0, f"Deleted: {stopped}")
    assert store.exists(f"/consumers/{stopped}") is None
    assert store.exists("/consumers/mixed") is not None
    [file] = tmp_path.iterdir()
    assert run_program("offsets", "import", file, "--execute", "--no-backup", *cluster).code == 0
    assert offsets_of(store, stopped) == before


def test_a_topic_of_a_group_is_deleted_alone(cluster, store, stopped, tmp_path):
    args = ["groups", "delete", stopped, "--topic", "orders", "--execute", "--backup-dir", tmp_path]
    assert run_program(*args, *cluster).code == 0
    assert offsets_of(store, stopped) == {"clicks/0": 5, "clicks/1": 5}


# Bad input.


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["offsets", "reset", "no-such", "--to-latest"], "group 'no-such' does not exist"),
        (["offsets", "reset", "STOPPED", "--to-offset", "21"], "offsets lie outside the log"),
        (["offsets", "reset", "STOPPED", "--to-latest", "--topic", "nope"], "topic 'nope' does not exist"),
        (["offsets", "reset", "STOPPED", "--to-latest", "--topic", "orders:9"], "orders/9 does not exist"),
        (["offsets", "reset", "mixed", "--to-latest", "--execute"], "group 'mixed' has 2 members: stop them first"),
        (["offsets", "copy", "STOPPED", "mixed", "--execute"], "group 'mixed' has 2 members: stop them first"),
        (["groups", "delete", "mixed", "--execute"], "group 'mixed' has 2 members: stop them first"),
        (["groups", "verify", "no-such"], "group 'no-such' does not exist"),
        (["offsets", "import", "BAD", "--execute"], "line 2: -1 is no offset"),
        (["offsets", "reset", "STOPPED", "--from-file", "BAD", "--execute"], "line 2: -1 is no offset"),
        (["offsets", "import", "/nowhere/x"], "/nowhere/x cannot be read: No such file or directory"),
        (["offsets", "export", "STOPPED", "--output", "/nowhere/x"], "cannot be written"),
        (["offsets", "reset", "STOPPED", "--to-latest", "--execute", "--backup-dir", "/nowhere"], "no backup can be"),
    ],
)
def test_an_impossible_command_is_an_error_of_one_line_and_changes_nothing(
    cluster, store, stopped, tmp_path, args, message
):
    bad = tmp_path / "bad.txt"
    bad.write_text(f"/consumers/{stopped}/offsets/orders/0:7\n/consumers/{stopped}/offsets/orders/1:-1\n")
    before = offsets_of(store, stopped), offsets_of(store, "mixed")
    done = run_program(*({"STOPPED": stopped, "BAD": bad}.get(arg, arg) for arg in args), *cluster)
    assert done.code == 1
    assert message in done.err.splitlines()[-1]
    assert done.err.splitlines()[-1].startswith("Error: ")
    assert (offsets_of(store, stopped), offsets_of(store, "mixed")) == before


@pytest.mark.parametrize(
    "args",
    [
        ["offsets", "reset", "g"],
        ["offsets", "reset", "g", "--to-latest", "--to-earliest"],
        ["offsets", "reset", "g", "--to-latest", "--execute", "--dry-run"],
        ["offsets", "reset", "g", "--to-latest", "--live", "--force"],
        ["offsets", "reset", "g", "--to-time", "yesterday"],
        ["offsets", "reset", "g", "--by-duration", "5 minutes"],
        ["offsets", "reset", "g", "--to-latest", "--topic", "t:x"],
        ["offsets", "copy", "g", "g"],
        ["groups", "describe"],
        ["groups", "describe", "g", "--all-groups"],
        ["groups", "describe", "g", "--watch", "--format", "csv"],
        ["groups", "prune", "--older-than", "soon"],
    ],
)
def test_misuse_ends_with_2(args):
    done = run_program(*args, "--zookeeper", "127.0.0.1:1")
    assert done.code == 2
    assert "Error: " in done.err


# A running group.


def test_running_members_follow_a_live_reset(kafka, cluster, store, tmp_path):
    settings = {"zookeeper_connect": kafka.zookeeper_connect, "group_id": "live", "auto_offset_reset": "smallest"}
    with ConsumerConnector(**settings) as one, ConsumerConnector(**settings) as two:
        streams = [c.create_message_streams({"orders": 1})["orders"][0] for c in (one, two)]
        eventually(lambda: sorted(len(c.status.owned) for c in (one, two)) == [1, 2])
        seen = {}

        def consume(until):
            for stream in streams:
                for batch in stream.batches(timeout=0.05):
                    if not batch:
                        break
                    for message in batch:
                        seen.setdefault(message.partition(), []).append(message.offset())
            return until()

        eventually(lambda: consume(lambda: sum(map(len, seen.values())) >= 60))
        for connector in (one, two):
            connector.commit_offsets()
        seen.clear()
        args = ["offsets", "reset", "live", "--to-offset", "15", "--topic", "orders:0,2", "--live", "--timeout", "30"]
        done = run_program(*args, "--execute", "--backup-dir", tmp_path, *cluster)
        assert done.code == 0, done
        eventually(lambda: consume(lambda: sum(map(len, seen.values())) >= 10))
        assert {partition: sorted(offsets) for partition, offsets in seen.items()} == {
            0: [15, 16, 17, 18, 19],
            2: [15, 16, 17, 18, 19],
        }
        for connector in (one, two):
            connector.commit_offsets()
        assert offsets_of(store, "live") == {"orders/0": 20, "orders/1": 20, "orders/2": 20}
        eventually(lambda: store.exists("/consumers/live/requests/reset") is None)


def test_a_live_reset_writes_nothing_while_a_jvm_member_owns_a_partition(cluster, store, mixed, tmp_path):
    before = offsets_of(store, "mixed")
    args = ["offsets", "reset", "mixed", "--to-latest", "--live", "--timeout", "1", "--execute"]
    done = run_program(*args, "--backup-dir", tmp_path, *cluster)
    assert done.code == 1
    assert "nothing was written, group 'mixed' goes on as before: no answer within 1 s from mixed_jvm" in done.err
    assert offsets_of(store, "mixed") == before
    assert list(tmp_path.iterdir()) == []
    assert store.exists("/consumers/mixed/requests/reset") is None


# The doctor.


def test_the_doctor_finds_faults_and_gives_remedies(cluster, store, mixed, stopped):
    sound = json.loads(run_program("doctor", "--json", *cluster).out)
    assert {finding["code"] for finding in sound} <= {"stopped"}, sound
    znodes = {
        "/consumers/sick/ids/sick_x": b"not json",
        "/consumers/sick/offsets/orders/0": b"5\n",
        "/consumers/sick/offsets/orders/1": b"99",
        "/consumers/sick/offsets/gone/0": b"1",
        "/consumers/sick/offsets/orders/0-1": b"1",
        "/consumers/sick/owners/orders/2": b"sick_y-0",
        "/brokers/topics/odd": b"?",
    }
    for path, data in znodes.items():
        store.create(path, data, make_parents=True)
    try:
        done = run_program("doctor", "--json", *cluster)
        shown = run_program("doctor", *cluster)
    finally:
        for path in reversed(znodes):
            store.delete(path)
    assert (done.code, shown.code) == (1, 1)
    found = {finding["code"]: finding for finding in json.loads(done.out)}
    assert {
        "unreadable_member", "unreadable_znode", "beyond_the_log", "deleted_topic", "foreign_znode",
        "permanent_owner", "unreadable_topic",
    } <= set(found)  # fmt: skip
    assert all(finding["advice"] for finding in found.values())
    assert "    -> " in shown.out


def test_the_doctor_names_a_server_that_cannot_be_reached(kafka, store):
    done = run_program("doctor", "--json", "--zookeeper", f"127.0.0.1:1,{kafka.zookeeper_connect}")
    [finding] = [f for f in json.loads(done.out) if f["code"] == "zookeeper_unreachable"]
    assert (finding["subject"], finding["severity"]) == ("127.0.0.1:1", "warning")


def test_the_doctor_names_a_listener_that_no_broker_has(cluster):
    done = run_program("doctor", "--json", "--property", "security.protocol=SSL", *cluster)
    assert done.code == 1
    assert "missing_listener" in {finding["code"] for finding in json.loads(done.out)}


# The live screen.


def watched(cluster, *args):
    """Run a command with --watch on a terminal of 120 columns until Ctrl-C. Returns: (its output, its exit code)."""
    ours, theirs = pty.openpty()
    try:
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 120, 0, 0))
        environment = {k: v for k, v in os.environ.items() if k not in {"COLUMNS", "LINES", "NO_COLOR"}}
        command = [sys.executable, "-m", "legacy_consumer", *args, "--watch", "--interval", "0.2", *cluster]
        with subprocess.Popen(
            command, stdout=theirs, stderr=subprocess.STDOUT, cwd=ROOT, env={**environment, "TERM": "xterm"}
        ) as process:
            os.close(theirs)
            shown = b""
            presses = 2
            try:
                while part := os.read(ours, 65536):
                    shown += part
                    # Ctrl-C once the first screen is complete, and once more, as by an impatient user
                    if b"MEMBER" in shown and presses and (presses == 2 or b"1049l" in shown):
                        presses -= 1
                        process.send_signal(signal.SIGINT)
            except OSError:  # Linux raises it once the other side is closed
                pass
            return shown.decode(errors="replace"), process.wait(30)
    finally:
        os.close(ours)


def test_the_live_screen_ends_on_ctrl_c_and_leaves_the_terminal_as_it_was(cluster, mixed):
    shown, code = watched(cluster, "groups", "describe", "mixed")
    assert code == 130
    assert "Ctrl-C ends" in shown
    assert "VERDICT" in shown
    enter, leave, show_cursor = "\x1b[?1049h", "\x1b[?1049l", "\x1b[?25h"
    assert shown.count(enter) == shown.count(leave) == 1
    assert "Traceback" not in shown
    assert show_cursor in shown[shown.index(leave) - 40 :]
    assert not shown[shown.index(leave) :].replace(leave, "").replace(show_cursor, "").strip()


def test_members_are_watched_too(cluster, mixed):
    shown, code = watched(cluster, "groups", "members", "mixed")
    assert code == 130
    assert "Group mixed: 2 members" in shown
    assert mixed.consumer_id in shown
    assert "Traceback" not in shown


@pytest.mark.parametrize("command", ["describe", "members"])
def test_in_a_pipe_each_look_is_a_line_of_json(cluster, mixed, command):
    command = [sys.executable, "-m", "legacy_consumer", "groups", command, "mixed", "--json", "--watch"]
    with subprocess.Popen(
        [*command, "--interval", "0.1", *cluster], stdout=subprocess.PIPE, text=True, cwd=ROOT
    ) as process:
        looks = [json.loads(process.stdout.readline()) for _ in range(3)]
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(30) == 130
    looks = [one for look in looks for one in (look if isinstance(look, list) else [look])]
    assert {one["group"] for one in looks} == {"mixed"}


def test_nothing_in_this_file_has_created_a_topic(store):
    assert set(store.get_children("/brokers/topics")) <= {"orders", "clicks", "__consumer_offsets"}


# Without a permission, and without a broker.


def test_a_command_that_an_acl_forbids_changes_nothing(kafka, cluster, store, stopped, tmp_path):
    client = KazooClient(kafka.zookeeper_connect)
    client.start()
    try:
        path = f"/consumers/{stopped}/offsets/orders/1"
        client.set_acls(path, [make_acl("world", "anyone", read=True, admin=True)])
        before = offsets_of(store, stopped)
        done = run_program("offsets", "reset", stopped, "--to-latest", "--execute", "--no-backup", *cluster)
        assert done.code == 1
        assert done.err == f"Error: {path} may not be accessed with these credentials: an ACL forbids it\n"
        assert offsets_of(store, stopped) == before
        client.set_acls(path, [make_acl("world", "anyone", admin=True)])
        store.create(f"/consumers/{stopped}-too/offsets/orders/0", b"99", make_parents=True)
        found = json.loads(run_program("doctor", "--json", *cluster).out)
        assert [f["subject"] for f in found if f["code"] == "not_permitted"] == [stopped]
        assert f"{stopped}-too" in {f["subject"] for f in found if f["code"] == "beyond_the_log"}
        client.set_acls(f"/consumers/{stopped}", [make_acl("world", "anyone", admin=True)])
        found = json.loads(run_program("doctor", "--json", *cluster).out)
        assert [f["subject"] for f in found if f["code"] == "not_permitted"] == [stopped]
        assert f"{stopped}-too" in {f["subject"] for f in found if f["code"] == "beyond_the_log"}
        done = run_program("groups", "describe", stopped, f"{stopped}-too", *cluster)
        assert (done.code, f"Group {stopped} cannot be shown: /consumers/{stopped}" in done.out) == (1, True)
        assert f"Group {stopped}-too: 0 members" in done.out
    finally:
        client.set_acls(f"/consumers/{stopped}", [make_acl("world", "anyone", all=True)])
        if store.exists(f"/consumers/{stopped}-too") is not None:
            delete_group(store, f"{stopped}-too")
        client.set_acls(path, [make_acl("world", "anyone", all=True)])
        client.stop()
        client.close()


SECRET = ["--property", "zookeeper.auth.digest=alice:secret"]


MEMBER_OF_OTHERS = b'{"version":1,"subscription":{"nothing":1},"pattern":"static","timestamp":"1"}'


def test_znodes_that_an_operator_creates_have_the_acls_of_the_group(kafka, cluster, tmp_path):
    """Runs every command that creates znodes, without zookeeper.set.acl."""
    alice = KazooClient(kafka.zookeeper_connect, auth_data=[("digest", "alice:secret")])
    alice.start()
    secured = [*CREATOR_ALL_ACL, *READ_ACL_UNSAFE]
    name, copied = "secured", "secured-copy"
    backup = ["--backup-dir", str(tmp_path)]

    def run(*words):
        done = run_program(*words, "--execute", *SECRET, *cluster)
        assert done.code == 0, done.err

    def opened(path):
        """Return the paths, from path down, that every client may change, as JVM members must in the folder and ids."""
        acl, _ = alice.get_acls(path)
        found = {path} if any(entry.id.scheme == "world" and entry.perms & 0b1110 for entry in acl) else set()
        return found.union(*(opened(f"{path}/{child}") for child in alice.get_children(path)))

    def check(group):
        folder = f"/consumers/{group}"
        assert opened(folder) <= {folder, f"{folder}/ids"}
        assert alice.exists(f"{folder}/offsets/orders/0") is not None

    def doctor():
        found = json.loads(run_program("doctor", "--json", *SECRET, *cluster).out)
        return [one["subject"] for one in found if one["code"] == "mixed_acls"]

    try:
        alice.create(f"/consumers/{name}/ids", makepath=True)
        alice.create(f"/consumers/{name}/owners", acl=secured)
        run("offsets", "reset", name, "--topic", "orders", "--to-earliest", *backup)  # with the ACL of owners
        check(name)
        run("offsets", "reset", name, "--topic", "clicks", "--to-latest", *backup)
        check(name)
        alice.set_acls(f"/consumers/{name}/ids", secured)
        run("offsets", "reset", name, "--topic", "orders", "--to-latest", *backup)
        assert opened(f"/consumers/{name}/ids") == set(), "a reset takes the folder away and puts it back"
        alice.create(f"/consumers/{name}/ids/elsewhere", MEMBER_OF_OTHERS, ephemeral=True)
        run("offsets", "reset", name, "--topic", "orders", "--to-earliest", "--live", *backup)
        alice.delete(f"/consumers/{name}/ids/elsewhere")
        check(name)
        run("offsets", "copy", name, copied, *backup)
        check(copied)
        for step in ("apply", "rollback", "apply", "finish"):
            run("migrate", step, copied, "--backup", str(tmp_path / f"{step}-{len(list(tmp_path.iterdir()))}"))
        check(copied)
        file = str(tmp_path / "end.json")
        run("migrate", "finish", copied, "--delete", "--backup", file)
        assert alice.exists(f"/consumers/{copied}") is None
        run("offsets", "import", file, *backup)
        check(copied)
        only = ["groups", "prune", "--older-than", "1s", "--name", name]
        for remove in (["groups", "delete", name], only):
            before = set(tmp_path.iterdir())
            eventually(lambda: name in run_program(*only, *SECRET, *cluster).out)
            run(*remove, *backup)
            assert alice.exists(f"/consumers/{name}") is None
            (backed_up,) = set(tmp_path.iterdir()) - before
            run("offsets", "import", str(backed_up), *backup)
            check(name)
        assert doctor() == []
        alice.set_acls(f"/consumers/{name}/offsets/orders/1", OPEN_ACL_UNSAFE)
        assert doctor() == [name]
    finally:
        for group in (name, copied):
            alice.delete(f"/consumers/{group}", recursive=True)
        alice.stop()
        alice.close()


def test_without_its_broker_nothing_is_reset_and_the_doctor_says_why(tmp_path):
    with EmbeddedKafka("1.1.1", chroot="/kafka") as kafka:
        kafka.create_topic("orders", 3)
        store = KazooStore(ZkSettings(kafka.zookeeper_connect))
        store.start()
        try:
            for number in range(3):
                store.create(f"/consumers/stopped/offsets/orders/{number}", b"0", make_parents=True)
            kafka.brokers[0].kill()
            check_commands_without_a_broker(store, ["--zookeeper", kafka.zookeeper_connect], tmp_path)
        finally:
            store.close()


def check_commands_without_a_broker(store, cluster, tmp_path):
    before = offsets_of(store, "stopped")
    done = run_program("offsets", "reset", "stopped", "--to-latest", "--execute", "--backup-dir", tmp_path, *cluster)
    assert done.code == 1
    assert done.err.splitlines()[-1].startswith("Error: nothing was changed, no broker answers for ")
    assert offsets_of(store, "stopped") == before
    assert list(tmp_path.iterdir()) == []
    described = run_program("groups", "describe", "stopped", *cluster)
    assert described.code == 0
    assert "Warning: log ends and lag are not known" in described.err
    doctor = json.loads(run_program("doctor", "--json", *cluster).out)
    assert {f["code"] for f in doctor} & {"no_broker", "broker_unreachable"}
    # commands that need no broker still work
    assert run_program("offsets", "export", "stopped", *cluster).code == 0
    done = run_program("offsets", "copy", "stopped", "copied", "--execute", "--backup-dir", tmp_path, *cluster)
    assert done.code == 0
    assert offsets_of(store, "copied") == before
