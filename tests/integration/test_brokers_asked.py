"""A command that only reads makes no broker create a topic, although brokers by default create requested topics."""

from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from legacy_consumer.embedded import KAFKA_VERSIONS
from legacy_consumer.errors import ConsumerTimeoutError
from legacy_consumer.fetching.librdkafka import Record
from legacy_consumer.operations.cli import main
from tests.support.broker_cluster import on_every_broker, take

pytestmark = pytest.mark.kafka

LOOKS = (
    "groups list --details",
    "groups describe looked-at",
    "groups describe --all-groups --kafka-format 1.1",
    "groups members looked-at",
    "groups verify looked-at",
    "groups delete looked-at",
    "groups prune --older-than 1d",
    "offsets export looked-at",
    "offsets reset looked-at --to-earliest",
    "offsets reset looked-at --to-latest --topic {topic}:0",
    "offsets reset looked-at --to-time 2020-01-01T00:00:00Z",
    "offsets copy looked-at other",
    "offsets import {file}",
    "doctor",
    "topics",
    "brokers",
    "migrate plan looked-at",
    "migrate apply looked-at",
    "migrate verify looked-at",
    "migrate rollback looked-at",
    "migrate finish looked-at --delete",
    "migrate status",
)
"""Every command that writes nothing, or nothing without --execute."""
DESCRIBE = ("groups", "describe", "looked-at", "--json")


# librdkafka asks for leaders by the topic's name, and brokers before 0.11 create any topic so requested
WITH_FETCHERS = [(version, "columnar") for version in KAFKA_VERSIONS]
WITH_FETCHERS += [(version, "librdkafka") for version in ("1.1.1", "2.8.2", "3.9.1")]


@pytest.mark.parametrize(("broker_version", "fetcher"), WITH_FETCHERS)
def test_a_member_does_not_bring_a_deleted_topic_back(cluster, fetcher):
    topic = cluster.new_topic()
    cluster.produce(topic, [Record(None, b"x", 0)])
    with cluster.consuming(topic, fetcher=fetcher, consumer_timeout_ms=2_000) as (connector, stream):
        take(stream, 1)
        cluster.kafka.delete_topic(topic)
        assert connector.wait_until(lambda status: not status.owned, 60)
        with pytest.raises(ConsumerTimeoutError):
            next(stream)
        assert topic not in cluster.topics()


@on_every_broker
def test_no_command_that_only_reads_creates_a_topic(fresh_cluster, tmp_path):
    """The group has offsets of an existing topic, of a partition that this topic lacks, and of a deleted topic."""
    cluster, store = fresh_cluster, fresh_cluster.store
    topic = cluster.new_topic(2)
    before = cluster.topics()
    for path in (f"{topic}/0", f"{topic}/7", "gone/0"):
        store.create(f"/consumers/looked-at/offsets/{path}", b"0", make_parents=True)
    file = tmp_path / "offsets.json"

    def run(*words):
        done = CliRunner().invoke(main, [*words, "--zookeeper", cluster.kafka.zookeeper_connect])
        assert done.exception is None or isinstance(done.exception, SystemExit), (words, done.exception)
        assert done.exit_code in {0, 1}, (words, done.output)
        assert cluster.topics() == before, words
        return done.output

    for look in LOOKS:
        output = run(*look.format(topic=topic, file=file).split())
        if look == "offsets export looked-at":
            file.write_text(output)
    ends = {(row["topic"], row["partition"]): row["log_end"] for row in json.loads(run(*DESCRIBE))["partitions"]}
    assert ends == {(topic, 0): 0, (topic, 1): 0, (topic, 7): None, ("gone", 0): None}
