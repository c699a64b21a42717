"""The frame of every request and response.

    request   size int32 | api key int16 | api version int16 | correlation id int32 | client id string | body
    response  size int32 | correlation id int32 | body

These are request header 1 and response header 0. The flexible versions, whose headers end with tagged fields, are not
used. `size` counts the bytes after itself.
"""

from __future__ import annotations

import struct
from enum import IntEnum

from legacy_consumer.errors import MalformedResponseError

_HEAD = struct.Struct(">ihhih")
"""The head of a request, up to and including the length of the client id."""
SIZE_BYTES = 4
_ANSWER_HEAD = struct.Struct(">ii")
HEAD_BYTES = _ANSWER_HEAD.size
"""The bytes of a response's size and correlation id."""


class Api(IntEnum):
    """The keys of the requests that this project sends or serves."""

    FETCH = 1
    LIST_OFFSETS = 2
    METADATA = 3
    OFFSET_COMMIT = 8
    OFFSET_FETCH = 9
    FIND_COORDINATOR = 10
    JOIN_GROUP = 11
    HEARTBEAT = 12
    LEAVE_GROUP = 13
    SYNC_GROUP = 14
    SASL_HANDSHAKE = 17
    API_VERSIONS = 18
    SASL_AUTHENTICATE = 36


def frame_request(api: Api, version: int, correlation_id: int, client_id: str, body: bytes) -> bytes:
    """Return a whole request, including its size."""
    client = client_id.encode()
    size = _HEAD.size - SIZE_BYTES + len(client) + len(body)
    return _HEAD.pack(size, api, version, correlation_id, len(client)) + client + body


def check_head(head: bytes | bytearray | memoryview, correlation_id: int, largest_bytes: int, api: Api) -> int:
    """Check a response's first HEAD_BYTES; return the number of bytes of its body.

    Raises: MalformedResponseError if it answers another request, or its size is impossible or larger than expected.
    """
    size: int
    size, answered = _ANSWER_HEAD.unpack(head)
    if size < HEAD_BYTES - SIZE_BYTES:
        raise MalformedResponseError(api.name, f"its size is {size}")
    if answered != correlation_id:
        raise MalformedResponseError(api.name, f"it answers request {answered}, not {correlation_id}")
    # checked last: in the answer to our own request the size may be right, and the caller can name the setting to raise
    if size > largest_bytes:
        raise MalformedResponseError(api.name, f"response size {size} is more than the {largest_bytes} bytes expected")
    return size - (HEAD_BYTES - SIZE_BYTES)
