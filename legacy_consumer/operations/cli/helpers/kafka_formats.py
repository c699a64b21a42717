"""The exact columns of Kafka's own tools, for scripts that read them. No I/O.

    checker   ConsumerOffsetChecker of 0.8.2 to 0.11
    0.9       consumer-groups --zookeeper --describe of 0.9
    0.10.0    of 0.10.0 and 0.10.1
    0.10.2    of 0.10.2 to 1.0
    1.1       of 1.1

Like Kafka's tools, they show the topics that have a directory under `owners`, with all their partitions. Up to 0.10.1
OWNER is the text of the owner znode. Later, CONSUMER-ID is that text up to the last dash, and a member that owns
nothing has a line of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence

from legacy_consumer.operations.admin.groups import GroupDescription, GroupMember, PartitionLag

Lines = Callable[[GroupDescription, Sequence[PartitionLag]], Iterator[str]]

_LEAST_WIDTH = 15


def kafka_lines(version: str, found: GroupDescription, owned_topics: Collection[str]) -> Iterator[str]:
    """Return the output of Kafka's tool of this version (one of KAFKA_FORMATS) for the group.

    owned_topics: the children of the group's `owners` that exist.
    """
    return _FORMATS[version](found, [row for row in found.partitions if row.topic in owned_topics])


def _checker(found: GroupDescription, rows: Sequence[PartitionLag]) -> Iterator[str]:
    shape = "%-15s %-30s %-3s %-15s %-15s %-15s %s"
    yield shape % ("Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner")
    for row in rows:
        if row.log_end is None:
            yield f"No broker for partition {row.topic} - {row.partition}"
            continue
        offset = -1 if row.committed is None else row.committed
        yield shape % (
            found.group,
            row.topic,
            row.partition,
            offset,
            row.log_end,
            "unknown" if row.lag is None else row.lag,
            "none" if row.owner is None else row.owner,
        )


def _consumer_groups_up_to_0_10_1(shape: str, heads: Sequence[str]) -> Lines:
    def lines(found: GroupDescription, rows: Sequence[PartitionLag]) -> Iterator[str]:
        yield shape % tuple(heads)
        for row in rows:
            yield shape % (
                found.group,
                row.topic,
                row.partition,
                _known(row.committed, "unknown"),
                _known(row.log_end, "unknown"),
                _known(row.lag, "unknown"),
                "none" if row.owner is None else row.owner,
            )

    return lines


_HEADS = ("TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "CONSUMER-ID")


def _consumer_groups_0_10_2(found: GroupDescription, rows: Sequence[PartitionLag]) -> Iterator[str]:
    return _from_0_10_2("%-30s %-10s %-15s %-15s %-10s %-50s", found, rows)


def _consumer_groups_1_1(found: GroupDescription, rows: Sequence[PartitionLag]) -> Iterator[str]:
    topics = max([_LEAST_WIDTH, *(len(row.topic) for row in rows)])
    idle = [member.consumer_id for member in _idle(found, rows)]
    ids = max([_LEAST_WIDTH, *(len(_consumer_id(row)) for row in rows), *map(len, idle)])
    return _from_0_10_2(f"%-{topics}s %-10s %-15s %-15s %-15s %-{ids}s ", found, rows)


def _from_0_10_2(shape: str, found: GroupDescription, rows: Sequence[PartitionLag]) -> Iterator[str]:
    yield ""
    yield shape % _HEADS
    for row in rows:
        yield shape % (
            row.topic,
            row.partition,
            _known(row.committed, "-"),
            _known(row.log_end, "-"),
            _known(row.lag, "-"),
            _consumer_id(row),
        )
    for member in _idle(found, rows):
        for _ in member.subscription:
            yield shape % ("-", "-", "-", "-", "-", member.consumer_id)


def _idle(found: GroupDescription, rows: Sequence[PartitionLag]) -> list[GroupMember]:
    owning = {_consumer_id(row) for row in rows}
    return [member for member in found.members if member.consumer_id not in owning]


def _consumer_id(row: PartitionLag) -> str:
    return "-" if row.owner is None else row.owner.rpartition("-")[0]


def _known(value: int | None, otherwise: str) -> str:
    return otherwise if value is None else str(value)


_FORMATS: dict[str, Lines] = {
    "checker": _checker,
    "0.9": _consumer_groups_up_to_0_10_1(
        "%s, %s, %s, %s, %s, %s, %s",
        ("GROUP", "TOPIC", "PARTITION", "CURRENT OFFSET", "LOG END OFFSET", "LAG", "OWNER"),
    ),
    "0.10.0": _consumer_groups_up_to_0_10_1(
        "%-30s %-30s %-10s %-15s %-15s %-15s %s",
        ("GROUP", "TOPIC", "PARTITION", "CURRENT-OFFSET", "LOG-END-OFFSET", "LAG", "OWNER"),
    ),
    "0.10.2": _consumer_groups_0_10_2,
    "1.1": _consumer_groups_1_1,
}
KAFKA_FORMATS = tuple(_FORMATS)
"""The versions that kafka_lines takes."""
