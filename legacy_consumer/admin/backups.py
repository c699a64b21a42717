"""What stood there before a change, in a file that `offsets import` puts back."""

from __future__ import annotations

import shlex
import time
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import quote

from legacy_consumer.admin.errors import BackupError
from legacy_consumer.admin.group_acls import GroupAcls
from legacy_consumer.admin.offset_files import OffsetFormat, Offsets, Unreadable, write_offsets
from legacy_consumer.admin.whole_files import create_whole

_TRIES = 100


def how_to_put_back(file: Path) -> str:
    """The command, as it can be pasted into a shell; where the cluster is has to be added."""
    return f"`{shlex.join(['legacy-consumer', 'offsets', 'import', '--', str(file)])}`"


def write_backup(folder: Path, group: str, offsets: Offsets, *, now_s: float | None = None) -> Path:
    """Write GROUP-offsets-TIME.json, and see that it is on the disk. Never overwrites. Raises: BackupError."""
    return write_backups(folder, group, {group: offsets}, now_s=now_s)


def write_backups(
    folder: Path,
    name: str,
    groups: Mapping[str, Offsets],
    unreadable: Mapping[str, Unreadable] | None = None,
    *,
    acls: Mapping[str, GroupAcls] | None = None,
    topics: Mapping[str, str] | None = None,
    now_s: float | None = None,
) -> Path:
    """As write_backup, for several groups in one file."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
    text = write_offsets(groups, OffsetFormat.JSON, unreadable, acls=acls, topics=topics)
    # any name is a group's, and not every one is a file's
    stem = f"{quote(name, safe=' ')[:150]}-offsets-{stamp}"
    for attempt in range(_TRIES):
        file = folder / f"{stem}{f'-{attempt}' if attempt else ''}.json"
        try:
            create_whole(file, text, private=bool(acls))  # digests of passwords
        except FileExistsError:
            continue
        except OSError as error:
            raise BackupError(str(file), error.strerror or str(error)) from error
        return file
    raise BackupError(f"{folder / stem}.json", "it exists already")
