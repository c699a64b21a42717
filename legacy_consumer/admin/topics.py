"""Topics as an operator of groups wants to see them: which there are, whether they can be read, and who reads them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from legacy_consumer.admin.group_list import list_groups
from legacy_consumer.admin.group_reads import read_apart
from legacy_consumer.admin.topic_partitions import list_topic_names
from zk_layout.codecs import decode_partition_state, decode_topic
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import TopicAssignment
from zk_layout.paths import BrokerIdsPath, DeleteTopicsPath, OffsetsPath, PartitionStatePath, TopicPath
from zk_layout.store import ZkStore


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic.

    replicas: the least of any partition. no_leader, under_replicated: how many partitions. A leader that is not
    registered is none: controllers leave it in the state of a partition whose only replica it has. is_going: marked for
    deletion. groups: those with a committed offset of it. problem: why its znode cannot be read.
    """

    topic: str
    partitions: int = 0
    replicas: int = 0
    no_leader: int = 0
    under_replicated: int = 0
    is_going: bool = False
    groups: tuple[str, ...] = ()
    problem: str | None = None


def read_topics(store: ZkStore, readers: Mapping[str, tuple[str, ...]] | None = None) -> list[TopicSummary]:
    """All topics, sorted. Five requests, however many there are. readers: see read_readers. Raises: ZooKeeperError."""
    names = list_topic_names(store)
    paths = [TopicPath(name).path for name in names]
    [going] = store.get_children_many([DeleteTopicsPath().path])
    assignments: dict[str, TopicAssignment] = {}
    problems: dict[str, str] = {}
    for name, path, znode in zip(names, paths, store.get_data_many(paths), strict=True):
        if znode is not None:
            try:
                assignments[name] = decode_topic(path, znode.data)
            except MalformedZnodeError as error:
                problems[name] = str(error)
    states = _read_states(store, [(name, number) for name, found in assignments.items() for number in found.partitions])
    [registered] = store.get_children_many([BrokerIdsPath().path])
    living = {int(name) for name in registered or () if name.isdecimal()}
    states = {tp: (leader if leader in living else -1, in_sync) for tp, (leader, in_sync) in states.items()}
    return [
        _summary(
            name,
            assignments.get(name),
            states,
            name in (going or ()),
            (readers or {}).get(name, ()),
            problems.get(name),
        )
        for name in names
        if name in assignments or name in problems
    ]


def _read_states(store: ZkStore, partitions: Sequence[tuple[str, int]]) -> dict[tuple[str, int], tuple[int, int]]:
    """{partition: (leader, how many are in sync)} of those that have a state."""
    paths = [PartitionStatePath(*partition).path for partition in partitions]
    found: dict[tuple[str, int], tuple[int, int]] = {}
    for partition, path, znode in zip(partitions, paths, store.get_data_many(paths), strict=True):
        if znode is not None:
            try:
                state = decode_partition_state(path, znode.data)
            except MalformedZnodeError:
                continue
            found[partition] = state.leader, len(state.isr)
    return found


def read_readers(store: ZkStore) -> tuple[dict[str, tuple[str, ...]], Mapping[str, Exception]]:
    """{topic: the groups with offsets of it}, and why other groups may not be read. Raises: ZooKeeperError."""

    def topics_of(groups: Sequence[str]) -> list[tuple[str, tuple[str, ...] | None]]:
        children = store.get_children_many([OffsetsPath(group).path for group in groups])
        return list(zip(groups, children, strict=True))

    found, forbidden = read_apart(list_groups(store), topics_of)
    readers: dict[str, list[str]] = {}
    for group, topics in found:
        for topic in topics or ():
            readers.setdefault(topic, []).append(group)
    return {topic: tuple(names) for topic, names in readers.items()}, forbidden


def _summary(
    topic: str,
    assignment: TopicAssignment | None,
    states: dict[tuple[str, int], tuple[int, int]],
    is_going: bool,
    groups: tuple[str, ...],
    problem: str | None,
) -> TopicSummary:
    if assignment is None:
        return TopicSummary(topic, is_going=is_going, groups=groups, problem=problem)
    no_leader = under_replicated = 0
    for number, replicas in assignment.partitions.items():
        leader, in_sync = states.get((topic, number), (-1, 0))
        no_leader += leader < 0
        under_replicated += in_sync < len(replicas)
    return TopicSummary(
        topic,
        partitions=len(assignment.partitions),
        replicas=min((len(replicas) for replicas in assignment.partitions.values()), default=0),
        no_leader=no_leader,
        under_replicated=under_replicated,
        is_going=is_going,
        groups=groups,
    )
