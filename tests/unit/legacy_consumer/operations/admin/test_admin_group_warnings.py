"""The description of a group: the kinds of its members, its strategy, and warnings of what cannot work."""

from __future__ import annotations

import json
from contextlib import nullcontext

import pytest
from click.testing import CliRunner

from legacy_consumer.operations.admin.groups import describe_group
from legacy_consumer.operations.cli import groups_describe
from legacy_consumer.operations.cli.main import main
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper

UUID = "0b0b0b0b-0b0b-4b0b-8b0b-0b0b0b0b0b0b"


class NoLogs:
    """Brokers that know no topic."""

    def latest(self, partitions):
        return {}

    def close(self):
        pass


@pytest.fixture
def store():
    made = MemoryStore(MemoryZooKeeper())
    made.start()
    listed = ",".join(f'"{n}":[0]' for n in range(12))
    made.create("/brokers/topics/topic-1", f'{{"version":1,"partitions":{{{listed}}}}}'.encode(), make_parents=True)
    yield made
    made.close()


def register(store, consumer_id, data):
    store.create(f"/consumers/g/ids/{consumer_id}", data, ephemeral=True, make_parents=True)


def static(*topics):
    listed = ",".join(f'"{topic}":1' for topic in topics)
    return f'{{"version":1,"subscription":{{{listed}}},"pattern":"static","timestamp":"1416392398000"}}'.encode()


def own(store, owners):
    for partition, owner in owners.items():
        store.create(f"/consumers/g/owners/topic-1/{partition}", owner.encode(), ephemeral=True, make_parents=True)


def test_a_settled_group_shows_its_strategy_and_nothing_to_worry_about(store):
    for name in ("g_a", "g_b"):
        register(store, name, static("topic-1"))
    own(store, {n: f"g_{'a' if n % 2 else 'b'}-0" for n in range(12)})
    found = describe_group(store, NoLogs(), "g")
    assert found.divides_by == (), "a must have the even ones"
    for n in range(12):
        store.set_data(f"/consumers/g/owners/topic-1/{n}", f"g_{'b' if n % 2 else 'a'}-0".encode())
    found = describe_group(store, NoLogs(), "g")
    assert found.divides_by == ("roundrobin 0.8.2", "roundrobin 0.10.2", "roundrobin 1.0")
    assert {member.divides_by for member in found.members} == {found.divides_by}
    assert found.warnings == ()


def test_foreign_members_and_settings_that_cannot_work_are_named(store):
    register(store, "g_a", static("topic-1", "gone"))
    register(store, f"host:{UUID}", b"topic-1")
    white = rb'{"version":1,"subscription":{"topic\\\\-1":1},"pattern":"white_list","timestamp":"1416392398000"}'
    register(store, "g_w", white)
    own(store, dict.fromkeys(range(12), "g_a-0"))
    found = describe_group(store, NoLogs(), "g")
    assert {member.consumer_id: member.kind for member in found.members} == {
        "g_a": "Kafka 0.8.1+",
        "g_w": "Kafka 1.0.1+",
    }
    assert [(bad.consumer_id, bad.kind) for bad in found.unreadable] == [(f"host:{UUID}", "pykafka")]
    assert [(warning.code, warning.consumer_ids) for warning in found.warnings] == [
        ("foreign_member", (f"host:{UUID}",)),
        ("regex_escaped_twice", ("g_w",)),
        ("missing_topic", ("g_a",)),
    ]


def test_the_command_shows_them(store, monkeypatch):
    register(store, f"host:{UUID}", b"topic-1")
    register(store, f"g_{UUID}", b'{"version":1,"subscription":{"topic-1": 1},"pattern":"white_list","timestamp":"1"}')
    register(store, "g_z", static("topic-1"))
    own(store, {n: f"g_{UUID}" if n < 6 else "g_z-0" for n in range(12)})
    monkeypatch.setattr(groups_describe, "open_store", lambda config: nullcontext(store))
    monkeypatch.setattr(groups_describe, "open_log_offsets", lambda config, store: NoLogs())
    shown = CliRunner().invoke(main, ["groups", "describe", "g", "--zookeeper", "memory:1"])
    assert shown.exit_code == 0, shown.output
    lines = shown.output.splitlines()
    [heading] = [n for n, line in enumerate(lines) if line.startswith("MEMBER")]
    assert lines[heading + 1].split()[:2] == [f"g_{UUID}", "kafka-node"]
    assert lines[heading + 2].split()[:3] == ["g_z", "Kafka", "0.8.1+"]
    assert lines[heading + 3].split()[:2] == [f"host:{UUID}", "pykafka"]
    assert "owners as divided by range" in lines
    warnings = [line for line in lines if line.startswith("warning: ")]
    assert warnings[0].startswith(f"warning: host:{UUID} is of pykafka: members of the JVM fail every rebalance")
    assert "without naming a thread, as kafka-node does" in warnings[1]
    as_json = CliRunner().invoke(main, ["groups", "describe", "g", "--zookeeper", "memory:1", "--json"])
    document = json.loads(as_json.stdout)
    assert [member["kind"] for member in document["members"]] == ["kafka-node", "Kafka 0.8.1+"]
    assert document["divides_by"] == ["range"]
    assert [warning["code"] for warning in document["warnings"]] == ["foreign_member", "owner_without_thread"]
