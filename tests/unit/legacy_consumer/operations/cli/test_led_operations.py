"""Operators' commands show the state of a group that a member leads, and work as with every other group."""

import json
import threading

import pytest

from legacy_consumer.errors import MigrationRefusedError
from legacy_consumer.operations.admin.migration import (
    Choices,
    Direction,
    Sides,
    apply_migration,
    look_at,
    make_plan,
)
from legacy_consumer.operations.metrics.exporter.cluster_reader import ClusterReader
from legacy_consumer.operations.metrics.exporter.judging import ClusterJudge, Judging, Logs
from legacy_consumer.operations.metrics.exporter.rendering import render_groups
from rebalance.clock import SystemClock
from tests.support.fake_group_offsets import FakeGroupOffsets
from tests.support.led_cluster import TPS, LedCluster
from tests.support.memory_cluster import BROKER, STATE, MemoryCluster
from tests.support.migration_world import Logs as KafkaLogs
from tests.support.waiting import eventually

WRITE = ("--execute", "--no-backup")
JVM = '{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'


class Operated(LedCluster):
    """A led group, and the command line over the same ZooKeeper."""

    def __init__(self, monkeypatch):
        super().__init__(partition_assignment_strategy="sticky", auto_commit_interval_ms=60_000)
        self.commands = MemoryCluster(monkeypatch)
        self.commands.server, self.commands.store = self.zookeeper, self.admin
        self.commands.put("/brokers/ids/0", BROKER)
        self.commands.put("/controller", '{"version":1,"brokerid":0,"timestamp":"1"}')
        for tp in TPS:
            self.commands.put(f"/brokers/topics/t/partitions/{tp.partition}/state", STATE)
            self.commands.logs[tp] = (0, 20)
        self.run = self.commands.run

    def described(self, group="g"):
        return json.loads(self.run("groups", "describe", group, "--json").out)


@pytest.fixture
def cluster(monkeypatch):
    cluster = Operated(monkeypatch)
    yield cluster
    cluster.close(0.5)


def test_describe_shows_coordination_generation_state_and_leader_of_a_led_group(cluster):
    members = [cluster.join(consumer_id=f"m{n}")[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    generation = cluster.generation().number
    found = cluster.described()
    assert found["coordination"] == "leader"
    assert found["led"] == {
        "leader": cluster.leader(),
        "generation": generation,
        "strategy": "sticky",
        "state": "Stable",
        "members": 2,
        "refused": {},
        "follow_no_leader": [],
        "problem": None,
    }
    line = f"coordination: led by {cluster.leader()}: generation {generation}, by sticky, Stable, 2 members joined"
    assert line in cluster.run("groups", "describe", "g").out.splitlines()


def test_describe_shows_that_a_group_goes_by_the_classic_rule_and_why(cluster):
    first, _ = cluster.join(consumer_id="m0")
    jvm = cluster.commands.new_store()
    cluster.commands.put("/consumers/g/ids/g_jvm", JVM, store=jvm, ephemeral=True)
    eventually(lambda: len(first.status.owned) == 3)
    found = cluster.described()
    assert (found["coordination"], found["led"]["follow_no_leader"]) == ("classic", ["g_jvm"])
    text = cluster.run("groups", "describe", "g").out
    assert "coordination: classic, for these follow no leader: g_jvm" in text.splitlines()
    cluster.commands.join("plain", "a", '{"t":1}')
    assert (cluster.described("plain")["coordination"], cluster.described("plain")["led"]) == ("classic", None)
    assert "coordination" not in cluster.run("groups", "describe", "plain").out


def test_verify_misses_a_strategy_of_kafka_only_where_members_choose_the_owners_by_one(cluster):
    first, _ = cluster.join(consumer_id="m0")
    cluster.await_shares([6], first)
    led = cluster.admin.get_data("/consumers/g/ids/g_m0").data
    store = cluster.commands.new_store()
    for group, one, other in (("led", led, led), ("classic", JVM, JVM), ("both", led, JVM)):
        for name, registration, partitions in (("a", one, (0, 1, 2, 3, 4)), ("b", other, (5,))):
            cluster.commands.put(f"/consumers/{group}/ids/{name}", registration, store=store, ephemeral=True)
            for number in partitions:
                path = f"/consumers/{group}/owners/t/{number}"
                cluster.commands.put(path, f"{name}-0", store=store, ephemeral=True)
    said = {group: cluster.run("groups", "verify", group) for group in ("led", "classic", "both")}
    assert {group: done.code for group, done in said.items()} == {"led": 0, "classic": 0, "both": 0}
    assert [group for group, done in said.items() if "no strategy of Kafka" in done.out] == ["classic", "both"]


def test_describe_shows_a_led_group_that_rebalances_one_without_a_leader_and_unreadable_znodes(cluster):
    first, _ = cluster.join(consumer_id="m0")
    cluster.await_shares([6], first)
    store = cluster.commands.new_store()
    registration = cluster.admin.get_data("/consumers/g/ids/g_m0").data
    for group in ("waiting", "headless", "garbled"):
        cluster.commands.put(f"/consumers/{group}/ids/a", registration, store=store, ephemeral=True)
    top = "/consumers/{}/coordination/{}"
    cluster.commands.put(top.format("waiting", "leader"), "a", store=store, ephemeral=True)
    cluster.commands.put(top.format("waiting", "members/a"), "{}", store=store, ephemeral=True)
    cluster.commands.put(top.format("waiting", "round"), '{"version":1,"round":1,"joined":[],"refused":{"b":"why"}}')
    cluster.commands.put(top.format("garbled", "generation"), "[")
    waiting, headless, garbled = (cluster.described(group)["led"] for group in ("waiting", "headless", "garbled"))
    assert (waiting["state"], waiting["leader"], waiting["refused"]) == ("PreparingRebalance", "a", {"b": "why"})
    assert (headless["state"], headless["leader"], headless["generation"]) == ("Empty", None, 0)
    assert "/consumers/garbled/coordination/generation" in garbled["problem"]
    assert "nobody leads now" in cluster.run("groups", "describe", "headless").out
    assert "refused: b: why" in cluster.run("groups", "describe", "waiting").out


def test_the_exporter_tells_coordination_generation_and_state_of_each_kind_of_group(cluster):
    first, _ = cluster.join(consumer_id="m0")
    cluster.await_shares([6], first)
    cluster.commands.join("plain", "a", '{"t":1}')
    read = ClusterReader().read(cluster.admin)
    judged = ClusterJudge(Judging()).judge(read, Logs(), 0)
    lines = render_groups(judged, {}, with_partitions=False).decode().splitlines()
    told = [line for line in lines if not line.startswith("#") and ("coordination" in line or "led_" in line)]
    assert told == [
        'legacy_consumer_group_coordination{group="g",coordination="leader"} 1',
        'legacy_consumer_group_coordination{group="plain",coordination="classic"} 1',
        'legacy_consumer_group_led_state{group="g",state="Stable"} 1',
    ]
    assert f'legacy_consumer_group_generation{{group="g"}} {cluster.generation().number}' in lines
    assert 'legacy_consumer_group_has_leader{group="g"} 1' in lines


def test_verify_members_and_doctor_find_nothing_wrong_with_a_led_group(cluster):
    members = [cluster.join(consumer_id=f"m{n}")[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    done = cluster.run("groups", "verify", "g")
    assert done.code == 0, done
    assert "legacy-consumer, led" in cluster.run("groups", "members", "g", "--format", "csv").out
    assert cluster.run("doctor", "--json").out == "[]\n"


def test_members_of_a_led_group_follow_a_live_reset(cluster):
    members = [cluster.join(consumer_id=f"m{n}") for n in range(2)]
    connectors = [connector for connector, _ in members]
    cluster.await_shares([3, 3], *connectors)
    for connector in connectors:
        connector.commit_offsets(dict.fromkeys(connector.status.owned, 20))
    got, lock = set(), threading.Lock()

    def consume(stream):
        for message in stream:
            with lock:
                got.add((message.partition(), message.offset()))

    threads = [threading.Thread(target=consume, args=(stream,), daemon=True) for _, stream in members]
    for thread in threads:
        thread.start()
    done = cluster.run("offsets", "reset", "g", "--live", "--to-offset", "15", *WRITE)
    assert done.code == 0, done
    eventually(lambda: got >= {(tp.partition, offset) for tp in TPS for offset in range(15, 20)})
    cluster.await_shares([3, 3], *connectors)


def test_a_led_group_is_copied_pruned_and_deleted_with_all_that_its_leader_wrote(cluster, monkeypatch):
    first, _ = cluster.join(consumer_id="m0")
    cluster.await_shares([6], first)
    first.commit_offsets(dict.fromkeys(TPS, 7))
    for refused in (("groups", "delete", "g"), ("offsets", "reset", "g", "--to-earliest")):
        done = cluster.run(*refused, *WRITE)
        assert done.code != 0, "a group with members is neither deleted nor reset"
        assert "(g_m0)" in done.err
    assert cluster.run("groups", "prune", "--older-than", "1d", *WRITE).code == 0
    assert cluster.admin.exists("/consumers/g") is not None, "a group with members is not pruned"
    done = cluster.run("offsets", "copy", "g", "h", *WRITE)
    assert done.code == 0, done
    assert cluster.admin.get_data("/consumers/h/offsets/t/0").data == b"7"
    first.shutdown()
    assert cluster.admin.exists("/consumers/g/coordination/generation") is not None
    # the earlier of ZooKeeper's clock and this machine's clock counts, so both must advance
    later_ms = SystemClock().wall_ms() + 2 * 86_400_000
    monkeypatch.setattr(cluster.zookeeper.tree, "_wall_ms", lambda: later_ms)
    monkeypatch.setattr(SystemClock, "wall_ms", lambda _: later_ms)
    done = cluster.run("groups", "prune", "--older-than", "1d", "--name", "g", *WRITE)
    assert (done.code, "Deleted: g" in done.out) == (0, True), done
    assert cluster.admin.exists("/consumers/g") is None
    second, _ = cluster.join(consumer_id="m1")
    cluster.await_shares([6], second)
    second.shutdown()
    done = cluster.run("groups", "delete", "g", *WRITE)
    assert done.code == 0, done
    assert cluster.admin.exists("/consumers/g") is None


def test_a_led_group_is_migrated_to_kafka_once_its_members_are_stopped(cluster, tmp_path):
    members = [cluster.join(consumer_id=f"m{n}")[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    for member in members:
        member.commit_offsets(dict.fromkeys(member.status.owned, 7))
    logs, kafka = KafkaLogs(), FakeGroupOffsets()
    for tp in TPS:
        logs.produce(tp, 20)
    sides = Sides("g", cluster.admin, kafka, logs, lambda: (), SystemClock())

    def plan():
        return make_plan(look_at(sides), Direction.TO_KAFKA, Choices())

    with pytest.raises(MigrationRefusedError, match="2 members are in ZooKeeper: stop them first"):
        apply_migration(sides, plan(), tmp_path / "first.json")
    for member in members:
        member.shutdown()
    apply_migration(sides, plan(), tmp_path / "second.json")
    assert {tp: kept.offset for tp, kept in kafka.kept.items()} == dict.fromkeys(TPS, 7)
