"""A reader for a stream that is refused: it raises the reason when Spark first calls it.

If making a stream's reader raises an error, Spark's worker fails because it has no reader, and the user sees only
Spark's own error ("cannot access local variable 'reader'"). So a reader is made, and its methods raise the reason.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import NoReturn

from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit

from zk_layout.errors import LegacyConsumerError


class RefusedStreamReader(DataSourceStreamReader):
    """Every method raises the same error. It stays in the worker that plans, and is never pickled to an executor."""

    def __init__(self, error: LegacyConsumerError) -> None:
        self._error = error

    def _refuse(self) -> NoReturn:
        raise self._error

    def initialOffset(self) -> NoReturn:  # noqa: N802 - Spark's name
        """Raise the reason why there is no stream."""
        self._refuse()

    def getDefaultReadLimit(self) -> NoReturn:  # noqa: N802
        """Raise the reason why there is no stream."""
        self._refuse()

    def latestOffset(self, start: dict[str, object], limit: ReadLimit) -> NoReturn:  # noqa: N802, ARG002
        """Raise the reason why there is no stream."""
        self._refuse()

    def partitions(self, start: dict[str, object], end: dict[str, object]) -> Sequence[InputPartition]:  # noqa: ARG002
        """Raise the reason why there is no stream."""
        self._refuse()

    def read(self, partition: InputPartition) -> Iterator[tuple[object, ...]]:  # noqa: ARG002
        """Raise the reason why there is no stream."""
        self._refuse()


def reader_or_refusal(make: Callable[[], DataSourceStreamReader]) -> DataSourceStreamReader:
    """Return the result of make, or a reader that reports why make failed."""
    try:
        return make()
    except LegacyConsumerError as error:
        return RefusedStreamReader(error)
