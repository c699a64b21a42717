"""Groups led by a member: whole connectors, all in memory."""

import logging
import sys
import threading
from contextlib import ExitStack
from dataclasses import replace
from itertools import islice
from types import SimpleNamespace

import pytest

from legacy_consumer import ConfigError, LedState, Phase, StrategyMismatchError
from rebalance.assignors.seam import Assignor, Broker, PartitionPlace, given
from rebalance.errors import RebalanceError
from rebalance.led.records import (
    decode_round,
    encode_generation,
    encode_round,
    generation_path,
    leader_path,
    member_path,
    round_path,
)
from tests.support.led_cluster import TPS, LedCluster, numbers
from tests.support.waiting import eventually
from zk_layout.memory_store import MemoryStore
from zk_layout.store import CreateOp, DeleteOp

EAGER = ["range", "roundrobin", "sticky"]
GARBAGE = [b"", b"{", b'{"version":1}', b"[" * 5000, b'{"round":"x","joined":1,"refused":{}}']
JVM = b'{"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1"}'


@pytest.fixture
def cluster():
    cluster = LedCluster()
    yield cluster
    cluster.close(0.5)


@pytest.mark.parametrize("strategy", [*EAGER, "cooperative-sticky"])
def test_members_come_one_after_another_and_leave_in_the_same_order(cluster, strategy):
    members = []
    for number in range(4):
        members.append(cluster.join(consumer_id=f"m{number}", partition_assignment_strategy=strategy)[0])
        cluster.await_shares([[6], [3, 3], [2, 2, 2], [2, 2, 1, 1]][number], *members)
    for number in range(3):
        members[number].shutdown()
        cluster.await_shares([[2, 2, 2], [3, 3], [6]][number], *members[number + 1 :])
    assert sorted(cluster.admin.get_children("/consumers/g/owners/t")) == [str(n) for n in range(6)]


def test_all_messages_of_a_group_that_changes_come_and_each_once(cluster):
    got, lock = [], threading.Lock()

    def consume(stream):
        for message in stream:
            with lock:
                got.append((message.partition(), message.offset()))

    with ExitStack() as stack:
        for number in range(3):
            cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
            connector, stream = cluster.join(consumer_id=f"m{number}", **cooperative)
            stack.enter_context(connector)
            threading.Thread(target=consume, args=(stream,), daemon=True).start()
            cluster.produce(30, *TPS)
        eventually(lambda: len(got) >= 6 * 110)
    assert sorted(got) == [(n, offset) for n in range(6) for offset in range(110)]


def test_cooperative_members_keep_what_stays_theirs(cluster):
    first, _ = cluster.join(consumer_id="m0", partition_assignment_strategy="cooperative-sticky")
    znodes = {tp: cluster.admin.exists(cluster.owner_path(tp)).czxid for tp in TPS}
    second, _ = cluster.join(consumer_id="m1", partition_assignment_strategy="cooperative-sticky")
    cluster.await_shares([3, 3], first, second)
    for tp in first.status.owned:
        assert cluster.admin.exists(cluster.owner_path(tp)).czxid == znodes[tp]


# The leader


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_another_member_leads_when_the_leader_is_gone(cluster, strategy):
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy=strategy)[0] for n in range(3)]
    cluster.await_shares([2, 2, 2], *members)
    leading = next(member for member in members if cluster.leads(member))
    generation = cluster.generation().number
    cluster.zookeeper.expire(leading._store.session_id)
    eventually(lambda: cluster.generation().number > generation)
    cluster.await_shares([2, 2, 2], *members)
    assert sum(cluster.leads(member) for member in members) == 1


def test_of_two_that_believe_to_lead_one_gets_on(cluster):
    """Another client deletes the leader's znode: the old leader may learn of that only after another member leads."""
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy="sticky")[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    for _ in range(3):
        cluster.admin.delete(leader_path("g"))
        eventually(lambda: any(cluster.leads(member) for member in members))
    members.append(cluster.join(consumer_id="m2", partition_assignment_strategy="sticky")[0])
    cluster.await_shares([2, 2, 2], *members)


def test_a_member_whose_znode_somebody_deletes_joins_again(cluster):
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy="sticky")[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    cluster.admin.delete(member_path("g", members[0].consumer_id))
    eventually(lambda: cluster.admin.exists(member_path("g", members[0].consumer_id)) is not None)
    cluster.await_shares([3, 3], *members)


@pytest.mark.parametrize("garbage", GARBAGE)
@pytest.mark.parametrize("name", ["round", "generation"])
def test_garbage_in_the_groups_znodes_ends_nobody_and_is_mended(cluster, name, garbage):
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy="range")[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    cluster.admin.set_data(f"/consumers/g/coordination/{name}", garbage)
    members.append(cluster.join(consumer_id="m2", partition_assignment_strategy="range")[0])
    cluster.await_shares([2, 2, 2], *members)


HIGHEST = 2**31 - 1
FORGED = [
    {"round": {"number": HIGHEST}},
    {"round": {"number": -HIGHEST}},
    {"generation": {"number": HIGHEST}},
    {"generation": {"number": -HIGHEST}},
    {"generation": {"round": HIGHEST}},
    {"generation": {"round": HIGHEST // 2}},
    {"generation": {"round": -HIGHEST}},
    {"round": {"number": HIGHEST}, "generation": {"number": HIGHEST, "round": HIGHEST}},
    {"round": {"number": HIGHEST - 1}, "generation": {"number": HIGHEST - 1, "round": HIGHEST - 1}},
    {"round": {"number": 70, "joined": frozenset({"g_m0", "g_m1", "g_m2"})}},
    {"generation": {"shares": {}}},
    {"generation": {"number": 70, "shares": {}}},
    {"generation": {"protocol": "nonsense", "leader": "nobody"}},
    {"generation": {"topics": {"t": -3, "x": HIGHEST}}},
]


@pytest.mark.parametrize("forged", FORGED)
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_outlives_numbers_and_names_that_no_leader_wrote(cluster, strategy, forged):
    chosen = {"partition_assignment_strategy": strategy}
    members = [cluster.join(consumer_id=f"m{n}", **chosen)[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    asked = decode_round(round_path("g"), cluster.admin.get_data(round_path("g")).data)
    given = cluster.generation()
    if "round" in forged:
        cluster.admin.set_data(round_path("g"), encode_round(replace(asked, **forged["round"])))
    if "generation" in forged:
        cluster.admin.set_data(generation_path("g"), encode_generation(replace(given, **forged["generation"])))
    members.append(cluster.join(consumer_id="m2", **chosen)[0])
    cluster.await_shares([2, 2, 2], *members)


@pytest.mark.parametrize("forged", [*FORGED, {"round": {"refused": {"g_m0": "so", "g_m1": "so"}}}, {}])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_group_at_rest_outlives_what_no_leader_wrote(cluster, strategy, forged):
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy=strategy)[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    asked = decode_round(round_path("g"), cluster.admin.get_data(round_path("g")).data)
    given = cluster.generation()
    written = {}
    if "round" in forged:
        path = round_path("g")
        written[path] = cluster.admin.set_data(path, encode_round(replace(asked, **forged["round"]))).mzxid
    if "generation" in forged:
        path = generation_path("g")
        written[path] = cluster.admin.set_data(path, encode_generation(replace(given, **forged["generation"]))).mzxid
    if not forged:
        written[generation_path("g")] = 0
        cluster.admin.delete(generation_path("g"))
    # this raises while a znode is missing, which eventually() takes as not yet
    eventually(lambda: all(cluster.admin.exists(path).mzxid > mzxid for path, mzxid in written.items()))
    cluster.await_shares([3, 3], *members)


@pytest.mark.parametrize("name", ["\u00b2", "9" * 5000])
def test_a_broker_with_a_name_that_no_broker_has_keeps_no_leader_from_assigning(cluster, name):
    cluster.admin.create(f"/brokers/ids/{name}", b"x", make_parents=True)
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy="range")[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)


def test_places_that_an_acl_closes_keep_no_leader_from_assigning(cluster, monkeypatch):
    seen = []

    class Looks(Assignor):
        name = "looks"

        def assign(self, cluster, subscriptions):
            seen.append(cluster)
            return given({min(subscriptions): cluster.partitions("t")})

    monkeypatch.setitem(sys.modules, "looking", SimpleNamespace(Looks=Looks))
    paths = ["/brokers/topics/t/partitions/0/state", "/brokers/ids/7"]
    for path in paths:
        cluster.admin.create(path, b"{}", make_parents=True)
    member = cluster.connector(consumer_id="m0", partition_assignment_strategy="looking:Looks")
    member._store.closed = set(paths)
    member.create_message_streams({"t": 1})
    cluster.await_shares([6], member)
    assert seen[-1].brokers == {7: Broker(7)}
    assert seen[-1].place(TPS[0]) == PartitionPlace()


def test_a_leader_that_unsubscribes_leaves_its_share_and_the_lead_to_another_and_may_come_back(cluster):
    first, second = (cluster.join(consumer_id=f"m{n}", partition_assignment_strategy="sticky")[0] for n in range(2))
    cluster.await_shares([3, 3], first, second)
    leading, other = (first, second) if cluster.leads(first) else (second, first)
    leading.unsubscribe()
    eventually(lambda: cluster.leads(other))
    cluster.await_shares([6], other)
    leading.create_message_streams({"t": 1})
    cluster.await_shares([3, 3], leading, other)


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_a_member_that_unsubscribes_may_join_again_with_other_topics(cluster, strategy):
    cluster.create_topic("u", 2)
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy=strategy)[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    first, second = members
    first.unsubscribe()
    assert first.status.led.state is LedState.DOWN
    cluster.await_shares([6], second)
    first.create_message_streams({"u": 1})
    cluster.await_shares([2, 6], first, second)
    assert {tp.topic for tp in first.status.owned} == {"u"}
    assert cluster.generation().topics == {"t": 6, "u": 2}
    first.unsubscribe()
    first.create_message_streams({"t": 1, "u": 1})
    cluster.await_shares([5, 3] if strategy == "range" else [4, 4], first, second)


def test_when_the_last_member_unsubscribes_nothing_of_it_is_left_and_the_next_one_begins_anew(cluster):
    first, stream = cluster.join(consumer_id="m0", partition_assignment_strategy="sticky")
    cluster.await_shares([6], first)
    message = next(stream)
    generation = cluster.generation().number
    first.unsubscribe()
    assert cluster.admin.get_children("/consumers/g/coordination/members") == ()
    assert cluster.admin.exists(leader_path("g")) is None
    assert cluster.admin.get_children("/consumers/g/owners/t") == ()
    second, stream = cluster.join(consumer_id="m1", partition_assignment_strategy="failover")
    cluster.await_shares([6], second)
    assert cluster.generation().number > generation, "numbers of generations never come again"
    assert next(stream).offset() == message.offset(), "the message in hand is delivered again"
    second.shutdown()
    first.create_message_streams({"t": 1})
    cluster.await_shares([6], first)


def test_a_member_goes_on_fetching_while_it_looks_for_its_leader_and_stops_when_it_gives_all_up(cluster):
    cooperative = {"partition_assignment_strategy": "cooperative-sticky"}
    first, stream = cluster.join(consumer_id="m0", **cooperative)
    cluster.await_shares([6], first)
    got = [next(stream)]
    assert first._membership._led.standing(Phase.STABLE, connected=False).state is LedState.REDISCOVERING
    got += islice(stream, 5)
    assert len(got) == 6
    for phase, state in (
        (Phase.EXPIRED, LedState.DOWN),
        (Phase.CLOSED, LedState.DOWN),
        (Phase.LEAVING, LedState.STOPPED),
    ):
        assert first._membership._led.standing(phase, connected=True).state is state
    first.shutdown()
    assert first.status.led.state is LedState.DOWN


# Members that cannot be in one group


def test_a_group_with_a_member_that_follows_no_leader_goes_by_the_classic_rule_and_comes_back(cluster, caplog):
    members = [cluster.join(consumer_id=f"b{n}", partition_assignment_strategy="failover")[0] for n in range(2)]
    cluster.await_shares([6, 0], *members)
    jvm = MemoryStore(cluster.zookeeper)
    jvm.start()
    jvm.create("/consumers/g/ids/g_a", JVM, ephemeral=True)
    # range with three members, of which the JVM member is the first
    eventually(lambda: [numbers(member) for member in members] == [[2, 3], [4, 5]])
    assert "goes by the classic rule: g_a follows no leader" in caplog.text
    jvm.close()
    cluster.await_shares([6, 0], *members)


def test_a_classic_member_is_refused_by_a_led_group_with_the_setting_that_it_needs(cluster):
    cluster.join(consumer_id="m0", partition_assignment_strategy="sticky")
    with pytest.raises(StrategyMismatchError, match=r"a leader and this member by range: set group.coord"):
        cluster.join(consumer_id="m1", group_coordination="classic", rebalance_max_retries=1)


def test_a_member_that_shares_no_strategy_is_refused_and_the_others_keep_theirs(cluster, caplog):
    strategies = ["range,sticky", "sticky,failover"]
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy=strategies[n])[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    generation, had = cluster.generation(), [numbers(member) for member in members]
    shared = "offers failover, and the group's members share sticky; set partition.assignment.strategy"
    with pytest.raises(RebalanceError, match=shared):
        cluster.join(consumer_id="m2", partition_assignment_strategy="failover")
    assert [numbers(member) for member in members] == had
    assert cluster.generation() == generation


@pytest.mark.parametrize(
    ("strategy", "says"),
    [
        ("nonsense", "give one of range, roundrobin"),
        ("a.b:C", "cannot be imported"),
        ("range,range", "named twice"),
    ],
)
def test_a_strategy_that_cannot_be_is_refused_before_any_request(cluster, strategy, says):
    with pytest.raises(ConfigError, match=says):
        cluster.connector(partition_assignment_strategy=strategy)


def test_strategies_of_led_groups_need_a_leader(cluster):
    with pytest.raises(ConfigError, match=r"range or roundrobin .others need group.coordination=leader"):
        cluster.connector(group_coordination="classic", partition_assignment_strategy="sticky")


# Upgrades, one member after another


def roll(cluster, members, **properties):
    """Restart each member with other properties, and wait each time until all partitions are owned again."""
    for number, member in enumerate(members):
        member.shutdown()
        members[number] = cluster.join(consumer_id=f"m{number}", **properties)[0]
        eventually(lambda: sorted(len(one.status.owned) for one in members) == [2, 2, 2])


def test_a_group_goes_from_an_eager_strategy_to_a_cooperative_one_member_by_member(cluster):
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy="range")[0] for n in range(3)]
    cluster.await_shares([2, 2, 2], *members)
    roll(cluster, members, partition_assignment_strategy="cooperative-sticky,range")
    cluster.await_shares([2, 2, 2], *members)
    assert cluster.generation().protocol == "cooperative-sticky"
    roll(cluster, members, partition_assignment_strategy="cooperative-sticky")
    cluster.await_shares([2, 2, 2], *members)


def test_a_classic_group_becomes_a_led_one_member_by_member(cluster):
    classic = {"group_coordination": "classic", "partition_assignment_strategy": "range"}
    members = [cluster.join(consumer_id=f"m{n}", **classic)[0] for n in range(3)]
    roll(cluster, members, partition_assignment_strategy="cooperative-sticky")
    cluster.await_shares([2, 2, 2], *members)
    assert cluster.generation().protocol == "cooperative-sticky"


# Assignors


class ToTheLast(Assignor):
    """Assigns all partitions to the member that sorts last; `fault` makes it raise, or leave a partition out."""

    name = "to-the-last"
    fault = None

    def assign(self, cluster, subscriptions):
        if ToTheLast.fault == "raises":
            raise ZeroDivisionError("no luck")
        partitions = cluster.partitions("t")
        return given({max(subscriptions): partitions[ToTheLast.fault == "leaves one out" :]})


@pytest.mark.parametrize("fault", ["raises", "leaves one out"])
def test_an_assignor_of_ones_own_that_fails_costs_nobody_a_share(cluster, monkeypatch, caplog, fault):
    strategy = f"{__name__}:ToTheLast"
    first, _ = cluster.join(consumer_id="m0", partition_assignment_strategy=strategy)
    cluster.await_shares([6], first)
    monkeypatch.setattr(ToTheLast, "fault", fault)
    second, _ = cluster.join(consumer_id="m1", partition_assignment_strategy=strategy)
    cluster.await_shares([6, 0], first, second)
    assert "keep their shares: " in caplog.text
    monkeypatch.setattr(ToTheLast, "fault", None)
    third, _ = cluster.join(consumer_id="m2", partition_assignment_strategy=strategy)
    cluster.await_shares([0, 0, 6], first, second, third)


def test_failover_gives_all_to_the_highest_priority_and_the_next_one_takes_over(cluster):
    def join(name, priority):
        properties = {"assignment.consumer.priority": priority}
        return cluster.join(
            consumer_id=name,
            partition_assignment_strategy="failover",
            **{name.replace(".", "_"): value for name, value in properties.items()},
        )[0]

    low, high = join("low", 1), join("high", 9)
    cluster.await_shares([0, 6], low, high)
    high.shutdown()
    cluster.await_shares([6], low)


# Calls of listeners: the three ways in which three members may join


class Heard:
    """Records the calls of the hooks of Java's listener."""

    def __init__(self):
        self.told = []

    def on_partitions_revoked(self, partitions):
        self.told.append(("revoked", len(partitions)))

    def on_partitions_assigned(self, partitions):
        self.told.append(("assigned", len(partitions)))

    def generations(self):
        return [what for what, _ in self.told].count("assigned")


def join_at_once(cluster, names, **properties):
    """Let several members join at the same time. Returns: their connectors and listeners."""
    listeners = [Heard() for _ in names]
    connectors = [
        cluster.connector(consumer_id=name, partition_assignment_strategy="range", **properties) for name in names
    ]
    threads = []
    for connector, listener in zip(connectors, listeners, strict=True):
        connector.set_rebalance_listener(listener)
        threads.append(threading.Thread(target=connector.create_message_streams, args=({"t": 1},)))
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return connectors, listeners


def test_three_members_at_once_hear_of_one_generation_each(cluster):
    connectors, listeners = join_at_once(cluster, ["a", "b", "c"], group_initial_rebalance_delay_ms=700)
    cluster.await_shares([2, 2, 2], *connectors)
    assert [listener.told for listener in listeners] == [[("revoked", 0), ("assigned", 2)]] * 3
    assert cluster.generation().number == 1


def test_one_member_and_then_two_together_hear_of_two_one_and_one(cluster):
    first = Heard()
    a, stream = cluster.join(first, consumer_id="a", partition_assignment_strategy="range")
    message = next(stream)
    waiting = threading.Thread(target=lambda: joined.append(join_at_once(cluster, ["b", "c"])))
    joined = []
    waiting.start()
    # a has a message in hand, and joins again only when that is consumed; by then it knows of both others
    eventually(lambda: cluster.has_heard(a, "b", "c"))
    assert message.offset() == 0
    list(islice(stream, 1))
    waiting.join()
    ((connectors, listeners),) = joined
    cluster.await_shares([2, 2, 2], a, *connectors)
    assert [listener.generations() for listener in (first, *listeners)] == [2, 1, 1]
    assert first.told == [("revoked", 0), ("assigned", 6), ("revoked", 6), ("assigned", 2)]


def test_members_that_come_one_by_one_hear_of_three_two_and_one(cluster):
    connectors, listeners = [], []
    for name in "abc":
        listeners.append(Heard())
        connectors.append(cluster.join(listeners[-1], consumer_id=name, partition_assignment_strategy="range")[0])
        cluster.await_shares([[6], [3, 3], [2, 2, 2]][len(connectors) - 1], *connectors)
    assert [listener.generations() for listener in listeners] == [3, 2, 1]
    assert listeners[0].told == [
        ("revoked", 0), ("assigned", 6), ("revoked", 6), ("assigned", 3), ("revoked", 3), ("assigned", 2),
    ]  # fmt: skip


def test_a_cooperative_listener_hears_of_what_goes_and_of_each_generation(cluster):
    first, second = Heard(), Heard()
    a, _ = cluster.join(first, consumer_id="a", partition_assignment_strategy="cooperative-sticky")
    b, _ = cluster.join(second, consumer_id="b", partition_assignment_strategy="cooperative-sticky")
    cluster.await_shares([3, 3], a, b)
    # as with Java's: a member first revokes partitions, and then each generation names the new partitions
    assert first.told == [("assigned", 6), ("revoked", 3), ("assigned", 0), ("assigned", 0)]
    assert second.told == [("assigned", 0), ("assigned", 3)]


# Other behaviour that users see


def test_a_new_topic_and_more_partitions_are_assigned_by_the_leader(cluster):
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy="sticky")[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    cluster.widen(8)
    cluster.await_shares([4, 4], *members)
    assert cluster.generation().topics == {"t": 8}


def test_members_and_leader_say_what_happens_at_level_info(cluster, caplog):
    caplog.set_level(logging.INFO)
    cluster.join(consumer_id="m0", partition_assignment_strategy="sticky")
    assert "g_m0: leads group g in generation 0" in caplog.text
    assert "group g: generation 1 of 1 members, by sticky" in caplog.text


@pytest.mark.parametrize("below", [(), ("x", "x/y"), tuple(map(str, range(1200)))], ids=["alone", "deep", "many"])
@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
@pytest.mark.parametrize("path", [leader_path("g"), member_path("g", "g_m0"), member_path("g", "g_m1")])
def test_a_znode_that_no_session_stands_for_is_no_leaders_and_no_members(cluster, path, strategy, below):
    """Another client replaces the znode in one request, so that no member writes in between."""
    members = [cluster.join(consumer_id=f"m{n}", partition_assignment_strategy=strategy)[0] for n in range(2)]
    cluster.await_shares([3, 3], *members)
    creates = [CreateOp(path, b"stranger"), *(CreateOp(f"{path}/{name}", b"stranger") for name in below)]
    cluster.admin.multi([DeleteOp(path), *creates])
    members.append(cluster.join(consumer_id="m2", partition_assignment_strategy=strategy)[0])
    cluster.await_shares([2, 2, 2], *members)


def test_in_a_led_group_only_the_leader_waits_for_others_that_start(cluster):
    first, _ = cluster.join(consumer_id="m0")
    cluster.await_shares([6], first)
    second, _ = cluster.join(consumer_id="m1", group_initial_rebalance_delay_ms=600_000)
    cluster.await_shares([3, 3], first, second)
