"""The same short story on every broker version: produce, find the log's ends, fetch from the middle."""

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.embedded import KAFKA_VERSIONS, EmbeddedKafka
from legacy_consumer.fetcher import EARLIEST
from legacy_consumer.librdkafka import LibrdkafkaFetchers, Record, produce_all, read_brokers
from legacy_consumer.librdkafka.settings import client_settings
from legacy_consumer.wire import ColumnarFetchers
from tests.support.fetching import fetch
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import TopicPartition

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("version", KAFKA_VERSIONS)
def test_every_broker_version_is_spoken_to(version):
    with EmbeddedKafka(version) as kafka:
        kafka.create_topic("t", partitions=3)
        config = ConsumerConfig.load(zookeeper_connect=kafka.zookeeper_connect, group_id="g")
        store = KazooStore(config.zk_settings())
        store.start()
        try:
            settings = client_settings(config, read_brokers(store))
            records = [Record(b"k%d" % i, b"v%d" % i, partition=i % 3) for i in range(3000)]
            assert produce_all("t", records, settings) == 3000

            for make in (LibrdkafkaFetchers, ColumnarFetchers):
                fetchers = make(config, store)
                asked = [TopicPartition("t", p) for p in range(4)]
                log_offsets = fetchers.log_offsets()
                assert log_offsets.latest(asked) == dict.fromkeys(asked[:3], 1000)
                assert log_offsets.earliest(asked) == dict.fromkeys(asked[:3], 0)

                fetcher = fetchers.fetcher()
                fetcher.assign({asked[0]: 990, asked[1]: EARLIEST, asked[2]: 1000})
                got = fetch(fetcher, 1010)
                assert [m.offset() for m in got.messages[asked[0]]] == list(range(990, 1000))
                assert [m.offset() for m in got.messages[asked[1]]] == list(range(1000))
                assert got.positions == {asked[0]: 1000, asked[1]: 1000}
                assert {(m.key(), m.value()) for m in got.messages[asked[1]]} == {
                    (b"k%d" % i, b"v%d" % i) for i in range(1, 3000, 3)
                }
                fetchers.close()
        finally:
            store.close()
