"""The znodes of a led group, below /consumers/G/coordination.

    leader          ephemeral; the consumer id of the member that leads
    members/<id>    ephemeral; a member's offer when it joins: its round, and for each of its strategies the member's
                    topics, the partitions that it owns, and bytes for the assignor
    round           the number of the rebalance that members are asked to join; the members that need not join again,
                    and the refused ones
    generation      the share of each member; written once for each round, by the leader

Members of the JVM know of none of these. Everything is JSON; bytes are in base64.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from rebalance.assignors.seam import Subscription
from rebalance.coordination.requests import Protocol
from zk_layout.codecs.strict_json import JsonObject, decode_object
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import TopicPartition

MOST_BYTES = 1 << 20
"""The most bytes of a record that is decoded. No znode is larger, unless the ensemble is configured so."""


def coordination_path(group: str) -> str:
    """Return the path of the folder for the znodes that only a led group has."""
    return f"/consumers/{group}/coordination"


def leader_path(group: str) -> str:
    """Return the path of the ephemeral znode with the consumer id of the leader."""
    return f"{coordination_path(group)}/leader"


def members_path(group: str) -> str:
    """Return the path of the parent of the members' znodes."""
    return f"{coordination_path(group)}/members"


def member_path(group: str, consumer_id: str) -> str:
    """Return the path of the ephemeral znode with a member's offer."""
    return f"{members_path(group)}/{consumer_id}"


def ephemeral_paths(group: str, consumer_id: str) -> tuple[str, str]:
    """Return the paths of the znodes that a member's session may own: the leader's, and the member's own."""
    return leader_path(group), member_path(group, consumer_id)


def round_path(group: str) -> str:
    """Return the path of the znode that asks the members to join a rebalance."""
    return f"{coordination_path(group)}/round"


def generation_path(group: str) -> str:
    """Return the path of the znode with the share of each member."""
    return f"{coordination_path(group)}/generation"


LONGEST_WAIT_MS = 600_000
"""The longest wait of a rebalance for a member, whatever its znode asks for: another client may have written that."""

_LONGEST_REASON = 2000
"""The most characters of a refused member's text; any client can write it."""


@dataclass(frozen=True, slots=True)
class Joining:
    """A member's data when it joins.

    session_id: the member's session; in another session it is another member of the same name. written: the transaction
    that wrote the znode; a member that joins again writes it again. (A znode's version is 0 again after a member left.)
    """

    consumer_id: str
    session_id: int
    round: int
    rebalance_timeout_ms: int
    protocols: tuple[Protocol, ...]
    written: int = 0

    @property
    def member_id(self) -> str:
        """The id of the member in this session; another session makes it another member."""
        return f"{self.consumer_id}-{self.session_id:x}"


@dataclass(frozen=True, slots=True)
class Round:
    """A rebalance that members are asked to join.

    joined: members that joined before it was announced and need not join again. refused: {consumer id: why}.
    """

    number: int = 0
    joined: frozenset[str] = frozenset()
    refused: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Share:
    """The share of one member.

    joined: the transaction that wrote the member's join data, on which the share is based.
    """

    consumer_id: str
    partitions: tuple[TopicPartition, ...] = ()
    user_data: bytes = b""
    joined: int = 0


@dataclass(frozen=True, slots=True)
class Generation:
    """The assignment that ended a round. shares: {member id: share}. topics: {topic: partitions} as they were."""

    number: int
    round: int
    protocol: str
    leader: str
    shares: Mapping[str, Share]
    topics: Mapping[str, int]


NO_GENERATION = Generation(0, -1, "", "", {}, {})
"""No member has a share yet."""


def encode_joining(joining: Joining) -> bytes:
    """Encode a member's znode."""
    return _bytes(
        {
            "version": 1,
            "session": f"{joining.session_id:x}",
            "round": joining.round,
            "rebalance_timeout_ms": joining.rebalance_timeout_ms,
            "protocols": [{"name": offered.name, "metadata": _b64(offered.metadata)} for offered in joining.protocols],
        }
    )


def decode_joining(path: str, consumer_id: str, data: bytes | None, written: int = 0) -> Joining:
    """Decode a member's znode. Raises: MalformedZnodeError, also if it offers no strategy."""
    document = _document(path, data)
    session_id = _hexadecimal(document, "session", "the number of a session")
    protocols = tuple(
        Protocol(offered.text("name"), _unb64(offered, "metadata")) for offered in document.children("protocols")
    )
    if not protocols:
        raise document.malformed("protocols", "a list of strategies")
    timeout_ms = min(max(1, document.integer("rebalance_timeout_ms")), LONGEST_WAIT_MS)
    return Joining(consumer_id, session_id, document.integer("round"), timeout_ms, protocols, written)


def encode_round(asked: Round) -> bytes:
    """Encode the leader's znode at the start of a rebalance."""
    return _bytes({"version": 1, "round": asked.number, "joined": sorted(asked.joined), "refused": dict(asked.refused)})


def decode_round(path: str, data: bytes | None) -> Round:
    """Decode the leader's znode `round`. Raises: MalformedZnodeError."""
    document = _document(path, data)
    refused = document.child("refused")
    return Round(
        document.integer("round"),
        frozenset(document.texts("joined")),
        {name: refused.text(name)[:_LONGEST_REASON] for name in refused},
    )


def encode_generation(generation: Generation) -> bytes:
    """Encode the leader's znode at the end of a rebalance."""
    return _bytes(
        {
            "version": 1,
            "generation": generation.number,
            "round": generation.round,
            "strategy": generation.protocol,
            "leader": generation.leader,
            "shares": {member: _share_fields(share) for member, share in generation.shares.items()},
            "topics": dict(generation.topics),
        }
    )


def decode_generation(path: str, data: bytes | None) -> Generation:
    """Decode the leader's znode `generation`. Raises: MalformedZnodeError."""
    document = _document(path, data)
    shares = document.child("shares")
    topics = document.child("topics")
    return Generation(
        document.integer("generation"),
        document.integer("round"),
        document.text("strategy"),
        document.text("leader"),
        {member: _share(shares.child(member)) for member in shares},
        {topic: topics.integer(topic) for topic in topics},
    )


def encode_subscription(subscription: Subscription) -> bytes:
    """Encode a member's metadata for one strategy."""
    return _bytes(
        {
            "topics": list(subscription.topics),
            "owned": _by_topic(subscription.owned),
            "generation": subscription.generation,
            "user_data": _b64(subscription.user_data),
        }
    )


def decode_subscription(data: bytes) -> Subscription:
    """Decode a member's metadata for one strategy. Raises: MalformedZnodeError."""
    document = decode_object("a member's metadata", data)
    generation = None if document.is_null("generation") else document.integer("generation")
    return Subscription(
        document.texts("topics"), _unb64(document, "user_data"), _partitions(document, "owned"), generation
    )


def _share_fields(share: Share) -> dict[str, object]:
    return {
        "consumer": share.consumer_id,
        "partitions": _by_topic(share.partitions),
        "user_data": _b64(share.user_data),
        "joined": f"{share.joined:x}",
    }


def _share(document: JsonObject) -> Share:
    return Share(
        document.text("consumer"),
        _partitions(document, "partitions"),
        _unb64(document, "user_data"),
        _hexadecimal(document, "joined", "the number of a transaction"),
    )


def _document(path: str, data: bytes | None) -> JsonObject:
    if data is not None and len(data) > MOST_BYTES:
        raise MalformedZnodeError(path, data[:100], f"{len(data)} bytes, more than any member writes")
    return decode_object(path, data)


def _bytes(document: Mapping[str, object]) -> bytes:
    return json.dumps(document, separators=(",", ":"), sort_keys=True).encode()


def _b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def _unb64(document: JsonObject, key: str) -> bytes:
    try:
        return base64.b64decode(document.text(key), validate=True)
    except ValueError as error:
        raise document.malformed(key, "base64") from error


def _hexadecimal(document: JsonObject, key: str, what: str) -> int:
    """Read a number of ZooKeeper, which has 64 bits, more than a Java int."""
    try:
        return int(document.text(key), 16)
    except ValueError as error:
        raise document.malformed(key, what) from error


def _by_topic(partitions: tuple[TopicPartition, ...]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for tp in sorted(partitions):
        found.setdefault(tp.topic, []).append(tp.partition)
    return found


def _partitions(document: JsonObject, key: str) -> tuple[TopicPartition, ...]:
    topics = document.child(key)
    return tuple(sorted(TopicPartition(topic, number) for topic in topics for number in topics.integers(topic)))
