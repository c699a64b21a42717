"""The backups that a write of zk_offsets makes, as rows that can be written back."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_source.offset_rows import OffsetRow


def old_offsets(file: str | Path) -> list[OffsetRow]:
    """The rows (group, topic, partition, offset) in a file of backupFolder, to be written back.

    Where the offset is None there was none; nullOffsets=delete puts that back, too.
    Raises: BadOffsetFileError, OSError.
    """
    # not with the module: Spark imports the package into workers that have no use for these
    from legacy_consumer.operations.admin.offset_files import read_offsets
    from spark_source.offset_rows import as_rows

    path = Path(file)
    return as_rows(read_offsets(path.read_text(encoding="utf-8"), path.name).groups)
