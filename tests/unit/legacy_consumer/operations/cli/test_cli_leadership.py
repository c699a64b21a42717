"""The controller's view, for operators: leaders, possible leaders, requests to it, and the brokers of a member."""

from __future__ import annotations

import json

import pytest

from tests.support.memory_cluster import BROKER, MemoryCluster

STATE = '{"controller_epoch":1,"leader":%d,"version":1,"leader_epoch":%d,"isr":%s}'


@pytest.fixture
def cluster(monkeypatch):
    """A cluster of the brokers 0, 1 and 2; broker 3 is not registered."""
    made = MemoryCluster(monkeypatch)
    for number in (1, 2):
        made.put(f"/brokers/ids/{number}", BROKER)
    return made


def topic(cluster, name, *partitions):
    """Create a topic. partitions: (replicas, leader, epoch, in-sync replicas), or (replicas,) if without a state."""
    replicas = {str(n): one[0] for n, one in enumerate(partitions)}
    cluster.put(f"/brokers/topics/{name}", json.dumps({"version": 1, "partitions": replicas}))
    for number, (_, *state) in enumerate(partitions):
        if state:
            cluster.put(f"/brokers/topics/{name}/partitions/{number}/state", STATE % tuple(state))


def shown(cluster, *names):
    rows = json.loads(cluster.run("topics", *names, "--json").out)
    return {(row["topic"], row["partition"]): row for row in rows}


def test_the_controller_is_shown_with_its_epoch(cluster):
    assert "yes" in cluster.run("brokers").out
    cluster.put("/controller_epoch", "7")
    assert "yes, epoch 7" in cluster.run("brokers").out
    epochs = {one["broker"]: one["controller_epoch"] for one in json.loads(cluster.run("brokers", "--json").out)}
    assert epochs == {"0": 7, "1": None, "2": None}
    cluster.store.set_data("/controller_epoch", b"x")
    assert cluster.run("brokers").code == 0


def test_a_topic_is_shown_with_its_leaders_and_the_next_leaders(cluster):
    topic(
        cluster,
        "t",
        ([0, 1, 2], 0, 4, [2, 1, 0]),
        ([3, 2, 1], 2, 5, [2, 1]),
        ([3, 1, 0], 3, 1, [3]),
        ([1, 2], 1, 0, [1]),
        ([1, 2],),
    )
    found = shown(cluster, "t")
    # the order of the replicas decides, not the order of the replicas in sync
    told = [
        (found["t", n]["leader"], found["t", n]["preferred_leader"], found["t", n]["next_leader"]) for n in range(5)
    ]
    assert told == [(0, 0, 1), (2, 3, 1), (None, 3, None), (1, 1, None), (None, 1, None)]
    assert [found["t", n]["leader_epoch"] for n in range(5)] == [4, 5, 1, 0, None]
    head, *lines = [line.split() for line in cluster.run("topics", "t").out.splitlines()]
    assert head == ["TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN", "SYNC", "NEXT", "ASKED", "FOR"]
    assert lines[0] == ["t", "0", "0", "4", "0,1,2", "2,1,0", "1"]
    assert lines[2] == ["t", "2", "-", "1", "3,1,0", "3", "-"]


@pytest.mark.parametrize("form", [[], ["--json"], ["--format", "csv"]], ids=" ".join)
@pytest.mark.parametrize("place", ["/brokers/topics/t", "/brokers/topics/t/partitions/0/state"])
@pytest.mark.parametrize("how", ["closed", "garbage"])
def test_what_cannot_be_read_of_one_topic_is_named_and_hides_no_other(cluster, how, place, form):
    """A partition whose state an ACL hides does not count as one without a leader."""
    topic(cluster, "t", ([0], 0, 0, [0]))
    topic(cluster, "u", ([1], 1, 0, [1]))
    if how == "closed":
        cluster.forbidden.append(place)
    else:
        cluster.store.set_data(place, b"\xff{")
    done = cluster.run("topics", "t", "u", *form)
    assert done.code == 1
    assert f"Not known: {place} " in done.err
    rows = {(row["topic"], row["leader"]) for row in json.loads(cluster.run("topics", "t", "u", "--json").out)}
    assert rows == {("u", 1)} | ({("t", None)} if place.endswith("state") else set())
    assert done.out


@pytest.mark.parametrize("name", ["", "..", "a/b", "t/partitions", "\udcff", "a\x01"])
def test_a_name_that_no_topic_can_have_is_asked_about_nowhere(cluster, name):
    topic(cluster, "t", ([0], 0, 0, [0]))
    done = cluster.run("topics", name)
    assert (done.code, "does not exist" in done.err) == (1, True), done


def test_requests_to_the_controller_are_shown(cluster):
    topic(cluster, "t", ([0, 1], 0, 0, [0, 1]), ([1, 0], 0, 0, [0, 1]))
    asked = '{"version":1,"partitions":[{"topic":"t","partition":0,"replicas":[2,1]}]}'
    cluster.put("/admin/reassign_partitions", asked)
    cluster.put("/admin/preferred_replica_election", '{"version":1,"partitions":[{"topic":"t","partition":1}]}')
    found = shown(cluster, "t")
    assert (found["t", 0]["reassigned_to"], found["t", 1]["is_electing"]) == ([2, 1], True)
    out = cluster.run("topics", "t").out
    assert "moves to 2,1" in out
    assert "preferred leader is asked for" in out
    # from 2.4 on, the topic's znode holds a reassignment
    moving = {"partitions": {"0": [0, 1, 2]}, "adding_replicas": {"0": [2]}, "removing_replicas": {"0": [1]}}
    cluster.put("/brokers/topics/u", json.dumps({"version": 2, **moving}))
    assert shown(cluster, "u")["u", 0]["reassigned_to"] == [0, 2]
    cluster.store.set_data("/admin/reassign_partitions", b"nonsense")
    assert shown(cluster, "t")["t", 0]["reassigned_to"] is None


def test_a_missing_topic_is_an_error_of_one_line(cluster):
    done = cluster.run("topics", "nope")
    assert done.code == 1
    assert done.err.startswith("Error: topic 'nope' does not exist")


def test_the_brokers_that_a_member_needs_are_counted(cluster):
    topic(cluster, "t", *(([leader], leader, 0, [leader]) for leader in (0, 0, 1, 2)))
    cluster.join("g", "few", '{"t":1}', ("t", 0), ("t", 1))
    cluster.join("g", "many", '{"t":1}', ("t", 2), ("t", 3))
    cluster.join("g", "none", '{"t":1}')
    members = json.loads(cluster.run("groups", "describe", "g", "--json").out)["members"]
    assert {one["consumer_id"]: one["brokers"] for one in members} == {"few": 1, "many": 2, "none": 0}
    assert "BROKERS" in cluster.run("groups", "describe", "g").out
    assert "brokers" in cluster.run("groups", "members", "g", "--format", "csv").out.splitlines()[0].split(",")


@pytest.mark.parametrize("name", ["²", "٣", "9" * 5000, "-1", "00", "4294967296", "x", "1_0"])
@pytest.mark.parametrize("command", [("brokers",), ("topics",), ("topics", "t"), ("doctor",)])
def test_a_broker_with_a_name_that_no_broker_has_ends_no_command(cluster, command, name):
    topic(cluster, "t", ([0], 0, 0, [0]))
    cluster.put(f"/brokers/ids/{name}", BROKER)
    run = cluster.run(*command)
    assert "a defect" not in run.err
    assert run.code == 0 or command == ("doctor",)
