"""One ZooKeeper and one broker of each version for all tests of brokers: a version's tests run together."""

import pytest

from legacy_consumer.embedded import KAFKA_VERSIONS, EmbeddedZooKeeper
from legacy_consumer.wire.records import warm_up
from tests.support.broker_cluster import BrokerCluster

BY_VERSION = "broker_version"


@pytest.fixture(scope="session", autouse=True)
def _compiled():
    """A checkout that never decoded compiles its decoder first, which counts against nobody's patience."""
    warm_up()


def pytest_collection_modifyitems(items):
    """Sort the tests that name a broker version by it, in the places that they have."""
    places = [place for place, item in enumerate(items) if version_of(item)]
    by_version = sorted((items[place] for place in places), key=lambda item: KAFKA_VERSIONS.index(version_of(item)))
    for place, item in zip(places, by_version, strict=True):
        items[place] = item


def version_of(item):
    named = "clusters" in getattr(item, "fixturenames", ()) and hasattr(item, "callspec")
    return item.callspec.params.get(BY_VERSION) if named else None


class Clusters:
    """The broker of one version at a time."""

    def __init__(self, folder):
        self.folder = folder
        self.zookeeper = EmbeddedZooKeeper()
        self.running = None

    def of(self, version):
        if self.running is None or self.running.version != version:
            self.end()
            self.zookeeper.start()
            self.running = BrokerCluster(version, self.zookeeper, self.folder)
            self.running.start()
        return self.running

    def end(self):
        if self.running is not None:
            self.running.close()
        self.running = None

    def close(self):
        self.end()
        self.zookeeper.close()


@pytest.fixture(scope="session")
def clusters(tmp_path_factory):
    clusters = Clusters(tmp_path_factory.mktemp("brokers"))
    yield clusters
    clusters.close()


@pytest.fixture
def cluster(clusters, broker_version):
    return clusters.of(broker_version)
