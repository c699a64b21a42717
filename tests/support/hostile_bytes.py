"""Bytes that hostile clients may write: documents, responses, lines and filters, each randomly damaged."""

from __future__ import annotations

import json
import random
import struct

_DOCUMENTS: tuple[object, ...] = (
    {"version": 1, "subscription": {"t": 1}, "pattern": "white_list", "timestamp": "1"},
    {
        "version": 5,
        "host": "h",
        "port": 9092,
        "endpoints": ["SASL_SSL://[::1]:1", "PLAINTEXT://h:2"],
        "listener_security_protocol_map": {"A": "SSL"},
        "jmx_port": -1,
        "timestamp": "5",
        "rack": "r",
        "features": {"f": {"min_version": 1, "max_version": 2}},
    },
    {
        "partitions": {"0": [0, 1]},
        "version": 3,
        "topic_id": "x",
        "adding_replicas": {},
        "removing_replicas": {"0": [1]},
    },
    {"controller_epoch": 1, "leader": 0, "version": 1, "leader_epoch": 0, "isr": [0]},
    {"version": 1, "config": {"a": "b"}},
    {"version": 1, "brokerid": 0, "timestamp": "1"},
    {"version": 1, "id": "a", "request": "a", "state": "prepare", "partitions": {"t": [0]}, "reason": "r"},
    {"version": 1, "phase": "applied", "at_ms": 1, "partitions": 1, "backup": None, "history": [["a", 1]]},
    {"group": "g", "offsets": {"t": {"0": 5, "1": 7}}},
    {
        "version": 1,
        "session": "1f",
        "round": 3,
        "rebalance_timeout_ms": 60000,
        "protocols": [{"name": "range", "metadata": "AAE="}],
    },
    {"version": 1, "round": 3, "joined": ["a", "b"], "refused": {"c": "why"}},
    {
        "version": 1,
        "generation": 4,
        "round": 3,
        "strategy": "range",
        "leader": "a",
        "topics": {"t": 2},
        "shares": {"a-1f": {"consumer": "a", "partitions": {"t": [0, 1]}, "user_data": "", "joined": 1}},
    },
    {"topics": ["t"], "owned": {"t": [0]}, "generation": None, "user_data": "AA=="},
    {"consumer": "a", "partitions": {"t": [0, 1]}, "user_data": "", "joined": 1},
    12,
    "g_h-1-a-0",
)
_ODD: tuple[object, ...] = (
    None, True, -1, 0, 1.5, 2**31, 2**63, 1e308, "1e999", [], {}, [[]], "", "\ud800", "\x00\x1b[2J\n", "9" * 400,
    {"a": None}, [None], ["x"], {"-1": 1}, {"99999999999": [1]}, {"\u0661": [1]}, "x" * 5000,
)  # fmt: skip
_NUMBERS = (-(2**63), -(2**31), -2, -1, 0, 1, 2, 127, 128, 2**15 - 1, 2**15, 2**31 - 1, 2**31, 2**63 - 1)
_LINES = (
    "/consumers/g/offsets/t/0:5", "g,t,0,5", '"g","t",0,5', "GROUP,TOPIC,PARTITION,OFFSET", "# offsets", "t,0,5",
    "group.id = g", "a: b\\", "key\\u00e9=\\t", "!x", "",
)  # fmt: skip
_REGEX_PARTS = (
    "a", "x+", "(x+x+)+y", "(a|aa)+$", ".*", "[a-z&&[^b]]", "\\p{L}", "(?i)", "(?<n>", ")", "[", "]", "{2,}", "\\Q",
    "\\E", "|", "\\", "(?=", "*+", "\u0661", "^", "$", "\\b", "(((((", "{99999}", "'", '"', ",", "[a-z]*",
)  # fmt: skip


def hostile_json(chance: random.Random) -> bytes:
    """Return a valid document with random odd values, bytes and depths in it."""
    return _with_a_run(hostile_version_of(chance.choice(_DOCUMENTS), chance), chance)


def _with_a_run(data: bytes, chance: random.Random) -> bytes:
    """Repeat a piece of the document, in one of 100 calls, so that a decoder of quadratic time takes very long."""
    if chance.random() > 0.01 or not data:
        return data
    at = chance.randrange(len(data))
    piece = data[at : at + chance.choice((1, 1, 2, 5, 20))]
    return data[:at] + piece * (100_000 // len(piece)) + data[at:]


def hostile_version_of(document: object, chance: random.Random) -> bytes:
    """Return this document with random odd values, bytes and depths in it."""
    text = json.dumps(_mutated(document, chance), ensure_ascii=chance.random() < 0.8)
    data = bytearray(text.replace('"1e999"', "1e999").encode("utf-8", "surrogatepass"))
    for _ in range(chance.choice((0, 0, 0, 1, 3))):
        if data:
            data[chance.randrange(len(data))] = chance.randrange(256)
    if chance.random() < 0.01:
        data[:0] = b"[" * chance.choice((900, 60_000))
    return bytes(data)


def _mutated(value: object, chance: random.Random) -> object:
    if chance.random() < 0.12:
        return chance.choice(_ODD)
    if isinstance(value, dict):
        return {
            (key if chance.random() > 0.05 else str(chance.choice(_ODD))): _mutated(inner, chance)
            for key, inner in value.items()
            if chance.random() > 0.05
        }
    if isinstance(value, list):
        return [_mutated(inner, chance) for inner in value] * chance.choice((1, 1, 1, 2))
    return value


def hostile_response(chance: random.Random) -> bytes:
    """Return numbers, strings and arrays as Kafka's protocol writes them, with odd sizes."""
    data = bytearray()
    for _ in range(chance.randrange(1, 30)):
        match chance.randrange(5):
            case 0:
                text = chance.choice((b"topic", b"host", b"\xff\xfe", b"", b"a" * 300))
                size = len(text) if chance.random() < 0.9 else chance.choice((-1, 32767, -32768))
                data += size.to_bytes(2, "big", signed=True) + text
            case 1:
                data += chance.choice((0, 1, 2, 3, 2**31 - 1)).to_bytes(4, "big")
            case 2:
                size = chance.choice((1, 2, 4, 8))
                data += (chance.choice(_NUMBERS) % (1 << 8 * size)).to_bytes(size, "big")
            case 3:
                data += bytes(chance.randrange(9))
            case _:
                data += chance.randbytes(chance.randrange(6))
    return bytes(data)


def hostile_reply(chance: random.Random) -> bytes:
    """Return results of a multi as ZooKeeper writes them, with odd kinds and lengths."""
    data = bytearray()
    for _ in range(chance.randrange(8)):
        kind = chance.choice((-1, 1, 2, 4, 5, 8, 13, 99))
        data += struct.pack("!iBi", kind, chance.random() < 0.05, chance.choice((-1, 0, -101)))
        if kind in (4, 5):
            length = chance.choice((-1, 0, 3, 3, 3, 2**31 - 1, -(2**31)))
            data += struct.pack("!i", length) * (kind == 4) + b"abc" * (length == 3) + bytes(68)
        elif kind in (-1, 1, 8):
            data += struct.pack("!i", chance.choice((0, 1, 2, -1, -9, -13, 2**31 - 1, -(2**31))))
            data += chance.choice((b"", struct.pack("!i", 1) + b"a", chance.randbytes(5)))
    if chance.random() < 0.5:
        data += struct.pack("!iBi", -1, 1, -1)
    return bytes(data[: chance.randrange(len(data) + 1)] if chance.random() < 0.2 else data)


def hostile_lines(chance: random.Random) -> bytes:
    """Return lines of offset files and properties, some of them damaged."""
    lines = []
    for _ in range(chance.randrange(6)):
        line = chance.choice(_LINES)
        if chance.random() < 0.4:
            at = chance.randrange(len(line) + 1)
            line = (
                line[:at]
                + chance.choice(("\u2028", "\0", "\ud800", ",", ":", '"', "-1", "9" * 30, "\\u12"))
                + line[at:]
            )
        lines.append(line)
    data = chance.choice(("\n", "\r\n", "\r", "\u2028")).join(lines).encode("utf-8", "surrogatepass")
    return _with_a_run(chance.choice((b"", b"\xef\xbb\xbf", b"\xff\xfe")) + data, chance)


def hostile_regex(chance: random.Random) -> bytes:
    """Return a topic filter that a registration may hold."""
    return _with_a_run("".join(chance.choice(_REGEX_PARTS) for _ in range(chance.randrange(1, 8))).encode(), chance)
