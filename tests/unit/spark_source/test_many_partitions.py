"""A plan of very many partitions takes no more requests than a plan of a few, in a batch and in a stream."""

import json

import pytest

from spark_source.messages import batch
from spark_source.messages.batch import ZkMessagesReader, plan_tasks
from spark_source.messages.options import parse_message_options
from spark_source.messages.stream_offsets import NOT_BEGUN
from tests.support.planned_cluster import Brokers, Reachable, Scene
from zk_layout.memory_store import MemoryStore

TOPICS = 100
LOG = (5, 9)


class CountedBrokers(Brokers):
    def earliest(self, partitions):
        self.questions += 1
        return super().earliest(partitions)

    def latest(self, partitions):
        self.questions += 1
        return super().latest(partitions)


def scene_of(partitions):
    scene = Scene()
    scene.brokers = CountedBrokers()
    scene.operator.create("/brokers/ids/0", json.dumps({"host": "h", "port": 1, "version": 1}).encode())
    for topic in range(TOPICS):
        scene.topic(f"t{topic}", *[LOG] * (partitions // TOPICS))
    scene.commit(next(iter(scene.brokers.logs)), 7)
    scene.server.requests.clear()
    return scene


def planned_at_once(scene, monkeypatch):
    def cluster(options):
        return Reachable(options, MemoryStore(scene.server), scene.brokers, scene.brokers)

    monkeypatch.setattr(batch, "Cluster", cluster)
    monkeypatch.setattr(batch, "check_access", lambda *_: None)
    options = {"zookeeper.connect": "m:1", "whitelist": "t.*", "group.id": "g"}
    return len(ZkMessagesReader(parse_message_options(options), ()).partitions())


def planned_as_a_stream(scene, _):
    driver = scene.driver(",".join(f"t{n}" for n in range(TOPICS)), commitOffsets="false")
    end = driver.advance(NOT_BEGUN, None)
    ranges, znodes = driver.tasks(NOT_BEGUN, end)
    assert driver.advance(end, None) == end
    return len(plan_tasks(driver._options, ranges, znodes))


@pytest.mark.parametrize("planned", [planned_at_once, planned_as_a_stream])
def test_very_many_partitions_take_as_many_questions_as_a_few(planned, monkeypatch):
    asked = []
    for partitions in (2 * TOPICS, 40 * TOPICS):
        scene = scene_of(partitions)
        assert planned(scene, monkeypatch) == partitions
        asked.append((dict(scene.server.requests), scene.brokers.questions))
    assert asked[0] == asked[1]
    assert sum(asked[0][0].values()) + asked[0][1] < 30
