"""A stream that cannot be as asked: says why when Spark first calls it.

When making a stream's reader fails, Spark's worker stumbles over the reader that it never got, and its own error
("cannot access local variable 'reader'") is all that the user sees. So the reader is made, and fails.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from zk_layout.errors import LegacyConsumerError


class RefusedStreamReader(DataSourceStreamReader):
    """Every call raises the same error. Lives in the worker that plans, and never crosses to an executor."""

    def __init__(self, error: LegacyConsumerError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Raises: why there is no stream."""
        self._refuse()

    def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802
        """Raises: why there is no stream."""
        self._refuse()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> NoReturn:  # noqa: N802, ARG002
        """Raises: why there is no stream."""
        self._refuse()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raises: why there is no stream."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:  # noqa: ARG002
        """Raises: why there is no stream."""
        self._refuse()


def reader_or_refusal(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Return the result of make, or a reader that reports why make failed."""
    try:
        return make()
    except LegacyConsumerError as error:
        return RefusedStreamReader(error)
