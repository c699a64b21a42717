"""The formats as Spark knows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from spark_source.batch import ZkOffsetsReader
from spark_source.offsets import SCHEMA_DDL, request_columns
from spark_source.options import FORMAT, parse_options

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

FILTER_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(spark: SparkSession) -> None:
    """Make the formats known to this session: `spark.read.format("zk_offsets")`.

    Turns spark.sql.python.filterPushdown.enabled on for it, without which Spark refuses sources that take filters.
    The executors need this package installed.
    """
    spark.conf.set(FILTER_PUSHDOWN, "true")
    spark.dataSource.register(ZkOffsets)


class ZkOffsets(DataSource):
    """The format zk_offsets: what the groups under /consumers have committed, own and lag behind.

    Made by Spark in a Python worker on the driver; holds the options as text and is pickled from there.
    """

    @classmethod
    def name(cls) -> str:
        """The name for format()."""
        return FORMAT

    def schema(self) -> str:
        """All columns. Runs with load(), unless the user gives a schema. Raises: ConfigError."""
        parse_options(self.options)
        return SCHEMA_DDL

    def reader(self, schema: StructType) -> ZkOffsetsReader:
        """The batch read; runs on the driver when a query is planned. Raises: ConfigError, SchemaMismatchError."""
        columns = request_columns((field.name, field.dataType.simpleString(), field.nullable) for field in schema)
        return ZkOffsetsReader(parse_options(self.options), columns)
