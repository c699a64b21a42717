"""Consume a topic as any user would: consume_ours.py ZOOKEEPER TOPIC MESSAGES arrow|batches|iterate"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

from legacy_consumer import ConsumerConnector, KafkaStream


def by_batches(stream: KafkaStream, wanted: int) -> tuple[int, int, float]:
    """Consume in batches. Returns: (messages, bytes, time when the first batch came)."""
    count = size = 0
    began = 0.0
    for batch in stream.batches():
        began = began or time.perf_counter()
        count += len(batch)
        for message in batch:
            size += len(message.value() or b"")
        if count >= wanted:
            break
    return count, size, began


def one_by_one(stream: KafkaStream, wanted: int) -> tuple[int, int, float]:
    """Consume message by message. Returns: (messages, bytes, time when the first message came)."""
    messages = iter(stream)
    size = len(next(messages).value() or b"")
    began = time.perf_counter()
    count = 1
    for message in messages:
        count += 1
        size += len(message.value() or b"")
        if count >= wanted:
            break
    return count, size, began


def as_arrow(stream: KafkaStream, wanted: int) -> tuple[int, int, float]:
    """Consume Arrow batches. Returns: (messages, bytes, time when the first batch came)."""
    import pyarrow.compute as pc  # only the Arrow rows need it

    count = size = 0
    began = 0.0
    for batch in stream.arrow_batches():
        began = began or time.perf_counter()
        count += batch.num_rows
        size += pc.sum(pc.binary_length(batch.column("value"))).as_py() or 0
        if count >= wanted:
            break
    return count, size, began


def peak_mb() -> float:
    """Return the peak resident memory of this process in MB."""
    status = Path("/proc/self/status").read_text(encoding="ascii")
    return int(status.partition("VmHWM:")[2].split()[0]) / 1024


def main() -> None:
    """Print the figures as one line of JSON."""
    zookeeper, topic, wanted, way = sys.argv[1:]
    consume = {"arrow": as_arrow, "batches": by_batches, "iterate": one_by_one}[way]
    with ConsumerConnector(
        zookeeper_connect=zookeeper,
        group_id=f"benchmark-{os.getpid()}",
        auto_offset_reset="smallest",
    ) as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        count, _, began = consume(stream, int(wanted))
        ended = time.perf_counter()
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
