"""Receive so many messages of a topic and throw them away: consume_socket.py ZOOKEEPER TOPIC MESSAGES

It sends the requests that our columnar fetcher would send, to the one broker, and looks at the heads of the batches
only, which say how many messages there were and where to go on.
"""

from __future__ import annotations

import json
import select
import sys
import time
from pathlib import Path

from legacy_consumer import ConsumerConfig, TopicPartition
from legacy_consumer.wire.factory import BrokerDoor
from legacy_consumer.wire.protocol.fetch import FetchLimits, FetchPartition, FetchSession, decode_fetch, encode_fetch
from legacy_consumer.wire.protocol.framing import Api
from legacy_consumer.wire.records import glance
from legacy_consumer.wire.settings import FetchSettings
from zk_layout.codecs import decode_topic
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import TopicPath

NO_SESSION = FetchSession(0, -1)


def peak_mb() -> float:
    """The most resident memory that this process ever had."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Print the figures as one line of JSON."""
    zookeeper, topic, wanted = sys.argv[1], sys.argv[2], int(sys.argv[3])
    config = ConsumerConfig.load(None, None, zookeeper_connect=zookeeper, group_id="benchmark-socket")
    settings = FetchSettings.of(config)
    store = KazooStore(config.zk_settings())
    store.start()
    path = TopicPath(topic).path
    positions = dict.fromkeys(
        (TopicPartition(topic, number) for number in decode_topic(path, store.get_data(path).data).partitions), 0
    )
    door = BrokerDoor(config, store)
    (address,) = set(door.leaders.read(positions).addresses.values())
    connection = door.open(address)
    version = connection.versions.of(Api.FETCH)
    readable = select.poll()
    readable.register(connection, select.POLLIN)
    size = settings.bytes_of_each(len(positions))
    limits = FetchLimits(
        settings.max_wait_ms, settings.min_bytes, max(settings.response_bytes, size), settings.read_committed
    )
    largest = settings.largest_response_bytes(size * len(positions))
    count = 0
    began = 0.0
    while count < wanted:
        asked = {tp: FetchPartition(position, size) for tp, position in positions.items()}
        body = encode_fetch(version, limits, asked, NO_SESSION)
        connection.send_in(version, Api.FETCH, body, largest_bytes=largest, timeout_s=settings.socket_timeout_s)
        while (frame := connection.receive()) is None:
            readable.poll()
        response = decode_fetch(version, frame)
        began = began or time.perf_counter()
        for tp, answer in response.partitions.items():
            if answer.records:
                position = glance(answer.records, positions[tp])[0]
                count += position - positions[tp]
                positions[tp] = position
    ended = time.perf_counter()
    connection.close()
    store.close()
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
