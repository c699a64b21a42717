"""How far a group's migration has come, in the znode /consumers/G/migration: whoever looks next goes on from there.

    {"version":1,"phase":"applied","at_ms":1700000000000,"partitions":12,"backup":"billing.json",
     "history":[["applying",1699999999000],["applied",1700000000000]]}

Kafka's own tools and JVM members do not look at it. Each write names the version that was read, so that of two
operators at once the second is told.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from legacy_consumer.errors import MigrationRefusedError
from zk_layout.errors import BadVersionError, MalformedZnodeError, NodeExistsError, NoNodeError
from zk_layout.paths import GroupPath
from zk_layout.store import ZkStore, Znode

_FORMAT = 1
_HISTORY = 50
"""So many changes of phase are kept; an operator who tries again and again must not fill the znode."""


class Phase(Enum):
    """Where a migration stands. Those that end in -ing were under way when somebody last wrote: do the same again."""

    ROLLING = "rolling"
    """Members move one by one; offsets are in ZooKeeper, and of those that have moved in Kafka too."""
    APPLYING = "applying"
    APPLIED = "applied"
    """All offsets are in Kafka; those in ZooKeeper stay as they were."""
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"
    """ZooKeeper has all offsets again."""
    FINISHED = "finished"
    """The way back is closed."""

    @property
    def is_open(self) -> bool:
        """Whether a greater offset in Kafka is the work of this migration's consumers."""
        return self in {Phase.ROLLING, Phase.APPLYING, Phase.APPLIED, Phase.ROLLING_BACK}


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """partitions: written by the last step. backup: the file that was written before it, as it was named.

    history: (phase, ms since 1970) of the steps so far, the newest last. znode_version: for the next write.
    """

    phase: Phase
    at_ms: int
    partitions: int
    backup: str | None
    history: tuple[tuple[str, int], ...]
    znode_version: int


def record_path(group: str) -> str:
    """Where a group's record is."""
    return f"{GroupPath(group).path}/migration"


def read_record(store: ZkStore, group: str) -> MigrationRecord | None:
    """None if no migration was begun. Raises: MalformedZnodeError."""
    try:
        return _decode(record_path(group), store.get_data(record_path(group)))
    except NoNodeError:
        return None


def read_records(store: ZkStore, groups: Sequence[str]) -> dict[str, MigrationRecord]:
    """Of those groups whose migration was begun, in one batch. Raises: MalformedZnodeError."""
    paths = [record_path(group) for group in groups]
    found = zip(groups, paths, store.get_data_many(paths), strict=True)
    return {group: _decode(path, znode) for group, path, znode in found if znode is not None}


def write_record(
    store: ZkStore,
    group: str,
    before: MigrationRecord | None,
    phase: Phase,
    *,
    at_ms: int,
    partitions: int = 0,
    backup: str | None = None,
) -> MigrationRecord:
    """Note the next phase. Raises: MigrationRefusedError if somebody else noted one since `before` was read."""
    history = (*(before.history if before is not None else ()), (phase.value, at_ms))[-_HISTORY:]
    fields = {"version": _FORMAT, "phase": phase.value, "at_ms": at_ms, "partitions": partitions}
    data = json.dumps({**fields, "backup": backup, "history": history}, separators=(",", ":")).encode()
    path = record_path(group)
    try:
        stat = store.create(path, data) if before is None else store.set_data(path, data, before.znode_version)
    except (BadVersionError, NodeExistsError, NoNodeError) as error:
        raise MigrationRefusedError(
            group, ("somebody else works on its migration at this moment: look at `migrate plan` again",)
        ) from error
    return MigrationRecord(phase, at_ms, partitions, backup, history, stat.version)


def _decode(path: str, znode: Znode) -> MigrationRecord:
    try:
        found = json.loads(znode.data or b"")
        version, at_ms, partitions, backup = found["version"], found["at_ms"], found["partitions"], found["backup"]
        history = tuple((str(name), int(ms)) for name, ms in found["history"])
        phase = Phase(found["phase"])
    except (ValueError, TypeError, KeyError) as error:
        raise MalformedZnodeError(path, znode.data, "it is no record of a migration") from error
    if version != _FORMAT or not isinstance(at_ms, int) or not isinstance(partitions, int):
        raise MalformedZnodeError(path, znode.data, f"it is no record of a migration in format {_FORMAT}")
    return MigrationRecord(
        phase, at_ms, partitions, None if backup is None else str(backup), history, znode.stat.version
    )
