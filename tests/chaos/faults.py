"""The faults of a chaos run, and a schedule of them from a seed.

A fault acts, records its begin and end, and lets the group recover: a dead server starts again during the next faults,
another member replaces a dead one. room: two faults of different rooms may happen at the same time.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from random import Random

from legacy_consumer.sandbox.servers.waiting import wait_for
from tests.chaos.operating import command, reset_live
from tests.chaos.stranger import Stranger, clear_up
from tests.chaos.world import GROUP, SESSION_TIMEOUT_S, TOPIC, World, patiently
from tests.support.jvm_member import between_looks
from zk_layout.errors import ConnectionLostError
from zk_layout.paths import OffsetPath

BACKLOG = 1500
FREEZE_S = SESSION_TIMEOUT_S + 1.0
NO_QUORUM_S = 2.5
CUT_S = SESSION_TIMEOUT_S + 0.5
SLOW_S = 4.0
POWER_OFF_S = 1.0
BLINK_S = 1.2
OPERATOR_WAITS_S = 3.0
STRANGER_DEEDS = 25
STRANGER_PAUSE_S = 0.15
INTERRUPTS = 20
PAUSE_S = 2.5
BACK = (10, 40, 150)
"""The numbers of messages by which operators and users go back."""
SKIPPED = 20
"""The number of new messages of a partition without an owner before an operator skips them."""


@dataclass(frozen=True)
class Fault:
    """One kind of fault.

    act(world, random, strike): carries it out, and calls strike(target) when it begins. Returns: a function that
    repairs afterwards, or None.
    """

    name: str
    room: str
    act: Callable
    weight: int = 1
    needs_full_replicas: bool = False


def member_kill(world, random, strike, kind=None):
    member = random.choice(world.awake(kind))
    strike(member.name)
    world.kill(member)
    return lambda: join(world, member)


def join(world, gone):
    """Let a member join in place of one that is gone, and record that as a fault of its own."""
    number = world.next_fault()
    member = world.join(gone.kind, instead_of=gone)
    world.note_fault("member joins", member.name, "begin", number)
    member.process.wait_until(member.is_ready, "joining")
    since = time.monotonic()
    world.note_fault("member joins", member.name, "end", number)
    world.await_flow(since)


def group_leader_kill(world, random, strike):
    """Kill the leader of a led group: at rest, after it has asked for a round, or after it has written a generation."""
    when = random.choice(("Stable", "PreparingRebalance", "a generation is written"))
    leader = patiently(lambda: _a_leader(world))
    newcomer = None
    if when != "Stable":
        before = patiently(world.coordination_znodes)
        newcomer = world.join("python", instead_of=leader)
        wanted = 0 if when == "PreparingRebalance" else 1
        _look_for(lambda: patiently(world.coordination_znodes)[wanted] > before[wanted] or None)
    strike(leader.name)
    world.kill(leader)
    if newcomer is not None:
        # the newcomer takes the place of the killed leader
        newcomer.process.wait_until(newcomer.is_ready, "joining")
        return None
    return lambda: join(world, leader)


def _a_leader(world):
    leader = world.group_leader()
    if leader is None:
        raise ConnectionLostError("nobody leads now")
    return leader


def member_leave(world, random, strike):
    member = random.choice(world.awake())
    strike(member.name)
    del world.members[member.name]
    world.leave(member)
    world.await_left(member)
    return lambda: join(world, member)


def member_terminate(world, random, strike):
    """Send SIGTERM: the handler ends the streams, or shuts the member down, on the consuming or another thread."""
    member = random.choice(world.awake("python"))
    strike(member.name)
    del world.members[member.name]
    member.process.terminate()
    world.await_left(member)
    return lambda: join(world, member)


def user_does(world, random, strike, what, on=None):
    """Give a command to a member's user: see user.py. on: the thread on which that member must consume."""
    member = random.choice([member for member in world.awake("python") if on in (None, member.on)])
    strike(member.name)
    world.have_done(member, what)


def user_seeks(world, random, strike):
    user_does(world, random, strike, f"seek {random.choice(BACK)}")


def member_freeze(world, random, strike, kind=None):
    """Freeze a member with messages in hands and buffers by SIGSTOP, until its session has ended; then thaw it."""
    member = random.choice(world.awake(kind))
    world.fill(member, BACKLOG)
    strike(member.name)
    member.frozen = True
    world.history.write("frozen", name=member.name)
    member.process.freeze()
    world.pause(FREEZE_S)
    wait_for(
        lambda: member.consumer_id not in world.observer.ids, 90, lambda: AssertionError("its session does not end")
    )
    world.history.write("thawed", name=member.name)
    member.process.thaw()
    member.frozen = False


def zookeeper_leader_kill(world, random, strike):
    ensemble = world.servers.ensemble
    node = ensemble.nodes[ensemble.leader()]
    strike(node.name)
    node.kill()
    world.repair_later(node.name, node.start)


def no_quorum(world, random, strike):
    """Kill ZooKeeper's leader and another of its servers; for a while no client can write or read."""
    world.finish_repairs()
    ensemble = world.servers.ensemble
    leader = ensemble.leader()
    others = [index for index in range(3) if index != leader]
    down = [ensemble.nodes[leader], ensemble.nodes[random.choice(others)]]
    strike(" ".join(node.name for node in down))
    for node in down:
        node.kill()
    world.pause(NO_QUORUM_S)
    for node in down:
        node.launch()
    for node in down:
        node.await_ready()


def broker_kill(world, random, strike):
    broker = random.choice(world.kafka.brokers)
    strike(broker.name)
    broker.kill()
    world.repair_later(broker.name, broker.start)


def controller_kill(world, random, strike):
    broker = world.kafka.brokers[world.controller()]
    strike(broker.name)
    broker.kill()
    world.repair_later(broker.name, broker.start)


def power_cut(world, random, strike):
    """Kill all brokers at once, so that no replica of any partition is left."""
    strike("all brokers")
    for broker in world.kafka.brokers:
        broker.kill()
    world.pause(POWER_OFF_S)
    for broker in world.kafka.brokers:
        world.repair_later(broker.name, broker.start)


def controlled_shutdown(world, random, strike):
    broker = random.choice(world.kafka.brokers)
    strike(broker.name)
    broker.stop()
    world.repair_later(broker.name, broker.start)


def more_partitions(world, random, strike):
    count = world.partitions + 2
    strike(f"{count}")
    world.kafka.add_partitions(TOPIC, count)
    world.partitions = world.observer.partitions = world.producer.partitions = count


def _proxied(world, strike, through, disturb, seconds):
    proxies = world.servers.zookeeper_proxies if through == "zookeeper" else list(world.kafka.proxies.values())
    names = [member.name for member in world.members.values() if through in member.through]
    strike(" ".join(names))
    for proxy in proxies:
        disturb(proxy)
    world.pause(seconds)
    for proxy in proxies:
        proxy.restore()


def zookeeper_cut(world, random, strike):
    """Cut one member off from ZooKeeper for longer than its session lasts."""
    _proxied(world, strike, "zookeeper", lambda proxy: proxy.cut(), CUT_S)


def zookeeper_silence(world, random, strike):
    """Keep one member's connections to ZooKeeper open, but pass no bytes for longer than its session lasts."""
    _proxied(world, strike, "zookeeper", lambda proxy: proxy.pause(), CUT_S)


def zookeeper_blink(world, random, strike):
    """Cut one member off from ZooKeeper for a moment."""
    _proxied(world, strike, "zookeeper", lambda proxy: proxy.cut(), BLINK_S)


def zookeeper_slow(world, random, strike):
    """Delay one member's requests to ZooKeeper, and the answers, by 0.4 s each."""
    _proxied(world, strike, "zookeeper", lambda proxy: proxy.slow(0.4), SLOW_S)


def brokers_cut(world, random, strike):
    _proxied(world, strike, "brokers", lambda proxy: proxy.cut(), CUT_S)


def brokers_slow(world, random, strike):
    _proxied(world, strike, "brokers", lambda proxy: proxy.slow(0.4), SLOW_S)


def operator_rewinds(world, random, strike):
    """Move an offset back, as an operator does, while a member consumes the partition."""
    partition = random.choice(sorted(world.own_by_now()) or [0])
    back = random.choice(BACK)
    _write_offset(world, strike, partition, lambda before: max(0, before - back))


def operator_skips(world, random, strike):
    """Move an offset to the log's end, as an operator does; of a partition without an owner, if there is one.

    Else of a partition with many new messages. Not beyond the end: such an offset is outside the log, and a member
    would begin where auto.offset.reset says.
    """
    partition = _growing_orphan(world)
    if partition is None:
        partition = random.choice(range(world.partitions))
        end = world.producer.log_end(partition)
        world.producer.burst([partition], BACKLOG)
        _look_for(lambda: world.producer.log_end(partition) >= end + BACKLOG // 2 or None)
    _write_offset(world, strike, partition, lambda before: max(before, world.producer.log_end(partition)))


def _growing_orphan(world):
    """Wait for a partition without a living owner whose log has grown by SKIPPED meanwhile; None if none comes."""
    ends = {}

    def grown():
        owned = world.own_by_now()
        for partition in range(world.partitions):
            if partition in owned:
                ends.pop(partition, None)
                continue
            end = world.producer.log_end(partition)
            if end - ends.setdefault(partition, end) >= SKIPPED:
                return partition
        return None

    return _look_for(grown)


def _look_for(look):
    """Call look() until it returns something, and return that; None if time is up."""
    deadline = time.monotonic() + OPERATOR_WAITS_S
    while (found := look()) is None and time.monotonic() < deadline:
        between_looks()
    return found


def _write_offset(world, strike, partition, target):
    path = OffsetPath(GROUP, TOPIC, partition).path
    store = world.observer.store

    def write():
        znode = store.get_data(path)
        before = int(znode.data)
        offset = target(before)
        began = time.monotonic()
        return began, before, offset, store.set_data(path, b"%d" % offset, znode.stat.version)

    # write() is repeated after a BadVersionError, too: the owner has committed meanwhile
    began, before, offset, stat = patiently(write)
    world.history.write(
        "operator", partition=partition, offset=offset, version=stat.version, before=before, began=began
    )
    strike(f"{TOPIC}/{partition} {before} -> {offset}")


def operator_resets_live(world, random, strike):
    """Reset some partitions of Python members with `offsets reset --live`: back, or to the log's end."""
    ours = sorted(world.own_by_now("python") & world.observer.offsets.keys())
    targets = {}
    for partition in random.sample(ours, random.randint(1, len(ours))):
        committed, _ = world.observer.offsets[partition]
        back = max(0, committed - random.choice(BACK))
        targets[partition] = random.choice((back, back, max(back, world.producer.log_end(partition))))
    strike(" ".join(f"{partition} -> {offset}" for partition, offset in targets.items()))
    reset_live(world, targets)


def operator_looks(world, random, strike):
    """Run the commands that only read."""
    strike("everything")
    command(world, "groups", "describe", GROUP)
    command(world, "groups", "verify", GROUP)
    command(world, "doctor")


def stranger_writes(world, random, strike):
    """Let a stranger write and delete what the ACLs allow; then let an operator clean up."""
    jvm = any(member.kind == "jvm" for member in world.members.values())
    stranger = Stranger(world.servers.ensemble.connect, GROUP, TOPIC, random, world.history, jvm=jvm)
    patiently(stranger.start)
    strike("everybody" if jvm else "everybody, registrations and owners too")
    try:
        for _ in range(STRANGER_DEEDS):
            stranger.act(world.partitions, world.observer.ids)
            world.pause(STRANGER_PAUSE_S)
    finally:
        stranger.leave()
    patiently(lambda: clear_up(world.observer.store, GROUP))
    world.history.write("stranger", deeds=stranger.deeds)


FAULTS = {
    fault.name: fault
    for fault in (
        Fault("member kill -9", "member", member_kill, 2),
        Fault("leader of the group kill -9", "member", group_leader_kill, 4),
        Fault("member leaves", "member", member_leave),
        Fault("member gets SIGTERM", "member", member_terminate, 2),
        Fault("Python member frozen", "member", partial(member_freeze, kind="python"), 3),
        Fault("JVM member frozen", "member", partial(member_freeze, kind="jvm")),
        Fault("ZooKeeper leader kill", "zookeeper", zookeeper_leader_kill, 2),
        Fault("no quorum", "zookeeper", no_quorum, 2),
        Fault("broker kill -9", "brokers", broker_kill, needs_full_replicas=True),
        Fault("controller kill", "brokers", controller_kill, needs_full_replicas=True),
        Fault("controlled shutdown", "brokers", controlled_shutdown, needs_full_replicas=True),
        Fault("power cut", "brokers", power_cut, needs_full_replicas=True),
        Fault("more partitions", "brokers", more_partitions, needs_full_replicas=True),
        Fault("ZooKeeper cut off", "proxy", zookeeper_cut, 2),
        Fault("ZooKeeper silent", "proxy", zookeeper_silence, 2),
        Fault("ZooKeeper blinks", "proxy", zookeeper_blink),
        Fault("ZooKeeper slow", "proxy", zookeeper_slow),
        Fault("brokers cut off", "proxy", brokers_cut),
        Fault("brokers slow", "proxy", brokers_slow),
        Fault("operator rewinds", "offsets", operator_rewinds),
        Fault("operator skips", "offsets", operator_skips),
        Fault("operator resets live", "offsets", operator_resets_live, 2),
        Fault("operator looks", "looks", operator_looks),
        Fault("user's thread dies", "user", partial(user_does, what="die", on="thread"), 2),
        Fault("user interrupts", "user", partial(user_does, what=f"interrupt {INTERRUPTS}", on="main"), 2),
        Fault("user pauses", "user", partial(user_does, what=f"pause {PAUSE_S}")),
        Fault("user seeks back", "user", user_seeks, 2),
        Fault("stranger writes", "stranger", stranger_writes, 2),
    )
}

SHORT = (
    ("controller kill", "Python member frozen"),
    ("member kill -9", "operator skips"),
    ("ZooKeeper leader kill", "brokers cut off"),
    ("ZooKeeper silent", "operator rewinds"),
    ("no quorum",),
    ("more partitions", "Python member frozen"),
    ("power cut", "stranger writes"),
    ("user's thread dies",),
    ("user interrupts", "operator resets live"),
    ("user pauses", "operator looks"),
    ("user seeks back",),
    ("member gets SIGTERM", "ZooKeeper blinks"),
)
"""The faults of the short run; the seed decides which member or server each one hits."""


OF_THE_JVM = frozenset({"JVM member frozen"})
OF_LED_GROUPS = frozenset({"leader of the group kill -9"})
"""Faults that need a JVM member (OF_THE_JVM), or a led group."""
NEEDS_ZOOKEEPER = {"more partitions", "operator rewinds", "operator skips"}
"""Faults with a write of their own to ZooKeeper, which no fault of ZooKeeper may interrupt."""


def may_meet(one, other):
    """Return whether two faults may happen at the same time."""
    unsure = {one.name, other.name} & NEEDS_ZOOKEEPER and "zookeeper" in (one.room, other.room)
    return one.room != other.room and not unsure


def drawn(random, together=0.3, without=()):
    """Yield faults without end, sometimes two of different rooms at once; "more partitions" at most four times."""
    names = [name for name in FAULTS if name not in without]
    weights = [FAULTS[name].weight for name in names]
    grown = 0
    while True:
        chosen = [random.choices(names, weights)[0]]
        if random.random() < together:
            others = [name for name in names if may_meet(FAULTS[chosen[0]], FAULTS[name])]
            chosen.append(random.choices(others, [FAULTS[name].weight for name in others])[0])
        if "more partitions" in chosen:
            grown += 1
            if grown > 4:
                continue
        yield tuple(chosen)


def strike_all(world: World, names) -> None:
    """Let these faults happen at the same time, wait until all flows again, and repair."""
    faults = [FAULTS[name] for name in names]
    if any(fault.needs_full_replicas for fault in faults):
        world.await_full_replicas()
    # a generator for each fault, so that a seed draws the same in any order of the threads
    randoms = [Random(world.random.random()) for _ in faults]
    repairs = list(world.workers.map(partial(_one, world), faults, randoms))
    world.await_flow(time.monotonic())
    for repair in filter(None, repairs):
        repair()


def _one(world, fault, random):
    number = world.next_fault()
    target = "?"

    def strike(hit):
        nonlocal target
        target = hit
        world.note_fault(fault.name, hit, "begin", number)

    try:
        return fault.act(world, random, strike)
    finally:
        world.note_fault(fault.name, target, "end", number)
