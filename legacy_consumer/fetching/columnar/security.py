"""TLS by the standard library's ssl, and the SASL login. fetchers.py lists the supported properties.

The names and defaults are librdkafka's, so that a configuration means the same with both fetchers.
"""

from __future__ import annotations

import ssl
from dataclasses import dataclass, field
from pathlib import Path

from legacy_consumer.config import ClusterConfig
from zk_layout.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SaslLogin:
    """The user's credentials. mechanism: PLAIN or one of scram.HASHES."""

    mechanism: str
    user: str
    password: str = field(repr=False)


@dataclass(frozen=True, slots=True)
class Security:
    """The TLS context and SASL login for one kind of listener; both None for PLAINTEXT."""

    protocol: str
    tls: ssl.SSLContext | None = None
    sasl: SaslLogin | None = None


def security_of(config: ClusterConfig) -> Security:
    """Read the certificates. Raises: ConfigError for a file that cannot be used, or a missing user or password."""
    given = dict(config.kafka_security)
    protocol = config.security_protocol
    tls = _context(given) if protocol.endswith("SSL") else None
    sasl = None
    if protocol.startswith("SASL"):
        for name in ("sasl.username", "sasl.password"):
            if not given.get(name):
                raise ConfigError(name, None, f"is required with sasl.mechanism={given.get('sasl.mechanism')}")
        sasl = SaslLogin(given["sasl.mechanism"], given["sasl.username"], given["sasl.password"])
    return Security(protocol, tls, sasl=sasl)


def _context(given: dict[str, str]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    checks = given.get("enable.ssl.certificate.verification", "true") == "true"
    context.check_hostname = checks and given.get("ssl.endpoint.identification.algorithm", "https") == "https"
    context.verify_mode = ssl.CERT_REQUIRED if checks else ssl.CERT_NONE
    where = given.get("ssl.ca.location")
    with _naming("ssl.ca.location", where):
        if where is None:
            context.load_default_certs()
        elif Path(where).is_dir():
            context.load_verify_locations(capath=where)
        else:
            context.load_verify_locations(cafile=where)
    certificate, key = given.get("ssl.certificate.location"), given.get("ssl.key.location")
    if certificate is not None:
        with _naming("ssl.certificate.location", certificate):
            # load_cert_chain does not say which of the two files is wrong, so load the certificate alone first
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cafile=certificate)
        name = "ssl.certificate.location" if key is None else "ssl.key.location"
        with _naming(name, key or certificate, "holds no key of the certificate that ssl.key.password opens"):
            # without a password OpenSSL would ask for one at the terminal
            context.load_cert_chain(certificate, key, given.get("ssl.key.password", ""))
    elif key is not None:
        raise ConfigError("ssl.key.location", key, "is of no use without ssl.certificate.location")
    ciphers = given.get("ssl.cipher.suites")
    if ciphers is not None:
        with _naming("ssl.cipher.suites", ciphers):
            context.set_ciphers(ciphers)
    return context


class _naming:  # noqa: N801
    """Turns errors of OpenSSL and the file system into a ConfigError that names the property."""

    def __init__(self, name: str, value: str | None, trouble: str = "cannot be used") -> None:
        self._name = name
        self._value = value
        self._trouble = trouble

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, traceback: object) -> None:
        if isinstance(error, ssl.SSLError):
            # the error of set_ciphers has no reason
            reason = getattr(error, "reason", None) or error
            raise ConfigError(self._name, self._value, f"{self._trouble}: {reason}") from error
        if isinstance(error, OSError):
            raise ConfigError(self._name, self._value, f"cannot be read: {error.strerror or error}") from error
