"""One Spark, one ZooKeeper and one Kafka for all tests of the data sources."""

import importlib.metadata
import json
import os
import socket
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from legacy_consumer.embedded import EmbeddedZooKeeper
from tests.support.broker_cluster import BrokerCluster
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings
from zk_layout.store import ZkStore

ROOT = Path(__file__).parents[2]
GOLDEN = ROOT / "tests" / "data" / "golden"
QUICK_JVM = "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -XX:-UsePerfData"
"""Options of a JVM that runs for a short time and does little work."""


def pytest_report_header():
    return f"pyspark {importlib.metadata.version('pyspark')}"


WITHOUT_REUSE = "--conf spark.python.worker.reuse=false pyspark-shell"
"""A value of PYSPARK_SUBMIT_ARGS: each task gets a Python worker of its own."""


def child_environment(**variables: str) -> dict[str, str]:
    """Return the environment of a program that imports this project and the pyspark of this run, also by PYTHONPATH."""
    paths = [str(ROOT), os.environ.get("PYTHONPATH", "")]
    return {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in paths if path), **variables}


@pytest.fixture(scope="session")
def spark(tmp_path_factory):
    from pyspark.sql import SparkSession

    from spark_source import register

    folder = tmp_path_factory.mktemp("spark")
    session = (
        SparkSession.builder.master("local[2]")
        .appName("tests")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", f"{QUICK_JVM} -Djava.io.tmpdir={folder}")
        .config("spark.local.dir", str(folder))
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.sql.warehouse.dir", str(folder / "warehouse"))
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    register(session)
    yield session
    session.stop()


@pytest.fixture(scope="session")
def zookeeper():
    with EmbeddedZooKeeper() as started:
        yield started


@pytest.fixture(scope="session")
def cluster(zookeeper, tmp_path_factory):
    """Run a broker with TLS and SASL listeners beside the plain one; it cleans compacted logs at once."""
    started = BrokerCluster("1.1.1", zookeeper, tmp_path_factory.mktemp("broker"))
    started.start()
    yield started
    started.close()


@pytest.fixture(scope="session")
def kafka(cluster):
    return cluster.kafka


@contextmanager
def store_of(connect: str) -> Iterator[ZkStore]:
    store = KazooStore(ZkSettings(connect, connection_timeout_ms=20_000))
    store.start()
    try:
        yield store
    finally:
        store.close()


@pytest.fixture
def tree(zookeeper):
    """Make an empty tree for one test alone: .connect, .store, and put(path, text)."""
    chroot = f"/tree-{uuid.uuid4().hex}"
    with store_of(zookeeper.connect) as root:
        root.ensure_path(chroot)
    with store_of(zookeeper.connect + chroot) as store:
        yield Tree(zookeeper.connect + chroot, store)


class Tree:
    def __init__(self, connect: str, store: ZkStore) -> None:
        self.connect = connect
        self.store = store

    def put(self, path: str, data: str | bytes | None = None) -> None:
        self.store.create(path, data.encode() if isinstance(data, str) else data, make_parents=True)

    def commit(self, group: str, topic: str, partition: int, offset: object) -> None:
        self.put(f"/consumers/{group}/offsets/{topic}/{partition}", str(offset))

    def own(self, group: str, topic: str, partition: int, owner: str | bytes) -> None:
        self.put(f"/consumers/{group}/owners/{topic}/{partition}", owner)

    def load_golden(self, version: str) -> list[dict]:
        """Write all znodes that a Kafka of this version left. Returns: the recorded znodes."""
        znodes = json.loads((GOLDEN / f"kafka-{version}.json").read_text())["znodes"]
        for znode in sorted(znodes, key=lambda z: z["path"]):
            path, value = znode["path"], znode["value"]
            if path != "/" and self.store.exists(path) is None:
                self.put(path, value)
        return znodes


@pytest.fixture
def ask():
    """Yield ask(load, change), which returns the rows of a frame; after the test the frame is queried again."""
    from tests.spark.asking import Asked

    asked = Asked()
    yield asked
    asked.once_more()


@pytest.fixture
def scene(spark, kafka, tmp_path):
    from tests.spark.stream_scene import Scene

    with store_of(kafka.zookeeper_connect) as store:
        yield Scene(spark, kafka, store, tmp_path)


@pytest.fixture
def unused_port():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound but not listening, so the system refuses connections
        yield taken.getsockname()[1]
