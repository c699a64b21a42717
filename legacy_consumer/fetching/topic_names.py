"""Topics that no broker can be asked for. Anybody who may write under /brokers/topics makes one, with any name.

Brokers take names of up to 249 characters, those of 0.8 of up to 255. In Kafka's protocol a longer name than 32,767
bytes cannot be written, and librdkafka ends the whole process over one of more than 512.
"""

from __future__ import annotations

MOST_BYTES = 255
NO_SUCH_NAME = f"no broker takes a topic whose name is longer than {MOST_BYTES} bytes"


def has_a_possible_name(topic: str) -> bool:
    """Whether a broker may be asked for this topic."""
    return len(topic.encode("utf-8", "surrogatepass")) <= MOST_BYTES
