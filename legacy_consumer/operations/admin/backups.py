"""Backups: files with the offsets before a change. `offsets import` restores them."""

from __future__ import annotations

import shlex
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote

from legacy_consumer.operations.admin.errors import BackupError
from legacy_consumer.operations.admin.findings import argument
from legacy_consumer.operations.admin.group_acls import GroupAcls
from legacy_consumer.operations.admin.offset_files import (
    NOT_DONE,
    OffsetFormat,
    Offsets,
    Unreadable,
    begun_line,
    write_offsets,
)
from legacy_consumer.operations.admin.whole_files import create_whole, replace_whole

_TRIES = 100


@dataclass(frozen=True, slots=True)
class Backup:
    """A backup file, and the data that was written to it."""

    file: Path
    groups: Mapping[str, Offsets]
    unreadable: Mapping[str, Unreadable] = field(default_factory=dict)
    acls: Mapping[str, GroupAcls] = field(default_factory=dict)
    topics: Mapping[str, str] = field(default_factory=dict)

    def begin(self, group: str) -> None:
        """Note that the command begins to change this group. If it is killed, an import restores only the noted groups.

        Raises: BackupError.
        """
        if len(self.groups) > 1:
            try:
                with self.file.open("a", encoding="utf-8") as out:
                    out.write(begun_line(group))
            except OSError as error:
                raise BackupError(str(self.file), error.strerror or str(error), group) from error

    def keep_only(self, changed: Collection[str]) -> None:
        """Rewrite the file at the command's end with only the changed groups, and without the notes of begin().

        Members of the unchanged groups continue to commit, and an import of the file would move their offsets. If no
        group was changed, delete the file.
        Raises: OSError, with the file as it was.
        """
        groups = {group: offsets for group, offsets in self.groups.items() if group in changed}
        if not groups:
            self.file.unlink(missing_ok=True)
        elif len(self.groups) > 1:
            unreadable = {group: found for group, found in self.unreadable.items() if group in changed}
            replace_whole(self.file, _text(groups, unreadable, self.acls, self.topics), private=bool(self.acls))


def how_to_put_back(file: Path) -> str:
    """Return the import command for a shell; the reader adds the options that name the cluster."""
    return f"`{shlex.join(['legacy-consumer', 'offsets', 'import', *argument(str(file))])}`"


def write_backup(folder: Path, group: str, offsets: Offsets, *, now_s: float | None = None) -> Path:
    """Write GROUP-offsets-TIME.json to the disk (fsync). Never overwrites a file. Raises: BackupError."""
    return write_backups(folder, group, {group: offsets}, now_s=now_s)


def write_backups(
    folder: Path,
    name: str,
    groups: Mapping[str, Offsets],
    unreadable: Mapping[str, Unreadable] | None = None,
    *,
    acls: Mapping[str, GroupAcls] | None = None,
    topics: Mapping[str, str] | None = None,
    one_by_one: bool = False,
    now_s: float | None = None,
) -> Path:
    """As write_backup, for several groups in one file. one_by_one: the caller notes each group before its change."""
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now_s))
    text = _text(groups, unreadable, acls, topics) + (NOT_DONE if one_by_one and len(groups) > 1 else "")
    # a group's name may hold characters that a file's name cannot
    stem = f"{quote(name, safe=' ')[:150]}-offsets-{stamp}"
    # with one group in the file, the error names it: groups that were changed before it have their own files
    alone = next(iter(groups)) if len(groups) == 1 else None
    for attempt in range(_TRIES):
        file = folder / f"{stem}{f'-{attempt}' if attempt else ''}.json"
        try:
            create_whole(file, text, private=bool(acls))  # digests of passwords
        except FileExistsError:
            continue
        except OSError as error:
            raise BackupError(str(file), error.strerror or str(error), alone) from error
        return file
    raise BackupError(f"{folder / stem}.json", "it exists already", alone)


def _text(
    groups: Mapping[str, Offsets],
    unreadable: Mapping[str, Unreadable] | None,
    acls: Mapping[str, GroupAcls] | None,
    topics: Mapping[str, str] | None,
) -> str:
    return write_offsets(groups, OffsetFormat.JSON, unreadable, acls=acls, topics=topics)
