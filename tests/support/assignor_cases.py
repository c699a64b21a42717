"""Groups for assignors, from cases as `legacy-consumer assign --coordination kafka` reads them, and their results."""

from __future__ import annotations

import gzip
import json
from collections import Counter
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

from rebalance.assignors.checked import divide_group
from rebalance.assignors.seam import Assignor, Cluster, GroupAssignment, RebalanceProtocol, Subscription
from zk_layout.model import TopicPartition

RECORDINGS = Path(__file__).parents[1] / "data" / "assignments"
Case = Mapping[str, Any]


@cache
def recorded(version: str) -> list[dict[str, Any]]:
    """Return the recorded answers of Kafka's own assignors: {strategy, case, answer or error, user_data}."""
    text = gzip.decompress((RECORDINGS / f"kafka-clients-{version}.jsonl.gz").read_bytes())
    return [json.loads(line) for line in text.splitlines()]


def owned_by(member: Mapping[str, Any]) -> tuple[TopicPartition, ...]:
    return tuple(sorted(TopicPartition(topic, n) for topic, some in member.get("owned", {}).items() for n in some))


def subscriptions_of(case: Case, user_data: Mapping[str, str], *, tells_owned: bool) -> dict[str, Subscription]:
    """Return the subscriptions that Java members would send. tells_owned: with owned partitions (cooperative)."""
    return {
        name: Subscription(
            tuple(member["topics"]),
            bytes.fromhex(user_data.get(name, "")),
            owned_by(member) if tells_owned else (),
            instance_id=member.get("instance_id"),
        )
        for name, member in case["members"].items()
    }


def divide(assignor: Assignor, cluster: Cluster, subscriptions: Mapping[str, Subscription]) -> dict[str, str]:
    """Return {"topic/partition": member} of an eager group."""
    return holders(divide_group(assignor, RebalanceProtocol.EAGER, cluster, subscriptions))


def holders(assignment: GroupAssignment) -> dict[str, str]:
    return {str(partition): name for name, share in assignment.items() for partition in share.partitions}


def unevenness(answer: Mapping[str, str]) -> int:
    return sum(size * size for size in Counter(answer.values()).values())


def kept(case: Case, answer: Mapping[str, str]) -> int:
    """Return how many partitions stay with a member that says it owns them."""
    return sum(answer.get(str(tp)) == name for name, member in case["members"].items() for tp in owned_by(member))
