"""Moves the start of a log with DeleteRecords: at once, to an exact offset, and no further.

Retention would delete more messages during a test. Brokers know the request from 0.11 on.
"""

from __future__ import annotations

from confluent_kafka import TopicPartition as RdPartition
from confluent_kafka.admin import AdminClient

from zk_layout.model import TopicPartition

_TIMEOUT_S = 30


def delete_records(bootstrap_servers: str, tp: TopicPartition, before: int) -> None:
    """Make the leader delete all messages before an offset, where the log then begins."""
    client = AdminClient({"bootstrap.servers": bootstrap_servers})
    for done in client.delete_records([RdPartition(tp.topic, tp.partition, before)]).values():
        assert done.result(_TIMEOUT_S).low_watermark == before
