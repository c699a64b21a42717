"""Builds the batch that Spark wants from decoded columns of one partition. No I/O."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from legacy_consumer.fetching.columnar.records import Columns
from spark_source.arrow import ARROW_TYPES, ColumnType, message_times
from spark_source.messages.columns import WantedColumn


def batch_of_columns(run: Columns, columns: Sequence[WantedColumn], schema: pa.Schema) -> pa.RecordBatch:
    """Return the columns as a batch. schema: that of the columns."""
    made = run.to_arrow([column.source for column in columns if column.source not in {"topic", "timestamp"}])
    arrays = []
    for column in columns:
        if column.source == "topic":
            name = pa.scalar(run.topic_partition.topic, ARROW_TYPES[ColumnType.STRING])
            arrays.append(pa.repeat(name, len(run)))
        elif column.source == "timestamp":
            arrays.append(message_times(run.timestamps, run.timestamp_types == 0))
        elif column.source == "headers":
            arrays.append(made.column("headers").cast(ARROW_TYPES[ColumnType.HEADERS]))
        elif column.source == "timestampType":
            arrays.append(pa.array(run.timestamp_types.astype(np.int32) - np.int32(1)))
        else:
            arrays.append(made.column(column.source))
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
