"""A member of a group that prints its deliveries: deliver.py ZOOKEEPER TOPIC GROUP CONSUMER_ID SESSION_TIMEOUT_MS

It prints a line for each partition of each batch: seconds of the machine's monotonic clock, and the partition.
"""

from __future__ import annotations

import sys
import time

from legacy_consumer import ConsumerConnector


def main() -> None:
    """Consume until killed, or until standard output is closed."""
    zookeeper, topic, group, consumer_id, session_timeout_ms = sys.argv[1:]
    connector = ConsumerConnector(
        zookeeper_connect=zookeeper,
        group_id=group,
        consumer_id=consumer_id,
        zookeeper_session_timeout_ms=session_timeout_ms,
        auto_offset_reset="smallest",
        auto_commit_interval_ms="1000",
    )
    (stream,) = connector.create_message_streams({topic: 1})[topic]
    for batch in stream.batches():
        at = time.monotonic()
        for partition in sorted({message.partition() for message in batch}):
            print(at, partition)
        sys.stdout.flush()


if __name__ == "__main__":
    main()
