"""Reads the backups of a write of zk_offsets, as rows that can be written again."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from spark_source.offset_rows import OffsetRow


def old_offsets(file: str | Path) -> list[OffsetRow]:
    """Return the rows (group, topic, partition, offset) of a file in backupFolder, for a write that restores them.

    offset: None if there was none; a write with nullOffsets=delete restores that, too.
    Raises: BadOffsetFileError, OSError.
    """
    # imported here: Spark imports the package into workers that do not need these modules
    from legacy_consumer.operations.admin.offset_files import read_offsets
    from spark_source.offset_rows import as_rows

    path = Path(file)
    return as_rows(read_offsets(path.read_text(encoding="utf-8"), path.name).groups)
