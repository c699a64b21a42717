"""Asks Kafka's own assignors about groups, and records their answers for tests that run without Java.

    python -m tests.support.record_assignments

Writes tests/data/assignments/kafka-clients-VERSION.jsonl.gz, one line for each question: strategy, case, answer, and
the user data that a Java member of that case would send. Groups are drawn from seeds. In some, members leave and join
and topics grow; in each generation, members own what Java assigned in the one before. In others, members send nonsense.
"""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from legacy_consumer.embedded import find_java, kafka_jars

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "tests" / "unit" / "rebalance" / "testdata" / "Assign.java"
FOLDER = ROOT / "tests" / "data" / "assignments"
VERSIONS = ("2.8.2", "3.9.1")
STICKY = ("sticky", "cooperative-sticky")

Case = dict[str, Any]


class Java:
    """A process of Assign.java."""

    def __init__(self, version: str) -> None:
        jars = os.pathsep.join(map(os.fspath, kafka_jars(version)))
        self.process = subprocess.Popen(
            [os.fspath(find_java()), "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-cp", jars, os.fspath(SOURCE)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )

    def ask(self, strategy: str, case: Case) -> dict[str, Any]:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps({"strategy": strategy, "case": case}) + "\n")
        self.process.stdin.flush()
        told: dict[str, Any] = json.loads(self.process.stdout.readline())
        return {"strategy": strategy, "case": case, **told}

    def close(self) -> None:
        self.process.communicate()


def made_group(rng: random.Random) -> Case:
    topics = {name: rng.choice((0, 1, 2, 3, 4, 6, 7, 12)) for name in rng.sample(["a", "b.c", "t", "t-10", "t-2"], 3)}
    alike = rng.random() < 0.5
    members = {}
    for number in range(1, rng.randint(2, 8)):
        wanted = list(topics) if alike else rng.sample(list(topics), rng.randint(1, len(topics)))
        members[made_id(rng, number)] = {"topics": sorted(wanted)}
    return {"topics": dict(sorted(topics.items())), "members": members}


def made_id(rng: random.Random, number: int) -> str:
    return f"m{number}" if rng.random() < 0.7 else f"consumer-{number}-{rng.getrandbits(64):016x}"


def next_generation(rng: random.Random, case: Case, answer: dict[str, str], generation: int) -> Case:
    """Return the group after a random change; its members own what the answer assigned to them."""
    topics = dict(case["topics"])
    members = {}
    for name, member in case["members"].items():
        owned: dict[str, list[int]] = {}
        for partition, owner in answer.items():
            if owner == name:
                topic, _, number = partition.rpartition("/")
                owned.setdefault(topic, []).append(int(number))
        members[name] = {"topics": member["topics"], "owned": owned, "generation": generation}
    match rng.choice(("leave", "leave", "join", "join", "join two", "grow", "delete", "unsubscribe", "nothing")):
        case "leave" if len(members) > 1:
            del members[rng.choice(list(members))]
        case "join" | "join two" as word:
            for number in range(2 if word == "join two" else 1):
                like = rng.choice(list(members.values()))
                members[made_id(rng, 10 * generation + number)] = {"topics": like["topics"]}
        case "grow":
            topics[rng.choice(list(topics))] += rng.randint(1, 4)
        case "delete" if len(topics) > 1:
            del topics[rng.choice(list(topics))]
        case "unsubscribe":
            member = rng.choice(list(members.values()))
            member["topics"] = member["topics"][:-1] or member["topics"]
    return {"topics": topics, "members": members}


def confused_group(rng: random.Random) -> Case:
    """Return a group whose members claim others' partitions, foreign or deleted topics, and an old generation."""
    case = made_group(rng)
    for member in case["members"].values():
        if rng.random() < 0.8:
            member["owned"] = {
                topic: sorted(rng.sample(range(14), rng.randint(0, 4)))
                for topic in rng.sample([*case["topics"], "gone"], 2)
            }
        if rng.random() < 0.8:
            member["generation"] = rng.choice((6, 7, 7, 7))
    return case


def questions(java: Java) -> Iterator[dict[str, Any]]:
    for seed in range(120):
        rng = random.Random(seed)
        case = made_group(rng)
        for member in case["members"].values():
            if rng.random() < 0.15:
                member["instance_id"] = f"i{rng.randint(0, 99)}"
        yield java.ask("range", case)
        yield java.ask("roundrobin", case)
    for seed in range(50):
        for strategy in STICKY:
            rng = random.Random(1000 + seed)
            case = made_group(rng)
            for generation in range(1, 6):
                told = java.ask(strategy, case)
                yield told
                case = next_generation(rng, case, told["answer"], generation)
    for seed in range(60):
        for strategy in STICKY:
            yield java.ask(strategy, confused_group(random.Random(2000 + seed)))


def record(version: str) -> Path:
    java = Java(version)
    lines = [json.dumps(told, separators=(",", ":")) for told in questions(java)]
    java.close()
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"kafka-clients-{version}.jsonl.gz"
    # mtime 0, so that the same answers give the same bytes
    path.write_bytes(gzip.compress("".join(f"{line}\n" for line in lines).encode(), mtime=0))
    return path


if __name__ == "__main__":
    for version in sys.argv[1:] or VERSIONS:
        written = record(version)
        sys.stdout.write(f"{written.relative_to(ROOT)}: {written.stat().st_size} bytes\n")
