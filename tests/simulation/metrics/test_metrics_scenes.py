"""Compares every metric with the truth, at every scrape, in scenes with all kinds of events and faults."""

from __future__ import annotations

from collections import Counter

import pytest

from legacy_consumer.operations.metrics.catalogue import METRICS
from tests.simulation.metrics.comparison import Comparison, WrongMetricError
from tests.simulation.metrics.scene import Scene
from tests.simulation.metrics.stories import run_story
from zk_layout.model import TopicPartition

SEEDS = 8
TP = TopicPartition("t", 0)


@pytest.fixture
def scene():
    scene = Scene({"t": 1}, judges=[Comparison()])
    yield scene
    scene.end()


def test_every_metric_tells_the_truth_or_is_absent():
    compared = Counter()
    for seed in range(SEEDS):
        compared += run_story(seed)
    unseen = [metric.name for metric in METRICS if not any(name.startswith(metric.name) for name in compared)]
    assert not unseen, "these were never looked at"


def test_messages_deleted_by_retention_do_not_count_as_consumed(scene):
    member = scene.join()
    scene.run(100)
    member.is_stuck = True
    scene.run(100)
    scene.trim(TP)
    member.is_stuck = False
    scene.run(100)
    assert member.counted["consumed"]["t"] < 500 < member.consumed[TP]


def test_a_lag_is_absent_when_brokers_have_not_answered_for_longer_than_a_scrape_waits(scene):
    scene.join()
    scene.run(60)
    scene.brokers.frozen = {0, 1, 2}
    scene.run(120)


def test_an_offset_outside_the_log_is_no_lag_of_0_nor_one_of_messages_that_are_gone(scene):
    scene.leave(scene.join())
    scene.run(100)
    for offset in (0, 10_000):
        scene.commit_by_hand(TP, offset)
        scene.trim(TP, 0.5)
        scene.run(60)


def test_a_topic_that_all_members_left_is_in_no_sum(scene):
    scene.create_topic("old", 2)
    scene.leave(scene.join())
    scene.join(["t"])
    scene.run(60)
    member = scene.join()
    scene.run(100)
    scene.leave(member)
    scene.run(100)
    assert scene.read.folders == {"t", "old"}
    assert scene.read.consumed_topics == {"t"}


def test_an_owner_that_is_no_member_owns_nothing(scene):
    scene.admin.create("/consumers/g/owners/t/0", b"g_gone-0", make_parents=True)
    scene.admin.ensure_path("/consumers/g/ids")
    scene.run(60)
    assert scene.read.owners == {TP: "g_gone"}


def test_a_wrong_metric_is_found(scene):
    member = scene.join()
    scene.run(60)
    member.counted["consumed"]["t"] += 1
    with pytest.raises(WrongMetricError, match="consumed_messages_total"):
        scene.run(60)
