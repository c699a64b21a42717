"""A fetcher while no messages come. Time is the world's, so wake-ups and requests can be counted."""

import random

import pytest

from tests.support.wire_world import MAX_WAIT_MS, World

AT_REST_S = 10.0
ANSWERS = AT_REST_S * 1000 / MAX_WAIT_MS


class Scene:
    """A fetcher whose messages have all been taken."""

    def __init__(self, world, monkeypatch):
        self.world = world
        self.taken = 0
        self.waits = 0
        wait = world.wait

        def counted_wait(*arguments):
            self.waits += 1
            wait(*arguments)

        monkeypatch.setattr(world, "wait", counted_wait)
        world.fetcher.assign(dict.fromkeys(world.partitions, 0))
        self.take_all()

    def poll(self):
        batch = self.world.fetcher.poll(100, 0.5)
        self.taken += 0 if batch is None else len(batch.messages())

    def take_all(self):
        for _ in range(1000):
            if self.taken == sum(map(len, self.world.logs.values())):
                return
            self.poll()
        raise AssertionError(f"{self.taken} messages came")

    def rest(self):
        began = self.world.now
        assert self.world.fetcher.poll(100, AT_REST_S) is None
        return self.world.now - began


@pytest.fixture
def scene(monkeypatch):
    with World(random.Random(1), brokers=1) as world:
        yield Scene(world, monkeypatch)


def test_a_fetcher_at_rest_wakes_for_each_empty_answer(scene):
    (broker,) = scene.world.brokers
    waits, fetches, reads = scene.waits, broker.calls["fetch"], scene.world.zookeeper_reads
    assert scene.rest() == pytest.approx(AT_REST_S)
    assert broker.calls["fetch"] - fetches <= ANSWERS + 1
    # two more waits: one as the poll begins, one for its end
    assert scene.waits - waits <= ANSWERS + 3
    assert scene.world.zookeeper_reads == reads


def test_a_wake_ends_one_poll_also_if_it_comes_before_it(scene):
    scene.world.fetcher.wake()
    assert scene.rest() < 1
    assert scene.rest() == pytest.approx(AT_REST_S)


def test_a_signal_handler_may_wake_a_fetcher_whatever_it_interrupts(scene):
    fetcher = scene.world.fetcher
    assert fetcher._lock.acquire(timeout=1)
    try:
        fetcher.wake()
    finally:
        fetcher._lock.release()
