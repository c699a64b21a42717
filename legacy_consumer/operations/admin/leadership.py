"""Leaders of partitions: the present leader, the next one, and the changes that the controller was asked to make."""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from legacy_consumer.errors import NoSuchTopicError
from legacy_consumer.offsets.topic_partitions import is_topic_name
from zk_layout.closed_znodes import read_each
from zk_layout.codecs import decode_partition_state, decode_preferred_election, decode_reassignment, decode_topic
from zk_layout.errors import MalformedZnodeError, NotPermittedError
from zk_layout.model import PartitionState, TopicPartition
from zk_layout.paths import (
    BrokerIdsPath,
    PartitionStatePath,
    PreferredReplicaElectionPath,
    ReassignPartitionsPath,
    TopicPath,
    broker_ids,
)
from zk_layout.store import ZkStore, Znode


@dataclass(frozen=True, slots=True)
class PartitionLeadership:
    """One partition. replicas: the brokers that have a replica, the preferred leader first.

    leader: None if there is none, or if the broker in the partition's state is not registered. in_sync: as written in
    the state; None without a state. next_leader: the broker that would lead if the leader failed now; None if none
    could without losing messages. reassigned_to: the replicas after the running reassignment; None if there is none.
    is_electing: an operator has requested the election of the preferred leader.
    """

    topic: str
    partition: int
    leader: int | None
    leader_epoch: int | None
    replicas: tuple[int, ...]
    in_sync: tuple[int, ...] | None
    next_leader: int | None
    reassigned_to: tuple[int, ...] | None = None
    is_electing: bool = False

    @property
    def preferred_leader(self) -> int | None:
        """The first replica, which leads when all brokers are well."""
        return self.replicas[0] if self.replicas else None


def read_leadership(
    store: ZkStore, topics: Collection[str]
) -> tuple[list[PartitionLeadership], list[MalformedZnodeError | NotPermittedError]]:
    """Return every partition of these topics, in three requests, and why topics or partition states cannot be read.

    Raises: NoSuchTopicError; ZooKeeperError.
    """
    for topic in topics:
        if not is_topic_name(topic):
            raise NoSuchTopicError(topic)
    asked = [ReassignPartitionsPath().path, PreferredReplicaElectionPath().path]
    paths = [TopicPath(topic).path for topic in topics]
    requests = read_each(store, [*asked, *paths])
    problems: list[MalformedZnodeError | NotPermittedError] = []
    problems += [znode for znode in requests if isinstance(znode, NotPermittedError)]
    found: list[tuple[TopicPartition, tuple[int, ...]]] = []
    reassigned: dict[TopicPartition, tuple[int, ...]] = {}
    for topic, path, znode in zip(topics, paths, requests[2:], strict=True):
        if znode is None:
            raise NoSuchTopicError(topic)
        if isinstance(znode, NotPermittedError):
            continue
        try:
            assignment = decode_topic(path, znode.data)
        except MalformedZnodeError as error:
            problems.append(error)
            continue
        for number, replicas in assignment.partitions.items():
            tp = TopicPartition(topic, number)
            found.append((tp, replicas))
            if number in assignment.adding_replicas or number in assignment.removing_replicas:
                # Kafka 2.4 and newer write a reassignment here: during it the removed brokers are replicas, too
                going = assignment.removing_replicas.get(number, ())
                reassigned[tp] = tuple(broker for broker in replicas if broker not in going)
    # only the controller acts on these requests, so one that cannot be read is ignored here
    electing: tuple[TopicPartition, ...] = ()
    with contextlib.suppress(MalformedZnodeError):
        if isinstance(requests[0], Znode):
            reassigned |= decode_reassignment(asked[0], requests[0].data).replicas
    with contextlib.suppress(MalformedZnodeError):
        if isinstance(requests[1], Znode):
            electing = decode_preferred_election(asked[1], requests[1].data).partitions
    [registered] = store.get_children_many([BrokerIdsPath().path])
    living = set(broker_ids(registered or ()))
    states, unreadable = _read_states(store, [tp for tp, _ in found])
    rows = [_leadership(tp, replicas, states.get(tp), living, reassigned.get(tp), electing) for tp, replicas in found]
    return rows, [*problems, *unreadable]


def read_leaders(store: ZkStore, partitions: Sequence[TopicPartition]) -> dict[TopicPartition, int]:
    """Return {partition: the id of its leader}, in one request; without partitions whose leader is unknown."""
    states, _ = _read_states(store, partitions)
    return {tp: state.leader for tp, state in states.items() if state.leader >= 0}


def _read_states(
    store: ZkStore, partitions: Sequence[TopicPartition]
) -> tuple[dict[TopicPartition, PartitionState], list[MalformedZnodeError | NotPermittedError]]:
    paths = [PartitionStatePath(*tp).path for tp in partitions]
    found: dict[TopicPartition, PartitionState] = {}
    problems: list[MalformedZnodeError | NotPermittedError] = []
    for tp, path, znode in zip(partitions, paths, read_each(store, paths), strict=True):
        if isinstance(znode, NotPermittedError):
            problems.append(znode)
        elif znode is not None:
            try:
                found[tp] = decode_partition_state(path, znode.data)
            except MalformedZnodeError as error:
                problems.append(error)
    return found, problems


def _leadership(
    tp: TopicPartition,
    replicas: tuple[int, ...],
    state: PartitionState | None,
    living: Collection[int],
    reassigned_to: tuple[int, ...] | None,
    electing: Collection[TopicPartition],
) -> PartitionLeadership:
    in_sync = None if state is None else state.isr
    leader = None if state is None or state.leader not in living else state.leader
    # the controller chooses in the same way: the first replica that is registered and in sync
    able = [broker for broker in replicas if broker in living and broker in (in_sync or ()) and broker != leader]
    return PartitionLeadership(
        *tp,
        leader,
        None if state is None else state.leader_epoch,
        replicas,
        in_sync,
        able[0] if able else None,
        reassigned_to,
        tp in electing,
    )
