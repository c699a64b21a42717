"""The batch read of kafka_segments, with a task for each file."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from legacy_consumer.errors import CorruptSegmentError, SegmentFileError
from legacy_consumer.fetching.segment_files import opened_segment, partition_of, segments_of
from spark_source.arrow import arrow_schema
from spark_source.errors import DamagedSegmentError
from spark_source.messages.columns import WantedColumn
from spark_source.reused_worker import spare_modules_from_collection
from spark_source.segments.options import DamagedSegments, SegmentOptions
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition

logger = safe_logger(__name__)

_LEFT_BEHIND = re.compile(r".+-\d+\.[0-9a-f]+-(delete|future|stray)")
"""Folders of partitions that a broker is deleting, or has not moved to this disk completely."""


class SegmentPartition(InputPartition):
    """The file that one task reads, and the partition of its messages."""

    def __init__(self, path: str, partition: TopicPartition) -> None:
        super().__init__(path)
        self.path = path
        self.partition = partition


class KafkaSegmentsReader(DataSourceReader):
    """Reads every record of the files, in the order of each file.

    Spark makes it on the driver, in a Python worker of its own, asks for its partitions, and pickles it to the
    executors, where read runs for each file. Spark asks for the partitions once for each load(): later files need a new
    load().
    """

    def __init__(self, options: SegmentOptions, columns: tuple[WantedColumn, ...]) -> None:
        self._options = options
        self._columns = columns

    def partitions(self) -> Sequence[InputPartition]:
        """Find the files. Runs on the driver. Raises: SegmentFileError."""
        files: dict[str, Path] = {}
        for path in (path for given in self._options.paths for path in _files_of(given)):
            files.setdefault(os.path.realpath(path), path)  # two of the paths may lead to one file
        found = [each for path in sorted(files.values()) if (each := _task_of(path))]
        if not found:
            raise SegmentFileError(", ".join(self._options.paths), "all segments are of partitions that were deleted")
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Read the records of one file. Runs on an executor. Raises: SegmentFileError, DamagedSegmentError."""
        from legacy_consumer.fetching.columnar.segments import read_columns
        from spark_source.messages.column_batches import batch_of_columns

        assert isinstance(partition, SegmentPartition)
        schema = arrow_schema([column.arrow for column in self._columns])
        with opened_segment(Path(partition.path)) as data:
            try:
                for run in read_columns(data, partition.partition, partition.path):
                    yield batch_of_columns(run, self._columns, schema)
            except CorruptSegmentError as error:
                if self._options.damaged is DamagedSegments.FAIL:
                    raise DamagedSegmentError(str(error)) from error
                logger.warning("%s; the records before it are read", error)
        spare_modules_from_collection()


def _files_of(given: str) -> Iterator[Path]:
    path = Path(given).absolute()
    root = Path(path.anchor)
    places = [path] if path.exists() else sorted(root.glob(str(path.relative_to(root))))
    if not places:
        raise SegmentFileError(given, "there is no such file or folder")
    for place in places:
        yield from segments_of(place)


def _task_of(path: Path) -> SegmentPartition | None:
    """Return the task of a file; None for a left-behind one. Raises: SegmentFileError if its partition is unknown."""
    partition = partition_of(path)
    if partition is not None:
        return SegmentPartition(str(path), partition)
    if _LEFT_BEHIND.fullmatch(path.parent.name):
        logger.warning("%s is not read: its folder is that of a partition that was deleted or is being moved", path)
        return None
    raise SegmentFileError(
        str(path), "its folder tells no topic and partition: name it as brokers do, TOPIC-PARTITION, such as flights-0"
    )
