from datetime import datetime, timezone

import pyarrow as pa
import pytest

from spark_source.arrow import ArrowColumn, ColumnType, record_batch


def test_a_batch_has_the_types_order_and_nullability_that_spark_asks_for():
    columns = [
        ArrowColumn("Group", ColumnType.STRING, nullable=False),
        ArrowColumn("partition", ColumnType.INT),
        ArrowColumn("lag", ColumnType.LONG),
        ArrowColumn("commit_time", ColumnType.TIMESTAMP),
    ]
    batch = record_batch(columns, [["a", "ü"], [1, None], [2**40, None], [1_600_000_000_123, None]])
    assert batch.schema == pa.schema(
        [
            pa.field("Group", pa.string(), nullable=False),
            pa.field("partition", pa.int32()),
            pa.field("lag", pa.int64()),
            pa.field("commit_time", pa.timestamp("us", tz="UTC")),
        ]
    )
    first = datetime(2020, 9, 13, 12, 26, 40, 123000, tzinfo=timezone.utc)
    assert batch.to_pylist() == [
        {"Group": "a", "partition": 1, "lag": 2**40, "commit_time": first},
        {"Group": "ü", "partition": None, "lag": None, "commit_time": None},
    ]


def test_no_rows_make_an_empty_batch():
    assert record_batch([ArrowColumn("a", ColumnType.TIMESTAMP)], [[]]).num_rows == 0


def test_a_value_of_another_type_is_refused():
    with pytest.raises(pa.ArrowInvalid):
        record_batch([ArrowColumn("partition", ColumnType.INT)], [[2**31]])
