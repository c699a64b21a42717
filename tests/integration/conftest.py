"""One ZooKeeper for all tests of brokers, and one broker of each version, whose tests run together.

Slow steps that disturb no test begin ahead: the start of the next version's broker, and a download.
"""

import itertools
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from legacy_consumer.embedded import KAFKA_VERSIONS, EmbeddedZooKeeper
from tests.support.broker_cluster import BrokerCluster
from tests.support.zk_history import ZkHistory

BY_VERSION = "broker_version"


def pytest_collection_modifyitems(items):
    """Sort tests that name a broker version by it, tests with a fresh broker first; all others keep their places."""
    places = [place for place, item in enumerate(items) if version_of(item)]
    by_version = sorted((items[place] for place in places), key=_turn)
    for place, item in zip(places, by_version, strict=True):
        items[place] = item


def version_of(item):
    named = "clusters_here" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")
    return item.callspec.params.get(BY_VERSION) if named else None


def _turn(item):
    return KAFKA_VERSIONS.index(version_of(item)), "fresh_cluster" not in item.fixturenames


class Clusters:
    """Runs the broker of one version at a time, and starts the next one while the tests of this one run."""

    def __init__(self, folder, versions):
        """versions: the versions that the tests will use, in this order."""
        self.folder = folder
        self.next_of = dict(itertools.pairwise(versions))
        log = folder / "zookeeper-log"
        log.mkdir()
        self.zookeeper = EmbeddedZooKeeper(properties={"dataLogDir": str(log)})
        self.history = ZkHistory(log)
        self.starter = ThreadPoolExecutor(1, "next-broker")
        self.running = None
        self.ahead = {}

    def of(self, version):
        """Return the running cluster of a version; the one before ends. Raises: the error of the broker's start."""
        if self.running is None or self.running.version != version:
            self.end()
            self.zookeeper.start()
            self.begin(version)
            self.running = self.ahead.pop(version).result()
            if version in self.next_of:
                self.begin(self.next_of[version])
        return self.running

    def begin(self, version):
        if version not in self.ahead:
            self.ahead[version] = self.starter.submit(self.started, version)

    def started(self, version):
        made = BrokerCluster(version, self.zookeeper, self.folder, self.history)
        made.start()
        return made

    def await_ahead(self):
        """Wait until no broker is starting; of() raises the error of a failed start."""
        for future in self.ahead.values():
            future.exception()

    def end(self):
        if self.running is not None:
            self.running.close()
        self.running = None

    def close(self):
        self.end()
        self.await_ahead()
        for future in self.ahead.values():
            if future.exception() is None:
                future.result().close()
        self.starter.shutdown()
        self.zookeeper.close()


@pytest.fixture(scope="session")
def clusters(request, tmp_path_factory):
    versions = dict.fromkeys(filter(None, map(version_of, request.session.items)))
    clusters = Clusters(tmp_path_factory.mktemp("brokers"), list(versions))
    yield clusters
    clusters.close()


@pytest.fixture(scope="module")
def clusters_here(clusters):
    """Yield the clusters. No start outlives the module, as other modules' tests may change ports and folders."""
    yield clusters
    clusters.await_ahead()


@pytest.fixture
def cluster(clusters_here, broker_version):
    return clusters_here.of(broker_version)


@pytest.fixture
def fresh_cluster(cluster):
    """Return a cluster that no test has used yet; tests of this fixture come first."""
    assert cluster.topics() == (), "another test came first"
    return cluster


@pytest.fixture
def _lone_broker(monkeypatch):
    """Let a fetcher soon believe that a log ends before a position: a lone broker has no follower that lags behind."""
    monkeypatch.setattr("legacy_consumer.fetching.positions.LOG_END_WAIT_S", 0.2)


FETCHING = "two_that_fetch_the_same_jars"


@pytest.fixture(scope="session", autouse=True)
def _downloads(request):
    """Begin the download before the first test, since it mostly waits for the network."""
    if any(FETCHING in getattr(item, "fixturenames", ()) for item in request.session.items):
        request.getfixturevalue(FETCHING)


@pytest.fixture(scope="session")
def two_that_fetch_the_same_jars(tmp_path_factory):
    """Return (a folder for them alone, two processes that at once fetch the jars of 1.1.1 into its subfolder jars)."""
    folder = tmp_path_factory.mktemp("fetched")
    program = (
        "import logging, sys; logging.basicConfig(level='WARNING')\n"
        "from legacy_consumer.embedded import kafka_jars\n"
        "print(len(kafka_jars('1.1.1')))"
    )
    both = [
        subprocess.Popen(
            [sys.executable, "-c", program],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "LEGACY_CONSUMER_JARS": str(folder / "jars"), "HOME": str(folder)},
        )
        for _ in range(2)
    ]
    yield folder, both
    for process in both:
        process.kill()
        process.communicate()
