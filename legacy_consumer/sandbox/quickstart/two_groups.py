"""One topic and two groups: every group gets each message once, and the members of a group share them.

So a topic is a queue for the members of one group, and a broadcast to all groups, both at once.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass

from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.librdkafka import produce_all
from legacy_consumer.fetching.librdkafka.producer import Record
from legacy_consumer.member.connector import ConsumerConnector
from legacy_consumer.member.kafka_stream import KafkaStream
from legacy_consumer.sandbox.quickstart.errors import QuickstartError

TOPIC = "letters"
KEYS = ("1", "2", "3")
"""A message and a partition for each."""
GROUPS = {"group1": 1, "group2": 3}
"""{group: members}."""

_PATIENCE_S = 60.0
_LOOK_S = 0.1


@dataclass(frozen=True, slots=True)
class TwoGroups:
    """received: {group: {member: the keys of the messages that it received, in order}}."""

    received: Mapping[str, Mapping[str, tuple[str, ...]]]

    @property
    def failures(self) -> tuple[str, ...]:
        """Return the failures; empty if there are none."""
        failures = []
        for group, members in self.received.items():
            if sorted(key for keys in members.values() for key in keys) != sorted(KEYS):
                failures.append(f"{group} did not get each message of {TOPIC} once: {dict(members)}")
            if len({len(keys) for keys in members.values()}) != 1:
                failures.append(f"the members of {group} did not share {TOPIC} evenly: {dict(members)}")
        return tuple(failures)


def read_twice(kafka: EmbeddedKafka) -> TwoGroups:
    """Let both groups join, produce a message for each partition, and record which member gets which message.

    Raises: QuickstartError if a group does not settle or misses a message within a minute; LegacyConsumerError.
    """
    kafka.create_topic(TOPIC, partitions=len(KEYS))
    with ExitStack() as stack:
        streams: dict[tuple[str, str], KafkaStream] = {}
        members = {}
        for group, count in GROUPS.items():
            for number in range(1, count + 1):
                name = f"{group}-{number}"
                members[name] = stack.enter_context(_join(kafka.zookeeper_connect, group, name))
                [streams[group, name]] = members[name].create_message_streams({TOPIC: 1})[TOPIC]
        for group, name in streams:
            _await_share(members[name], name, len(KEYS) // GROUPS[group])
        records = [Record(key.encode(), f"letter {key}".encode(), number) for number, key in enumerate(KEYS)]
        produce_all(TOPIC, records, {"bootstrap.servers": kafka.bootstrap_servers})
        return TwoGroups(_receive(streams))


def _join(zookeeper: str, group: str, name: str) -> ConsumerConnector:
    return ConsumerConnector(
        zookeeper_connect=zookeeper, group_id=group, consumer_id=name, auto_offset_reset="smallest"
    )


def _await_share(member: ConsumerConnector, name: str, share: int) -> None:
    if not member.wait_until(lambda status: len(status.owned) == share, _PATIENCE_S):
        raise QuickstartError(f"{name} does not own its {share} of {len(KEYS)} partitions after {_PATIENCE_S:g} s")


def _receive(streams: Mapping[tuple[str, str], KafkaStream]) -> dict[str, dict[str, tuple[str, ...]]]:
    """Read until each group has as many messages as were produced."""
    received: dict[str, dict[str, tuple[str, ...]]] = {group: {} for group in GROUPS}
    batches = {member: stream.batches(timeout=_LOOK_S) for member, stream in streams.items()}
    deadline = time.monotonic() + _PATIENCE_S
    while any(sum(map(len, members.values())) < len(KEYS) for members in received.values()):
        if time.monotonic() > deadline:
            raise QuickstartError(f"not all messages of {TOPIC} came within {_PATIENCE_S:g} s: {received}")
        for (group, name), of_member in batches.items():
            keys = tuple((message.key() or b"").decode() for message in next(of_member))
            received[group][name] = received[group].get(name, ()) + keys
    return received
