"""How a member notices that brokers come and go."""

import logging

import pytest

from legacy_consumer.member.broker_watch import BrokerWatch
from tests.support.member_cluster import MemberCluster
from tests.support.waiting import eventually
from zk_layout.errors import ConnectionLostError, NotPermittedError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper

BROKER = b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'


def register(store, broker_id):
    store.create(f"/brokers/ids/{broker_id}", BROKER, make_parents=True)


@pytest.fixture
def store():
    made = MemoryStore(MemoryZooKeeper())
    made.start()
    yield made
    made.close()


@pytest.fixture
def watched(store):
    """Return a function that starts a watch on a store, and returns it with the list of what it reports."""
    watches = []

    def start(over=store):
        told = []
        watches.append(BrokerWatch(over, "g_a", told.append))
        watches[-1].start()
        return watches[-1], told

    yield start
    for one in watches:
        one.close()


def test_brokers_that_are_registered_at_the_start_are_no_change(store, watched):
    register(store, 1)
    watch, told = watched()
    eventually(lambda: watch.brokers == (1,))
    assert told == []


def test_brokers_that_come_and_go_are_told_each_time(store, watched, caplog):
    caplog.set_level(logging.INFO)
    register(store, 1)
    watch, told = watched()
    eventually(lambda: watch.brokers == (1,))
    register(store, 10)
    eventually(lambda: told == [[]])
    store.delete("/brokers/ids/1")
    eventually(lambda: told == [[], [1]])
    assert watch.brokers == (10,)
    assert "g_a: brokers that came: [10]; registered now: [1, 10]" in caplog.text
    assert "g_a: brokers that left: [1]; registered now: [10]" in caplog.text


def test_brokers_are_noticed_in_a_zookeeper_that_has_never_had_any(store, watched):
    watch, _ = watched()
    eventually(lambda: watch._is_known)
    register(store, 3)
    eventually(lambda: watch.brokers == (3,))


def test_the_list_is_read_until_zookeeper_answers(store, watched, monkeypatch):
    monkeypatch.setattr("legacy_consumer.member.broker_watch._PAUSE_S", 0.001)
    register(store, 1)
    left = [ConnectionLostError("connection lost")] * 3

    class Store:
        def get_children(self, path, watcher):
            if left:
                raise left.pop()
            return store.get_children(path, watcher)

    watch, _ = watched(Store())
    eventually(lambda: watch.brokers == (1,))


def test_a_list_that_an_acl_closes_for_a_while_is_watched_again(store, watched, monkeypatch, caplog):
    monkeypatch.setattr("legacy_consumer.member.broker_watch._PAUSE_S", 0.001)
    register(store, 1)
    tries = []

    class Store:
        is_closed = False

        def get_children(self, path, watcher):
            if self.is_closed:
                tries.append(path)
                raise NotPermittedError(path)
            return store.get_children(path, watcher)

    behind = Store()
    watch, told = watched(behind)
    eventually(lambda: watch.brokers == (1,))
    behind.is_closed = True
    register(store, 2)
    eventually(lambda: len(tries) > 2)
    behind.is_closed = False
    eventually(lambda: watch.brokers == (1, 2))
    store.delete("/brokers/ids/1")
    eventually(lambda: told == [[], [1]])
    assert caplog.text.count("g_a: cannot watch the brokers") == 1


def test_a_broker_that_leaves_is_in_status_told_to_the_fetchers_and_moves_no_partition():
    cluster = MemberCluster({"t": 2})
    register(cluster.admin, 1)
    register(cluster.admin, 2)
    try:
        connector, _ = cluster.join()
        eventually(lambda: connector.status.brokers == (1, 2))
        before = connector.status
        cluster.admin.delete("/brokers/ids/2")
        assert connector.wait_until(lambda status: status.brokers == (1,), 60)
        eventually(lambda: connector._fetchers.gone == [[2]])
        assert (connector.status.rebalances, connector.status.owned) == (before.rebalances, before.owned)
    finally:
        cluster.close()
