"""Members that are restarted one after the other under their own ids: only what was theirs moves, and to themselves.

One that is killed and not started again: only what was its own moves, and to others.

Who owned what is read from ZooKeeper's transaction log, so nobody's short turn is overlooked.
"""

import signal
import tempfile
from pathlib import Path

import pytest

from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from tests.support.pods import PARTITIONS, Pods
from tests.support.zk_history import ZkHistory
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NAMES = ("c-0", "c-1", "c-2")
"""As the pods of a StatefulSet are named."""
PATIENT = {"scheduled.rebalance.max.delay.ms": 60_000}


@pytest.fixture(scope="module")
def servers():
    with (
        tempfile.TemporaryDirectory(prefix="zk-transactions-") as folder,
        EmbeddedZooKeeper(properties={"dataLogDir": folder}) as zookeeper,
        EmbeddedKafka(zookeeper=zookeeper) as kafka,
    ):
        yield kafka, ZkHistory(Path(folder))


@pytest.fixture(scope="module")
def pods(servers, tmp_path_factory):
    """One group for all tests: each finds it as it wants it, whatever the one before left."""
    kafka, history = servers
    store = KazooStore(ZkSettings(connect=kafka.zookeeper_connect))
    store.start()
    pods = Pods(kafka, history, store, tmp_path_factory.mktemp("pods"), PATIENT)
    yield pods
    pods.close()
    store.close()


@pytest.fixture
def shares(pods):
    """Three members that have settled; {partition: whose it is}."""
    for name in pods.running.keys() - NAMES:
        pods.end(name)
    for name in NAMES:
        if name not in pods.running:
            pods.start(name)
    shares = {number: NAMES[number // 2] for number in range(PARTITIONS)}
    pods.await_owners(shares)
    pods.produce(600)
    pods.await_all_printed()
    return shares


def test_a_rolling_restart_moves_each_partition_once_from_its_owner_to_its_owners_next_life(pods, shares):
    before = {number: len(lives) for number, lives in pods.lives().items()}
    repeated = pods.repeated()
    for name in NAMES:
        assert pods.end(name) == 0
        pods.await_owners({number: owner for number, owner in shares.items() if owner != name})
        pods.produce(60)
        pods.start(name)
        pods.await_owners(shares)
    pods.await_all_printed()
    for number, lives in pods.lives().items():
        old, *new = lives[before[number] - 1 :]
        assert [name for name, _ in new] == [shares[number]], lives
        assert old[0] == shares[number]
    assert pods.repeated() == repeated, "an orderly restart repeats nothing"


def test_a_killed_member_that_is_started_again_waits_for_its_dead_session_and_takes_back_its_own(pods, shares):
    before = {number: len(lives) for number, lives in pods.lives().items()}
    assert pods.end("c-1", signal.SIGKILL) == -signal.SIGKILL
    pods.start("c-1")
    pods.produce(60)
    pods.await_all_printed()
    pods.await_owners(shares)
    moved = {number: [name for name, _ in lives[before[number] :]] for number, lives in pods.lives().items()}
    assert moved == {0: [], 1: [], 2: ["c-1"], 3: ["c-1"], 4: [], 5: []}


def test_members_that_end_one_after_another_and_others_that_come_move_each_partition_once(pods, shares):
    """As a redeployment with the strategy Recreate, when those told to end do not all hear it at once."""
    before = {number: len(lives) for number, lives in pods.lives().items()}
    repeated = pods.repeated()
    for name in NAMES:
        assert pods.end(name) == 0
        pods.await_owners({number: owner for number, owner in shares.items() if owner in pods.running})
    for name in ("d-0", "d-1", "d-2"):
        pods.start(name, **{"group.initial.rebalance.delay.ms": 5000})
    pods.await_owners({number: f"d-{number // 2}" for number in range(PARTITIONS)})
    pods.produce(60)
    pods.await_all_printed()
    moved = {number: [name for name, _ in lives[before[number] :]] for number, lives in pods.lives().items()}
    assert moved == {number: [f"d-{number // 2}"] for number in range(PARTITIONS)}
    assert pods.repeated() == repeated


def test_what_a_killed_member_owned_flows_in_others_once_its_session_is_over(servers, tmp_path):
    kafka, history = servers
    store = KazooStore(ZkSettings(connect=kafka.zookeeper_connect))
    store.start()
    pods = Pods(kafka, history, store, tmp_path, {})
    try:
        for name in NAMES:
            pods.start(name)
        pods.await_owners({number: NAMES[number // 2] for number in range(PARTITIONS)})
        pods.produce(600)
        pods.await_all_printed()
        before = pods.lives()
        pods.end("c-1", signal.SIGKILL)
        pods.produce(600)
        pods.await_all_printed()
        after = pods.lives()
        owners = f"/consumers/{pods.group}/owners/{pods.topic}"
        changes = history.below(owners)
    finally:
        pods.close()
        store.close()
    moved = {number: [name for name, _ in lives[len(before[number]) :]] for number, lives in after.items()}
    assert moved == {0: [], 1: [], 2: ["c-0"], 3: ["c-2"], 4: [], 5: []}
    for path, turns in changes.items():
        assert [change.data is None for change in turns] == [False, True] * (len(turns) // 2) + [False], path
    ended = [changes[f"{owners}/{number}"][-2] for number in (2, 3)]
    assert {change.session for change in ended} == {before[2][-1][1]}, "its session's end alone makes them free"
    for name, own in {"c-0": {0, 1, 2}, "c-2": {3, 4, 5}}.items():
        printed = pods.printed(name)
        assert len(printed) == len(set(printed)), "only what the killed member had printed may come again, and once"
        assert {number % PARTITIONS for number in printed} == own
