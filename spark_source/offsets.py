"""The columns of zk_offsets: names, types, meaning, and how each is made from the rows and facts. No I/O.

A user's schema chooses among them by name. What it leaves out is not read either where that costs something: the log
columns ask the brokers, the columns of members and leaders read more znodes. Spark imports the names into several
Python
workers for every query; what makes values is loaded where values are made.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import TYPE_CHECKING, TypeAlias

from spark_source.arrow import ArrowColumn, ColumnType
from spark_source.schemas import match_columns
from zk_layout.model import PartitionState, TopicPartition

if TYPE_CHECKING:
    from legacy_consumer.operations.admin.group_table import GroupPartition
    from legacy_consumer.operations.admin.groups import PartitionLag


class Need(Enum):
    """The cost of a column beyond the znodes of its row."""

    LOG_START = "log_start"
    LOG_END = "log_end"
    MEMBERS = "members"
    STATES = "states"


BROKER_NEEDS = frozenset({Need.LOG_START, Need.LOG_END})
"""The needs for which brokers are asked."""


@dataclass(frozen=True, slots=True)
class Facts:
    """Data beside the rows, as far as some column needs them.

    start, end: first offsets and ends of the logs, without partitions for which no broker answered. members: the
    subscription of each registered member, by group and consumer id; None if its registration cannot be read. states:
    leaders and replicas. read_at_ms: by the clock of the reading process.
    """

    start: Mapping[TopicPartition, int] = field(default_factory=dict)
    end: Mapping[TopicPartition, int] = field(default_factory=dict)
    members: Mapping[tuple[str, str], str | None] = field(default_factory=dict)
    states: Mapping[TopicPartition, PartitionState] = field(default_factory=dict)
    read_at_ms: int = 0


Values: TypeAlias = "Callable[[Sequence[GroupPartition], Facts], Sequence[object]]"


@dataclass(frozen=True, slots=True)
class Column:
    """One column. needs: the facts that must be read for it."""

    name: str
    type: ColumnType
    meaning: str
    values: Values
    nullable: bool = True
    needs: frozenset[Need] = frozenset()


def _log_starts(rows: Sequence[GroupPartition], facts: Facts) -> list[int | None]:
    return [facts.start.get(TopicPartition(row.topic, row.partition)) for row in rows]


def _log_ends(rows: Sequence[GroupPartition], facts: Facts) -> list[int | None]:
    return [facts.end.get(TopicPartition(row.topic, row.partition)) for row in rows]


def _looks(rows: Sequence[GroupPartition], facts: Facts) -> list[PartitionLag]:
    """Return the rows as `groups describe` shows them."""
    from legacy_consumer.operations.admin.groups import partition_lag

    members: dict[str, dict[str, int]] = {}
    for group, consumer_id in facts.members:
        members.setdefault(group, {})[consumer_id] = 0
    logs = zip(_log_starts(rows, facts), _log_ends(rows, facts), strict=True)
    return [
        partition_lag(row, log, members.get(row.group, {}), facts.read_at_ms)
        for row, log in zip(rows, logs, strict=True)
    ]


def _lags(rows: Sequence[GroupPartition], facts: Facts) -> list[int | None]:
    return [look.lag for look in _looks(rows, facts)]


def _verdicts(rows: Sequence[GroupPartition], facts: Facts) -> list[str]:
    from legacy_consumer.operations.admin.lag_verdict import judge
    from legacy_consumer.operations.admin.lag_watch import sample_of

    return [
        judge(
            (sample_of(look, facts.read_at_ms),),
            has_owner=look.owner_is_member,
            problem=look.problem,
            in_log=look.in_log,
        ).kind.value
        for look in _looks(rows, facts)
    ]


def _members(rows: Sequence[GroupPartition], facts: Facts) -> list[str | None]:
    from rebalance.group_strategy import owner_id

    ids = [None if row.owner is None else owner_id(row.owner) for row in rows]
    return [
        consumer_id if consumer_id is not None and (row.group, consumer_id) in facts.members else None
        for row, consumer_id in zip(rows, ids, strict=True)
    ]


def _subscriptions(rows: Sequence[GroupPartition], facts: Facts) -> list[str | None]:
    return [
        None if member is None else facts.members[row.group, member]
        for row, member in zip(rows, _members(rows, facts), strict=True)
    ]


def _leaders(rows: Sequence[GroupPartition], facts: Facts) -> list[int | None]:
    states = [facts.states.get(TopicPartition(row.topic, row.partition)) for row in rows]
    return [state.leader if state is not None and state.leader >= 0 else None for state in states]


def _in_sync(rows: Sequence[GroupPartition], facts: Facts) -> list[Sequence[int] | None]:
    states = [facts.states.get(TopicPartition(row.topic, row.partition)) for row in rows]
    return [None if state is None else state.isr for state in states]


COLUMNS = (
    Column("group", ColumnType.STRING, "the group", lambda rows, _: [row.group for row in rows], nullable=False),
    Column("topic", ColumnType.STRING, "the topic", lambda rows, _: [row.topic for row in rows], nullable=False),
    Column(
        "partition",
        ColumnType.INT,
        "the partition",
        lambda rows, _: [row.partition for row in rows],
        nullable=False,
    ),
    Column(
        "committed_offset",
        ColumnType.LONG,
        "the next offset the group will read; null if it has committed none that counts",
        lambda rows, _: [row.committed for row in rows],
    ),
    Column(
        "commit_time",
        ColumnType.TIMESTAMP,
        "when the offset was last written, by ZooKeeper's clock",
        lambda rows, _: [row.committed_at_ms for row in rows],
    ),
    Column(
        "offset_version",
        ColumnType.INT,
        "the version of the offset znode: how often it was written since its creation",
        lambda rows, _: [row.offset_version for row in rows],
    ),
    Column(
        "owner",
        ColumnType.STRING,
        "the consumer thread that owns the partition, from its owner znode; null if there is none",
        lambda rows, _: [row.owner for row in rows],
    ),
    Column(
        "member",
        ColumnType.STRING,
        "the registered member that owns it; null if the owner is not registered",
        _members,
        needs=frozenset({Need.MEMBERS}),
    ),
    Column(
        "subscription",
        ColumnType.STRING,
        "what this member subscribes to, as `static: flights (2)`, with the number of its streams",
        _subscriptions,
        needs=frozenset({Need.MEMBERS}),
    ),
    Column(
        "log_start",
        ColumnType.LONG,
        "the first offset in the log; null if no broker answers",
        _log_starts,
        needs=frozenset({Need.LOG_START}),
    ),
    Column(
        "log_end",
        ColumnType.LONG,
        "the offset that the next message will get; null if no broker answers",
        _log_ends,
        needs=frozenset({Need.LOG_END}),
    ),
    Column(
        "lag",
        ColumnType.LONG,
        "log_end minus committed_offset; negative for an offset beyond the log's end; the whole log for an "
        "offset of an earlier topic",
        _lags,
        needs=BROKER_NEEDS,
    ),
    Column(
        "lag_verdict",
        ColumnType.STRING,
        "the verdict of one measurement, as in `describe`: `ok`, `stop` (messages wait, and no member owns the "
        "partition), `error`, `unknown`",
        _verdicts,
        needs=BROKER_NEEDS | {Need.MEMBERS},
    ),
    Column(
        "leader",
        ColumnType.INT,
        "the broker that leads the partition; null if none does",
        _leaders,
        needs=frozenset({Need.STATES}),
    ),
    Column(
        "in_sync_replicas",
        ColumnType.INTS,
        "the brokers that have all its messages",
        _in_sync,
        needs=frozenset({Need.STATES}),
    ),
    Column(
        "read_at",
        ColumnType.TIMESTAMP,
        "when the row was read, by the clock of the task",
        lambda rows, facts: [facts.read_at_ms] * len(rows),
    ),
    Column(
        "error",
        ColumnType.STRING,
        "path and reason if no member can read a znode of this row; null otherwise",
        lambda rows, _: [row.error for row in rows],
    ),
)
_BY_NAME = {column.name: column for column in COLUMNS}


@dataclass(frozen=True, slots=True)
class RequestedColumn:
    """A column of the user's schema: its name in the user's spelling, and source, a name in COLUMNS.

    Only names are pickled to the executors.
    """

    name: str
    source: str
    nullable: bool

    @property
    def column(self) -> Column:
        """The column of the format from which this one is made."""
        return _BY_NAME[self.source]

    @property
    def arrow(self) -> ArrowColumn:
        """The column with its type for Arrow."""
        return ArrowColumn(self.name, self.column.type, self.nullable)


def request_columns(fields: Iterable[tuple[str, str, bool]]) -> tuple[RequestedColumn, ...]:
    """Return the columns of a schema of (name, Spark's type, nullable). Raises: SchemaMismatchError, ConfigError."""
    return tuple(
        RequestedColumn(name, known.name, nullable) for name, known, nullable in match_columns(fields, COLUMNS)
    )


def needed_facts(columns: Iterable[RequestedColumn]) -> frozenset[Need]:
    """Return the facts that these columns need beside their rows; none for most columns."""
    return frozenset().union(*(requested.column.needs for requested in columns))
