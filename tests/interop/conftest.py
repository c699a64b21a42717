"""One broker of 1.1.1 for the whole tier, and groups on it that end with their test."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path

import pytest

from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from tests.interop.mixed_group import Cluster, MixedGroup
from tests.interop.report import VERSIONS, Report
from tests.support.jvm_member import KafkaTools
from tests.support.zk_history import ZkHistory

report_key = pytest.StashKey[Report]()


def report_of(config):
    return config.stash.setdefault(report_key, Report())


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item):
    made = yield
    if made.when == "call":
        given = item.callspec.params.values() if hasattr(item, "callspec") else ()
        versions = [value for value in given if value in VERSIONS]
        report_of(item.config).note_test(item.originalname, versions, made.outcome, made.duration)
    return made


def pytest_sessionfinish(session):
    if os.environ.get("INTEROP_REPORT") and report_key in session.config.stash:
        report_of(session.config).write()


@pytest.fixture(scope="session")
def zookeeper():
    """Yield (the ZooKeeper server for all clusters, the history of all writes to it)."""
    with (
        tempfile.TemporaryDirectory(prefix="zk-transactions-") as folder,
        EmbeddedZooKeeper(properties={"dataLogDir": folder}) as server,
    ):
        yield server, ZkHistory(Path(folder))


@pytest.fixture(scope="session")
def cluster_of(zookeeper, programs):
    """Return a context manager that opens a broker of a version, with a chroot of its own."""

    @contextlib.contextmanager
    def open_cluster(version):
        server, history = zookeeper
        with EmbeddedKafka(version, zookeeper=server, chroot=f"/kafka-{version}") as kafka:
            opened = Cluster.open(kafka, programs, history)
            yield opened
            opened.close()

    return open_cluster


@pytest.fixture(scope="session")
def cluster(cluster_of):
    with cluster_of("1.1.1") as opened:
        yield opened


@pytest.fixture(scope="session")
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


@pytest.fixture
def new_group(cluster, request):
    """Yield a function that makes groups; their members do not outlive the test."""
    made = []

    def make(name, topics, **options):
        group = MixedGroup(options.pop("cluster", cluster), name, topics, **options)
        made.append(group)
        return group

    yield make
    for group in made:
        group.close()
        report_of(request.config).note_group(group)
