"""SaslHandshake (17) and SaslAuthenticate (36): the choice of a mechanism, then its messages.

    SaslHandshake     request   mechanism string
                      response  error int16 | mechanisms that the broker has [string]
    SaslAuthenticate  request   v0: message bytes
                      response  v0: error int16 | error message string | message bytes

After handshake 0 (0.10) the messages follow without a header, each after its int32 size, and a broker refuses by
closing the connection. After handshake 1 (1.0) SaslAuthenticate carries the messages, and a refusal has a reason.
"""

from __future__ import annotations

from dataclasses import dataclass

from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer


@dataclass(frozen=True, slots=True)
class HandshakeAnswer:
    """The broker's answer to a handshake. error 33: the broker does not have the mechanism."""

    error: int
    mechanisms: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AuthenticateAnswer:
    """The broker's answer to one message. message: its own message of the mechanism."""

    error: int
    reason: str | None
    message: bytes


def encode_handshake(mechanism: str) -> bytes:
    """Return the body of a handshake, the same in versions 0 and 1."""
    writer = Writer()
    writer.string(mechanism)
    return writer.done()


def decode_handshake(frame: memoryview | bytes) -> HandshakeAnswer:
    """Decode the body of a response. Raises: MalformedResponseError."""
    reader = Reader(frame, "SaslHandshake")
    error = reader.int16()
    return HandshakeAnswer(error, tuple(reader.string() for _ in range(reader.count(2))))


def encode_authenticate(message: bytes) -> bytes:
    """Return the body of a request, in version 0."""
    writer = Writer()
    writer.byte_array(message)
    return writer.done()


def decode_authenticate(frame: memoryview | bytes) -> AuthenticateAnswer:
    """Decode the body of a response. Raises: MalformedResponseError."""
    reader = Reader(frame, "SaslAuthenticate")
    error, reason = reader.int16(), reader.nullable_string()
    return AuthenticateAnswer(error, reason, bytes(reader.nullable_bytes() or b""))
