"""The broker behind the coordinator's server: what is asked of it, and its answers with other addresses in them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from legacy_consumer.fetching.columnar.protocol.framing import HEAD_BYTES, SIZE_BYTES, Api, frame_request
from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer

LARGEST_FRAME_BYTES = 104_857_600
"""Kafka's socket.request.max.bytes."""

_CLIENT_ID = "legacy-consumer-coordinator"
_CORRELATION_BYTES = HEAD_BYTES - SIZE_BYTES


async def read_frame(reader: asyncio.StreamReader) -> bytes:
    """One request or response without its size. Raises: EOFError, OSError, ValueError for a size that cannot be."""
    size = int.from_bytes(await reader.readexactly(SIZE_BYTES), "big", signed=True)
    if not 0 <= size <= LARGEST_FRAME_BYTES:
        raise ValueError(f"a frame of {size} bytes: this is not Kafka's protocol")
    return await reader.readexactly(size)


def framed(payload: bytes) -> bytes:
    """With its size in front."""
    return len(payload).to_bytes(SIZE_BYTES, "big") + payload


async def ask_broker(host: str, port: int, api: Api, version: int, body: bytes) -> bytes:
    """Ask one thing over a connection of its own. Returns: the body of the response."""
    reader, writer = await asyncio.open_connection(host, port)
    try:
        writer.write(frame_request(api, version, 1, _CLIENT_ID, body))
        await writer.drain()
        return (await read_frame(reader))[_CORRELATION_BYTES:]
    finally:
        writer.close()


async def with_other_addresses(
    version: int, response: bytes, address_of: Callable[[int, str, int], Awaitable[tuple[str, int]]]
) -> bytes:
    """A response to Metadata whose brokers have the addresses that address_of(id, host, port) gives.

    version: up to 8. Raises: MalformedResponseError.
    """
    reader = Reader(response, "Metadata")
    writer = Writer()
    writer.int32(reader.int32())
    if version >= 3:
        writer.int32(reader.int32())
    count = reader.count(10)
    writer.int32(count)
    for _ in range(count):
        node_id, host, port = reader.int32(), reader.string(), reader.int32()
        told_host, told_port = await address_of(node_id, host, port)
        writer.int32(node_id)
        writer.string(told_host)
        writer.int32(told_port)
        if version >= 1:
            writer.nullable_string(reader.nullable_string())
    return writer.done() + response[len(response) - reader.left :]


def brokers_in(response: bytes) -> dict[int, tuple[str, int]]:
    """{id: (host, port)} in the body of a response to Metadata 0. Raises: MalformedResponseError."""
    reader = Reader(response, "Metadata")
    return {reader.int32(): (reader.string(), reader.int32()) for _ in range(reader.count(10))}


def wants_no_answer(version: int, request: Reader) -> bool:
    """Return whether a Produce request, read up to its body, says acks=0: the broker then answers nothing."""
    if version >= 3:
        request.nullable_string()
    return request.int16() == 0
