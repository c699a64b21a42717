r"""Tells which client wrote a registration or an owner znode, as far as the bytes show it.

Every client has its own way of writing the same thing. Blanks, the order of keys and the escaping of a wildcard tell
them apart:

    { "pattern":"static", "subscription":{ "t": 1 }, "timestamp":"1376439412000", "version":1 }     Kafka 0.8.0
    {"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1416392398000"}             0.8.1 to 1.1.1
    {"version":1,"subscription":{"a\.b":1},"pattern":"white_list", ...                              0.8.1
    {"version":1,"subscription":{"a\\.b":1},"pattern":"white_list", ...                             0.8.2 to 1.0.0
    {"version":1,"subscription":{"a\\\\.b":1},"pattern":"white_list", ...                           1.0.1 to 1.1.1
    *4*a.*b   !4!a.*b   { "t": 4,"u": 2 }                                                           0.7
    {"version":1,"subscription":{"t":1},"pattern":"static","timestamp":"1416392398000","coordination":"leader"}
                                                                              this project, group.coordination=leader
    t                                                                                               pykafka
    {"pattern":"static","subscription":{"t":1},"timestamp":"1416392398","version":1}                wvanbergen/kafka
    {"version":1,"subscription":{"t": 1, "u": 1},"pattern":"white_list","timestamp":"141639..."}    kafka-node

This project writes what 0.8.2 to 1.0.0 write, byte for byte, so it cannot be told from them, and need not be.

Source: Scala consumer, ZookeeperConsumerConnector.scala, TopicCount.scala; pykafka balancedconsumer.py; wvanbergen
kazoo-go consumergroup.go; kafka-node lib/zookeeper.js.
"""

from __future__ import annotations

import json
import re
from enum import Enum

from zk_layout.model import ConsumerThreadId


class MemberKind(Enum):
    """A client. The values are the texts that users see."""

    KAFKA_0_7 = "Kafka 0.7"
    KAFKA_0_8_0 = "Kafka 0.8.0"
    KAFKA_0_8_1 = "Kafka 0.8.1"
    """Known only by a regular expression that is not escaped at all."""
    KAFKA = "Kafka 0.8.1+"
    """Any version from 0.8.1 on, or legacy-consumer."""
    KAFKA_0_8_2 = "Kafka 0.8.2 to 1.0.0"
    """Known only by a regular expression that is escaped once; or legacy-consumer."""
    KAFKA_1_0_1 = "Kafka 1.0.1+"
    """Known only by a regular expression that is escaped twice."""
    LED = "legacy-consumer, led"
    """With group.coordination=leader."""
    PYKAFKA = "pykafka"
    WVANBERGEN = "wvanbergen/kafka"
    KAFKA_NODE = "kafka-node"
    UNKNOWN = "unknown"


_BY_0_7 = re.compile(r"\*\d+\*.*|!\d+!.*|\{ (?:\"[^\"]*\": \d+,?)* \}", re.DOTALL)
_BARE_TOPIC = re.compile(r"[a-zA-Z0-9._-]+")
_0_8_0 = re.compile(r'\{ "pattern":"\w+", "subscription":\{ .*\}, "timestamp":"\d+", "version":1 \}', re.DOTALL)
_0_8_1 = re.compile(r'\{"version":1,"subscription":\{(.*)\},"pattern":"(\w+)","timestamp":"\d+"\}', re.DOTALL)
_LED = re.compile(
    r'\{"version":1,"subscription":\{.*\},"pattern":"\w+","timestamp":"\d+","coordination":"leader"\}', re.DOTALL
)
_WVANBERGEN = re.compile(r'\{"pattern":"\w+","subscription":(?:\{.*\}|null),"timestamp":"\d+","version":1\}', re.DOTALL)
_KAFKA_NODE = re.compile(
    r'\{"version":1,"subscription":\{"[^"]*": 1(?:, "[^"]*": 1)*\},"pattern":"white_list","timestamp":"\d+"\}'
)

_UUID = "[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}"
_HOST_AND_UUID = re.compile(f"[^:]+:{_UUID}")
_GROUP_AND_UUID = re.compile(f".+_{_UUID}")

_ESCAPE = re.compile(r"\\(.?)", re.DOTALL)


def registration_kind(consumer_id: str, data: bytes | None) -> MemberKind:
    """Return the kind of client that wrote these bytes under `ids`, readable or not.

    consumer_id: pykafka and wvanbergen/kafka name members `<host>:<uuid>`, kafka-node `<group>_<uuid>`; it decides
    only about an empty znode, which kafka-node leaves between creating and filling it.
    """
    if not data:
        return MemberKind.KAFKA_NODE if _GROUP_AND_UUID.fullmatch(consumer_id) else MemberKind.UNKNOWN
    text = data.decode("utf-8", "replace")
    if _BY_0_7.fullmatch(text) or text == "{  }":
        return MemberKind.KAFKA_0_7
    if _BARE_TOPIC.fullmatch(text):
        # any tool may leave a word there; pykafka's ids have a shape of their own
        return MemberKind.PYKAFKA if _HOST_AND_UUID.fullmatch(consumer_id) else MemberKind.UNKNOWN
    if _0_8_0.fullmatch(text):
        return MemberKind.KAFKA_0_8_0
    if _LED.fullmatch(text):
        return MemberKind.LED
    if _WVANBERGEN.fullmatch(text):
        return MemberKind.WVANBERGEN
    if _KAFKA_NODE.fullmatch(text):
        return MemberKind.KAFKA_NODE
    if found := _0_8_1.fullmatch(text):
        return MemberKind.KAFKA if found[2] == "static" else _by_escaping(found[1])
    return MemberKind.UNKNOWN


def owner_kind(text: str) -> MemberKind | None:
    """Return the kind of client that writes such an owner znode; None for the protocol's `<consumer id>-<thread>`.

    pykafka and wvanbergen/kafka write the same text. pykafka's znodes have other names (`<leader>-<partition>`), so a
    text under a partition's own name is of wvanbergen/kafka.
    """
    try:
        ConsumerThreadId.parse(text)
    except ValueError:
        pass
    else:
        return None
    if _HOST_AND_UUID.fullmatch(text):
        return MemberKind.WVANBERGEN
    return MemberKind.KAFKA_NODE if _GROUP_AND_UUID.fullmatch(text) else MemberKind.UNKNOWN


def meant_regex(regex: str) -> str | None:
    r"""Return the regex that the user of a 1.0.1 to 1.1.1 member wrote, or None if this one is not escaped too often.

    `a\\.b` was `a\.b`. Every backslash, quote and slash must be escaped, and at least one be there: a topic's name
    has none of them, so no user means the literal characters.
    """
    escapes = _ESCAPE.findall(regex)
    if not escapes or any(escaped not in ('"', "\\", "/") for escaped in escapes):
        return None
    unescaped = _ESCAPE.sub("", regex)
    if '"' in unescaped or "/" in unescaped:
        return None
    return _ESCAPE.sub(r"\1", regex)


def _by_escaping(entries: str) -> MemberKind:
    """Return the kind that the escaping shows.

    entries: the text between the braces of `subscription`; its first key is the regular expression.
    """
    if "\\" not in entries:
        return MemberKind.KAFKA
    try:
        regex = next(iter(json.loads(f"{{{entries}}}")))
    except (ValueError, RecursionError):
        return MemberKind.KAFKA_0_8_1
    return MemberKind.KAFKA_0_8_2 if meant_regex(regex) is None else MemberKind.KAFKA_1_0_1
