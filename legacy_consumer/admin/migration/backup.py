"""What both sides had before a step, in a file that `legacy-consumer offsets import` reads.

    {"version":1,"before":"applying","at_ms":1700000000000,
     "offsets":{"billing":{"orders":{"0":286894308}}},"kafka":{"billing":{"orders":{"0":null}}}}

offsets are ZooKeeper's, which is what an import puts back; null stands for a partition without one.
"""

from __future__ import annotations

import json
import os
from datetime import datetime, timezone
from pathlib import Path
from urllib.parse import quote

from legacy_consumer.admin.migration.picture import Look
from legacy_consumer.errors import MigrationRefusedError


def backup_name(group: str, at_ms: int) -> str:
    """The file's name unless somebody chose another."""
    at = datetime.fromtimestamp(at_ms / 1000, timezone.utc)
    return f"migration-{quote(group, safe=' ')[:150]}-{at:%Y%m%dT%H%M%SZ}.json"


def write_backup(look: Look, step: str, at_ms: int, file: Path) -> None:
    """Write the offsets of both sides, to the disk. Raises: MigrationRefusedError if that is not possible."""
    zookeeper: dict[str, dict[str, int | None]] = {}
    kafka: dict[str, dict[str, int | None]] = {}
    for one in look.partitions:
        zookeeper.setdefault(one.tp.topic, {})[str(one.tp.partition)] = one.zookeeper.offset
        kafka.setdefault(one.tp.topic, {})[str(one.tp.partition)] = one.kafka.offset
    sides = {"offsets": {look.group: zookeeper}, "kafka": {look.group: kafka}}
    document = {"version": 1, "before": step, "at_ms": at_ms, **sides}
    try:
        with file.open("x", encoding="utf-8") as out:
            json.dump(document, out, indent=1)
            out.write("\n")
            out.flush()
            os.fsync(out.fileno())
    except FileExistsError as error:
        raise MigrationRefusedError(
            look.group, (f"{file} exists already: name another file, --backup FILE",)
        ) from error
    except OSError as error:
        reason = f"no backup can be written to {file}: {error.strerror}; name another file, --backup FILE"
        raise MigrationRefusedError(look.group, (reason,)) from error
