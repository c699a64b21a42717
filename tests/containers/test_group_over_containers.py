"""A group in containers that are killed, paused and cut off: no message is lost, and a partition has one owner."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.containers.confinement import confinement, services
from tests.containers.container_cluster import CONNECT
from tests.support.waiting import eventually

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(400)]

PATIENT = {"scheduled_rebalance_max_delay_ms": 600_000, "zookeeper_session_timeout_ms": 30_000}
"""On a busy machine the delay is longer than the start of a container, and the session longer than any stall."""


def check(group):
    ends = group.await_all_delivered()
    print(f"\nsettled: {group.settle_s}; {sum(ends.values())} messages, {group.repeated()} repeated")
    assert group.lost(ends) == []
    assert group.strangers() == []


def test_scale_up_and_down_and_kill(new_group):
    group = new_group("scaled", 6)
    group.produce(rate=300)
    group.join("c1")
    group.await_settled("the first joined")
    for name in ("c2", "c3"):
        group.join(name)
    group.await_settled("grown to three")
    group.kill("c2")
    group.await_settled("one killed")
    assert group.leave("c3") == 0
    group.await_settled("shrunk to one")
    check(group)


def is_paused(container):
    """Pause a container; True once that worked. On a busy machine the engine may fail to freeze all its processes."""
    container.reload()
    if container.status != "paused":
        container.pause()
    return True


def test_paused_beyond_its_session_and_cut_off_on_either_side(new_group, cluster):
    group = new_group("troubled", 6)
    group.produce(rate=300)
    for name in ("c1", "c2", "c3"):
        group.join(name)
    group.await_settled("three joined")

    frozen = group.members["c1"].container
    eventually(lambda: is_paused(frozen))
    group.living.discard("c1")
    group.await_settled("one paused")
    frozen.unpause()
    group.living.add("c1")
    group.await_settled("unpaused after its session")

    cut = group.members["c2"].container
    cluster.zookeeper_net._unwrap_network.disconnect(cut.id)
    group.living.discard("c2")
    group.await_settled("one cut off from ZooKeeper")
    cluster.zookeeper_net.connect(cut.id)
    group.living.add("c2")
    group.await_settled("back at ZooKeeper")

    cut = group.members["c3"].container
    cluster.kafka_net._unwrap_network.disconnect(cut.id)
    cut_at = time.time()
    assert cut.exec_run(["getent", "hosts", "zk1"]).exit_code == 0
    assert cut.exec_run(["getent", "hosts", "kafka1"]).exit_code != 0
    others = [group.members[name] for name in ("c1", "c2")]
    eventually(lambda: all(max(member.newest.values()) > cut_at + 5 for member in others), 120)
    # a member without brokers keeps its share, and prints no message that was produced since
    assert group.registered() == group.living
    assert max(group.members["c3"].newest.values()) < cut_at + 1
    cluster.kafka_net.connect(cut.id)
    group.await_settled("back at the brokers")
    check(group)


def test_servers_lost_and_restarted_one_by_one_under_load(new_group, cluster):
    group = new_group("rolled", 6)
    group.produce(rate=300)
    for name in ("c1", "c2"):
        group.join(name)
    group.await_settled("two joined")

    leader = cluster.leader()
    container = cluster.nodes[leader].get_wrapped_container()
    cluster.zookeeper_net._unwrap_network.disconnect(container.id)
    group.await_settled("the leading ZooKeeper cut off")
    cluster.zookeeper_net.connect(container.id, [leader])

    # the broker's partitions get other leaders, and flow again
    broker = cluster.nodes["kafka2"].get_wrapped_container()
    for net in (cluster.kafka_net, cluster.zookeeper_net):
        net._unwrap_network.disconnect(broker.id)
    group.await_settled("a broker cut off")
    cluster.kafka_net.connect(broker.id, ["kafka2"])
    cluster.connect_broker("kafka2")

    for name in ("zk1", "zk2", "zk3"):
        cluster.nodes[name].get_wrapped_container().restart(timeout=10)
        cluster.leader()
        group.await_settled(f"{name} restarted")
    for name in ("kafka1", "kafka2", "kafka3"):
        cluster.nodes[name].get_wrapped_container().restart(timeout=60)
        group.await_settled(f"{name} restarted")
    check(group)


def test_a_redeployment_moves_each_partition_once(new_group):
    """As with the strategy Recreate: all old members end, each as soon as the signal comes, then all new ones start."""
    group = new_group("redeployed", 6)
    group.produce(rate=300)
    delays = {"group_initial_rebalance_delay_ms": 10_000, **PATIENT}
    old, new = ("c1", "c2", "c3"), ("d1", "d2", "d3")
    with ThreadPoolExecutor(3) as pool:
        list(pool.map(lambda name: group.join(name, **delays), old))
        group.await_settled("three joined")
        since = time.time() - 1.0
        assert list(pool.map(group.leave, old)) == [0, 0, 0]
        list(pool.map(lambda name: group.join(name, **delays), new))
    group.await_settled("three others in their place")
    for number in group.partitions:
        owners = group.owners_in_turn(number, since)
        assert [name[0] for name in owners] == ["c", "d"], group.story(since)
    check(group)


def test_a_rolling_redeployment_under_their_own_ids_moves_nothing_of_the_others(new_group):
    """As in the update of a StatefulSet: one pod after another ends and starts again under its name."""
    group = new_group("rolling", 6)
    group.produce(rate=300)
    names = ("c1", "c2", "c3")
    for name in names:
        group.join(name, group_initial_rebalance_delay_ms=10_000, **PATIENT)
    owners = group.await_settled("three joined")
    since = time.time() - 1.0
    for name in names:
        assert group.restart(name, **PATIENT) == 0
        group.await_settled(f"{name} ended and started again")
    for number in group.partitions:
        assert group.owners_in_turn(number, since) == [owners[number]], group.story(since)
    check(group)


def test_a_consumer_that_finds_an_ensemble_below_quorum_waits_with_a_bound(cluster):
    stopped = [cluster.nodes[name].get_wrapped_container() for name in ("zk2", "zk3")]
    try:
        for container in stopped:
            container.stop(timeout=10)
        code, said = cluster.run(
            "consume", "--zookeeper", CONNECT, "--topic", "t", "--group", "quorum", "--wait", "5"
        )  # fmt: skip
    finally:
        for container in stopped:
            container.start()
    assert code == 1
    assert said.splitlines()[0] == f"waiting up to 5 s for ZooKeeper at {CONNECT}"
    assert said.splitlines()[-1].startswith(f"Error: waited 5 s in vain for ZooKeeper at {CONNECT}: check that it runs")


def test_servers_run_without_rights_and_spark_reads_the_group_so(cluster, new_group):
    group = new_group("confined", 2)
    group.produce(rate=100)
    member = group.join("c1")
    group.await_settled("one joined")
    status = ["sh", "-c", "grep -E '^(CapEff|NoNewPrivs)' /proc/1/status; touch /opt/x"]
    for container in [member.container, *(node.get_wrapped_container() for node in cluster.nodes.values())]:
        _, said = container.exec_run(status)
        assert {b"CapEff:\t0000000000000000", b"NoNewPrivs:\t1"} <= set(said.splitlines())
        assert b"Read-only file system" in said
    service = services()["spark"]
    arguments = ["--zookeeper", CONNECT, "--group", "confined"]
    job = cluster.command(*arguments, entrypoint=service["entrypoint"], **confinement("spark"))
    with job as running:
        wrapped = running.get_wrapped_container()
        code = wrapped.wait(timeout=180)["StatusCode"]
        said = wrapped.logs().decode("utf-8", "replace")
    assert code == 0, said
    assert "confined" in said
