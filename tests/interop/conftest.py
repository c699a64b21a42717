"""One broker of 1.1.1 for the whole tier, and groups on it that end with their test."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from legacy_consumer.embedded import EmbeddedKafka
from tests.interop.mixed_group import Cluster, MixedGroup
from tests.support.jvm_member import JvmPrograms, KafkaTools


@pytest.fixture(scope="session")
def programs():
    with tempfile.TemporaryDirectory(prefix="jvm-members-") as folder:
        yield JvmPrograms(Path(folder))


@pytest.fixture(scope="session")
def cluster(programs):
    with EmbeddedKafka("1.1.1", properties={"auto.create.topics.enable": "false"}) as kafka:
        opened = Cluster.open(kafka, programs)
        yield opened
        opened.close()


@pytest.fixture(scope="session")
def tools(programs):
    """Kafka's tools of a version, started when first asked for."""
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
    """Makes groups, with names of their own, whose members do not outlive the test."""
    made = []

    def make(name, topics, **options):
        group = MixedGroup(options.pop("cluster", cluster), name, topics, **options)
        made.append(group)
        return group

    yield make
    for group in made:
        group.close()
