import os
import subprocess
from pathlib import Path

import pytest

# Ryuk's image would have to be pulled; these fixtures themselves remove all that they start
os.environ.setdefault("TESTCONTAINERS_RYUK_DISABLED", "true")

IMAGE = "legacy-consumer:test"
ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="session")
def image():
    """Build the image of this tree; unchanged layers come from the engine's cache."""
    built = subprocess.run(["docker", "build", "--quiet", "--tag", IMAGE, str(ROOT)], capture_output=True, text=True)
    assert built.returncode == 0, (built.stdout + built.stderr)[-4000:]
    return IMAGE


@pytest.fixture(scope="session")
def cluster(image):
    """Run three ZooKeepers and three brokers."""
    from tests.containers.container_cluster import ContainerCluster

    with ContainerCluster(image) as cluster:
        yield cluster


@pytest.fixture
def new_group(cluster):
    """Yield a function that makes groups; afterwards remove all their containers."""
    from tests.containers.container_group import ContainerGroup

    groups = []

    def make(topic, partitions):
        groups.append(ContainerGroup(cluster, topic, partitions))
        return groups[-1]

    yield make
    for group in groups:
        group.close()
