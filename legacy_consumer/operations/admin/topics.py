"""Topics for operators of groups: whether members can read them, and which groups do."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from legacy_consumer.offsets.topic_partitions import list_topic_names
from legacy_consumer.operations.admin.group_list import list_groups
from legacy_consumer.operations.admin.group_reads import read_apart
from zk_layout.closed_znodes import read_each
from zk_layout.codecs import decode_partition_state, decode_topic
from zk_layout.errors import MalformedZnodeError, NotPermittedError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicAssignment
from zk_layout.paths import (
    BrokerIdsPath,
    DeleteTopicsPath,
    OffsetsPath,
    PartitionStatePath,
    TopicOffsetsPath,
    TopicPath,
    broker_ids,
)
from zk_layout.store import ZkStore

logger = safe_logger(__name__)


@dataclass(frozen=True, slots=True)
class TopicSummary:
    """One topic.

    replicas: the smallest number of replicas of a partition. no_leader, under_replicated: numbers of partitions. A
    leader that is not registered counts as none: controllers leave it in the state of a partition whose only replica
    it has. is_going: marked for deletion. groups: groups with a committed offset of the topic. problem: why its znode
    cannot be read. closed: why an ACL hides a part of it; partitions whose states are hidden are not counted.
    """

    topic: str
    partitions: int = 0
    replicas: int = 0
    no_leader: int = 0
    under_replicated: int = 0
    is_going: bool = False
    groups: tuple[str, ...] = ()
    problem: str | None = None
    closed: str | None = None


def read_topics(store: ZkStore, readers: Mapping[str, tuple[str, ...]] | None = None) -> list[TopicSummary]:
    """Return all topics, sorted, in five requests for any number of topics. readers: from read_readers.

    Raises: ZooKeeperError.
    """
    names = list_topic_names(store)
    paths = [TopicPath(name).path for name in names]
    going = _marked_for_deletion(store)
    assignments: dict[str, TopicAssignment] = {}
    problems: dict[str, str] = {}
    closed: dict[str, str] = {}
    for name, path, znode in zip(names, paths, read_each(store, paths), strict=True):
        if isinstance(znode, NotPermittedError):
            closed[name] = str(znode)
        elif znode is not None:
            try:
                assignments[name] = decode_topic(path, znode.data)
            except MalformedZnodeError as error:
                problems[name] = str(error)
    partitions = [(name, number) for name, found in assignments.items() for number in found.partitions]
    states, closed_states = _read_states(store, partitions)
    for (name, _), refusal in closed_states.items():
        closed.setdefault(name, str(refusal))
    [registered] = store.get_children_many([BrokerIdsPath().path])
    living = set(broker_ids(registered or ()))
    states = {tp: (leader if leader in living else -1, in_sync) for tp, (leader, in_sync) in states.items()}
    return [
        _summary(
            name,
            assignments.get(name),
            states,
            name in going,
            (readers or {}).get(name, ()),
            problems.get(name),
            closed.get(name),
            closed_states.keys(),
        )
        for name in names
        if name in assignments or name in problems or name in closed
    ]


def _marked_for_deletion(store: ZkStore) -> tuple[str, ...]:
    try:
        [names] = store.get_children_many([DeleteTopicsPath().path])
    except NotPermittedError as error:
        logger.warning("cannot read which topics are marked for deletion: %s", error)
        return ()
    return names or ()


def _read_states(
    store: ZkStore, partitions: Sequence[tuple[str, int]]
) -> tuple[dict[tuple[str, int], tuple[int, int]], dict[tuple[str, int], NotPermittedError]]:
    """Return {partition: (leader, in-sync replicas)} for partitions with a state, and why others cannot be read."""
    paths = [PartitionStatePath(*partition).path for partition in partitions]
    found: dict[tuple[str, int], tuple[int, int]] = {}
    closed: dict[tuple[str, int], NotPermittedError] = {}
    for partition, path, znode in zip(partitions, paths, read_each(store, paths), strict=True):
        if isinstance(znode, NotPermittedError):
            closed[partition] = znode
        elif znode is not None:
            try:
                state = decode_partition_state(path, znode.data)
            except MalformedZnodeError:
                continue
            found[partition] = state.leader, len(state.isr)
    return found, closed


def read_readers(store: ZkStore) -> tuple[dict[str, tuple[str, ...]], Mapping[str, Exception]]:
    """Return {topic: the groups with offsets of it}, and why other groups cannot be read. Raises: ZooKeeperError."""

    def folders_of(groups: Sequence[str]) -> list[tuple[str, str]]:
        topics = store.get_children_many([OffsetsPath(group).path for group in groups])
        folders = [(group, topic) for group, names in zip(groups, topics, strict=True) for topic in names or ()]
        offsets = store.get_children_many([TopicOffsetsPath(*folder).path for folder in folders])
        # a topic's folder stays after its last offset is deleted
        return [folder for folder, names in zip(folders, offsets, strict=True) if names]

    found, forbidden = read_apart(list_groups(store), folders_of)
    readers: dict[str, list[str]] = {}
    for group, topic in found:
        readers.setdefault(topic, []).append(group)
    return {topic: tuple(names) for topic, names in readers.items()}, forbidden


def _summary(
    topic: str,
    assignment: TopicAssignment | None,
    states: dict[tuple[str, int], tuple[int, int]],
    is_going: bool,
    groups: tuple[str, ...],
    problem: str | None,
    closed: str | None,
    closed_states: Collection[tuple[str, int]],
) -> TopicSummary:
    if assignment is None:
        return TopicSummary(topic, is_going=is_going, groups=groups, problem=problem, closed=closed)
    no_leader = under_replicated = 0
    for number, replicas in assignment.partitions.items():
        if (topic, number) in closed_states:
            continue
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
        closed=closed,
    )
