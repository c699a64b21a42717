"""Topic names for which no broker can be asked. Any client that may write under /brokers/topics can create one.

Brokers accept names of up to 249 characters, brokers of 0.8 up to 255. Kafka's protocol cannot hold a name longer
than 32,767 bytes, and librdkafka ends the whole process for a name longer than 512.
"""

from __future__ import annotations

MOST_BYTES = 255
NO_SUCH_NAME = f"no broker takes a topic whose name is longer than {MOST_BYTES} bytes"


def has_a_possible_name(topic: str) -> bool:
    """Return whether a broker may be asked for this topic."""
    return len(topic.encode("utf-8", "surrogatepass")) <= MOST_BYTES
