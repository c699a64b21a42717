"""`legacy-consumer consume`, run as people run it, against real servers."""

from __future__ import annotations

import base64
import itertools
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from contextlib import contextmanager
from pathlib import Path

import pytest

from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.sandbox.servers.waiting import wait_for
from zk_layout.errors import NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]
_names = itertools.count()


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


@pytest.fixture
def group():
    return f"group-{next(_names)}"


@pytest.fixture
def topic(kafka):
    """Create a topic of four partitions for this test alone."""
    name = f"topic-{next(_names)}"
    kafka.create_topic(name, 4)
    return name


DEFAULT = ("--property", "fetcher=auto")


def command(kafka, *args):
    """Return the command line. It uses librdkafka, which starts in a third of the time, unless args say otherwise."""
    cluster = ("--zookeeper", kafka.zookeeper_connect)
    return [sys.executable, "-m", "legacy_consumer", "consume", *cluster, "--property", "fetcher=librdkafka", *args]


def consume(kafka, *args):
    """Run a consumer to its end. Returns: the finished process, with output as bytes."""
    return subprocess.run(command(kafka, *args), capture_output=True, cwd=ROOT, timeout=60)


@contextmanager
def consuming(kafka, *args, unbuffered=""):
    """Run a consumer until the test stops it."""
    with subprocess.Popen(
        command(kafka, *args),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=ROOT,
        bufsize=0,
        env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def produce(kafka, topic, records):
    return produce_all(topic, records, {"bootstrap.servers": kafka.bootstrap_servers})


def numbered(count, partitions=4):
    """Return records for an empty topic, evenly over its partitions; their values are `partition:offset`."""
    return [(None, b"%d:%d" % (n % partitions, n // partitions), n % partitions) for n in range(count)]


def committed(store, group, topic):
    """Return {partition: committed offset}, without offsets of 0."""
    try:
        partitions = store.get_children(f"/consumers/{group}/offsets/{topic}")
    except NoNodeError:
        return {}
    found = {int(p): int(store.get_data(f"/consumers/{group}/offsets/{topic}/{p}").data) for p in partitions}
    return {partition: offset for partition, offset in found.items() if offset}


def counts(lines):
    """Return {partition: number of lines}, for values from numbered()."""
    return dict(Counter(int(line.partition(b":")[0]) for line in lines))


def has_left(store, group):
    """Return whether neither a registration nor an owner znode remains."""
    topics = store.get_children(f"/consumers/{group}/owners")
    owners = [store.get_children(f"/consumers/{group}/owners/{topic}") for topic in topics]
    return store.get_children(f"/consumers/{group}/ids") == () and not any(owners)


ODD = [(b"k", b"v", 0), (None, b"no key", 0), (b"gone", None, 0), (b"\xff\x00", '\u00e9\n"'.encode(), 0)]


@pytest.mark.parametrize(
    ("options", "printed"),
    [
        ((), b'v\nno key\nnull\n\xc3\xa9\n"\n'),
        (("--format", "key-value"), b'k\tv\nnull\tno key\ngone\tnull\n\xff\x00\t\xc3\xa9\n"\n'),
        (
            ("--format", "key-value", "--key-separator", " \\x3d "),
            b'k = v\nnull = no key\ngone = null\n\xff\x00 = \xc3\xa9\n"\n',
        ),
        (("--format", "none"), b""),
    ],
)
def test_messages_are_printed_as_the_bytes_they_are(kafka, topic, options, printed):
    produce(kafka, topic, ODD)
    done = consume(kafka, "--topic", topic, "--from-beginning", "--max-messages", "4", *options)
    assert (done.returncode, done.stdout) == (0, printed)
    assert done.stderr == b"Processed a total of 4 messages\n"


def test_json_has_each_message_on_one_line(kafka, topic):
    produce(kafka, topic, ODD)
    done = consume(kafka, "--topic", topic, "--from-beginning", "--max-messages", "4", "--format", "json", *DEFAULT)
    documents = [json.loads(line) for line in done.stdout.decode().splitlines()]
    times = [document.pop("timestamp") for document in documents]
    assert all(time > 1_500_000_000_000 for time in times)
    place = {"topic": topic, "partition": 0}
    assert documents == [
        {**place, "offset": 0, "key": "k", "value": "v"},
        {**place, "offset": 1, "key": None, "value": "no key"},
        {**place, "offset": 2, "key": "gone", "value": None},
        {**place, "offset": 3, "key_base64": base64.b64encode(b"\xff\x00").decode(), "value": '\u00e9\n"'},
    ]


@pytest.mark.parametrize(("streams", "fetcher"), [("1", ()), ("3", DEFAULT)], ids=["1", "3"])
def test_the_next_run_continues_where_max_messages_ended(kafka, store, topic, group, streams, fetcher):
    produce(kafka, topic, numbered(4000))
    options = ("--topic", topic, "--group", group, "--streams", streams, *fetcher)
    first = consume(kafka, *options, "--max-messages", "1501", "--from-beginning")
    assert first.stderr == b"Processed a total of 1501 messages\n"
    assert committed(store, group, topic) == counts(first.stdout.splitlines())
    assert has_left(store, group)
    # a partition that the first run had not begun has no committed offset: there, as for any member, auto.offset.reset
    # decides
    second = consume(kafka, *options, "--max-messages", "2499", "--property", "auto.offset.reset=smallest")
    assert second.stderr == b"Processed a total of 2499 messages\n"
    assert sorted(first.stdout.splitlines() + second.stdout.splitlines()) == sorted(v for _, v, _ in numbered(4000))


@pytest.mark.parametrize(
    ("signal_number", "exit_code", "streams", "unbuffered"),
    [
        pytest.param(signal.SIGTERM, 0, "1", "", id="SIGTERM"),
        pytest.param(signal.SIGINT, 130, "1", "", id="SIGINT"),
        pytest.param(signal.SIGTERM, 0, "2", "", id="two streams"),
        pytest.param(signal.SIGTERM, 0, "1", "1", id="unbuffered output"),
    ],
)
def test_a_signal_commits_exactly_the_printed_messages(
    kafka, store, topic, group, signal_number, exit_code, streams, unbuffered
):
    produce(kafka, topic, numbered(200_000))
    options = ("--topic", topic, "--group", group, "--from-beginning", "--streams", streams)
    with consuming(kafka, *options, unbuffered=unbuffered) as process:
        # the command has printed something, and blocks until the test reads the rest
        printed = process.stdout.read(50_000)
        process.send_signal(signal_number)
        while more := process.stdout.read(1_000_000):
            printed += more
        complaints = process.stderr.read()
        assert process.wait(30) == exit_code
    lines = printed.splitlines()
    assert printed.endswith(b"\n")
    assert 0 < len(lines) < 200_000
    assert complaints.decode() == f"Processed a total of {len(lines)} messages\n"
    assert committed(store, group, topic) == counts(lines)
    assert has_left(store, group)


@pytest.mark.parametrize("count", [8, 100_000], ids=["fewer than fill a buffer", "more than fit into the pipe"])
def test_no_commit_passes_a_message_that_was_not_written(kafka, store, topic, group, count):
    produce(kafka, topic, numbered(count))
    options = ("--topic", topic, "--group", group, "--from-beginning", "--property", "auto.commit.interval.ms=50")
    with consuming(kafka, *options) as process:
        # the test does not read the output meanwhile
        wait_for(lambda: bool(committed(store, group, topic)), 30, lambda: AssertionError("nothing is committed"))
        process.kill()
        written = process.stdout.readall()
    whole = counts(written[: written.rfind(b"\n") + 1].splitlines())
    assert whole
    assert all(offset <= whole.get(partition, 0) for partition, offset in committed(store, group, topic).items())


def test_a_reader_that_goes_away_ends_it_quietly(kafka, store, topic, group):
    produce(kafka, topic, numbered(100_000))
    with consuming(kafka, "--topic", topic, "--group", group, "--from-beginning") as process:
        process.stdout.read(100)
        process.stdout.close()
        complaints = process.stderr.read()
        assert process.wait(30) == 0
    assert complaints.startswith(b"Processed a total of ")
    assert complaints.count(b"\n") == 1
    assert has_left(store, group)


def test_two_consumers_share_a_topic_and_the_survivor_takes_over(kafka, store, topic, group):
    def owners():
        path = f"/consumers/{group}/owners/{topic}"
        found = store.get_data_many([f"{path}/{n}" for n in range(4)])
        return Counter(znode.data for znode in found if znode is not None)

    produce(kafka, topic, numbered(400))
    options = ("--topic", topic, "--group", group, "--from-beginning")
    with consuming(kafka, *options) as first:
        wait_for(lambda: sorted(owners().values()) == [4], 30, lambda: AssertionError("the first does not own all"))
        with consuming(kafka, *options) as second:
            wait_for(
                lambda: sorted(owners().values()) == [2, 2], 30, lambda: AssertionError("they do not own two each")
            )
            second.terminate()
            out_of_second = second.stdout.read()
            assert second.wait(30) == 0
        wait_for(
            lambda: sorted(owners().values()) == [4], 30, lambda: AssertionError("the first does not own all again")
        )
        produce(kafka, topic, [(None, b"%d:more" % n, n) for n in range(4)])
        out_of_first = b""
        while out_of_first.count(b"more") < 4:
            out_of_first += first.stdout.read(65536)
        first.terminate()
        out_of_first += first.stdout.read()
        assert first.wait(30) == 0
    everything = out_of_first.splitlines() + out_of_second.splitlines()
    assert len(everything) == len(set(everything)) == 404


def test_a_whitelist_takes_the_topics_that_match_whole_and_a_blacklist_the_others(kafka, group):
    for name in ("colour-red", "colour-blue", "xcolour-red"):
        kafka.create_topic(name, 1)
        produce(kafka, name, [(None, name.encode())])
    options = ("--from-beginning", "--max-messages", "2")
    white = consume(kafka, "--whitelist", "colour-.*", "--group", group, *options)
    assert sorted(white.stdout.splitlines()) == [b"colour-blue", b"colour-red"]
    black = consume(kafka, "--blacklist", "topic.*|.*-red", "--from-beginning", "--max-messages", "1")
    assert black.stdout == b"colour-blue\n"


def test_a_whitelist_without_a_matching_topic_warns_and_waits(kafka):
    done = consume(kafka, "--whitelist", "nothing-.*", "--timeout-ms", "200")
    assert done.returncode == 0
    warning, total = done.stderr.decode().splitlines()
    assert warning.endswith("WARNING no topic passes nothing-.*; waiting for one")
    assert total == "Processed a total of 0 messages"


def test_a_group_of_its_own_leaves_nothing_behind(kafka, store, topic):
    produce(kafka, topic, numbered(8))
    before = store.get_children("/consumers")
    assert consume(kafka, "--topic", topic, "--from-beginning", "--max-messages", "8").returncode == 0
    assert store.get_children("/consumers") == before


def test_a_group_of_its_own_leaves_nothing_behind_though_standard_error_has_no_reader(kafka, store, topic):
    """As after `2>&1 | head`."""
    produce(kafka, topic, numbered(8))
    before = store.get_children("/consumers")
    read, write = os.pipe()
    os.close(read)
    args = command(kafka, "--topic", topic, "--from-beginning", "--max-messages", "8")
    done = subprocess.run(args, stdout=subprocess.PIPE, stderr=write, cwd=ROOT, timeout=60)
    os.close(write)
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 8)
    assert store.get_children("/consumers") == before


def test_a_group_from_the_properties_file_is_not_deleted(kafka, store, topic, group, tmp_path):
    produce(kafka, topic, numbered(8))
    file = tmp_path / "consumer.properties"
    file.write_text(f"zookeeper.connect={kafka.zookeeper_connect}\ngroup.id={group}\nauto.offset.reset=smallest\n")
    args = ["consume", "--config", str(file), "--topic", topic, "--max-messages", "8"]
    subprocess.run([sys.executable, "-m", "legacy_consumer", *args], cwd=ROOT, timeout=60, check=True)
    assert committed(store, group, topic) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_from_beginning_refuses_a_group_with_offsets_until_they_may_be_deleted(kafka, store, topic, group):
    produce(kafka, topic, numbered(8))
    options = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "8")
    assert consume(kafka, *options).returncode == 0
    refused = consume(kafka, *options)
    assert (refused.returncode, refused.stdout) == (1, b"")
    [line] = refused.stderr.decode().splitlines()
    assert line.startswith(f"Error: group {group} has committed offsets")
    assert "--delete-consumer-offsets" in line
    again = consume(kafka, *options, "--delete-consumer-offsets")
    assert (again.returncode, len(again.stdout.splitlines())) == (0, 8)
    assert committed(store, group, topic) == {0: 2, 1: 2, 2: 2, 3: 2}


@pytest.mark.parametrize("wanted", [("--topic", "{}"), ("--whitelist", "{}|other")])
def test_from_beginning_refuses_a_group_with_offsets_in_kafka_and_deletes_none_there(kafka, topic, group, wanted):
    """Regression: it printed nothing and ended with exit code 0, with --delete-consumer-offsets too."""
    produce(kafka, topic, numbered(8))
    wanted = [word.format(topic) for word in wanted]
    in_kafka = ("--property", "offsets.storage=kafka", "--property", "dual.commit.enabled=false")
    options = (*wanted, "--group", group, *in_kafka, "--from-beginning", "--max-messages", "8")
    assert consume(kafka, *options).returncode == 0
    for more, told in (
        ((), f"group {group} has committed offsets in Kafka and would go on from there"),
        (("--delete-consumer-offsets",), "--delete-consumer-offsets deletes znodes, and with offsets.storage=kafka"),
    ):
        refused = consume(kafka, *options, *more)
        assert (refused.returncode, refused.stdout) == (1, b"")
        [line] = refused.stderr.decode().splitlines()
        assert line.startswith(f"Error: {told}")
        assert "choose another --group" in line


def test_offsets_of_a_group_with_members_are_not_deleted(kafka, store, topic, group):
    with consuming(kafka, "--topic", topic, "--group", group):
        wait_for(
            lambda: store.exists(f"/consumers/{group}/owners/{topic}/0") is not None,
            30,
            lambda: AssertionError("nobody joins"),
        )
        refused = consume(kafka, "--topic", topic, "--group", group, "--delete-consumer-offsets")
        assert refused.returncode == 1
        assert f"\nError: group '{group}' has 1 member: stop it first".encode() in refused.stderr
        assert store.get_children(f"/consumers/{group}/owners/{topic}")


@pytest.mark.parametrize(
    "wrong",
    [
        ("--property", "security.protocol=SSL"),
        ("--property", "security.protocol=SSL", *DEFAULT),
        ("--property", "offsets.by.hand=other"),
        ("--streams", "10001"),
    ],
    ids=["protocol, librdkafka", "protocol, columnar", "offsets by hand", "streams"],
)
def test_no_offset_is_deleted_if_a_setting_keeps_the_member_from_joining(kafka, store, topic, group, wrong):
    produce(kafka, topic, numbered(8))
    options = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "8")
    assert consume(kafka, *options).returncode == 0
    refused = consume(kafka, *options, "--delete-consumer-offsets", *wrong)
    assert refused.returncode in (1, 2)
    assert refused.stdout == b""
    assert committed(store, group, topic) == {0: 2, 1: 2, 2: 2, 3: 2}


def test_without_auto_commit_nothing_is_committed(kafka, store, topic, group):
    produce(kafka, topic, numbered(8))
    options = ("--topic", topic, "--group", group, "--from-beginning", "--max-messages", "8")
    assert consume(kafka, *options, "--property", "auto.commit.enable=false").returncode == 0
    assert committed(store, group, topic) == {}


def test_a_garbage_registration_of_another_member_is_named_and_passed_over(kafka, store, topic, group):
    produce(kafka, topic, numbered(8))
    store.create(f"/consumers/{group}/ids/{group}_garbage", b"not json", ephemeral=True, make_parents=True)
    done = consume(kafka, "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "8")
    assert (done.returncode, len(done.stdout.splitlines())) == (0, 8)
    warning, _ = done.stderr.decode().splitlines()
    assert f"leaves out member {group}_garbage" in warning


@pytest.mark.parametrize("name", ["no-such-topic", "a,b", "..", ""])
def test_a_missing_topic_is_an_error_of_one_line_and_no_member_joins(kafka, store, group, name):
    done = consume(kafka, "--topic", name, "--group", group)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(f"Error: topic {name!r} does not exist: ".encode())
    assert done.stderr.count(b"\n") == 1
    assert store.exists(f"/consumers/{group}") is None


def test_a_missing_chroot_is_an_error_of_one_line(kafka):
    elsewhere = kafka.zookeeper_connect.replace("/kafka", "/nowhere")
    done = consume(kafka, "--zookeeper", elsewhere, "--topic", "t")
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr.startswith(b"Error: /nowhere does not exist: it is the chroot given in zookeeper.connect")
    assert done.stderr.count(b"\n") == 1


def test_a_cluster_without_brokers_is_an_error_of_one_line():
    with EmbeddedZooKeeper() as zookeeper:
        args = ["consume", "--zookeeper", zookeeper.connect, "--topic", "t"]
        done = subprocess.run(
            [sys.executable, "-m", "legacy_consumer", *args], capture_output=True, text=True, cwd=ROOT, timeout=60
        )
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "Error: no broker is registered in ZooKeeper: start one, or check the chroot of zookeeper.connect\n"
    )


@pytest.mark.parametrize("rule", ["at_least_once", "at_next"])
def test_a_full_disk_is_an_error_of_one_line_and_no_unwritten_message_is_committed(kafka, store, topic, group, rule):
    produce(kafka, topic, numbered(8))
    options = ("--topic", topic, "--group", group, "--from-beginning", "--property", f"delivery.rule={rule}")
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(
            command(kafka, *options),
            stdout=full,
            stderr=subprocess.PIPE,
            cwd=ROOT,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [
        "Processed a total of 0 messages",
        "Error: cannot write: No space left on device",
    ]
    assert committed(store, group, topic) == {}


def test_a_properties_file_with_acknowledged_messages_does_not_keep_printed_ones_from_being_committed(
    kafka, store, topic, group, tmp_path
):
    produce(kafka, topic, numbered(8))
    file = tmp_path / "consumer.properties"
    file.write_text("delivery.rule=acknowledged\n")
    done = consume(
        kafka, "--config", str(file), "--topic", topic, "--group", group, "--from-beginning", "--max-messages", "8"
    )
    assert done.stderr == b"Processed a total of 8 messages\n"
    assert committed(store, group, topic) == {0: 2, 1: 2, 2: 2, 3: 2}
