"""One of two brokers is gone, or comes back at another address."""

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, contextmanager

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.fetching.columnar import ColumnarFetchers
from legacy_consumer.fetching.librdkafka import LibrdkafkaFetchers, produce_all
from tests.support.created_topics import note_topic
from tests.support.fetching import fetch
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import TopicPartition

pytestmark = pytest.mark.kafka


BOTH = (LibrdkafkaFetchers, ColumnarFetchers)
"""Both fetchers share the same brokers, because the end of a session and the start of a broker take long."""


@contextmanager
def open_fetchers(connect):
    """Yield (store, [the fetcher factory of each kind])."""
    config = ConsumerConfig.load(zookeeper_connect=connect, group_id="g", auto_offset_reset="smallest")
    with ExitStack() as stack:
        store = KazooStore(config.zk_settings())
        stack.callback(store.close)
        store.start()
        yield store, [stack.enter_context(closing(make(config, store))) for make in BOTH]


def test_partitions_of_a_broker_that_is_gone_are_missing_and_others_flow():
    with EmbeddedKafka(brokers=2) as kafka:
        kafka.create_topic("t", partitions=2)
        both = [TopicPartition("t", 0), TopicPartition("t", 1)]
        produce_all("t", ((None, b"x", i % 2) for i in range(200)), {"bootstrap.servers": kafka.bootstrap_servers})
        with open_fetchers(kafka.zookeeper_connect) as (_, made):
            lookups, reading = [one.log_offsets() for one in made], [one.fetcher() for one in made]
            for lookup in lookups:
                assert lookup.latest(both) == dict.fromkeys(both, 100)
            kafka.brokers[1].kill()

            def ask(lookup):
                begun = time.monotonic()
                (left,) = lookup.latest(both).items()
                return left, time.monotonic() - begun < 8

            with ThreadPoolExecutor(len(lookups)) as pool:  # both at once, before the broker's session ends
                answers = list(pool.map(ask, lookups))
            alive = answers[0][0][0]
            assert answers == [((alive, 100), True)] * 2
            for fetcher in reading:
                fetcher.assign(dict.fromkeys(both, 0))
                assert set(fetch(fetcher, 100).messages) == {alive}
            kafka.brokers[1].start()
            for fetcher in reading:
                assert set(fetch(fetcher, 100).messages) == set(both) - {alive}


def test_log_ends_are_told_of_a_topic_made_anew_whose_partitions_are_led_by_other_brokers():
    with EmbeddedKafka(brokers=2) as kafka, open_fetchers(kafka.zookeeper_connect) as (_, made):
        kafka.create_topic("t", partitions=2)
        both = [TopicPartition("t", 0), TopicPartition("t", 1)]
        lookups = [one.log_offsets() for one in made]
        assert [lookup.latest(both) for lookup in lookups] == [dict.fromkeys(both, 0)] * 2
        kafka.delete_topic("t")
        brokers = {"bootstrap.servers": kafka.bootstrap_servers}
        note_topic(kafka, "t")
        anew = NewTopic("t", num_partitions=2, replica_assignment=[[1], [0]])
        admin = AdminClient(brokers)
        admin.create_topics([anew])["t"].result(30)
        produce_all("t", ((None, b"x", i % 2) for i in range(200)), brokers)
        assert [lookup.latest(both) for lookup in lookups] == [dict.fromkeys(both, 100)] * 2


@pytest.mark.usefixtures("_lone_broker")
def test_brokers_that_come_back_at_other_addresses_are_followed():
    tp = TopicPartition("t", 0)
    with EmbeddedZooKeeper() as zookeeper, ExitStack() as stack:
        with EmbeddedKafka(zookeeper=zookeeper) as first:
            first.create_topic("t")
            produce_all("t", [(None, b"%d" % i) for i in range(10)], {"bootstrap.servers": first.bootstrap_servers})
            store, made = stack.enter_context(open_fetchers(first.zookeeper_connect))
            reading = [one.fetcher() for one in made]
            for fetcher in reading:
                fetcher.assign({tp: 0})
                assert fetch(fetcher, 10).offsets(tp) == list(range(10))
            old = first.bootstrap_servers
        deadline = time.monotonic() + 90
        while store.get_children("/brokers/ids"):
            assert time.monotonic() < deadline
            for fetcher in reading:
                fetcher.poll(10, 0.1)
        with EmbeddedKafka(zookeeper=zookeeper) as second:
            assert second.bootstrap_servers != old
            # the second broker's log is empty, so the position is behind its end, and is reset to the smallest
            produce_all("t", [(None, b"new")] * 3, {"bootstrap.servers": second.bootstrap_servers})
            for fetcher in reading:
                assert fetch(fetcher, 3, patience_s=60).offsets(tp) == [0, 1, 2]
