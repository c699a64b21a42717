"""Kafka's own clients use the group coordinator: three members of each client join, leave and are killed."""

import itertools
import json
import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import pytest

from legacy_consumer.fetching.librdkafka import Record
from tests.support import confluent_member
from tests.support.jvm_member import LineProcess
from tests.support.waiting import eventually

pytestmark = pytest.mark.kafka

JAVA_MEMBER = Path(__file__).parent / "java" / "GroupMember.java"
PARTITIONS = 6
EACH = 5
"""Messages that each production writes to each partition."""


@pytest.fixture
def coordinator(cluster):
    """Start a coordinator in front of the cluster's broker, as a user starts it. Yields: its host:port."""
    command = "from legacy_consumer.operations.cli.embedded import embedded; embedded()"
    arguments = ["coordinator", "--json", "--broker", cluster.kafka.bootstrap_servers]
    process = subprocess.Popen(
        [sys.executable, "-c", command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    yield json.loads(process.stdout.readline())["bootstrap_servers"]
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=30) == ("", "")
    assert process.returncode == 0


class Member(LineProcess):
    """A consumer process of either client."""

    @property
    def partitions(self):
        """The partitions of its last assignment; None while it has none."""
        last = next((line for line in reversed(self.lines) if line.startswith(("assigned", "revoked"))), "revoked")
        return None if last == "revoked" else {int(number) for number in last.split()[1:]}

    def end_input(self):
        self._process.stdin.close()

    @property
    def messages(self):
        return [tuple(map(int, line.split()[1:])) for line in self.lines if line.startswith("message")]


def command_of(kind, cluster, topic, properties):
    arguments = [topic, *(f"{name}={value}" for name, value in properties.items())]
    if kind == "java":
        return cluster.kafka.java_command(os.fspath(JAVA_MEMBER), *arguments, flags=("-XX:TieredStopAtLevel=1",))
    return [sys.executable, confluent_member.__file__, *arguments]


@pytest.mark.parametrize(
    ("broker_version", "kind"),
    [
        pytest.param("1.1.1", "java", marks=pytest.mark.long),
        ("1.1.1", "confluent-kafka"),
        ("2.8.2", "java"),
        pytest.param("2.8.2", "confluent-kafka", marks=pytest.mark.long),
        pytest.param("2.8.2", "java, confluent-kafka", marks=pytest.mark.long),
    ],
)
def test_three_members_of_kafkas_own_clients_share_a_group_join_leave_and_are_killed(
    cluster, coordinator, kind, broker_version, tmp_path
):
    topic = cluster.new_topic(PARTITIONS)
    properties = {
        "bootstrap.servers": coordinator,
        "group.id": "judged",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": "false",
        "session.timeout.ms": "6000",
        "heartbeat.interval.ms": "500",
    }
    kinds = kind.split(", ")
    only_javas = {"metadata.max.age.ms": "5000"}
    names = itertools.count()
    with ExitStack() as running:
        members = []

        def start():
            """Start one member of each kind."""
            new = []
            for one in kinds:
                settings = properties | (only_javas if one == "java" else {})
                new.append(Member(f"m{next(names)}", command_of(one, cluster, topic, settings), tmp_path))
                running.callback(new[-1].kill)
            members.extend(new)
            return new

        def share(*started):
            alive = [member for new in started for member in new]
            eventually(lambda: all(member.partitions for member in alive))
            eventually(
                lambda: sorted(p for member in alive for p in member.partitions or ()) == list(range(PARTITIONS))
            )

        produced = itertools.count()

        def everything_arrives():
            number = next(produced)
            cluster.produce(topic, [Record(None, b"%d" % p, p) for p in range(PARTITIONS) for _ in range(EACH)])
            wanted = {(p, offset) for p in range(PARTITIONS) for offset in range(EACH * (number + 1))}
            eventually(lambda: {message for member in members for message in member.messages} == wanted)

        first, second, third = start(), start(), start()
        share(first, second, third)
        everything_arrives()
        for member in second:
            member.end_input()
        eventually(lambda: all("closed" in member.lines for member in second))
        share(first, third)
        everything_arrives()
        for member in first:
            member.kill()
        share(third)
        everything_arrives()
        fourth = start()
        share(third, fourth)
        everything_arrives()
        # a killed member may not have committed the messages of its last moment
        arrived = [message for member in members if member not in first for message in member.messages]
        assert len(arrived) == len(set(arrived)), "every message was committed before its partition went on"
