"""A custom assignor for consumers with state: warm copies of the state are on other members.

    python examples/assign_with_state.py

Partition n of all topics is one task: topics that are keyed and partitioned alike are joined on one member. A task is
active on one member, and `stateful.standby.replicas` other members keep a copy of its state. When a member leaves, a
member with a copy takes over its tasks; all other tasks stay where their state is.

The user data of each member lists the tasks of which it has state. In the assignment's user data the leader lists the
copies that each member should keep; the member's own code reads them from `standby_tasks`.

To use it: `partition.assignment.strategy=assign_with_state:Stateful`, with this file where Python finds modules.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence

import click

from rebalance.assignors.checked import divide_group
from rebalance.assignors.even_shares import divide_alike
from rebalance.assignors.seam import (
    Assignor,
    AssignorProperty,
    Cluster,
    GroupAssignment,
    MemberAssignment,
    PropertyValue,
    RebalanceProtocol,
    Subscription,
    Subscriptions,
)
from zk_layout.model import TopicPartition

REPLICAS = AssignorProperty("stateful.standby.replicas", 1, "copies of each task's state beside the active one", 0, 100)

Tasks = tuple[int, ...]


class Stateful(Assignor):
    """Tasks stay where their state is, as far as shares of equal size allow."""

    name = "stateful"
    version = 1
    properties = (REPLICAS,)

    def __init__(self) -> None:
        self._replicas = 1
        self._active: Tasks = ()
        self.standby_tasks: Tasks = ()

    def configure(self, properties: Mapping[str, PropertyValue]) -> None:
        """Return how many copies to keep."""
        self._replicas = int(properties[REPLICAS.name] or 0)

    def subscription_user_data(self, topics: Sequence[str]) -> bytes:  # noqa: ARG002
        """The tasks of which this member has state."""
        return encode(self._active, self.standby_tasks)

    def on_assignment(self, assignment: MemberAssignment, generation: int) -> None:  # noqa: ARG002
        """From now on this member has the state of these."""
        self._active = tuple(sorted({partition.partition for partition in assignment.partitions}))
        _, self.standby_tasks = decode(assignment.user_data)

    def assign(self, cluster: Cluster, subscriptions: Subscriptions) -> GroupAssignment:
        """Active tasks first, then copies. Raises: ValueError if members subscribe to different topics."""
        members = list(subscriptions)
        topics = {told.topics for told in subscriptions.values()}
        if len(topics) > 1:
            raise ValueError("all members must subscribe to the same topics, whose partitions are read together")
        had = {member: decode(told.user_data) for member, told in subscriptions.items()}
        numbers = range(max((len(cluster.topics.get(topic, ())) for topic in next(iter(topics), ())), default=0))
        active = _divide_tasks(numbers, members, had)
        standby = _place_copies(numbers, members, active, had, self._replicas)
        return {
            member: MemberAssignment(
                tuple(
                    TopicPartition(topic, task)
                    for topic in subscriptions[member].topics
                    for task in active[member]
                    if task < len(cluster.topics.get(topic, ()))
                ),
                encode((), standby[member]),
            )
            for member in members
        }


def _divide_tasks(
    numbers: range, members: Sequence[str], had: Mapping[str, tuple[Tasks, Tasks]]
) -> dict[str, list[int]]:
    """Return the member that had the task, else one with a copy and room for it, else any."""
    owners: dict[int, str] = {}
    for member in members:
        owners.update(dict.fromkeys(had[member][0], member))
    size = Counter(owners.values())
    most = -(-len(numbers) // max(1, len(members)))
    for task in numbers:
        with_copy = [member for member in members if task in had[member][1] and size[member] < most]
        if task not in owners and with_copy:
            owners[task] = min(with_copy, key=size.__getitem__)
            size[owners[task]] += 1
    # the same division as the sticky assignor's, of tasks for partitions
    tasks = [TopicPartition("", task) for task in numbers]
    shares = divide_alike(tasks, members, {TopicPartition("", task): member for task, member in owners.items()})
    return {member: [task.partition for task in share] for member, share in shares.items()}


def _place_copies(
    numbers: range,
    members: Sequence[str],
    active: Mapping[str, list[int]],
    had: Mapping[str, tuple[Tasks, Tasks]],
    replicas: int,
) -> dict[str, Tasks]:
    """Copies go to members that have the state already, else where few tasks of the same member have theirs.

    When that member goes, its tasks then have warm places on all the others.
    """
    copies: dict[str, list[int]] = {member: [] for member in members}
    active_on = {task: member for member, tasks in active.items() for task in tasks}
    pairs: Counter[tuple[str, str]] = Counter()
    most = -(-len(numbers) * replicas // max(1, len(members)))
    for task in numbers:
        others = [member for member in members if task not in active[member]]
        full = {member: len(copies[member]) >= most for member in others}
        has_state = {member: task in (*had[member][0], *had[member][1]) for member in others}
        beside = {member: pairs[active_on[task], member] for member in others}
        others.sort(key=lambda member: (full[member], not has_state[member], beside[member], len(copies[member])))
        for member in others[:replicas]:
            copies[member].append(task)
            pairs[active_on[task], member] += 1
    return {member: tuple(tasks) for member, tasks in copies.items()}


def encode(active: Tasks, standby: Tasks) -> bytes:
    """User data of version 1."""
    return json.dumps({"version": Stateful.version, "active": active, "standby": standby}).encode()


def decode(data: bytes) -> tuple[Tasks, Tasks]:
    """(active, standby) tasks; none of a member that is new. Raises: ValueError if the bytes say something else."""
    if not data:
        return (), ()
    told = json.loads(data)
    if not isinstance(told, dict) or told.get("version") != Stateful.version:
        raise ValueError("user data of another assignor, or of another version of this one")
    return tuple(map(int, told["active"])), tuple(map(int, told["standby"]))


@click.command(epilog="Example: python examples/assign_with_state.py --tasks 12 --members 4")
@click.option("--tasks", default=8, show_default=True)
@click.option("--members", default=3, show_default=True, type=click.IntRange(2))
def main(tasks: int, members: int) -> None:
    """Show where tasks and copies are, and where they go when the first member leaves."""
    cluster = Cluster.of_counts({"orders": tasks, "payments": tasks})
    group = {f"member-{number}": Stateful() for number in range(1, members + 1)}
    for generation in (1, 2):
        assignment = next_generation(group, cluster, generation)
        click.echo(f"generation {generation}")
        for member, share in assignment.items():
            active = sorted({partition.partition for partition in share.partitions})
            click.echo(f"  {member}: active {active}, copies {list(group[member].standby_tasks)}")
        group.pop("member-1", None)


def next_generation(group: Mapping[str, Stateful], cluster: Cluster, generation: int) -> GroupAssignment:
    """All members join, the first one divides, each hears of its share."""
    topics = tuple(cluster.topics)
    told = {member: Subscription(topics, assignor.subscription_user_data(topics)) for member, assignor in group.items()}
    assignment = divide_group(next(iter(group.values())), RebalanceProtocol.EAGER, cluster, told)
    for member, share in assignment.items():
        group[member].on_assignment(share, generation)
    return assignment


if __name__ == "__main__":
    main()
