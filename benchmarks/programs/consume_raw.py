"""Consumes a number of messages with confluent_kafka alone: consume_raw.py ZOOKEEPER TOPIC MESSAGES

librdkafka gets the settings that our fetcher would give it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

import confluent_kafka

from legacy_consumer import ConsumerConfig
from legacy_consumer.fetching.brokers import read_brokers
from legacy_consumer.fetching.librdkafka.settings import SettingsDict, fetcher_settings
from zk_layout.kazoo_store import KazooStore

AT_ONCE = 500
"""Messages per call; librdkafka's binding is fastest with 500 to 1000."""


def settings(zookeeper: str) -> SettingsDict:
    """Return the settings that our fetcher uses for a connector with one stream."""
    config = ConsumerConfig.load(None, None, zookeeper_connect=zookeeper, group_id="benchmark-raw")
    store = KazooStore(config.zk_settings())
    store.start()
    try:
        return fetcher_settings(config, read_brokers(store), streams=1)
    finally:
        store.close()


def peak_mb() -> float:
    """Return the peak resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Print the figures as one line of JSON."""
    zookeeper, topic, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
    consumer = confluent_kafka.Consumer(settings(zookeeper))
    partitions = consumer.list_topics(topic, 10).topics[topic].partitions
    consumer.assign(
        [confluent_kafka.TopicPartition(topic, number, confluent_kafka.OFFSET_BEGINNING) for number in partitions]
    )
    count = size = 0
    began = 0.0
    while count < wanted:
        messages = consumer.consume(AT_ONCE, 1.0)
        if not messages:
            continue
        began = began or time.perf_counter()
        count += len(messages)
        for message in messages:
            size += len(message.value() or b"")
    ended = time.perf_counter()
    consumer.close()
    print(
        json.dumps(
            {
                "messages_per_s": count / (ended - began),
                "peak_mb": peak_mb(),
                "cpu_us_per_message": time.process_time() / count * 1e6,
            }
        )
    )


if __name__ == "__main__":
    main()
