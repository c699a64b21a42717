"""The formats, as the classes that Spark calls.

Spark imports this module into several Python workers for every query, so each part is imported where it is used.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from pyspark.sql.datasource import DataSource

from spark_source.messages.columns import default_columns, request_message_columns
from spark_source.messages.options import check_for_batch, check_for_stream, parse_message_options
from spark_source.offset_rows import offset_columns
from spark_source.offsets import COLUMNS, request_columns
from spark_source.option_names import HIDDEN_OPTIONS, MESSAGES_FORMAT, OFFSETS_FORMAT, SEGMENTS_FORMAT
from spark_source.options import check_batch_read, parse_options, parse_write_options
from spark_source.schemas import schema_ddl
from spark_source.segments.options import parse_segment_options
from zk_layout.errors import ConfigError
from zk_layout.loggers import safe_logger

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession
    from pyspark.sql.datasource import DataSourceStreamReader
    from pyspark.sql.types import StructType

    from spark_source.batch import ZkOffsetsReader
    from spark_source.messages.batch import ZkMessagesReader
    from spark_source.messages.stream import ZkMessagesStreamReader
    from spark_source.offset_write import ZkOffsetsWriter
    from spark_source.segments.reader import KafkaSegmentsReader


logger = safe_logger(__name__)

REDACTION = "spark.sql.redaction.options.regex"


def register(spark: SparkSession) -> None:
    """Register the formats zk_offsets, zk_messages and kafka_segments with this session, for spark.read.format.

    Extends spark.sql.redaction.options.regex, so that the session hides also secrets with names that Spark does not
    know in plans and in Spark's event log. Makes the session the active one of the calling thread, because writes look
    formats up there: a thread of the user's code must call register again. The executors need this package installed,
    or added by --py-files.
    """
    hidden = spark.conf.get(REDACTION, "") or ""
    if HIDDEN_OPTIONS not in hidden:
        spark.conf.set(REDACTION, f"{hidden}|{HIDDEN_OPTIONS}" if hidden else HIDDEN_OPTIONS)
    jvm = getattr(spark, "_jvm", None)
    if jvm is not None:  # there is none with Spark Connect
        jvm.org.apache.spark.sql.classic.SparkSession.setActiveSession(spark._jsparkSession)  # noqa: SLF001
        _let_streams_find_py_files()
    spark.dataSource.register(ZkOffsets)
    spark.dataSource.register(ZkMessages)
    spark.dataSource.register(KafkaSegments)


def _let_streams_find_py_files() -> None:
    """Link the folder in which the worker that plans a stream looks for --py-files to the one where they are.

    The worker looks in a folder streaming_job within the right folder (seen with 4.3.0).
    """
    from pyspark import SparkFiles

    missing = Path(SparkFiles.getRootDirectory(), "streaming_job")
    try:
        missing.symlink_to(".", target_is_directory=True)
    except FileExistsError:
        pass
    except OSError as error:
        logger.warning("streams will not find what --py-files brought: no link can be made at %s: %s", missing, error)


class ZkOffsets(DataSource):
    """The format zk_offsets: committed offsets, owners and lag of the groups under /consumers.

    Spark makes it in a Python worker on the driver and pickles it from there; it holds the options as text.
    """

    @classmethod
    def name(cls) -> str:
        """The name for format()."""
        return OFFSETS_FORMAT

    def schema(self) -> str:
        """Return all columns. Runs with load(), unless the user gives a schema. Raises: ConfigError."""
        parse_options(self.options)
        return schema_ddl(COLUMNS)

    def reader(self, schema: StructType) -> ZkOffsetsReader:
        """Return the batch read; runs on the driver when a query is planned.

        Raises: ConfigError, SchemaMismatchError.
        """
        from spark_source.batch import ZkOffsetsReader

        options = parse_options(self.options)
        check_batch_read(options)
        return ZkOffsetsReader(options, request_columns(_fields(schema)))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the streaming read; runs on the driver when a query starts.

        The returned reader raises the errors of the options.
        """
        from spark_source.offset_stream import ZkOffsetsStreamReader
        from spark_source.refused_stream import reader_or_refusal

        return reader_or_refusal(
            lambda: ZkOffsetsStreamReader(parse_options(self.options), request_columns(_fields(schema)))
        )

    def writer(self, schema: StructType, overwrite: bool) -> ZkOffsetsWriter:
        """Return the write; runs on the driver when a query is planned. Raises: ConfigError, SchemaMismatchError."""
        from spark_source.offset_write import ZkOffsetsWriter

        options = parse_write_options(self.options)
        if overwrite:
            raise ConfigError(
                "mode", "overwrite", "would mean all groups: use append, which replaces offsets one by one"
            )
        return ZkOffsetsWriter(options, offset_columns((name, kind) for name, kind, _ in _fields(schema)))

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802, ARG002
        """Raises: ConfigError, because the format has no streaming write."""
        raise ConfigError(
            "format", OFFSETS_FORMAT, "is no sink of a stream: write each batch, with writeStream.foreachBatch"
        )


class ZkMessages(DataSource):
    """The format zk_messages: the messages of topics, from the group's offsets or from any others.

    Spark makes it in a Python worker on the driver and pickles it from there; it holds the options as text.
    """

    @classmethod
    def name(cls) -> str:
        """The name for format()."""
        return MESSAGES_FORMAT

    def schema(self) -> str:
        """Return the columns of Spark's own Kafka source. Runs with load(), unless the user gives a schema.

        Raises: ConfigError.
        """
        return schema_ddl(default_columns(headers=parse_message_options(self.options).include_headers))

    def reader(self, schema: StructType) -> ZkMessagesReader:
        """Return the batch read; runs on the driver when a query is planned.

        Raises: ConfigError, SchemaMismatchError.
        """
        from spark_source.messages.batch import ZkMessagesReader

        options = parse_message_options(self.options)
        check_for_batch(options)
        return ZkMessagesReader(options, request_message_columns(_fields(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002
        """Raises: ConfigError, because the format has no write."""
        raise ConfigError("format", MESSAGES_FORMAT, "only reads: write messages with Spark's own Kafka sink")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """Raises: ConfigError, because the format has no write."""
        self.writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Return the streaming read; runs on the driver when a query starts.

        The returned reader raises the errors of the options.
        """
        from spark_source.messages.stream import ZkMessagesStreamReader
        from spark_source.refused_stream import reader_or_refusal

        def make() -> ZkMessagesStreamReader:
            options = parse_message_options(self.options)
            check_for_stream(options)
            return ZkMessagesStreamReader(options, request_message_columns(_fields(schema)))

        return reader_or_refusal(make)


class KafkaSegments(DataSource):
    """The format kafka_segments: the messages in log segments that were copied from brokers.

    Spark makes it in a Python worker on the driver and pickles it from there; it holds the options as text.
    """

    @classmethod
    def name(cls) -> str:
        """The name for format()."""
        return SEGMENTS_FORMAT

    def schema(self) -> str:
        """Return the columns of zk_messages. Runs with load(), unless the user gives a schema. Raises: ConfigError."""
        return schema_ddl(default_columns(headers=parse_segment_options(self.options).include_headers))

    def reader(self, schema: StructType) -> KafkaSegmentsReader:
        """Return the batch read; runs on the driver when a query is planned.

        Raises: ConfigError, SchemaMismatchError.
        """
        from legacy_consumer.fetching.fetchers import decoder_obstacle
        from spark_source.segments.reader import KafkaSegmentsReader

        options = parse_segment_options(self.options)
        if obstacle := decoder_obstacle():
            raise ConfigError("format", SEGMENTS_FORMAT, f"{obstacle}, on driver and executors")
        return KafkaSegmentsReader(options, request_message_columns(_fields(schema)))

    def writer(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: ARG002
        """Raises: ConfigError, because the format has no write."""
        raise ConfigError("format", SEGMENTS_FORMAT, "only reads")

    def streamWriter(self, schema: StructType, overwrite: bool) -> NoReturn:  # noqa: N802
        """Raises: ConfigError, because the format has no write."""
        self.writer(schema, overwrite)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802, ARG002 - Spark's name
        """Return a reader that raises an error: the format has no streaming read."""
        from spark_source.refused_stream import RefusedStreamReader

        return RefusedStreamReader(ConfigError("format", SEGMENTS_FORMAT, "is read as a batch: spark.read"))


def _fields(schema: StructType) -> Iterator[tuple[str, str, bool]]:
    return ((field.name, field.dataType.simpleString(), field.nullable) for field in schema)
