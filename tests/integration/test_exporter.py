"""`legacy-consumer exporter` and `consume --metrics-port`, run as people run them, on real servers."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from legacy_consumer import ConsumerConfig, ConsumerConnector
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.librdkafka import produce_all
from tests.support.jvm_member import JvmMember, Subscription
from tests.support.metrics_truth import MetricsTruth
from tests.support.tcp_proxy import TcpProxy
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module")
def kafka():
    with EmbeddedKafka("1.1.1", chroot="/kafka") as started:
        started.create_topic("orders", 3)
        produce_all(
            "orders", [(None, b"order", n % 3) for n in range(60)], {"bootstrap.servers": started.bootstrap_servers}
        )
        yield started


class Program:
    """A command of ours that serves metrics; url is the address that it printed."""

    def __init__(self, *arguments):
        self.process = subprocess.Popen(
            [sys.executable, "-m", "legacy_consumer", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=ROOT,
        )
        self.said = []
        while not self.said or not self.said[-1].startswith("serving "):
            line = self.process.stderr.readline()
            assert line, self.said
            self.said.append(line.strip())
        self.url = self.said[-1].split()[1]

    def get(self, path="/metrics"):
        try:
            with urllib.request.urlopen(self.url.replace("/metrics", path), timeout=10) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def samples(self):
        """Return {(name, label values in the order of their labels): value}."""
        return {
            (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
            for family in text_string_to_metric_families(self.get()[1])
            for sample in family.samples
        }

    def end(self, number):
        self.process.send_signal(number)
        _, rest = self.process.communicate(timeout=30)
        self.said += rest.splitlines()
        return self.process.returncode

    def close(self):
        if self.process.poll() is None:
            self.process.kill()
        with contextlib.suppress(ValueError):
            self.process.communicate(timeout=30)


@contextlib.contextmanager
def running(*arguments):
    program = Program(*arguments)
    try:
        yield program
    finally:
        program.close()


@pytest.fixture(scope="module")
def jvm_group(kafka, programs):
    """Run a group of one JVM member, which commits every 200 ms."""
    properties = {
        "zookeeper.connect": kafka.zookeeper_connect,
        "group.id": "jvm",
        "auto.offset.reset": "smallest",
        "auto.commit.interval.ms": 200,
    }
    member = JvmMember(programs, "1.1.1", "jvm-member", Subscription("static", "orders:1"), properties)
    try:
        member.await_event("ready")
        yield member
    finally:
        member.kill()


@contextlib.contextmanager
def proxy_to(port):
    proxy = TcpProxy("127.0.0.1", port)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.close()


def partition_samples(found, name, group):
    return {
        key[2]: value
        for key, value in found.items()
        if key[0] == f"legacy_consumer_group_partition_{name}" and key[1] == group
    }


def test_groups_of_the_jvm_and_of_ours_are_exported_and_zookeeper_may_go_away(kafka, jvm_group):
    host, _, rest = kafka.zookeeper_connect.partition("/")
    consume = ["consume", "--zookeeper", kafka.zookeeper_connect, "--group", "ours", "--topic", "orders"]
    with (
        proxy_to(int(host.rpartition(":")[2])) as proxy,
        running(
            *consume, "--from-beginning", "--property", "auto.commit.interval.ms=200", "--metrics-port", "0"
        ) as ours,
        running(
            "exporter", "--zookeeper", f"127.0.0.1:{proxy.port}/{rest}", "--port", "0", "--interval", "1"
        ) as exporter,
    ):

        def all_is_committed():
            found = exporter.samples()
            return all(partition_samples(found, "lag", group) == dict.fromkeys("012", 0) for group in ("jvm", "ours"))

        eventually(all_is_committed)
        found = exporter.samples()
        for group in ("jvm", "ours"):
            assert partition_samples(found, "owned", group) == dict.fromkeys("012", 1)
            assert partition_samples(found, "committed_offset", group) == dict.fromkeys("012", 20)
            assert found["legacy_consumer_group_members", group] == 1
            assert found["legacy_consumer_group_verdict", group, "ok"] == 1
        assert exporter.get("/readyz") == (200, "2 groups\n")

        proxy.cut()
        eventually(lambda: exporter.samples()["legacy_consumer_exporter_up", "zookeeper"] == 0)
        found = exporter.samples()
        assert found["legacy_consumer_exporter_data_age_seconds", "zookeeper"] > 0
        assert partition_samples(found, "committed_offset", "jvm") == dict.fromkeys("012", 20)
        assert [exporter.get(path)[0] for path in ("/healthz", "/readyz")] == [200, 200]
        proxy.restore()
        eventually(lambda: exporter.samples()["legacy_consumer_exporter_up", "zookeeper"] == 1)

        member = ours.samples()
        assert sum(value for key, value in member.items() if key[0].endswith("member_consumed_messages_total")) == 60
        assert (ours.get("/healthz")[0], ours.get("/readyz")[1].endswith("settled with 3 partitions\n")) == (200, True)
        assert (ours.end(signal.SIGINT), exporter.end(signal.SIGTERM)) == (130, 0)
        assert not [line for line in exporter.said if "Traceback" in line]
        with pytest.raises(urllib.error.URLError):
            urllib.request.urlopen(ours.url, timeout=5)


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "legacy_consumer", *arguments], capture_output=True, text=True, cwd=ROOT, timeout=60
    )


def test_a_setting_that_cannot_work_is_an_error_of_one_line(kafka):
    done = run("exporter", "--zookeeper", f"{kafka.zookeeper_connect}/nowhere", "--port", "0")
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("Error: /kafka/nowhere does not exist: it is the chroot given in")
    done = run("exporter", "--zookeeper", kafka.zookeeper_connect, "--port", "0", "--groups", "a[")
    assert (done.returncode, "'a[' is no regular expression" in done.stderr) == (2, True)


def test_a_port_that_is_taken_ends_the_command_before_it_joins(kafka):
    with running("exporter", "--zookeeper", kafka.zookeeper_connect, "--port", "0") as exporter:
        port = exporter.url.rpartition(":")[2].partition("/")[0]
        zookeeper = ["--zookeeper", kafka.zookeeper_connect]
        done = run("exporter", *zookeeper, "--port", port)
        assert (done.returncode, f"127.0.0.1:{port}: something listens there" in done.stderr) == (1, True)
        done = run("consume", *zookeeper, "--topic", "orders", "--group", "none", "--metrics-port", port)
        assert (done.returncode, f"127.0.0.1:{port}: something listens there" in done.stderr) == (1, True)


def test_the_exporter_may_start_before_zookeeper():
    options = ["--property", "zookeeper.connection.timeout.ms=300", "--port", "0", "--interval", "1"]
    with running("exporter", "--zookeeper", "127.0.0.1:1", *options) as exporter:
        status, text = eventually(lambda: (found := exporter.get("/readyz"))[1].startswith("no ZooKeeper") and found)
        assert (status, text.startswith("no ZooKeeper answered at 127.0.0.1:1 within 300 ms")) == (503, True)
        assert exporter.get("/healthz")[0] == 200
        assert exporter.samples()["legacy_consumer_exporter_up", "zookeeper"] == 0
        assert exporter.end(signal.SIGTERM) == 0


def test_members_and_exporter_tell_the_truth_while_a_member_is_cut_off_from_zookeeper(kafka):
    kafka.create_topic("truth", 4)
    produced, acknowledged = (dict.fromkeys(range(4), 0) for _ in range(2))

    def produce():
        for n in produced:
            produced[n] += 25
        produce_all("truth", [(None, b"x", n % 4) for n in range(100)], {"bootstrap.servers": kafka.bootstrap_servers})
        acknowledged.update(produced)

    def config(zookeeper_connect):
        return ConsumerConfig.load(
            zookeeper_connect=zookeeper_connect,
            group_id="truth",
            auto_offset_reset="smallest",
            auto_commit_interval_ms=200,
            zookeeper_session_timeout_ms=4000,
        )

    def consume(stream):
        for _ in stream.batches(timeout=0.1):
            pass

    host, _, rest = kafka.zookeeper_connect.partition("/")
    with (
        proxy_to(int(host.rpartition(":")[2])) as proxy,
        MetricsTruth(config(kafka.zookeeper_connect), "truth", produced, acknowledged) as truth,
        ConsumerConnector(config(f"127.0.0.1:{proxy.port}/{rest}")) as cut,
        ConsumerConnector(config(kafka.zookeeper_connect)) as other,
    ):
        members = [cut, other]
        consumers = [
            threading.Thread(target=consume, args=tuple(member.create_message_streams({"truth": 1})["truth"]))
            for member in members
        ]
        for consumer in consumers:
            consumer.start()

        def owned(*counts):
            # compare the metrics pages at each look, while the members settle
            truth.scrape(members)
            return [len(member.status.owned) for member in members] == [*counts]

        def all_is_committed():
            committed = {tp.partition: p.committed.offset for m in members for tp, p in m.progress.items()}
            return committed == produced

        produce()
        eventually(lambda: owned(2, 2) and all_is_committed())
        truth.scrape(members, rests=True)
        proxy.pause()
        produce()
        eventually(lambda: owned(0, 4) or len(other.status.owned) == 4)
        produce()
        truth.scrape(members)
        proxy.restore()
        eventually(lambda: owned(2, 2) and all_is_committed())
        truth.scrape(members, rests=True)
        assert truth.wrong == []
        assert truth.samples > 500
        cut.end_streams()
        other.end_streams()
        for consumer in consumers:
            consumer.join()
