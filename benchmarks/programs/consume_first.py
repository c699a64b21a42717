"""Join a group and print the first message: consume_first.py ZOOKEEPER TOPIC GROUP"""

from __future__ import annotations

import sys

from legacy_consumer import ConsumerConnector


def main() -> None:
    """Join, print the first message, and leave."""
    zookeeper, topic, group = sys.argv[1:]
    with ConsumerConnector(zookeeper_connect=zookeeper, group_id=group, auto_offset_reset="smallest") as connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        for message in stream:
            sys.stdout.write(f"{(message.value() or b'').decode()}\n")
            sys.stdout.flush()
            break


if __name__ == "__main__":
    main()
