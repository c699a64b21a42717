"""The client's side of SCRAM (RFC 5802, RFC 7677) as Kafka speaks it: SHA-256 or SHA-512, no channel binding. No I/O.

    client  n,,n=user,r=nonce
    server  r=nonce+server's,s=salt,i=iterations
    client  c=biws,r=nonce+server's,p=proof
    server  v=signature                         (or e=error)

The server proves with its signature that it knows the password too.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
import secrets

from legacy_consumer.errors import MalformedResponseError

_NUMBER = re.compile("[0-9]{1,7}")
HASHES = {"SCRAM-SHA-256": "sha256", "SCRAM-SHA-512": "sha512"}
_ITERATIONS = range(4096, 1_000_001)
"""RFC 7677 requires 4,096 at least: with fewer, a false broker could quickly guess the password from our proof. More
than a million take seconds."""


class ScramClient:
    """The client in one exchange: first(), then final(challenge), then verify(outcome)."""

    def __init__(self, mechanism: str, user: str, password: str, nonce: str | None = None) -> None:
        self._hash = HASHES[mechanism]
        self._password = password.encode()
        self._nonce = nonce or secrets.token_urlsafe(24)
        self._bare = f"n={user.replace('=', '=3D').replace(',', '=2C')},r={self._nonce}"
        self._mechanism = mechanism
        self._signature = b""

    def first(self) -> bytes:
        """Return the first message."""
        return f"n,,{self._bare}".encode()

    def final(self, challenge: bytes) -> bytes:
        """Return the proof. Raises: ValueError with the server's reason if it refuses, MalformedResponseError."""
        fields = self._fields(challenge)
        nonce = fields.get("r", "")
        if not nonce.startswith(self._nonce) or nonce == self._nonce:
            raise self._malformed("its nonce does not continue ours")
        salt = self._base64(fields.get("s", ""))
        digits = fields.get("i", "")
        iterations = int(digits) if _NUMBER.fullmatch(digits) else 0
        if iterations not in _ITERATIONS:
            raise self._malformed(f"it asks for {digits[:20]!r} iterations, not {_ITERATIONS[0]} to {_ITERATIONS[-1]}")
        salted = hashlib.pbkdf2_hmac(self._hash, self._password, salt, iterations)
        client_key = self._hmac(salted, b"Client Key")
        without_proof = f"c=biws,r={nonce}"
        spoken = f"{self._bare},".encode() + challenge + f",{without_proof}".encode()
        stored_key = hashlib.new(self._hash, client_key).digest()
        signature = self._hmac(stored_key, spoken)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        self._signature = self._hmac(self._hmac(salted, b"Server Key"), spoken)
        return f"{without_proof},p={base64.b64encode(proof).decode()}".encode()

    def verify(self, outcome: bytes) -> None:
        """Check that the server knows the password. Raises: as final."""
        given = self._base64(self._fields(outcome).get("v", ""))
        if not hmac.compare_digest(given, self._signature):
            raise self._malformed("the server's signature is wrong: it does not know the password")

    def _fields(self, message: bytes) -> dict[str, str]:
        try:
            parts = message.decode().split(",")
        except UnicodeDecodeError as error:
            raise self._malformed("it is not UTF-8") from error
        fields = {part[:1]: part[2:] for part in parts if part[1:2] == "="}
        if "e" in fields:
            raise ValueError(fields["e"])  # the server refuses
        return fields

    def _base64(self, text: str) -> bytes:
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise self._malformed("it holds no proper base64") from error

    def _hmac(self, key: bytes, data: bytes) -> bytes:
        return hmac.digest(key, data, self._hash)

    def _malformed(self, reason: str) -> MalformedResponseError:
        return MalformedResponseError(self._mechanism, reason)
