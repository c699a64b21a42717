"""The tables of docs/assignors.md, made from the code: `python -m tests.support.assignor_tables` updates them."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path

from rebalance.assignors import ASSIGNORS
from rebalance.assignors.checked import divide_group
from rebalance.assignors.seam import Assignor, Cluster, Subscription
from rebalance.assignors.strategies import STRATEGIES, common_protocol, make_assignor
from rebalance.snapshot import GroupSnapshot
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition

DOC = Path(__file__).parents[2] / "docs" / "assignors.md"
TOPICS = {"s": 3, "t": 4}
MEMBERS = ("a", "b", "c")
LEAVES = ("b", "c")
JOINS = ("a", "b", "c", "d")

Shares = Mapping[str, Sequence[TopicPartition]]


class Group:
    """A coordinated group; each rebalance() is its next generation."""

    def __init__(self, strategy: str) -> None:
        self._strategy = strategy
        self._members: dict[str, Assignor] = {}
        self._shares: dict[str, tuple[TopicPartition, ...]] = {}
        self._generation = 0

    def rebalance(self, members: Sequence[str]) -> Shares:
        """Compute the next generation, of these members. Returns: their shares."""
        old, self._members = self._members, {}
        for place, name in enumerate(members):
            # with failover, a must be active first, then b
            properties = {"assignment.consumer.priority": str(100 - place)}
            self._members[name] = old.get(name) or make_assignor(self._strategy, properties)
        topics = tuple(TOPICS)
        told = {
            name: Subscription(
                topics, assignor.subscription_user_data(topics), self._shares.get(name, ()), self._generation
            )
            for name, assignor in self._members.items()
        }
        leader = self._members[members[0]]
        assignment = divide_group(leader, common_protocol((leader,)), Cluster.of_counts(TOPICS), told)
        self._generation += 1
        for name, assignor in self._members.items():
            assignor.on_assignment(assignment[name], self._generation)
        self._shares = {name: assignment[name].partitions for name in members}
        return self._shares


def classic(strategy: str, members: Sequence[str]) -> Shares:
    """Return the shares in a group of classic members with one thread each."""
    registration = ConsumerRegistration(
        pattern=SubscriptionPattern.STATIC, subscription=tuple((topic, 1) for topic in TOPICS), timestamp_ms=0
    )
    group = GroupSnapshot(
        "g", dict.fromkeys(members, registration), {topic: tuple(range(count)) for topic, count in TOPICS.items()}
    )
    owners = ASSIGNORS[strategy](group, "1.0")
    return {name: [tp for tp, thread in owners.items() if thread.consumer_id == name] for name in members}


def columns_of(strategy: str) -> dict[str, Shares]:
    """Return {heading: shares}: three members, then one leaves or one joins."""
    coordination, _, word = strategy.partition(" ")
    if coordination == "classic":
        return {
            "a, b, c": classic(word, MEMBERS),
            "a leaves": classic(word, LEAVES),
            "or d joins": classic(word, JOINS),
        }
    before, leaving, joining = (Group(word) for _ in range(3))
    first = before.rebalance(MEMBERS)
    leaving.rebalance(MEMBERS)
    joining.rebalance(MEMBERS)
    columns = {"a, b, c": first, "a leaves": leaving.rebalance(LEAVES), "or d joins": joining.rebalance(JOINS)}
    if word == "cooperative-sticky":
        columns["then"] = joining.rebalance(JOINS)
    return columns


def table(strategy: str) -> str:
    columns = columns_of(strategy)
    lines = ["| member | " + " | ".join(columns) + " |", "| --- " * (1 + len(columns)) + "|"]
    lines += [
        f"| {name} | "
        + " | ".join(_shown(shares[name]) if name in shares else "" for shares in columns.values())
        + " |"
        for name in JOINS
    ]
    return "\n".join(lines)


def summary() -> str:
    """Return the table of how many partitions remaining members lose."""
    lines = ["| strategy | a leaves: b and c lose | d joins: a, b and c lose |", "| --- | --- | --- |"]
    for strategy in strategies():
        columns = list(columns_of(strategy).values())
        lines.append(f"| {strategy} | {_lost(columns[0], columns[1])} | {_lost(columns[0], columns[-1])} |")
    return "\n".join(lines)


def strategies() -> list[str]:
    return [*(f"classic {word}" for word in ASSIGNORS), *(f"coordinated {word}" for word in STRATEGIES)]


def _lost(before: Shares, after: Shares) -> int:
    return sum(len(set(before[name]) - set(after[name])) for name in before if name in after)


def _shown(share: Sequence[TopicPartition]) -> str:
    """Return a share as text, such as `s/0 1, t/2`."""
    topics = groupby(sorted(share), lambda tp: tp.topic)
    return ", ".join(f"{topic}/" + " ".join(str(tp.partition) for tp in some) for topic, some in topics) or "nothing"


def written(text: str) -> str:
    """Return the document's text with the tables that the code gives."""
    made = {"summary": summary(), **{strategy: table(strategy) for strategy in strategies()}}
    for name, lines in made.items():
        text, count = re.subn(
            rf"(<!-- table: {re.escape(name)} -->\n).*?(\n<!-- end -->)", rf"\g<1>{lines}\g<2>", text, flags=re.DOTALL
        )
        if count != 1:
            raise ValueError(f"{count} places for table {name!r} in {DOC.name}, one wanted")
    return text


if __name__ == "__main__":
    DOC.write_text(written(DOC.read_text(encoding="utf-8")), encoding="utf-8")
