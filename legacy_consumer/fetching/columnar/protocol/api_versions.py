"""ApiVersions (18): the requests that a broker supports, and their versions. Brokers from 0.10 on; version 0 is enough.

    request   v0: nothing
    response  v0: error int16 | [api key int16, oldest int16, newest int16]

Older brokers close the connection when they get it. So it is not sent to a broker whose registration in ZooKeeper has
version 1 (0.8) or 2 (0.9).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.columnar.protocol import error_codes
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.primitives import Reader

VERSION = 0
FIRST_REGISTRATION_THAT_ANSWERS = 3

_OURS: Mapping[Api, tuple[int, int]] = {
    Api.FETCH: (0, 10),
    Api.LIST_OFFSETS: (0, 2),
    Api.METADATA: (0, 4),
    Api.SASL_HANDSHAKE: (0, 1),
    Api.SASL_AUTHENTICATE: (0, 0),
}
"""The oldest and newest version of each request that this project's fetcher can encode and decode.

Not Fetch 11: with it followers answer, too, so a broker that no longer leads would not report that. And a broker with
replica.selector.class would send the id of another replica instead of records. Later versions are flexible or name
topics by id.
"""
_BEFORE_API_VERSIONS: Mapping[int, Mapping[Api, int]] = {
    1: {Api.FETCH: 0, Api.LIST_OFFSETS: 0, Api.METADATA: 0},
    2: {Api.FETCH: 1, Api.LIST_OFFSETS: 0, Api.METADATA: 0},
}


@dataclass(frozen=True, slots=True)
class Versions:
    """The version to use of each request; this broker does not support the missing ones.

    oldest: the oldest version that both sides support; without an entry only the chosen one may be used.
    """

    chosen: Mapping[Api, int]
    oldest: Mapping[Api, int] = field(default_factory=dict)

    def of(self, api: Api) -> int:
        """Return the version to use. Raises: BrokersUnavailableError if the broker supports none of ours."""
        version = self.chosen.get(api)
        if version is None:
            raise BrokersUnavailableError(f"the broker takes no version of {api.name} that is spoken here")
        return version

    def has(self, api: Api, version: int) -> bool:
        """Return whether this version of the request may be used."""
        newest = self.chosen.get(api, -1)
        return self.oldest.get(api, newest) <= version <= newest


def versions_by_registration(registration_version: int) -> Versions | None:
    """Return the versions of a broker before 0.10; None for a broker that reports them."""
    if registration_version >= FIRST_REGISTRATION_THAT_ANSWERS:
        return None
    return Versions(_BEFORE_API_VERSIONS[max(registration_version, 1)])


def decode_api_versions(frame: memoryview | bytes) -> Versions:
    """Return the versions that both sides support. Raises: MalformedResponseError, BrokersUnavailableError."""
    reader = Reader(frame, "ApiVersions")
    code = reader.int16()
    if code != error_codes.NONE:
        raise BrokersUnavailableError(f"asked for its versions, the broker answers {error_codes.error_name(code)}")
    chosen: dict[Api, int] = {}
    eldest: dict[Api, int] = {}
    for _ in range(reader.count(6)):
        key, oldest, newest = reader.int16(), reader.int16(), reader.int16()
        ours = _OURS.get(Api(key)) if key in Api.__members__.values() else None
        if ours is not None and max(oldest, ours[0]) <= min(newest, ours[1]):
            chosen[Api(key)] = min(newest, ours[1])
            eldest[Api(key)] = max(oldest, ours[0])
    return Versions(chosen, eldest)
