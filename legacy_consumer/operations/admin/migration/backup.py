"""Backup of both sides before a step, in a file that `legacy-consumer offsets import` reads.

    {"version":1,"before":"applying","at_ms":1700000000000,
     "offsets":{"billing":{"orders":{"0":286894308}}},"kafka":{"billing":{"orders":{"0":null}}}}

"offsets" are the offsets in ZooKeeper, which an import restores; null stands for a partition without an offset.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timezone
from itertools import count
from pathlib import Path
from urllib.parse import quote

from legacy_consumer.errors import MigrationRefusedError
from legacy_consumer.offsets.judgement import written_elsewhere
from legacy_consumer.operations.admin.group_acls import GroupAcls
from legacy_consumer.operations.admin.migration.picture import Look
from legacy_consumer.operations.admin.offset_files import OffsetFormat, by_topic, marks_of, write_offsets
from legacy_consumer.operations.admin.whole_files import create_whole
from zk_layout.model import TopicPartition


def backup_file(group: str, at_ms: int, suffix: str = ".json") -> Path:
    """Return the default path of a backup; no file exists there yet."""
    at = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    stem = f"migration-{quote(group, safe=' ')[:150]}-{at:%Y%m%dT%H%M%SZ}"
    names = (f"{stem}{f'-{attempt}' if attempt else ''}{suffix}" for attempt in count())
    return next(file for file in map(Path, names) if not file.exists())


def write_backup(look: Look, step: str, at_ms: int, file: Path, acls: Mapping[str, GroupAcls]) -> None:
    """Write the offsets of both sides to the disk. Raises: MigrationRefusedError if that fails."""
    zookeeper: dict[TopicPartition, int | None] = {}
    kafka: dict[TopicPartition, int | None] = {}
    unreadable: dict[TopicPartition, bytes] = {}
    for one in look.partitions:
        kafka[one.tp] = one.kafka.offset
        if one.unreadable is not None:
            unreadable[one.tp] = one.unreadable
        else:
            zookeeper[one.tp] = written_elsewhere(one.zookeeper.offset, one.zookeeper.outlived)
    topics = {one.tp.topic: one.zookeeper.topic for one in look.partitions}
    origins = {topic: origin for topic, origin in topics.items() if origin is not None}
    marks = marks_of(topics.keys(), origins, [(one.tp, one.zookeeper.transaction or None) for one in look.partitions])
    more = {"before": step, "at_ms": at_ms, "kafka": {look.group: by_topic(kafka)}}
    text = write_offsets({look.group: zookeeper}, OffsetFormat.JSON, {look.group: unreadable}, more, acls, marks)
    try:
        create_whole(file, text, private=bool(acls))
    except FileExistsError as error:
        raise MigrationRefusedError(
            look.group, (f"{file} exists already: name another file, --backup FILE",)
        ) from error
    except OSError as error:
        reason = f"no backup can be written to {file}: {error.strerror}; name another file, --backup FILE"
        raise MigrationRefusedError(look.group, (reason,)) from error
