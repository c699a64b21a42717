"""Python and JVM members in one group, through joins, leaves and kills on either side."""

import contextlib
import os
import random

import pytest

from tests.interop.mixed_group import DIALECT_OF, PYTHON
from tests.support.jvm_member import Subscription

pytestmark = [pytest.mark.interop]

SEEDS = [int(seed) for seed in os.environ.get("INTEROP_SEEDS", "0 1 2 3").split()]


def static(**counts):
    return Subscription("static", ",".join(f"{topic}:{count}" for topic, count in counts.items()))


def others_than(cluster, topics):
    """Return a blacklist that matches all topics of the cluster but these."""
    return ",".join(topic for topic in cluster.store.get_children("/brokers/topics") if topic not in topics)


@pytest.mark.parametrize(
    ("kind", "version"),
    [
        ("static", "0.8.2.2"),
        ("whitelist", "0.10.2.2"),
        ("blacklist", "1.1.1"),
        pytest.param("static", "0.10.2.2", marks=pytest.mark.long),
        pytest.param("static", "1.1.1", marks=pytest.mark.long),
        pytest.param("whitelist", "0.8.2.2", marks=pytest.mark.long),
        pytest.param("whitelist", "1.1.1", marks=pytest.mark.long),
        pytest.param("blacklist", "0.8.2.2", marks=pytest.mark.long),
        pytest.param("blacklist", "0.10.2.2", marks=pytest.mark.long),
    ],
)
def test_members_come_go_and_are_killed_on_either_side(new_group, cluster, tools, kind, version):
    # each kind of subscription meets each version, with the strategies in turn
    strategy = "roundrobin" if (kind == "whitelist") == (version != "0.10.2.2") else "range"
    prefix = f"{kind}{version.replace('.', '')}"
    topics = {f"{prefix}-a": 5, f"{prefix}-b": 3}
    group = new_group(
        prefix,
        topics,
        strategy=strategy,
        dialect=DIALECT_OF[version],
        # the Verify tool of 0.8.2.2 complains about every group
        tools=tools("1.1.1" if version == "0.8.2.2" else version),
    )
    subscription = {
        "static": Subscription("static", f"{prefix}-a:2,{prefix}-b:2"),
        "whitelist": Subscription("whitelist", f"{prefix}-.*", 2),
        "blacklist": Subscription("blacklist", others_than(cluster, topics), 2),
    }[kind]
    group.join("python", "b", subscription)
    group.produce_round()
    group.join(version, "a", subscription)
    group.produce_round()
    if kind == "whitelist":
        group.add_topic(f"{prefix}-c", 4)
        group.produce_round()
    if kind == "static":
        group.add_partitions(f"{prefix}-b", 6)
        group.produce_round()
    group.join(version, "c", subscription)
    group.leave("b", by_signal=True)
    group.produce_round()
    group.join("python", "d", subscription)
    group.produce_round()
    if kind != "whitelist":
        group.kill("a")
        group.produce_round()
    else:
        group.leave("a")
        group.join("python", "e", subscription)
        group.kill("d")
        group.produce_round()
    group.leave("c", by_signal=kind == "static")
    group.produce_round()
    group.verdict()


@pytest.mark.parametrize(
    ("version", "strategy"), [("0.8.2.2", "range"), ("0.10.2.2", "roundrobin"), ("1.1.1", "roundrobin")]
)
def test_members_that_subscribe_to_different_topics_agree(new_group, tools, version, strategy):
    name = f"differ{version.replace('.', '')}"
    a, b, c = (f"{name}-{letter}" for letter in "abc")
    group = new_group(name, {a: 5, b: 4, c: 3}, strategy=strategy, dialect=DIALECT_OF[version], tools=tools("1.1.1"))
    group.join(version, "m", static(**{a: 2, b: 1}))
    group.join("python", "k", static(**{b: 3, c: 1}))
    group.produce_round()
    group.join(version, "j", static(**{a: 1, c: 11}))
    group.produce_round()
    group.join("python", "z", static(**{a: 1, b: 1, c: 2}))
    group.produce_round()
    group.leave("m")
    group.produce_round()
    group.verdict()


def test_all_versions_share_one_group(new_group, tools):
    group = new_group("versions", {"versions-a": 7, "versions-b": 4}, tools=tools("1.1.1"))
    subscription = Subscription("whitelist", "versions-a,versions-b", 2)
    group.join("0.8.2.2", "m1", subscription)
    group.join("python", "m2", subscription)
    group.join("1.1.1", "m3", subscription)
    group.produce_round()
    group.join("0.10.2.2", "m4", subscription)
    group.produce_round()
    group.leave("m2")
    group.leave("m3")
    group.join("python", "m0", subscription)
    group.produce_round()
    group.verdict()


@pytest.mark.parametrize(
    "version", [*(pytest.param(v, marks=pytest.mark.long) for v in ("0.8.2.2", "0.10.2.2")), "1.1.1"]
)
def test_console_consumer_shares_a_group(new_group, tools, version):
    name = f"console{version.replace('.', '')}"
    group = new_group(name, {name: 4}, tools=tools("1.1.1"))
    group.join("python", "b", Subscription("static", f"{name}:1"))
    group.produce_round()
    for tp in group.partitions:  # the console consumer begins at the log's end where there is no committed offset
        assert group.committed(tp) == 0
    group.living[f"{name}_b"].commit()
    group.join(f"console {version}", "c", Subscription("whitelist", f"{name}|none"))
    group.produce_round()
    group.join(f"console {version}", "a", Subscription("static", f"{name}:1"))
    group.produce_round()
    group.leave("b")
    group.produce_round()
    group.join("python", "d", Subscription("static", f"{name}:1"))
    group.leave("a")
    group.kill("c")
    group.produce_round()
    group.verdict()


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2"])
def test_members_share_a_group_on_the_brokers_of_their_own_version(new_group, cluster_of, version):
    with cluster_of(version) as cluster:
        group = new_group("own", {"own": 4}, cluster=cluster)
        subscription = Subscription("static", "own:1")
        group.join(version, "a", subscription)
        group.produce_round()
        group.join("python", "b", subscription)
        group.produce_round()
        group.leave("a")
        group.produce_round()
        group.verdict()
        group.close()


@pytest.mark.parametrize("seed", [*SEEDS[:2], *(pytest.param(seed, marks=pytest.mark.long) for seed in SEEDS[2:])])
def test_any_order_of_changes_settles(new_group, tools, seed):
    """Changes come one by one or in pairs at the same moment; with odd seeds messages flow all the time."""
    print(f"seed {seed}")
    chance = random.Random(seed)
    strategy = "roundrobin" if seed % 3 == 2 else "range"
    versions = ["1.1.1"] if strategy == "roundrobin" else ["0.8.2.2", "0.10.2.2", "1.1.1"]
    name = f"random{seed}"
    topics = {f"{name}-{letter}": chance.randint(1, 7) for letter in "ab"}
    group = new_group(name, topics, strategy=strategy, tools=tools("1.1.1"))
    subscriptions = [
        Subscription("whitelist", f"{name}-.*", chance.randint(1, 3)),
        Subscription("static", f"{name}-a:2,{name}-b:1"),
    ]
    names = [f"{chance.choice('abcxyz')}{number}" for number in range(40)]
    # one member always subscribes to everything, so every message has a consumer
    group.join("python", names.pop(), subscriptions[0])
    group.join(chance.choice(versions), names.pop(), subscriptions[0])
    flow = group.flow() if seed % 2 else contextlib.nullcontext()
    with flow:
        for _ in range(6):
            ending = []
            for _ in range(chance.choice([1, 1, 2])):
                living = [member_id.removeprefix(f"{name}_") for member_id in group.living]
                what = chance.choice(["join", "leave", "signal", "kill"])
                everywhere = [who for who in living if group.subscription_of(who) == subscriptions[0]]
                chosen = chance.choice(living)
                if what == "join" or everywhere == [chosen]:
                    kind = chance.choice([PYTHON, chance.choice(versions)])
                    print("join", kind, names[-1])
                    group.start(kind, names.pop(), chance.choice(subscriptions))
                    continue
                print(what, chosen)
                if what == "kill":
                    group.begin_kill(chosen)
                else:
                    ending.append(group.begin_leave(chosen, by_signal=what == "signal"))
            group.settle("changes at the same moment", "any")
            for member in ending:
                member.await_end()
            if not seed % 2:
                group.produce_round(3)
    group.produce_round(3)
    group.verdict()
