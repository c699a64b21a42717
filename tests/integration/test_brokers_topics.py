"""Looking at a group creates no topic, on brokers that create what they are asked about (Kafka's default)."""

from __future__ import annotations

import pytest

from tests.support.broker_cluster import on_every_broker
from tests.support.program import run_program

pytestmark = pytest.mark.kafka


@on_every_broker
def test_a_deleted_topic_does_not_come_back_because_a_group_is_looked_at(cluster):
    there = cluster.new_topic()
    group = f"g-{there}"
    for topic in (there, f"gone-{there}"):
        cluster.store.create(f"/consumers/{group}/offsets/{topic}/0", b"0", make_parents=True)
    before = {*cluster.topics(), "__consumer_offsets"}  # librdkafka asks for its coordinator, whatever it is used for
    for args in (
        ["groups", "describe", group],
        ["groups", "describe", group, "--kafka-format", "1.1"],
        ["doctor"],
        ["offsets", "reset", group, "--to-earliest"],
    ):
        done = run_program(*args, "--zookeeper", cluster.kafka.zookeeper_connect)
        assert done.code in {0, 1}, done
    assert set(cluster.topics()) <= before
