import pickle

import pytest

from legacy_consumer.operations.admin.group_table import GroupPartition
from spark_source.arrow import ColumnType
from spark_source.errors import SchemaMismatchError
from spark_source.messages.columns import request_message_columns
from spark_source.offsets import COLUMNS, Facts, Need, needed_facts, request_columns
from spark_source.schemas import schema_ddl
from zk_layout.errors import ConfigError
from zk_layout.model import PartitionState, TopicPartition

ROWS = [
    GroupPartition("g", "t", 0, 40, 1_600_000_000_123, "g_host-1-0", 1_600_000_000_000),
    GroupPartition("g", "t", 1, None, None, "pykafka:1", 5, "bad owner"),
    GroupPartition("g", "t", 2, 500, 7),
    GroupPartition("g", "gone", 0, 1, 7),
]
LOGS = Facts(
    start={TopicPartition("t", n): 10 for n in range(3)},
    end={TopicPartition("t", n): 100 for n in range(3)},
    members={("g", "g_host-1"): "static: t (1)", ("other", "pykafka:1"): None},
    states={
        TopicPartition("t", 0): PartitionState(2, 5, (2, 1), 1),
        TopicPartition("t", 1): PartitionState(-1, 6, (), 1),
    },
    read_at_ms=1_600_000_000_200,
)


def every_column():
    return request_columns((column.name, column.type.value, True) for column in COLUMNS)


def values(name):
    [requested] = request_columns([(name, next(c.type.value for c in COLUMNS if c.name == name), True)])
    return requested.column.values(ROWS, LOGS)


def test_lag_counts_the_unread_messages_and_is_null_if_one_side_is_unknown():
    assert values("lag") == [60, None, -400, None]


def test_log_ends_are_null_where_no_broker_answered():
    assert values("log_end") == [100, 100, 100, None]
    assert values("log_start") == [10, 10, 10, None]


def test_every_column_has_a_value_for_every_row():
    for requested in every_column():
        assert len(requested.column.values(ROWS, LOGS)) == len(ROWS), requested.name
    assert values("owner") == ["g_host-1-0", "pykafka:1", None, None]
    assert values("error") == [None, "bad owner", None, None]
    assert values("commit_time") == [1_600_000_000_123, None, 7, 7]
    assert values("committed_offset") == [40, None, 500, 1]


def test_a_member_is_an_owner_that_is_registered_in_the_group():
    assert values("member") == ["g_host-1", None, None, None]
    assert values("subscription") == ["static: t (1)", None, None, None]


def test_leaders_and_replicas_are_null_where_there_are_none():
    assert values("leader") == [2, None, None, None]
    assert values("in_sync_replicas") == [(2, 1), (), None, None]


def test_the_verdict_is_that_of_one_look():
    assert values("lag_verdict") == ["ok", "error", "error", "unknown"]


def test_the_brokers_are_asked_only_for_the_chosen_columns():
    def needs(*fields):
        return needed_facts(request_columns([(*field, True) for field in fields]))

    assert needs(("group", "string"), ("committed_offset", "bigint")) == frozenset()
    assert needs(("lag", "bigint")) == {Need.LOG_START, Need.LOG_END}
    assert needs(("log_start", "bigint")) == {Need.LOG_START}
    assert needs(("leader", "int"), ("member", "string")) == {Need.STATES, Need.MEMBERS}
    assert needed_facts(every_column()) == set(Need)


def test_a_schema_chooses_and_orders_columns_and_keeps_its_spelling():
    requested = request_columns([("LAG", "bigint", True), ("Group", "string", False)])
    assert [(c.name, c.source, c.arrow.nullable) for c in requested] == [
        ("LAG", "lag", True),
        ("Group", "group", False),
    ]


@pytest.mark.parametrize(
    ("field", "complaint"),
    [
        (("offset", "bigint", True), "there is no such column, only group, topic"),
        (("partition", "bigint", True), "has type int and cannot be read as bigint"),
        (("group", "string collate UTF8_LCASE", True), "cannot be read as string collate"),
        (("lag", "bigint", False), "leave NOT NULL out"),
        (("GROUP", "string", True), "stands twice in the schema"),
    ],
)
def test_a_column_that_cannot_be_delivered_is_named(field, complaint):
    with pytest.raises(SchemaMismatchError) as caught:
        request_columns([("group", "string", True), field])
    assert caught.value.column == field[0]
    assert complaint in str(caught.value)


@pytest.mark.parametrize("request_them", [request_columns, request_message_columns])
def test_a_schema_without_columns_is_refused(request_them):
    with pytest.raises(ConfigError, match="schema: has no columns: name one at least, or leave the schema out for all"):
        request_them([])


def test_a_timestamp_without_time_zone_is_refused_with_the_type_to_write():
    with pytest.raises(SchemaMismatchError, match="write timestamp_ltz, which does not depend on"):
        request_columns([("commit_time", "timestamp_ntz", True)])


def test_requested_columns_survive_the_way_to_the_executors():
    assert pickle.loads(pickle.dumps(every_column())) == every_column()


def test_the_schema_names_every_column():
    # with spark.sql.timestampType=TIMESTAMP_NTZ the name timestamp means another type
    ddl = schema_ddl(COLUMNS).replace("timestamp_ltz", "timestamp")
    assert ddl.split(", ") == [f"{column.name} {column.type.value}" for column in COLUMNS]
    assert {column.type for column in COLUMNS} < set(ColumnType)
