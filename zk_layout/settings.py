"""The settings with which the adapter reaches ZooKeeper, independent of the names of the user's properties."""

from __future__ import annotations

from dataclasses import dataclass, field

from zk_layout.errors import ConfigError


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """SASL as ZooKeeper offers it.

    mechanism: DIGEST-MD5 (username and password) or GSSAPI (the process's ticket cache; principal optional).
    service: the first part of the server's Kerberos principal.
    """

    mechanism: str = "DIGEST-MD5"
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    service: str = "zookeeper"
    principal: str | None = None


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """TLS to ZooKeeper; files are PEM.

    ca: certificates to trust instead of the system's; certfile and keyfile: the client's own, for servers that ask.
    verify_certs False takes any certificate; check_hostname also wants the server's name in it.
    """

    ca: str | None = None
    certfile: str | None = None
    keyfile: str | None = None
    keyfile_password: str | None = field(default=None, repr=False)
    verify_certs: bool = True
    check_hostname: bool = True


@dataclass(frozen=True, slots=True)
class ZkSettings:
    """The address of ZooKeeper, the time limits, and the client's credentials and ACLs.

    connect: `host:port,host:port/chroot`.
    session_timeout_ms: requested from the server, which may grant another.
    operation_timeout_ms: how long one request may take, the wait for a connection included; by default the session
    timeout, but at least 10 s.
    auth: (scheme, credential) pairs, such as ("digest", "user:password").
    secure_acl: Acl.SECURE then means creator all and world read, as zookeeper.set.acl does in Kafka.
    keep_acl: without secure_acl, Acl.SECURE means the ACL of a znode beside or above the new one, as a tool needs it in
    the groups of other clients.

    Raises: ConfigError for what can never work.
    """

    connect: str
    session_timeout_ms: int = 6000
    connection_timeout_ms: int = 6000
    operation_timeout_ms: int = 0
    auth: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    sasl: SaslSettings | None = None
    tls: TlsSettings | None = None
    secure_acl: bool = False
    keep_acl: bool = False

    def __post_init__(self) -> None:
        hosts, _, _ = self.connect.partition("/")
        if not hosts or any(not host.strip() for host in hosts.split(",")):
            raise ConfigError("zookeeper.connect", self.connect, "give host:port[,host:port...][/chroot]")
        for key, value in (
            ("zookeeper.session.timeout.ms", self.session_timeout_ms),
            ("zookeeper.connection.timeout.ms", self.connection_timeout_ms),
        ):
            if value <= 0:
                raise ConfigError(key, value, "must be above 0")
        if self.operation_timeout_ms <= 0:
            object.__setattr__(self, "operation_timeout_ms", max(self.session_timeout_ms, 10_000))
        if self.secure_acl and not (self.auth or self.sasl or (self.tls and self.tls.certfile)):
            raise ConfigError(
                "zookeeper.set.acl",
                "true",
                "needs credentials (digest, SASL or a TLS client certificate) to own znodes",
            )

    @property
    def chroot(self) -> str:
        """The path behind the hosts, without a slash at its end; empty if there is none."""
        _, slash, chroot = self.connect.partition("/")
        path = "/".join(part for part in chroot.split("/") if part)
        return f"{slash}{path}" if path else ""
