"""The two assignors under examples/, loaded by their import paths like a user's own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rebalance.assignors.checked import divide_group
from rebalance.assignors.seam import Cluster, PartitionPlace, Subscription
from rebalance.assignors.seam import RebalanceProtocol as Protocol
from rebalance.assignors.strategies import make_assignor, make_assignors
from rebalance.errors import AssignorFailedError

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True, scope="module")
def _importable():
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(EXAMPLES)
        yield


def cluster_of(leaders):
    return Cluster({"t": tuple(PartitionPlace(leader) for leader in leaders)})


def test_both_are_named_beside_javas_in_one_property():
    made = make_assignors("roundrobin,assign_by_leader:ByLeader,assign_with_state:Stateful", {})
    assert [assignor.name for assignor in made] == ["roundrobin", "by-leader", "stateful"]


@settings(max_examples=60)
@given(leaders=st.lists(st.sampled_from([None, 1, 2, 3, 9]), min_size=1, max_size=40), members=st.integers(1, 9))
def test_by_leader_keeps_shares_even_and_connections_few(leaders, members):
    import assign_by_leader

    cluster = cluster_of(leaders)
    group = {f"m{number}": Subscription(("t",)) for number in range(members)}
    assignor = make_assignor("assign_by_leader:ByLeader", {})
    assignment = divide_group(assignor, Protocol.EAGER, cluster, group)
    sizes = [len(share.partitions) for share in assignment.values()]
    assert max(sizes) - min(sizes) <= 1
    counts = assign_by_leader.connections(cluster, assignment)
    assert sum(counts.values()) <= len(set(leaders)) + members - 1


def test_by_leader_serves_members_that_subscribe_to_different_topics():
    places = (PartitionPlace(1), PartitionPlace(2))
    cluster = Cluster({"s": places, "t": places})
    group = {"a": Subscription(("s", "t")), "b": Subscription(("t",))}
    assignment = divide_group(make_assignor("assign_by_leader:ByLeader", {}), Protocol.EAGER, cluster, group)
    assert {member: len(share.partitions) for member, share in assignment.items()} == {"a": 3, "b": 1}


class Group:
    """A group of members with the stateful assignor, which join and leave."""

    def __init__(self, tasks, members, replicas=1):
        self.cluster = Cluster.of_counts({"orders": tasks, "payments": tasks})
        self.replicas = str(replicas)
        self.members = {}
        self.generation = 0
        for name in members:
            self.join(name)

    def join(self, name):
        properties = {"stateful.standby.replicas": self.replicas}
        self.members[name] = make_assignor("assign_with_state:Stateful", properties)

    def rebalance(self):
        """Make the next generation. Returns: {member: (active tasks, copies)}."""
        import assign_with_state

        self.generation += 1
        assignment = assign_with_state.next_generation(self.members, self.cluster, self.generation)
        for share in assignment.values():
            orders = {tp.partition for tp in share.partitions if tp.topic == "orders"}
            payments = {tp.partition for tp in share.partitions if tp.topic == "payments"}
            assert orders == payments
        return {
            name: ({tp.partition for tp in share.partitions}, set(self.members[name].standby_tasks))
            for name, share in assignment.items()
        }


def test_copies_are_on_other_members_than_the_active_task():
    shares = Group(tasks=8, members="abc", replicas=1).rebalance()
    assert sorted(task for active, _ in shares.values() for task in active) == list(range(8))
    assert sorted(task for _, copies in shares.values() for task in copies) == list(range(8))
    assert all(not active & copies for active, copies in shares.values())
    assert max(len(copies) for _, copies in shares.values()) <= 3


def test_a_group_that_does_not_change_moves_neither_task_nor_copy():
    group = Group(tasks=11, members="abcd", replicas=2)
    assert group.rebalance() == group.rebalance()


@pytest.mark.parametrize("leaver", ["a", "b", "c"])
def test_a_member_with_a_copy_takes_over_and_nobody_else_loses_a_task(leaver):
    group = Group(tasks=9, members="abc", replicas=2)
    before = group.rebalance()
    del group.members[leaver]
    after = group.rebalance()
    for name, (active, _) in after.items():
        assert before[name][0] <= active
        assert active <= before[name][0] | before[name][1]


def test_a_member_that_joins_takes_its_share_and_the_others_keep_the_state_as_copies():
    group = Group(tasks=8, members="ab", replicas=1)
    before = group.rebalance()
    group.join("c")
    after = group.rebalance()
    assert sorted(len(active) for active, _ in after.values()) == [2, 3, 3]
    assert all(after[name][0] <= before[name][0] for name in "ab")


def test_more_copies_than_other_members_are_as_many_as_there_can_be():
    assert Group(tasks=2, members="ab", replicas=5).rebalance() == {"a": ({0}, {1}), "b": ({1}, {0})}


@pytest.mark.parametrize(
    ("told", "reason"),
    [
        ({"a": Subscription(("t",)), "b": Subscription(("u",))}, "must subscribe to the same topics"),
        ({"a": Subscription(("t",), b'{"version": 2}')}, "of another assignor, or of another version"),
        ({"a": Subscription(("t",), b"\xff")}, "it raised UnicodeDecodeError"),
    ],
)
def test_topics_that_the_stateful_assignor_cannot_assign_are_an_error_of_one_line(told, reason):
    with pytest.raises(AssignorFailedError) as caught:
        divide_group(make_assignor("assign_with_state:Stateful", {}), Protocol.EAGER, Cluster.of_counts({"t": 2}), told)
    assert reason in str(caught.value)


def test_topics_that_differ_in_their_partitions_are_all_divided():
    cluster = Cluster.of_counts({"s": 3, "t": 1})
    group = {"a": Subscription(("s", "t")), "b": Subscription(("s", "t"))}
    assignment = divide_group(make_assignor("assign_with_state:Stateful", {}), Protocol.EAGER, cluster, group)
    assert [str(tp) for tp in assignment["a"].partitions] == ["s/0", "s/2", "t/0"]


@pytest.mark.parametrize(
    ("example", "line"),
    [
        ("assign_by_leader.py", "by-leader: 8 connections, at most 2 of one member"),
        ("assign_with_state.py", "generation 2"),
    ],
)
def test_each_example_runs_as_it_says(example, line):
    done = subprocess.run(
        [sys.executable, str(EXAMPLES / example)], cwd=EXAMPLES.parent, capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert line in done.stdout.splitlines()
