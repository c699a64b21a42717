"""The effect of a change of partitions on the consuming thread."""

import select

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.columnar import ColumnarFetchers
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

TP = TopicPartition("t", 0)


@pytest.fixture
def fetcher():
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    fetchers = ColumnarFetchers(ConsumerConfig.load(zookeeper_connect="nowhere:1", group_id="g"), store)
    yield fetchers.fetcher()
    fetchers.close()
    store.close()


def wakes_the_consuming_thread(fetcher):
    return bool(select.select([fetcher._sockets._bell_in], [], [], 0)[0])


def test_giving_partitions_up_does_not_make_the_group_wait_for_the_consuming_thread(fetcher):
    fetcher.unassign([TP])
    assert not wakes_the_consuming_thread(fetcher)


def test_partitions_that_come_wake_it(fetcher):
    fetcher.assign({TP: 0})
    assert wakes_the_consuming_thread(fetcher)
