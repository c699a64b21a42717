"""A custom assignor: each member reads from few brokers.

    python examples/assign_by_leader.py

Range and round-robin give every member partitions of many brokers, so that 60 members on 50 brokers keep up to 3,000
connections. This one sorts all partitions by their leader and cuts the list into even runs: all members together have
at most as many connections as there are brokers plus members.

To use it: `partition.assignment.strategy=assign_by_leader:ByLeader`, with this file where Python finds modules, or
`legacy-consumer assign --coordination kafka --strategy assign_by_leader:ByLeader` to try it on cases.
"""

from __future__ import annotations

from collections import defaultdict

import click

from rebalance.assignors.checked import divide_group
from rebalance.assignors.seam import (
    Assignor,
    Broker,
    Cluster,
    GroupAssignment,
    MemberAssignment,
    PartitionPlace,
    RebalanceProtocol,
    Subscription,
    Subscriptions,
)
from rebalance.assignors.strategies import make_assignor
from zk_layout.model import TopicPartition


class ByLeader(Assignor):
    """Even runs of the partitions in the order of their leaders; partitions without a leader come last."""

    name = "by-leader"

    def assign(self, cluster: Cluster, subscriptions: Subscriptions) -> GroupAssignment:
        """Cut one row for each set of members that subscribe to the same topics."""
        rows: dict[tuple[str, ...], list[TopicPartition]] = defaultdict(list)
        for topic in cluster.topics:
            members = tuple(member for member, told in subscriptions.items() if topic in told.topics)
            if members:
                rows[members] += cluster.partitions(topic)
        shares: dict[str, list[TopicPartition]] = {member: [] for member in subscriptions}
        for members, row in rows.items():
            row.sort(key=lambda partition: (_leader(cluster, partition), partition))
            # the largest runs go to the members that have least so far
            waiting = sorted(members, key=lambda member: len(shares[member]))
            for position, member in enumerate(waiting):
                left = len(waiting) - position
                size = -(-len(row) // left)
                shares[member] += row[:size]
                del row[:size]
        return {member: MemberAssignment(tuple(share)) for member, share in shares.items()}


def _leader(cluster: Cluster, partition: TopicPartition) -> tuple[bool, int]:
    leader = cluster.place(partition).leader
    return leader is None, leader or 0


def connections(cluster: Cluster, assignment: GroupAssignment) -> dict[str, int]:
    """Return how many brokers each member reads from."""
    return {
        member: len({cluster.place(partition).leader for partition in share.partitions})
        for member, share in assignment.items()
    }


@click.command(epilog="Example: python examples/assign_by_leader.py --brokers 50 --members 60 --partitions 2000")
@click.option("--brokers", default=6, show_default=True, type=click.IntRange(1))
@click.option("--members", default=4, show_default=True, type=click.IntRange(1))
@click.option("--partitions", default=48, show_default=True, type=click.IntRange(1))
def main(brokers: int, members: int, partitions: int) -> None:
    """Count connections with range, round-robin and this assignor."""
    places = tuple(PartitionPlace(leader=number % brokers) for number in range(partitions))
    cluster = Cluster({"events": places}, {number: Broker(number) for number in range(brokers)})
    group = {f"member-{number}": Subscription(("events",)) for number in range(members)}
    for assignor in (make_assignor("range", {}), make_assignor("roundrobin", {}), ByLeader()):
        assignment = divide_group(assignor, RebalanceProtocol.EAGER, cluster, group)
        counts = connections(cluster, assignment).values()
        click.echo(f"{assignor.name}: {sum(counts)} connections, at most {max(counts)} of one member")


if __name__ == "__main__":
    main()
