"""The requests that a client may send to the coordinator's server, and their versions.

For group requests the server announces the versions that it implements. For other requests it announces the broker's
versions, except for a few requests that the server itself must decode, and for groups of newer protocols.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.group_messages import GROUP_EXCHANGES
from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer

PRODUCE = 0
NEWEST_API_VERSIONS = 2
UNSUPPORTED_VERSION = 35

_UNDERSTOOD: Mapping[int, int] = {
    PRODUCE: 8,  # whether an answer is wanted
    Api.METADATA: 8,  # the addresses of the brokers
    Api.API_VERSIONS: NEWEST_API_VERSIONS,
    **{api: exchange.newest for api, exchange in GROUP_EXCHANGES.items()},
}
"""The newest version of each request that is read here; newer ones have tagged fields."""


_OF_OTHER_PROTOCOLS = frozenset({68, 76, 88})
"""ConsumerGroupHeartbeat, ShareGroupHeartbeat, StreamsGroupHeartbeat: with these a client would join at the broker."""


class VersionRange(NamedTuple):
    """The versions of one request."""

    key: int
    oldest: int
    newest: int


def read_versions(frame: memoryview | bytes) -> list[VersionRange]:
    """Decode a broker's response to ApiVersions 0. Raises: MalformedResponseError."""
    reader = Reader(frame, "ApiVersions")
    reader.int16()
    return [VersionRange(reader.int16(), reader.int16(), reader.int16()) for _ in range(reader.count(6))]


def offered_versions(behind: Iterable[VersionRange]) -> list[VersionRange]:
    """behind: what the broker takes; empty if there is none."""
    newest_of: dict[int, int] = {api: exchange.newest for api, exchange in GROUP_EXCHANGES.items()}
    newest_of[Api.API_VERSIONS] = NEWEST_API_VERSIONS
    offered = {key: VersionRange(key, 0, newest) for key, newest in newest_of.items()}
    for one in behind:
        newest = min(one.newest, _UNDERSTOOD.get(one.key, one.newest))
        if one.key not in offered and one.key not in _OF_OTHER_PROTOCOLS and one.oldest <= newest:
            offered[one.key] = VersionRange(one.key, one.oldest, newest)
    return [offered[key] for key in sorted(offered)]


def write_versions(version: int, offered: Iterable[VersionRange]) -> bytes:
    """The answer to ApiVersions. A client that asks in a newer version is told to ask again in one of these."""
    writer = Writer()
    known = version <= NEWEST_API_VERSIONS
    ranges = [one for one in offered if known or one.key == Api.API_VERSIONS]
    writer.int16(0 if known else UNSUPPORTED_VERSION)
    writer.int32(len(ranges))
    for one in ranges:
        writer.int16(one.key)
        writer.int16(one.oldest)
        writer.int16(one.newest)
    if known and version >= 1:
        writer.int32(0)
    return writer.done()
