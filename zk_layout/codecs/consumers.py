r"""The znodes of consumers under /consumers: registrations, owners, offsets.

Owner: the consumer thread id, bare text.

    group1_host1-1416392398000-1a2b3c4d-0

Offset: the next offset to consume in decimal, bare text; -1 means none.

    1024

Registration, 0.8.0 (keys sorted), 0.8.1 to 1.1.1 static, white list and black list:

    { "pattern":"static", "subscription":{ "topic1": 1 }, "timestamp":"1376439412000", "version":1 }
    {"version":1,"subscription":{"topic1":1,"topic2":2},"pattern":"static","timestamp":"1416392398000"}
    {"version":1,"subscription":{"foo.*|bar":2},"pattern":"white_list","timestamp":"1416392398000"}
    {"version":1,"subscription":{"__.*":1},"pattern":"black_list","timestamp":"1416392398000"}

The regex of a list is escaped differently by version. `a\.b` stands in the znode as

    "a\.b"       0.8.0 and 0.8.1: not escaped, which is not JSON; readers from 1.0.1 double the backslash
    "a\\.b"      0.8.2 to 1.0.0, and this project: once, which every version from 0.8.2 reads right
    "a\\\\.b"    1.0.1 to 1.1.1: twice, so every reader, the writer too, sees `a\\.b`: a literal backslash

The last is read here as every member of the group reads it. Undoing it would give this member another view of the
subscriptions, and so another assignment.
"""

from __future__ import annotations

import re

from zk_layout.codecs.java_number import MAX_LONG, MIN_LONG, parse_long
from zk_layout.codecs.strict_json import JsonObject, decode_json, decode_text
from zk_layout.errors import ConfigError, MalformedZnodeError
from zk_layout.model import ConsumerRegistration, ConsumerThreadId, SubscriptionPattern

MOST_BYTES = 512 * 1024
"""A registration larger than this is not read: any client may write one, and all members read all of them."""
MOST_STREAMS = 10_000
"""The most streams of one topic; each would be a thread and a queue in the member's process."""
MOST_STREAMS_IN_ALL = 100_000
"""The most streams of one member over all its topics, and so the most topics, too."""

_ALWAYS_A_LONG = 18
"""Any number with this many digits is in range."""


_NOT_A_THREAD = (
    "an owner is <consumer id>-<thread number>; "
    "pykafka, wvanbergen/kafka and kafka-node write the consumer id without thread"
)


def decode_offset(path: str, data: bytes | None) -> int:
    """Read an offset as a JVM member does, with Long.parseLong. -1 means none.

    Raises: MalformedZnodeError, also for a blank or a newline: a JVM member fails its rebalance over one.
    """
    if data:
        if data.isdigit() and len(data) <= _ALWAYS_A_LONG:
            return int(data)
        offset = parse_long(data)
        if offset is not None:
            return offset
    raise MalformedZnodeError(path, data, "an offset is a decimal number of 64 bits, without blank or newline")


def encode_offset(offset: int) -> bytes:
    """The offset in decimal. Raises: ValueError if it does not fit into 64 bits."""
    if not MIN_LONG <= offset <= MAX_LONG:
        raise ValueError(f"{offset} is not an offset: it does not fit into 64 bits")
    return b"%d" % offset


def decode_owner(path: str, data: bytes | None) -> ConsumerThreadId:
    """Read the owner of a partition. Raises: MalformedZnodeError."""
    try:
        return ConsumerThreadId.parse(decode_text(path, data))
    except ValueError as error:
        raise MalformedZnodeError(path, data, _NOT_A_THREAD) from error


def encode_owner(owner: ConsumerThreadId) -> bytes:
    """The consumer thread id as text."""
    return str(owner).encode()


def decode_registration(path: str, data: bytes | None) -> ConsumerRegistration:
    """Read a member's registration as a JVM member does, or name its client if no JVM member can read it.

    An unknown pattern counts as static, and so does every pattern without a subscription.
    Raises: MalformedZnodeError if the rebalance of a JVM member fails over it, and for numbers beyond any process.
    Source: Scala consumer, TopicCount.scala, constructTopicCount.
    """
    if not data:
        raise MalformedZnodeError(path, data, "an empty registration: kafka-node creates it so and fills it in later")
    if len(data) > MOST_BYTES:
        raise MalformedZnodeError(
            path, data[:MOST_BYTES], f"a registration of {len(data)} bytes: no member writes that"
        )
    try:
        document = decode_json(path, data, mend_backslashes=True)
    except MalformedZnodeError as error:
        writer = _foreign_writer(data)
        if writer is None:
            raise
        raise MalformedZnodeError(path, data, writer) from error
    if not isinstance(document, dict):
        raise MalformedZnodeError(path, data, _foreign_writer(data) or "a registration is a JSON object")
    if _is_static_of_0_7(document):
        raise MalformedZnodeError(path, data, _BY_0_7.format("topics and stream counts alone"))
    # the key may have any value: JVM members ignore a key that they do not know, and count this member
    is_led = document.get("coordination") == "leader"
    return _registration(JsonObject(path, data, document), "leader" if is_led else "classic")


def encode_registration(registration: ConsumerRegistration) -> bytes:
    """Write a registration byte for byte as 0.8.2 to 1.0.0 do, which all members from 0.8.2 on read right.

    The registration of a member that follows a leader has one more key; JVM members ignore a key that they do not know.
    Raises: ConfigError if it is so large that decode_registration refuses it.
    """
    subscription = ",".join(f'"{_escape(key)}":{count}' for key, count in registration.subscription)
    led = "" if registration.coordination == "classic" else f',"coordination":"{registration.coordination}"'
    data = (
        f'{{"version":{registration.version},"subscription":{{{subscription}}},'
        f'"pattern":"{registration.pattern.value}","timestamp":"{registration.timestamp_ms}"{led}}}'
    ).encode()
    if len(data) > MOST_BYTES:
        topics = f"{len(registration.subscription)} topics"
        reason = f"make a registration of {len(data)} bytes, and {MOST_BYTES} are read: subscribe with a filter"
        raise ConfigError("subscription", topics, reason)
    return data


_PATTERNS = {pattern.value: pattern for pattern in SubscriptionPattern}


def _registration(document: JsonObject, coordination: str) -> ConsumerRegistration:
    pattern = _PATTERNS.get(document.text("pattern"), SubscriptionPattern.STATIC)
    subscription = document.child("subscription")
    counts = tuple((key, subscription.integer(key)) for key in subscription)
    if not counts:
        pattern = SubscriptionPattern.STATIC
    counted = counts if pattern is SubscriptionPattern.STATIC else counts[:1]
    for key, count in counted:
        if count < 1:
            raise subscription.malformed(key, "a number of streams: it is below 1")
        if count > MOST_STREAMS:
            raise subscription.malformed(key, f"a number of streams: it is above {MOST_STREAMS}")
    if sum(count for _, count in counted) > MOST_STREAMS_IN_ALL:
        raise document.malformed("subscription", f"a subscription: it has more than {MOST_STREAMS_IN_ALL} streams")
    return ConsumerRegistration(pattern, counts, document.long_in_quotes("timestamp") or 0, coordination=coordination)


# --- registrations of other clients than the Scala consumer from 0.8 on

_BY_0_7 = "written by a consumer of Kafka 0.7 ({}), which cannot share a group with members from 0.8 on"
_LIST_OF_0_7 = re.compile(rb"\*\d+\*.*|!\d+!.*", re.DOTALL)
"""`*4*whitetopic.*` = white list, 4 streams; `!4!blacktopic.*` = black list."""
_BARE_TOPIC = re.compile(rb"[a-zA-Z0-9._-]+")


def _is_static_of_0_7(document: dict[str, object]) -> bool:
    """Return whether a registration is a static one of 0.7: `{ "topic1": 4,"topic2": 2 }`, or `{  }`."""
    return all(type(count) is int for count in document.values())


def _foreign_writer(data: bytes) -> str | None:
    if _LIST_OF_0_7.fullmatch(data):
        return _BY_0_7.format("streams and regex between * or !")
    if _BARE_TOPIC.fullmatch(data):
        return "a bare word where JSON belongs: pykafka registers its topic's name so, and JVM members die of it"
    return None


# --- JSON strings as the Scala consumer escapes them by hand

_ESCAPES = {ord(c): f"\\{c}" for c in '"\\/'} | {
    ord(c): e for c, e in zip("\b\f\n\r\t", ("\\b", "\\f", "\\n", "\\r", "\\t"), strict=True)
}
_CONTROLS = {code: f"\\u{code:04x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_ESCAPE_TABLE = _CONTROLS | _ESCAPES


def _escape(text: str) -> str:
    """Escape as Utils.JSONEscapeString of 0.8.2 to 1.0.0: `/` too, and the controls U+007F to U+009F."""
    return text.translate(_ESCAPE_TABLE)
