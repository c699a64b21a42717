"""The connection settings of one cluster, its ZooKeeper and its brokers, for every command and the Spark sources."""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field, fields
from os import PathLike
from typing import TYPE_CHECKING

from legacy_consumer.config.broker_hosts import BrokerHosts
from legacy_consumer.config.properties import BY_NAME, PASSED_TO_LIBRDKAFKA, PROPERTIES
from legacy_consumer.config.sources import Value, Values, gather, give_to_assignors, misspelling_of
from zk_layout.errors import ConfigError
from zk_layout.settings import SaslSettings, TlsSettings, ZkSettings

if TYPE_CHECKING:
    from typing_extensions import Self

_NAME = re.compile(r"[a-zA-Z0-9._-]*")
_HOST = re.compile(r"([^\s:/,\[\]]+|\[[0-9A-Fa-f:.]+\])(?::([0-9]{1,5}))?")
_JAVA_KEY_STORES = (".jks", ".p12", ".pfx")


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterConfig:
    """The checked properties of the connections to ZooKeeper and Kafka; load makes it.

    kafka_security, rdkafka: librdkafka's properties, with its names and values. assignment: the assignors' properties.

    warnings: settings that an operator should check; notes: settings without effect, with the reason. Loading does not
    log them; the code that starts work with the configuration does.
    """

    zookeeper_connect: str
    zookeeper_session_timeout_ms: int
    zookeeper_connection_timeout_ms: int
    zookeeper_set_acl: bool
    zookeeper_auth_digest: str | None = field(repr=False)
    zookeeper_sasl_mechanism: str
    zookeeper_sasl_username: str | None
    zookeeper_sasl_password: str | None = field(repr=False)
    zookeeper_sasl_service: str
    zookeeper_sasl_principal: str | None
    zookeeper_ssl_client_enable: bool
    zookeeper_ssl_truststore_location: str | None
    zookeeper_ssl_keystore_location: str | None
    zookeeper_ssl_keystore_password: str | None = field(repr=False)
    zookeeper_ssl_key_location: str | None
    zookeeper_ssl_endpoint_identification_algorithm: str
    zookeeper_ssl_verify_certificates: bool
    client_id: str
    security_protocol: str
    socket_timeout_ms: int
    socket_receive_buffer_bytes: int
    sasl_plain_without_tls: bool
    broker_hosts: str | None
    kafka_security: tuple[tuple[str, str], ...] = field(repr=False)
    rdkafka: tuple[tuple[str, str], ...] = field(repr=False)
    assignment: tuple[tuple[str, str], ...] = ()
    warnings: tuple[str, ...]
    notes: tuple[str, ...]

    @classmethod
    def load(
        cls,
        properties_file: str | PathLike[str] | None = None,
        overrides: Mapping[str, str | int | bool] | None = None,
        **keywords: str | int | bool,
    ) -> Self:
        """Read and check the properties: keywords (`zookeeper_connect=`) override overrides, and these a file.

        Raises: ConfigError, before any connection is opened.
        """
        values = gather(properties_file, overrides, keywords)
        give_to_assignors(values, cls._declared(values) if values.unknown else ())
        complete = cls._complete(values)
        names = {f.name for f in fields(cls)}
        picked = {known.attribute: complete[known.name] for known in PROPERTIES if known.attribute in names}
        config = cls(
            **picked,  # type: ignore[arg-type]  # the table says the types; test_config.py compares it with the fields
            kafka_security=_for_librdkafka(values),
            rdkafka=tuple(sorted(values.rdkafka.items())),
            assignment=tuple(sorted(values.assignment.items())),
            warnings=(*values.warnings, *cls._contradictions(complete)),
            notes=tuple(values.notes),
        )
        config.zk_settings()  # raises ConfigError for settings that can never work
        BrokerHosts(config.broker_hosts)
        return config

    @classmethod
    def _declared(cls, values: Values) -> Container[str]:  # noqa: ARG003
        """Return the names of the properties that the configured assignors declare."""
        return ()

    @classmethod
    def _complete(cls, values: Values) -> dict[str, Value | None]:
        """Fill in the defaults, and check each property by itself."""
        complete: dict[str, Value | None] = {known.name: known.default for known in PROPERTIES}
        complete.update(values.given)
        connect = complete["zookeeper.connect"]
        if not connect:
            reason = "is required: give host:port[,host:port...][/chroot]"
            raise ConfigError("zookeeper.connect", None, reason + misspelling_of("zookeeper.connect", values))
        complete["zookeeper.connect"] = _without_blanks(str(connect))
        if complete["group.id"]:
            check_name("group.id", str(complete["group.id"]))
        if complete["client.id"] is None:
            complete["client.id"] = complete["group.id"] or "legacy-consumer"
        check_name("client.id", str(complete["client.id"]))
        if complete["zookeeper.connection.timeout.ms"] is None:
            complete["zookeeper.connection.timeout.ms"] = complete["zookeeper.session.timeout.ms"]
        digest = complete["zookeeper.auth.digest"]
        if digest is not None and not re.fullmatch(r"[^:]+:.+", str(digest)):
            raise ConfigError("zookeeper.auth.digest", None, "must be user:password")
        for name in ("zookeeper.ssl.truststore.location", "zookeeper.ssl.keystore.location"):
            if str(complete[name] or "").lower().endswith(_JAVA_KEY_STORES):
                raise ConfigError(name, complete[name], "must be a PEM file, Java key stores cannot be read here")
        return complete

    @classmethod
    def _contradictions(cls, complete: Mapping[str, Value | None]) -> list[str]:
        """Return a warning for each implausible setting. Raises: ConfigError for settings that are not allowed."""
        warnings = []
        protocol = str(complete["security.protocol"])
        ssl = sorted(n for n in PASSED_TO_LIBRDKAFKA if "ssl." in n and complete[n] != BY_NAME[n].default)
        sasl = sorted(n for n in PASSED_TO_LIBRDKAFKA if n.startswith("sasl.") and complete[n] is not None)
        if ssl and not protocol.endswith("SSL"):
            warnings.append(f"{ssl[0]} has no effect while security.protocol is {protocol}")
        if sasl and not protocol.startswith("SASL"):
            warnings.append(f"{sasl[0]} has no effect while security.protocol is {protocol}")
        readable = {"PLAIN": "sasl.password", "OAUTHBEARER": "its token"}.get(str(complete["sasl.mechanism"]))
        if protocol == "SASL_PLAINTEXT" and readable is not None and not complete["sasl.plain.without.tls"]:
            raise ConfigError(
                "sasl.mechanism",
                complete["sasl.mechanism"],
                f"would send {readable} readable to whatever address stands in ZooKeeper: use "
                "security.protocol=SASL_SSL or a SCRAM mechanism, or allow it by sasl.plain.without.tls=true",
            )
        method = str(complete["sasl.oauthbearer.method"] or "default")
        if protocol.startswith("SASL") and complete["sasl.mechanism"] == "OAUTHBEARER" and method != "oidc":
            # librdkafka can make a token by itself, but one that is not signed
            warnings.append(f"sasl.oauthbearer.method={method} brings no token that brokers trust: set oidc")
        if complete["zookeeper.sasl.mechanism"] == "DIGEST-MD5":
            names = "zookeeper.sasl.username", "zookeeper.sasl.password"
            missing = [name for name in names if not complete[name]]
            if missing and any(complete[name] is not None for name in names):
                raise ConfigError(missing[0], None, "is required: DIGEST-MD5 needs a user and a password")
        if not complete["zookeeper.ssl.client.enable"]:
            useless = "zookeeper.ssl.truststore.location", "zookeeper.ssl.keystore.location"
            reason = "while zookeeper.ssl.client.enable is false"
        elif complete["zookeeper.ssl.keystore.location"] is None:
            useless = "zookeeper.ssl.key.location", "zookeeper.ssl.keystore.password"
            reason = "without the certificate in zookeeper.ssl.keystore.location"
        else:
            return warnings
        return [*warnings, *(f"{name} has no effect {reason}" for name in useless if complete[name] is not None)]

    def zk_settings(self) -> ZkSettings:
        """Return the settings of the ZooKeeper adapter. Raises: ConfigError."""
        tls = None
        if self.zookeeper_ssl_client_enable:
            tls = TlsSettings(
                ca=self.zookeeper_ssl_truststore_location,
                certfile=self.zookeeper_ssl_keystore_location,
                keyfile=self.zookeeper_ssl_key_location or self.zookeeper_ssl_keystore_location,
                keyfile_password=self.zookeeper_ssl_keystore_password,
                verify_certs=self.zookeeper_ssl_verify_certificates,
                check_hostname=self.zookeeper_ssl_verify_certificates
                and self.zookeeper_ssl_endpoint_identification_algorithm == "https",
            )
        sasl = None
        if self.zookeeper_sasl_username is not None or self.zookeeper_sasl_mechanism == "GSSAPI":
            sasl = SaslSettings(
                mechanism=self.zookeeper_sasl_mechanism,
                username=self.zookeeper_sasl_username,
                password=self.zookeeper_sasl_password,
                service=self.zookeeper_sasl_service,
                principal=self.zookeeper_sasl_principal,
            )
        return ZkSettings(
            connect=self.zookeeper_connect,
            session_timeout_ms=self.zookeeper_session_timeout_ms,
            connection_timeout_ms=self.zookeeper_connection_timeout_ms,
            auth=(("digest", self.zookeeper_auth_digest),) if self.zookeeper_auth_digest else (),
            sasl=sasl,
            tls=tls,
            secure_acl=self.zookeeper_set_acl,
        )


def _for_librdkafka(values: Values) -> tuple[tuple[str, str], ...]:
    given = ((name, values.given[name]) for name in PASSED_TO_LIBRDKAFKA if name in values.given)
    return tuple((name, _as_librdkafka_spells(name, value)) for name, value in given)


def _as_librdkafka_spells(name: str, value: Value) -> str:
    if name == "ssl.endpoint.identification.algorithm" and not value:
        return "none"
    return str(value).lower() if isinstance(value, bool) else str(value)


def _without_blanks(connect: str) -> str:
    hosts, slash, chroot = connect.strip().partition("/")
    if "@" in hosts:
        # the error does not show the value, which may hold a password
        what = "names hosts alone, credentials stand in zookeeper.auth.digest or zookeeper.sasl.username and .password"
        raise ConfigError("zookeeper.connect", "***", what)
    names = [host.strip() for host in hosts.split(",")]
    for host in names:
        match = _HOST.fullmatch(host)
        if match is None or not _can_be_looked_up(match[1]) or not 0 < int(match[2] or 2181) < 65536:
            raise ConfigError(
                "zookeeper.connect",
                connect,
                f"{host!r} is no host:port; give host:port[,host:port...][/chroot]",
            )
    if slash and chroot and any(part in {"", ".", ".."} for part in chroot.rstrip("/").split("/")):
        raise ConfigError("zookeeper.connect", connect, f"/{chroot} is no path that ZooKeeper takes")
    if "," in chroot or ":" in chroot:
        raise ConfigError("zookeeper.connect", connect, "the chroot stands once, behind the last host")
    return f"{','.join(names)}{slash}{chroot}"


def _can_be_looked_up(host: str) -> bool:
    """Return whether Python can ask for this host's address. If it cannot for one host, kazoo connects to none."""
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


def check_name(name: str, value: str) -> None:
    """Check Kafka's rule for group.id and client.id. Raises: ConfigError."""
    if not _NAME.fullmatch(value):
        raise ConfigError(name, value, "may hold only letters, digits, dots, underscores and dashes")
