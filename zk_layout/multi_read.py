"""Many reads in one request: ZooKeeper's opcode 22, served from 3.6 on.

A request is a list of reads, each a header and a body, closed by a last header:

    header   int32 type (4 getData, 8 getChildren), byte done, int32 error (-1 in requests)
    body     path (int32 length, UTF-8), byte watch (always 0: watches cannot be set this way)
    last     type -1, done 1, error -1

The reply has the same headers. Behind type 4 follow the data (int32 length or -1, bytes) and the stat,
behind type 8 an int32 count and that many names, behind type -1 an int32 error code. Older servers answer
"unimplemented" and drop the connection.

Source: org.apache.zookeeper.MultiOperationRecord and MultiResponse; an ErrorResponse stands behind type -1.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

from zk_layout.errors import ZooKeeperError
from zk_layout.store import Stat, Znode, stat_of

MULTI_READ = 22
NO_NODE = -101
NO_AUTH = -102

_HEADER = struct.Struct("!iBi")
_LAST = _HEADER.pack(-1, 1, -1)
_INT = struct.Struct("!i")
# czxid mzxid ctime mtime version cversion aversion ephemeralOwner dataLength numChildren pzxid
_STAT = struct.Struct("!qqqqiiiqiiq")
STAT_BYTES = _STAT.size


class ReadKind(IntEnum):
    """The kinds of reads of a znode; the values are ZooKeeper's opcodes."""

    DATA = 4
    CHILDREN = 8


# an enum's members are too slow to compare with in a loop
_DATA = int(ReadKind.DATA)
_CHILDREN = int(ReadKind.CHILDREN)


@dataclass(frozen=True, slots=True)
class ReadFailure:
    """The server could not do this one read; code is ZooKeeper's."""

    code: int


ReadResult: TypeAlias = Znode | tuple[str, ...] | ReadFailure


def encode_multi_read(kind: ReadKind, paths: Sequence[str]) -> bytes:
    """The body of a request; paths are full, chroot included."""
    header = _HEADER.pack(kind, 0, -1)
    parts: list[bytes] = []
    for path in paths:
        text = path.encode()
        parts += (header, _INT.pack(len(text)), text, b"\0")
    parts.append(_LAST)
    return b"".join(parts)


def decode_multi_read(reply: bytes) -> list[ReadResult]:
    """The results in the order of the request; children sorted.

    Raises: ZooKeeperError if the bytes are no such reply.
    """
    try:
        return list(_results(reply))
    except (struct.error, ValueError) as error:
        raise ZooKeeperError(f"the reply to a read of many znodes cannot be decoded: {error}") from error


def _results(reply: bytes) -> Iterator[ReadResult]:
    offset = 0
    unpack_header, unpack_int, unpack_stat = _HEADER.unpack_from, _INT.unpack_from, _STAT.unpack_from
    while True:
        kind, done, _ = unpack_header(reply, offset)
        offset += _HEADER.size
        if done:
            return
        if kind == _DATA:
            # this branch runs a hundred thousand times for one look at a cluster
            (length,) = unpack_int(reply, offset)
            start = offset + _INT.size
            offset = start + length if length > 0 else start
            stat = stat_of(unpack_stat(reply, offset))
            yield Znode(reply[start:offset] if length >= 0 else None, stat)
            offset += _STAT.size
        elif kind == _CHILDREN:
            (count,) = unpack_int(reply, offset)
            offset += _INT.size
            names: list[str] = []
            for _ in range(count):
                name, offset = _read_buffer(reply, offset)
                names.append((name or b"").decode())
            yield tuple(sorted(names))
        elif kind == -1:
            yield ReadFailure(*unpack_int(reply, offset))
            offset += _INT.size
        else:
            msg = f"unknown result type {kind} at byte {offset}"
            raise ValueError(msg)


def _read_buffer(reply: bytes, offset: int) -> tuple[bytes | None, int]:
    (length,) = _INT.unpack_from(reply, offset)
    offset += _INT.size
    if length < 0:
        return None, offset
    end = offset + length
    if end > len(reply):
        msg = f"{length} bytes announced at byte {offset}, {len(reply) - offset} there"
        raise ValueError(msg)
    return reply[offset:end], end


def read_stat(reply: bytes, offset: int) -> Stat:
    """A Stat as it stands in replies. Raises: struct.error if it is cut off."""
    return stat_of(_STAT.unpack_from(reply, offset))


@dataclass(slots=True)
class ChunkSize:
    """The number of reads in the next request, so that requests and replies stay well below 1 MB.

    The size of a reply is unknown beforehand: the last reply is the best guess, and the first request is small.
    """

    reads: int = 256

    def learn(self, reads: int, reply_bytes: int) -> None:
        """Aim for replies of half a megabyte, at most eight times as many reads as before."""
        fitting = _AIM_BYTES * reads // max(reply_bytes, 1)
        self.reads = max(1, min(fitting, self.reads * 8, _MAX_READS))


_AIM_BYTES = 512 * 1024
_MAX_READS = 2000
_MAX_REQUEST_BYTES = 512 * 1024


def next_chunk(paths: Sequence[str], start: int, size: ChunkSize) -> Sequence[str]:
    """The paths of the next request: at least one, at most size.reads, and below the request limit."""
    total = 0
    end = start
    while end < len(paths) and end - start < size.reads:
        total += _HEADER.size + _INT.size + 1 + len(paths[end].encode())
        if total > _MAX_REQUEST_BYTES and end > start:
            break
        end += 1
    return paths[start:end]
