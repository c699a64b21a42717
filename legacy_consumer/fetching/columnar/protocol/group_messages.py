"""The requests of group members and their responses: one table for both directions and all versions.

Versions with tagged fields (FindCoordinator 3, JoinGroup 6, SyncGroup 4, Heartbeat 4, LeaveGroup 4, OffsetCommit 8,
OffsetFetch 6) are not supported: they carry nothing that a group of this kind needs. Writing leaves out a field that a
version does not have; reading gives such a field its default.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TypeAlias

from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer

Value: TypeAlias = "int | str | bytes | Sequence[Mapping[str, Value]] | None"
Row: TypeAlias = Mapping[str, Value]

_NEWEST_EVER = 1_000


class Kind(Enum):
    """The wire format of a field."""

    INT8 = "int8"
    INT16 = "int16"
    INT32 = "int32"
    INT64 = "int64"
    STRING = "string"
    NULLABLE_STRING = "nullable string"
    BYTES = "bytes"
    ARRAY = "array"
    NULLABLE_ARRAY = "nullable array"


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message, and the versions that have it. rows: the fields of an array's entries."""

    name: str
    kind: Kind
    since: int = 0
    until: int = _NEWEST_EVER
    default: Value = None
    rows: tuple[Field, ...] = ()

    def is_in(self, version: int) -> bool:
        """Return whether this version has the field."""
        return self.since <= version <= self.until


@dataclass(frozen=True, slots=True)
class Exchange:
    """A request and its response. newest: the newest supported version; the oldest is 0."""

    newest: int
    request: tuple[Field, ...]
    response: tuple[Field, ...]


def _text(name: str) -> Field:
    return Field(name, Kind.STRING)


def _int32(name: str) -> Field:
    return Field(name, Kind.INT32)


def _error() -> Field:
    return Field("error", Kind.INT16)


def _throttle(since: int) -> Field:
    return Field("throttle_ms", Kind.INT32, since, default=0)


def _by_topic(*rows: Field, kind: Kind = Kind.ARRAY) -> Field:
    """Return the field with an array of topics, and in each an array of partitions with these fields."""
    return Field("topics", kind, rows=(_text("topic"), Field("partitions", Kind.ARRAY, rows=rows)))


def _instance(since: int) -> Field:
    return Field("instance_id", Kind.NULLABLE_STRING, since)


GROUP_EXCHANGES: Mapping[Api, Exchange] = {
    Api.FIND_COORDINATOR: Exchange(
        2,
        (_text("key"), Field("key_type", Kind.INT8, 1, default=0)),
        (
            _throttle(1),
            _error(),
            Field("message", Kind.NULLABLE_STRING, 1),
            _int32("node_id"),
            _text("host"),
            _int32("port"),
        ),
    ),
    Api.JOIN_GROUP: Exchange(
        5,
        (
            _text("group"),
            _int32("session_timeout_ms"),
            Field("rebalance_timeout_ms", Kind.INT32, 1),
            _text("member_id"),
            _instance(5),
            _text("protocol_type"),
            Field("protocols", Kind.ARRAY, rows=(_text("name"), Field("metadata", Kind.BYTES))),
        ),
        (
            _throttle(2),
            _error(),
            _int32("generation"),
            _text("protocol"),
            _text("leader"),
            _text("member_id"),
            Field("members", Kind.ARRAY, rows=(_text("member_id"), _instance(5), Field("metadata", Kind.BYTES))),
        ),
    ),
    Api.SYNC_GROUP: Exchange(
        3,
        (
            _text("group"),
            _int32("generation"),
            _text("member_id"),
            _instance(3),
            Field("assignments", Kind.ARRAY, rows=(_text("member_id"), Field("assignment", Kind.BYTES))),
        ),
        (_throttle(1), _error(), Field("assignment", Kind.BYTES)),
    ),
    Api.HEARTBEAT: Exchange(
        3,
        (_text("group"), _int32("generation"), _text("member_id"), _instance(3)),
        (_throttle(1), _error()),
    ),
    Api.LEAVE_GROUP: Exchange(
        3,
        (
            _text("group"),
            Field("member_id", Kind.STRING, until=2),
            Field("members", Kind.ARRAY, 3, rows=(_text("member_id"), _instance(3))),
        ),
        (
            _throttle(1),
            _error(),
            Field("members", Kind.ARRAY, 3, default=(), rows=(_text("member_id"), _instance(3), _error())),
        ),
    ),
    Api.OFFSET_COMMIT: Exchange(
        7,
        (
            _text("group"),
            Field("generation", Kind.INT32, 1, default=-1),
            Field("member_id", Kind.STRING, 1, default=""),
            _instance(7),
            Field("retention_ms", Kind.INT64, 2, 4, default=-1),
            _by_topic(
                _int32("partition"),
                Field("offset", Kind.INT64),
                Field("leader_epoch", Kind.INT32, 6, default=-1),
                Field("timestamp", Kind.INT64, 1, 1, default=-1),
                Field("metadata", Kind.NULLABLE_STRING),
            ),
        ),
        (_throttle(3), _by_topic(_int32("partition"), _error())),
    ),
    Api.OFFSET_FETCH: Exchange(
        5,
        (_text("group"), _by_topic(_int32("partition"), kind=Kind.NULLABLE_ARRAY)),
        (
            _throttle(3),
            _by_topic(
                _int32("partition"),
                Field("offset", Kind.INT64),
                Field("leader_epoch", Kind.INT32, 5, default=-1),
                Field("metadata", Kind.NULLABLE_STRING),
                _error(),
            ),
            Field("error", Kind.INT16, 2, default=0),
        ),
    ),
}


def read_row(fields: Sequence[Field], version: int, reader: Reader) -> dict[str, Value]:
    """Read these fields, each by its name. Raises: MalformedResponseError."""
    return {field.name: _read(field, version, reader) if field.is_in(version) else field.default for field in fields}


def read_message(fields: Sequence[Field], version: int, frame: memoryview | bytes, what: str) -> dict[str, Value]:
    """Decode a whole body. Raises: MalformedResponseError, also for bytes after its end."""
    reader = Reader(frame, what)
    row = read_row(fields, version, reader)
    if reader.left:
        raise reader.malformed(f"{reader.left} bytes follow its end")
    return row


def write_message(fields: Sequence[Field], version: int, row: Row) -> bytes:
    """Encode a whole body. A field that is missing in the row gets its default."""
    writer = Writer()
    _write_row(fields, version, row, writer)
    return writer.done()


def _read(field: Field, version: int, reader: Reader) -> Value:
    match field.kind:
        case Kind.INT8:
            return reader.int8()
        case Kind.INT16:
            return reader.int16()
        case Kind.INT32:
            return reader.int32()
        case Kind.INT64:
            return reader.int64()
        case Kind.STRING:
            return reader.string()
        case Kind.NULLABLE_STRING:
            return reader.nullable_string()
        case Kind.BYTES:
            return bytes(reader.nullable_bytes() or b"")
        case Kind.ARRAY:
            return [read_row(field.rows, version, reader) for _ in range(reader.count(2))]
        case Kind.NULLABLE_ARRAY:
            number = reader.nullable_count(2)
            return None if number is None else [read_row(field.rows, version, reader) for _ in range(number)]


def _write_row(fields: Sequence[Field], version: int, row: Row, writer: Writer) -> None:
    for field in fields:
        if field.is_in(version):
            _write(field, version, row.get(field.name, field.default), writer)


def _write(field: Field, version: int, value: Value, writer: Writer) -> None:
    if isinstance(value, int):
        match field.kind:
            case Kind.INT8:
                writer.int8(value)
            case Kind.INT16:
                writer.int16(value)
            case Kind.INT64:
                writer.int64(value)
            case _:
                writer.int32(value)
    elif field.kind is Kind.STRING or field.kind is Kind.NULLABLE_STRING:
        assert value is None or isinstance(value, str)
        writer.nullable_string(value)
    elif isinstance(value, bytes):
        writer.byte_array(value)
    elif value is None:
        assert field.kind is Kind.NULLABLE_ARRAY, field.name
        writer.int32(-1)
    else:
        assert not isinstance(value, str)
        writer.int32(len(value))
        for entry in value:
            _write_row(field.rows, version, entry, writer)
