"""Members that restart one after the other under their own ids lose only their own partitions, and get them back.

When a member is killed, or stopped for long, only its own partitions move, to other members.

The tests read the owners from ZooKeeper's transaction log, which also shows owners of a short time.
"""

import signal
import tempfile
from pathlib import Path

import pytest

from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from tests.support.pods import PARTITIONS, Pods
from tests.support.waiting import eventually
from tests.support.zk_history import ZkHistory
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

NAMES = ("c-0", "c-1", "c-2")
"""Names in the form of a StatefulSet's pods."""
OF_THREE = {number: NAMES[number // 2] for number in range(PARTITIONS)}
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
    """One group for all tests; each test brings it into the state that it needs."""
    kafka, history = servers
    store = KazooStore(ZkSettings(connect=kafka.zookeeper_connect))
    store.start()
    pods = Pods(kafka, history, store, tmp_path_factory.mktemp("pods"), PATIENT)
    yield pods
    pods.close()
    store.close()


@pytest.fixture
def shares(pods):
    """Let three members settle. Returns: {partition: its owner}."""
    for name in pods.running.keys() - NAMES:
        pods.end(name)
    for name in NAMES:
        if name not in pods.running:
            pods.start(name)
    pods.await_owners(OF_THREE)
    pods.produce(600)
    pods.await_all_printed()
    return OF_THREE


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
    """As in a redeployment with the strategy Recreate, if the signals do not reach all members at once."""
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


@pytest.fixture
def impatient(servers, tmp_path):
    """Let three members settle in a group that waits for no absent member, and print and commit everything."""
    kafka, history = servers
    store = KazooStore(ZkSettings(connect=kafka.zookeeper_connect))
    store.start()
    pods = Pods(kafka, history, store, tmp_path, {"auto.commit.interval.ms": 200})
    try:
        for name in NAMES:
            pods.start(name)
        pods.await_owners(OF_THREE)
        pods.produce(600)
        pods.await_all_printed()
        eventually(lambda: pods.committed() == dict.fromkeys(OF_THREE, 100))
        yield pods
    finally:
        pods.close()
        store.close()


def moved_since(before, pods):
    return {number: [name for name, _ in lives[len(before[number]) :]] for number, lives in pods.lives().items()}


def test_partitions_of_a_killed_member_flow_in_others_once_its_session_is_over(impatient):
    before = impatient.lives()
    impatient.end("c-1", signal.SIGKILL)
    impatient.produce(600)
    impatient.await_all_printed()
    assert moved_since(before, impatient) == {0: [], 1: [], 2: ["c-0"], 3: ["c-2"], 4: [], 5: []}
    for number, turns in impatient.turns().items():
        assert [change.data is None for change in turns] == [False, True] * (len(turns) // 2) + [False], number
    ended = [impatient.turns()[number][-2].session for number in (2, 3)]
    assert set(ended) == {before[2][-1][1]}, "its session's end alone makes them free"
    assert impatient.repeated() == 0


def test_a_member_that_stood_still_for_longer_than_its_session_prints_nothing_that_has_gone_to_others(impatient):
    before = impatient.lives()
    impatient.running["c-1"].send_signal(signal.SIGSTOP)
    # the broker still sends the stopped member some of these messages
    impatient.produce(600)
    impatient.await_all_printed()
    impatient.running["c-1"].send_signal(signal.SIGCONT)
    impatient.await_owners(OF_THREE)
    impatient.produce(600)
    impatient.await_all_printed()
    assert moved_since(before, impatient) == {0: [], 1: [], 2: ["c-0", "c-1"], 3: ["c-2", "c-1"], 4: [], 5: []}
    assert impatient.repeated() == 0
