"""The phase of a group's migration, in the znode /consumers/G/migration. The next command continues from there.

    {"version":1,"phase":"applied","at_ms":1700000000000,"partitions":12,"backup":"billing.json","zxid":4294967543,
     "history":[["applying",1699999999000],["applied",1700000000000]],
     "left_out":{"orders":{"3":"Kafka is 25 ahead though no migration was begun"}}}

left_out: partitions that are not part of the migration, and why; older records have none. zxid: that of the newest
offset znode when the last step read them; that step decided nothing about later writes. In older records the zxid
of the record itself stands for it. Kafka's own tools and JVM members do not read the record. Each write names the
version that was read, so of two operators at once the second gets an error.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from legacy_consumer.errors import MigrationRefusedError
from legacy_consumer.operations.admin import member_fence
from legacy_consumer.operations.admin.errors import BackupError, DamagedRecordError, GroupChangedError
from legacy_consumer.operations.admin.group_reads import read_apart
from legacy_consumer.operations.admin.group_trees import record_path
from legacy_consumer.operations.admin.whole_files import create_whole
from zk_layout.codecs.strict_json import JsonObject, decode_object, encode_json
from zk_layout.errors import BadVersionError, MalformedZnodeError, MultiFailedError, NodeExistsError, NoNodeError
from zk_layout.model import TopicPartition
from zk_layout.store import CreateOp, Op, SetOp, ZkStore, Znode

_FORMAT = 1
_TRIES = 3
"""Members that come and go at the same time may make the write fail this often."""
_HISTORY = 50
"""The number of phase changes that are kept; repeated attempts must not fill the znode."""
_LONGEST_REASON = 200
"""The most characters of why a partition is left out; fewer if thousands are, so that the record fits in a request."""


class Phase(Enum):
    """The phase of a migration. A phase in -ing was interrupted: repeat the same command."""

    ROLLING = "rolling"
    """Members move one by one; all offsets are in ZooKeeper, and the offsets of moved members also in Kafka."""
    APPLYING = "applying"
    APPLIED = "applied"
    """All offsets are in Kafka; the offsets in ZooKeeper stay as they were."""
    ROLLING_BACK = "rolling back"
    ROLLED_BACK = "rolled back"
    """ZooKeeper has all offsets again."""
    FINISHED = "finished"
    """The migration is over: no command takes the offsets back to ZooKeeper."""

    @property
    def is_open(self) -> bool:
        """Return whether a greater offset in Kafka is the work of this migration's consumers."""
        return self in {Phase.ROLLING, Phase.APPLYING, Phase.APPLIED, Phase.ROLLING_BACK}


@dataclass(frozen=True, slots=True)
class MigrationRecord:
    """partitions: the number that the last step wrote. backup: the path of the file that was written before it.

    history: (phase, ms since 1970) of the steps so far, the newest last. znode_version: for the next write.
    zxid: offsets that clients wrote to ZooKeeper after the step's look have a greater one.
    left_out: {partition: why it is not part of the migration}.
    """

    phase: Phase
    at_ms: int
    partitions: int
    backup: str | None
    history: tuple[tuple[str, int], ...]
    znode_version: int
    zxid: int
    left_out: Mapping[TopicPartition, str]

    @property
    def was_applied(self) -> bool:
        """Return whether the last completed step left the phase APPLIED; another step may have begun since."""
        under_way = {Phase.APPLYING.value, Phase.ROLLING_BACK.value}
        ended = [name for name, _ in self.history if name not in under_way]
        return ended[-1:] == [Phase.APPLIED.value]


def read_record(store: ZkStore, group: str) -> MigrationRecord | None:
    """Return the record; None if no migration was begun. Raises: DamagedRecordError."""
    try:
        return decode_record(group, store.get_data(record_path(group)))
    except NoNodeError:
        return None


def read_records(store: ZkStore, groups: Sequence[str]) -> dict[str, MigrationRecord | str]:
    """Return the records of groups with a migration; the reason if one cannot be read. Raises: ZooKeeperError."""
    found, forbidden = read_apart(groups, lambda some: list(_read_records(store, some).items()))
    return {**dict(found), **{group: str(error) for group, error in forbidden.items()}}


def _read_records(store: ZkStore, groups: Sequence[str]) -> dict[str, MigrationRecord | str]:
    paths = [record_path(group) for group in groups]
    found: dict[str, MigrationRecord | str] = {}
    for group, znode in zip(groups, store.get_data_many(paths), strict=True):
        if znode is not None:
            try:
                found[group] = decode_record(group, znode)
            except DamagedRecordError as error:
                found[group] = str(error)
    return found


def write_record(
    store: ZkStore,
    group: str,
    before: MigrationRecord | None,
    phase: Phase,
    *,
    at_ms: int,
    zxid: int,
    partitions: int = 0,
    backup: str | None = None,
    left_out: Mapping[TopicPartition, str] | None = None,
    no_members: bool = False,
) -> MigrationRecord:
    """Write the next phase.

    no_members: write only while the group has none.
    Raises: MigrationRefusedError if another operator has written a phase or deleted the group since `before` was read,
    or if the record is too large for one request because it leaves out too many partitions; ActiveGroupError.
    """
    history = (*(before.history if before is not None else ()), (phase.value, at_ms))[-_HISTORY:]
    left_out = dict(sorted((left_out or {}).items()))
    fields: dict[str, object] = {
        "version": _FORMAT,
        "phase": phase.value,
        "at_ms": at_ms,
        "partitions": partitions,
        "zxid": zxid,
    }
    fields |= {"backup": backup, "history": history}
    longest, limit = _LONGEST_REASON, store.max_multi_bytes // 2
    while len(data := _encode(fields, left_out, longest)) > limit:
        if not longest:
            raise MigrationRefusedError(
                group, (f"its record has no room for {len(left_out)} partitions to leave out: mend most of them first",)
            )
        longest //= 2
    path = record_path(group)
    op: Op = CreateOp(path, data) if before is None else SetOp(path, data, before.znode_version)
    for attempt in range(_TRIES):
        fence, back = member_fence.no_members(store, group) if no_members else ([], [])
        try:
            store.multi([*fence, op, *back])
            break
        except MultiFailedError as error:
            if error.path == path and isinstance(error.cause, NoNodeError):
                raise MigrationRefusedError(
                    group,
                    ("the group, or the record of its migration, was deleted meanwhile: run `migrate plan` again",),
                ) from error
            if error.path == path and isinstance(error.cause, (BadVersionError, NodeExistsError)):
                raise MigrationRefusedError(
                    group, ("another operator works on its migration at this moment: look at `migrate plan` again",)
                ) from error
            if not isinstance(error.cause, member_fence.FENCE_FAILURES) or attempt == _TRIES - 1:
                raise error.cause from error
    version = 0 if before is None else before.znode_version + 1
    return MigrationRecord(phase, at_ms, partitions, backup, history, version, zxid, left_out)


def _encode(fields: Mapping[str, object], left_out: Mapping[TopicPartition, str], longest: int) -> bytes:
    reasons: dict[str, dict[str, str]] = {}
    for tp, reason in left_out.items():
        reasons.setdefault(tp.topic, {})[str(tp.partition)] = reason[:longest]
    return encode_json({**fields, **({"left_out": reasons} if reasons else {})})


def decode_record(group: str, znode: Znode) -> MigrationRecord:
    """Read the record in this znode. Raises: DamagedRecordError."""
    try:
        return _decode(record_path(group), znode)
    except MalformedZnodeError as error:
        raise DamagedRecordError(group, str(error)) from error


def forget_record(store: ZkStore, group: str, damaged: Znode, backup: Path) -> None:
    """Write the data of an unreadable record to a file, then delete the record at the version that was read.

    Raises: BackupError, GroupChangedError, ZooKeeperError; with nothing deleted.
    """
    try:
        create_whole(backup, (damaged.data or b"").decode("utf-8", "backslashreplace"))
    except OSError as error:
        raise BackupError(str(backup), error.strerror or str(error)) from error
    try:
        store.delete(record_path(group), damaged.stat.version)
    except (BadVersionError, NoNodeError) as error:
        raise GroupChangedError(group, record_path(group), 0, 1) from error


def _decode(path: str, znode: Znode) -> MigrationRecord:
    found = decode_object(path, znode.data)
    if found.integer("version") != _FORMAT:
        raise MalformedZnodeError(path, znode.data, f"it is no record of a migration in format {_FORMAT}")
    try:
        phase = Phase(found.text("phase"))
    except ValueError as error:
        raise found.malformed("phase", "a phase of a migration") from error
    at_ms = found.long_in_quotes("at_ms")
    if at_ms is None:
        raise found.malformed("at_ms", "a time")
    zxid = found.long_in_quotes("zxid")
    return MigrationRecord(
        phase,
        at_ms,
        found.integer("partitions"),
        None if found.is_null("backup") else found.text("backup"),
        _history(found),
        znode.stat.version,
        znode.stat.mzxid if zxid is None else zxid,
        _left_out(found),
    )


def _history(found: JsonObject) -> tuple[tuple[str, int], ...]:
    steps = found.pairs("history")
    known = tuple((name, at_ms) for name, at_ms in steps if isinstance(name, str) and isinstance(at_ms, int))
    if len(known) != len(steps):
        raise found.malformed("history", "a list of phases and times")
    return known


def _left_out(found: JsonObject) -> dict[TopicPartition, str]:
    if found.is_null("left_out"):
        return {}
    topics = found.child("left_out")
    return {
        TopicPartition(topic, number): numbers.text(key)
        for topic in topics
        for numbers in [topics.child(topic)]
        for number, key in numbers.partition_numbers().items()
    }
