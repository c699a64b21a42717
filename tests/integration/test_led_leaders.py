"""The leader of a led group is killed while its assignor works; each member is a process of its own."""

import signal
import tempfile
from pathlib import Path

import pytest

from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from rebalance.led.records import decode_generation, generation_path, leader_path
from tests.support.pods import PARTITIONS, Pods
from tests.support.waiting import eventually
from tests.support.zk_history import ZkHistory
from zk_layout.kazoo_store import KazooStore
from zk_layout.settings import ZkSettings

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

HELD = """
import time
from pathlib import Path

from rebalance.assignors.kafka_range import RangeAssignor
from rebalance.assignors.sticky import CooperativeStickyAssignor

FOLDER = Path(__file__).parent


class Held:
    def assign(self, cluster, subscriptions):
        (FOLDER / "assigns").touch()
        while (FOLDER / "hold").exists():
            time.sleep(0.05)
        return super().assign(cluster, subscriptions)


class Eager(Held, RangeAssignor):
    name = "held-eager"


class Cooperative(Held, CooperativeStickyAssignor):
    name = "held-cooperative"
"""


class LedPods(Pods):
    """A led group whose assignor waits from hold() until go_on()."""

    def hold(self):
        (self.folder / "assigns").unlink()
        (self.folder / "hold").touch()

    def go_on(self):
        (self.folder / "hold").unlink()

    def await_assigning(self):
        """Wait until a leader is inside its assignor, so that the group is in CompletingRebalance."""
        eventually((self.folder / "assigns").exists)
        (self.folder / "assigns").unlink()

    def start_one_more(self):
        """Let a member join, and wait for the assignor. Returns: the leader, which is inside its assignor."""
        self.hold()
        self.start("d")
        self.await_assigning()
        return self.leader()

    def leader(self):
        path = leader_path(self.group)
        return self.store.get_data(path).data.decode().removeprefix(f"{self.group}_") if self.store.exists(path) else ""

    def generation(self):
        return decode_generation("", self.store.get_data(generation_path(self.group)).data)

    def await_settled(self):
        """Wait until the running members, and they alone, own all partitions."""
        eventually(lambda: sorted(self.owners()) == list(range(PARTITIONS)) and self.has_all_shares())

    def has_all_shares(self):
        return set(self.owners().values()) == set(self.running)

    def await_all_committed(self):
        path = f"/consumers/{self.group}/offsets/{self.topic}"
        each = self.produced // PARTITIONS
        eventually(lambda: {self.store.get_data(f"{path}/{n}").data for n in range(PARTITIONS)} == {b"%d" % each})


@pytest.fixture(scope="module")
def servers():
    with (
        tempfile.TemporaryDirectory(prefix="zk-transactions-") as folder,
        EmbeddedZooKeeper(properties={"dataLogDir": folder}) as zookeeper,
        EmbeddedKafka(zookeeper=zookeeper) as kafka,
    ):
        store = KazooStore(ZkSettings(connect=kafka.zookeeper_connect))
        store.start()
        yield kafka, ZkHistory(Path(folder)), store
        store.close()


@pytest.fixture
def led(servers, tmp_path):
    """Return a function that starts three members with a strategy, and waits until they have committed everything."""
    begun = []

    def start(strategy):
        (tmp_path / "held_assigning.py").write_text(HELD)
        properties = {
            "group.coordination": "leader",
            "partition.assignment.strategy": f"held_assigning:{strategy}",
            "auto.commit.interval.ms": 200,
        }
        pods = LedPods(*servers, tmp_path, properties)
        begun.append(pods)
        for name in "abc":
            pods.start(name)
        pods.await_settled()
        pods.produce(600)
        pods.await_all_printed()
        pods.await_all_committed()
        return pods

    yield start
    for pods in begun:
        pods.close()


@pytest.mark.parametrize("strategy", ["Eager", "Cooperative"])
def test_two_leaders_killed_while_they_assign_are_followed_by_one_that_ends_the_rebalance(led, strategy):
    pods = led(strategy)
    before = pods.generation().number
    for leader in (pods.start_one_more(), None):
        first = leader or pods.leader()
        assert pods.end(first, signal.SIGKILL) == -signal.SIGKILL
        # the next leader reaches the same state
        pods.await_assigning()
        assert pods.leader() != first
    assert pods.generation().number == before
    pods.go_on()
    pods.await_settled()
    assert pods.generation().number > before
    pods.produce(600)
    pods.await_all_printed()
    assert pods.repeated() == 0


def test_members_keep_consuming_their_partitions_while_the_leader_is_dead(led):
    pods = led("Cooperative")
    shares = pods.owners()
    leader = pods.start_one_more()
    assert pods.end(leader, signal.SIGKILL) == -signal.SIGKILL
    kept = [number for number, owner in shares.items() if owner != leader]
    pods.produce(600)
    # no leader assigns before go_on()
    eventually(lambda: {n for n in range(600, 1200) if n % PARTITIONS in kept} <= set(pods.printed()))
    assert {number: pods.owners().get(number) for number in kept} == {number: shares[number] for number in kept}
    pods.go_on()
    pods.await_settled()
    pods.await_all_printed()
    assert pods.repeated() == 0


def test_a_leader_that_stood_still_while_it_assigned_writes_nothing_and_is_a_member_again(led):
    pods = led("Eager")
    leader = pods.start_one_more()
    pods.running[leader].send_signal(signal.SIGSTOP)
    pods.await_assigning()
    pods.go_on()
    others = set(pods.running) - {leader}
    eventually(lambda: set(pods.owners().values()) == others and len(pods.owners()) == PARTITIONS)
    generation = pods.generation()
    pods.running[leader].send_signal(signal.SIGCONT)
    pods.await_settled()
    assert pods.generation().number > generation.number
    pods.produce(600)
    pods.await_all_printed()
    assert pods.repeated() == 0
