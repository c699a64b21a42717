"""Asks one broker what it knows about a topic: Metadata version 0, spoken by every broker from 0.8 to 3.9.

ZooKeeper names the leader of a partition; only the broker itself can confirm that it knows it is the leader.
"""

from __future__ import annotations

import socket
import struct

from legacy_consumer.sandbox.servers.ports import LOOPBACK

_METADATA = 3
_CLIENT_ID = b"legacy-consumer-embedded"
_REPLICA_NOT_AVAILABLE = 9  # some replica is down, which does not keep the leader from serving
_SERVING = (0, _REPLICA_NOT_AVAILABLE)
_TIMEOUT_S = 5.0


def served_partitions(port: int, topic: str) -> set[int]:
    """The partitions of the topic that the broker on the loopback port lists with a leader.

    Empty when it does not answer. A broker with auto.create.topics.enable creates a topic that is asked for.
    """
    name = topic.encode()
    body = struct.pack(f">hhih{len(_CLIENT_ID)}s", _METADATA, 0, 1, len(_CLIENT_ID), _CLIENT_ID)
    body += struct.pack(f">ih{len(name)}s", 1, len(name), name)
    try:
        with socket.create_connection((LOOPBACK, port), _TIMEOUT_S) as connection:
            connection.sendall(struct.pack(">i", len(body)) + body)
            (size,) = struct.unpack(">i", _receive(connection, 4))
            return _leaders(_Reader(_receive(connection, size)))
    except (OSError, struct.error):
        return set()


def _leaders(reply: _Reader) -> set[int]:
    reply.int32()  # correlation id
    for _ in range(reply.int32()):
        reply.int32()
        reply.skip(reply.int16())
        reply.int32()
    served = set()
    for _ in range(reply.int32()):
        reply.int16()
        reply.skip(reply.int16())
        for _ in range(reply.int32()):
            error, partition, leader = reply.int16(), reply.int32(), reply.int32()
            reply.skip(4 * reply.int32())
            reply.skip(4 * reply.int32())
            if error in _SERVING and leader >= 0:
                served.add(partition)
    return served


class _Reader:
    """Big-endian numbers, one after the other. Raises: struct.error at the end of the bytes."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._position = 0

    def int16(self) -> int:
        return self._unpack(">h", 2)

    def int32(self) -> int:
        return self._unpack(">i", 4)

    def skip(self, size: int) -> None:
        self._position += max(size, 0)

    def _unpack(self, form: str, size: int) -> int:
        value: int
        (value,) = struct.unpack_from(form, self._data, self._position)
        self._position += size
        return value


def _receive(connection: socket.socket, size: int) -> bytes:
    received = b""
    while len(received) < size:
        chunk = connection.recv(size - len(received))
        if not chunk:
            raise ConnectionResetError
        received += chunk
    return received
