"""ACLs of a group: commands keep them when they copy the group, and restore them from a backup.

A group's folder and its `ids` are open even if the rest is secured, since JVM members register there. Therefore
two ACLs describe a group: that of the folder, and that of the znodes in it. Znodes created below get the second.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from legacy_consumer.operations.admin.findings import Finding, Severity, some
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.paths import GroupPath, OffsetPath, OffsetsPath, OwnersPath, TopicOffsetsPath
from zk_layout.store import AclEntries, AclEntry, ZkStore

logger = safe_logger(__name__)

_HALF_CHARACTER = re.compile("[\ud800-\udfff]")
"""JSON can have it, and no request can."""


@dataclass(frozen=True, slots=True)
class GroupAcls:
    """folder: the ACL of the group's folder. offsets: that of its offsets, or of another folder if it has none."""

    folder: AclEntries
    offsets: AclEntries

    def document(self) -> dict[str, object]:
        """Return the ACLs for JSON: [permissions, scheme, id] of each entry."""
        return {"folder": list(map(list, self.folder)), "offsets": list(map(list, self.offsets))}

    @staticmethod
    def parse(document: object) -> GroupAcls:
        """Read what document() returned. Raises: ValueError."""
        if not isinstance(document, dict):
            raise ValueError("an ACL is no object")  # noqa: TRY004 - of a file
        return GroupAcls(_entries(document.get("folder")), _entries(document.get("offsets")))


def _entries(value: object) -> AclEntries:
    found = []
    for entry in value if isinstance(value, list) else ():
        match entry:
            case [int(permissions), str(scheme), str(name)] if (
                0 < permissions < 32 and scheme and not _HALF_CHARACTER.search(scheme + name)
            ):
                found.append(AclEntry(permissions, scheme, name))
            case _:
                raise ValueError("an entry of an ACL is no [permissions, scheme, id]")
    if not found:
        raise ValueError("an ACL has no entries")
    return tuple(found)


def read_group_acls(store: ZkStore, groups: Collection[str]) -> dict[str, GroupAcls]:
    """Return the ACLs of the groups of which a part is not open, if these credentials may read them completely.

    A warning names the secured groups whose ACL they may not read: a copy or a restored group does not get it.
    """
    names = list(groups)
    sections = [[GroupPath(group).path, *_sections(group)] for group in names]
    replies = iter(store.read_acls([path for paths in sections for path in paths]))
    acls: dict[str, GroupAcls] = {}
    hidden: list[str] = []
    for group, paths in zip(names, sections, strict=True):
        folder, *held = [next(replies) for _ in paths]
        inside = next((acl for acl in held if acl is not None), None)
        if folder is None or inside is None or (is_open(folder) and is_open(inside)):
            continue
        if all(entry.is_told for entry in (*folder, *inside)):
            acls[group] = GroupAcls(folder, inside)
        else:
            hidden.append(group)
    if hidden:
        logger.warning(
            "these credentials may not see the whole ACL of group %s, so it is not kept: a copy, or a group that is "
            "imported from the backup, is as open as /consumers, unless zookeeper.set.acl=true",
            some(hidden),
        )
    return acls


def is_open(acl: AclEntries) -> bool:
    """Return whether anybody may write."""
    return any(entry.lets_everybody_write for entry in acl)


def mixed_acls(store: ZkStore, offsets: Mapping[str, Sequence[TopicPartition]]) -> Iterator[Finding]:
    """Report groups of which anybody may write a part, but not the rest. offsets: {group: partitions with an offset}.

    If all of a group's folders are open, the ACLs of its single offsets are not read.
    """
    held = {group: _sections(group) for group in offsets}
    acls = _read(store, [path for paths in held.values() for path in paths])
    secured = [
        group for group, paths in held.items() if any(path in acls and not is_open(acls[path]) for path in paths)
    ]
    below = {
        group: list(
            dict.fromkeys(
                path
                for tp in sorted(offsets[group])
                for path in (TopicOffsetsPath(group, tp.topic).path, OffsetPath(group, *tp).path)
            )
        )
        for group in secured
    }
    acls.update(_read(store, [path for paths in below.values() for path in paths]))
    for group in secured:
        paths = [path for path in (*held[group], *below[group]) if path in acls]
        opened = [path for path in paths if is_open(acls[path])]
        if opened:
            closed = next(path for path in paths if not is_open(acls[path]))
            yield Finding(
                Severity.WARNING,
                "mixed_acls",
                group,
                f"group {group}: anybody may write {some(opened)}, though not {closed}",
                f"give these znodes the ACL of {closed} with ZooKeeper's own client (getAcl, setAcl), and set "
                "zookeeper.set.acl=true in all members",
            )


def _sections(group: str) -> list[str]:
    """Return the folders of a group, except `ids`, which is always open."""
    folder = GroupPath(group).path
    return [OffsetsPath(group).path, OwnersPath(group).path, f"{folder}/requests", f"{folder}/migration"]


def _read(store: ZkStore, paths: Sequence[str]) -> dict[str, AclEntries]:
    return {path: acl for path, acl in zip(paths, store.read_acls(paths), strict=True) if acl is not None}
