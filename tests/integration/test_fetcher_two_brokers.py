"""What one of two brokers cannot answer, and brokers that come back elsewhere."""

import time

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.librdkafka import LibrdkafkaFetchers, produce_all
from legacy_consumer.wire import ColumnarFetchers
from tests.support.fetching import fetch
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import TopicPartition

pytestmark = pytest.mark.kafka


on_both_fetchers = pytest.mark.parametrize("make", [LibrdkafkaFetchers, ColumnarFetchers])


def open_fetchers(make, connect):
    config = ConsumerConfig.load(zookeeper_connect=connect, group_id="g", auto_offset_reset="smallest")
    store = KazooStore(config.zk_settings())
    store.start()
    return store, make(config, store)


@on_both_fetchers
def test_partitions_of_a_broker_that_is_gone_are_missing_and_others_flow(make):
    with EmbeddedKafka(brokers=2) as kafka:
        kafka.create_topic("t", partitions=2)
        both = [TopicPartition("t", 0), TopicPartition("t", 1)]
        produce_all("t", ((None, b"x", i % 2) for i in range(200)), {"bootstrap.servers": kafka.bootstrap_servers})
        store, fetchers = open_fetchers(make, kafka.zookeeper_connect)
        try:
            lookup, fetcher = fetchers.log_offsets(), fetchers.fetcher()
            assert lookup.latest(both) == dict.fromkeys(both, 100)
            kafka.brokers[1].kill()
            begun = time.monotonic()
            (alive,) = lookup.latest(both).items()
            assert time.monotonic() - begun < 8
            assert alive[1] == 100
            fetcher.assign(dict.fromkeys(both, 0))
            assert set(fetch(fetcher, 100).messages) == {alive[0]}
            kafka.brokers[1].start()
            assert set(fetch(fetcher, 100).messages) == set(both) - {alive[0]}
        finally:
            fetchers.close()
            store.close()


@on_both_fetchers
def test_brokers_that_come_back_at_other_addresses_are_followed(make):
    tp = TopicPartition("t", 0)
    with EmbeddedZooKeeper() as zookeeper:
        with EmbeddedKafka(zookeeper=zookeeper) as first:
            first.create_topic("t")
            produce_all("t", [(None, b"%d" % i) for i in range(10)], {"bootstrap.servers": first.bootstrap_servers})
            store, fetchers = open_fetchers(make, first.zookeeper_connect)
            fetcher = fetchers.fetcher()
            fetcher.assign({tp: 0})
            assert fetch(fetcher, 10).offsets(tp) == list(range(10))
            old = first.bootstrap_servers
        try:
            deadline = time.monotonic() + 30
            while store.get_children("/brokers/ids"):
                assert time.monotonic() < deadline
                fetcher.poll(10, 0.1)
            with EmbeddedKafka(zookeeper=zookeeper) as second:
                assert second.bootstrap_servers != old
                # its log begins anew, so the position lies behind its end: reset to the smallest
                produce_all("t", [(None, b"new")] * 3, {"bootstrap.servers": second.bootstrap_servers})
                assert fetch(fetcher, 3, patience_s=60).offsets(tp) == [0, 1, 2]
        finally:
            fetchers.close()
            store.close()
