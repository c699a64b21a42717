"""Receives a number of messages and drops them: consume_socket.py ZOOKEEPER TOPIC MESSAGES [unpack]

It sends the requests of our columnar fetcher to the one broker, and reads only the headers of the batches, which
contain the number of messages and the next offset. With `unpack` it also checks each batch's CRC, and decompresses the
records or, if they are not compressed, copies them once, while the broker prepares the next response.
"""

from __future__ import annotations

import json
import select
import struct
import sys
import time
from pathlib import Path

import cramjam
from legacy_consumer_native import crc32c

from legacy_consumer import ConsumerConfig, TopicPartition
from legacy_consumer.fetching.columnar.factory import BrokerDoor
from legacy_consumer.fetching.columnar.protocol.fetch import (
    FetchLimits,
    FetchPartition,
    FetchSession,
    decode_fetch,
    encode_fetch,
)
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.records import glance
from legacy_consumer.fetching.columnar.settings import FetchSettings
from zk_layout.codecs import decode_topic
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import TopicPath

NO_SESSION = FetchSession(0, -1)
_LENGTH = struct.Struct(">i")
_CRC = struct.Struct(">I")
_HEAD_BYTES = 12
"""The bytes of offset and length; the length counts the bytes after them."""
_CRC_AT = 17
_CHECKED_FROM = 21
_CODEC_AT = 22
"""The position of the lower byte of the attributes."""
_RECORDS_AT = 61
_DECOMPRESS = {
    1: cramjam.gzip.decompress,
    2: cramjam.snappy.decompress_raw,
    3: cramjam.lz4.decompress,
    4: cramjam.zstd.decompress,
}
"""{codec number in the attributes: decompress}; snappy as librdkafka writes it, without Java's framing."""


def check_and_unpack(records: bytes | memoryview, column: bytearray) -> None:
    """Check each whole batch of format 2, and decompress its records, or copy them to column.

    Raises: ValueError if a batch is damaged.
    """
    view = memoryview(records)
    at = 0
    while at + _RECORDS_AT <= len(view):
        end = at + _HEAD_BYTES + _LENGTH.unpack_from(view, at + 8)[0]
        if end > len(view):
            break
        if crc32c(view[at + _CHECKED_FROM : end]) != _CRC.unpack_from(view, at + _CRC_AT)[0]:
            raise ValueError(f"the batch at byte {at} is damaged")
        packed = view[at + _RECORDS_AT : end]
        # producers do not compress a batch that would not get smaller
        if codec := view[at + _CODEC_AT] & 7:
            _DECOMPRESS[codec](packed)
        else:
            column[:] = packed
        at = end


def peak_mb() -> float:
    """Return the peak resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Print the figures as one line of JSON."""
    zookeeper, topic, wanted, unpacks = sys.argv[1], sys.argv[2], int(sys.argv[3]), len(sys.argv) > 4
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
    column = bytearray()
    count = 0
    began = 0.0

    def ask() -> None:
        asked = {tp: FetchPartition(position, size) for tp, position in positions.items()}
        body = encode_fetch(version, limits, asked, NO_SESSION)
        connection.send_in(version, Api.FETCH, body, largest_bytes=largest, timeout_s=settings.socket_timeout_s)

    ask()
    while count < wanted:
        while (frame := connection.receive()) is None:
            readable.poll()
        response = decode_fetch(version, frame)
        began = began or time.perf_counter()
        received = {tp: answer.records for tp, answer in response.partitions.items() if answer.records}
        for tp, records in received.items():
            position = glance(records, positions[tp])[0]
            count += position - positions[tp]
            positions[tp] = position
        ask()
        if unpacks:
            for records in received.values():
                check_and_unpack(records, column)
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
