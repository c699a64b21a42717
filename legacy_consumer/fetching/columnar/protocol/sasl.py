"""SaslHandshake (17) and SaslAuthenticate (36): which mechanism, then its messages.

    SaslHandshake     request   mechanism string
                      response  error int16 | mechanisms that the broker has [string]
    SaslAuthenticate  request   v0: message bytes
                      response  v0: error int16 | error message string | message bytes

After handshake 0 (0.10) messages follow bare, each behind an int32 size, and a broker that refuses hangs up. After
handshake 1 (1.0) they are wrapped into SaslAuthenticate, and a refusal says why.
"""

from __future__ import annotations

from dataclasses import dataclass

from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer


@dataclass(frozen=True, slots=True)
class HandshakeAnswer:
    """error 33: the broker lacks the mechanism."""

    error: int
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuthenticateAnswer:
    """message: the server's part of the exchange."""

    error: int
    reason: str | None
    message: bytes


def encode_handshake(mechanism: str) -> bytes:
    """Versions 0 and 1 alike."""
    writer = Writer()
    writer.string(mechanism)
    return writer.done()


def decode_handshake(frame: memoryview | bytes) -> HandshakeAnswer:
    """Raises: MalformedResponseError."""
    reader = Reader(frame, "SaslHandshake")
    error = reader.int16()
    return HandshakeAnswer(error, tuple(reader.string() for _ in range(reader.count(2))))


def encode_authenticate(message: bytes) -> bytes:
    """Version 0."""
    writer = Writer()
    writer.byte_array(message)
    return writer.done()


def decode_authenticate(frame: memoryview | bytes) -> AuthenticateAnswer:
    """Raises: MalformedResponseError."""
    reader = Reader(frame, "SaslAuthenticate")
    error, reason = reader.int16(), reader.nullable_string()
    return AuthenticateAnswer(error, reason, bytes(reader.nullable_bytes() or b""))
