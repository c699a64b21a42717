"""All properties as data: name, type, default and meaning. Documents and tests use this table.

Kafka's kafka.consumer.ConsumerConfig, 0.8.2.2 to 1.1.1, defines the names, defaults and limits. Kafka's tools and
brokers since 2.5 define the names `zookeeper.ssl.*`, and librdkafka defines `ssl.*` and `sasl.*`.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from rebalance.assignors import ASSIGNORS
from rebalance.assignors.strategies import DEFAULT_STRATEGY, STRATEGIES
from rebalance.dialects import DIALECTS, LAST_VERSIONS


class Kind(Enum):
    """The format of a value."""

    TEXT = "text"
    INTEGER = "integer"
    BOOLEAN = "true or false"
    WORD = "word"
    """One of Property.choices, in either case."""
    SECRET = "text, never shown"  # noqa: S105


@dataclass(frozen=True, slots=True)
class Property:
    """One property.

    default: None if it has none, or if `derived` names the property that it comes from.
    minimum, maximum: for integers; choices: for words.
    """

    name: str
    kind: Kind
    default: str | int | bool | None
    meaning: str
    minimum: int = 0
    maximum: int = 2**31 - 1
    choices: tuple[str, ...] = ()
    derived: str = ""
    required: bool = False

    @property
    def attribute(self) -> str:
        """The name in Python, with underscores for dots."""
        return self.name.replace(".", "_")

    @property
    def default_text(self) -> str:
        """The default as text for a properties file, or in words."""
        if self.required:
            return "required"
        if self.default is None:
            return self.derived or "none"
        return str(self.default).lower() if isinstance(self.default, bool) else str(self.default)


ASSIGNMENT_PREFIX = "assignment."
"""The prefix of the properties of assignors; `config list` shows them."""
KAFKA_FETCH_BYTES = 1048576
"""Kafka's default of fetch.message.max.bytes."""


def _text(name: str, default: str | None, meaning: str, *, derived: str = "", required: bool = False) -> Property:
    return Property(name, Kind.TEXT, default, meaning, derived=derived, required=required)


def _secret(name: str, meaning: str) -> Property:
    return Property(name, Kind.SECRET, None, meaning)


def _integer(name: str, default: int | None, meaning: str, minimum: int = 0, *, derived: str = "") -> Property:
    return Property(name, Kind.INTEGER, default, meaning, minimum=minimum, derived=derived)


def _flag(name: str, default: bool | None, meaning: str, *, derived: str = "") -> Property:
    return Property(name, Kind.BOOLEAN, default, meaning, derived=derived)


def _word(name: str, default: str | None, choices: tuple[str, ...], meaning: str, *, derived: str = "") -> Property:
    return Property(name, Kind.WORD, default, meaning, choices=choices, derived=derived)


_GROUP = (
    _text("group.id", None, "name of the group; letters, digits and . _ - only", required=True),
    _text("consumer.id", None, "fixes this member's id, <group.id>_<consumer.id>", derived="host-time-random"),
    _text("client.id", None, "name in the brokers' logs and quotas", derived="group.id"),
    _word(
        "group.coordination",
        "classic",
        ("classic", "leader"),
        "classic = each member computes the whole assignment itself, as JVM members do; leader = one member "
        "computes it for all",
    ),
    _text(
        "partition.assignment.strategy",
        DEFAULT_STRATEGY,
        f"{' or '.join(ASSIGNORS)}, the same in all members; with group.coordination=leader also "
        f"{', '.join(name for name in STRATEGIES if name not in ASSIGNORS)}, or your own as package.module:Class, "
        "several in order of preference",
    ),
    _word(
        "partition.assignment.dialect",
        DIALECTS[-1],
        DIALECTS,
        "Kafka version whose round robin is used: "
        f"{', '.join(f'{dialect} (to {LAST_VERSIONS[dialect]})' for dialect in DIALECTS[:-1])} or {DIALECTS[-1]} "
        "(and later); must fit the other members",
    ),
    _word(
        "group.mismatch",
        "fail",
        ("fail", "warn"),
        "whether to join a group whose owners show another strategy or dialect than this member's",
    ),
    _integer("rebalance.max.retries", 4, "tries of one rebalance", 1),
    _integer("rebalance.backoff.ms", None, "longest wait between two tries", derived="zookeeper.sync.time.ms"),
    _integer(
        "group.initial.rebalance.delay.ms", 0, "how long a member that starts waits for others before its first claim"
    ),
    _integer(
        "scheduled.rebalance.max.delay.ms",
        0,
        "how long the remaining members wait for members that left, or as many new ones, before they take over "
        "their partitions",
    ),
    _integer("drain.timeout.ms", 5000, "how long a rebalance waits for messages in hand to be acknowledged"),
    _integer(
        "audit.interval.ms",
        30000,
        "how often a member checks its owner znodes and its registration; 0 = never",
    ),
    _flag("exclude.internal.topics", True, "whether topic filters leave out __consumer_offsets and its like"),
)
_OFFSETS = (
    _flag("auto.commit.enable", True, "whether consumed offsets are committed periodically"),
    _integer("auto.commit.interval.ms", 60000, "time between two of these commits", 1),
    _word(
        "auto.offset.reset",
        "largest",
        ("smallest", "largest", "none"),
        "where to begin without an offset, or with one outside the log; none = the stream raises an error until "
        "its user seeks",
    ),
    _word(
        "offsets.storage",
        "zookeeper",
        ("zookeeper", "kafka"),
        "where offsets are kept; must be the same in all members",
    ),
    _text(
        "offsets.by.hand",
        None,
        "topics, separated by commas, whose start offsets the listener's starting_offsets returns and the group "
        "never commits; must be the same in all members",
    ),
    _flag(
        "dual.commit.enabled",
        None,
        "commit offsets to ZooKeeper too; a member starts at the greater of both",
        derived="true if offsets.storage is kafka",
    ),
    _integer(
        "offsets.commit.max.retries", 5, "how often a failed commit to Kafka is repeated; auto commits are not repeated"
    ),
    _integer("offsets.channel.backoff.ms", 1000, "wait between those tries"),
    _integer(
        "offsets.channel.socket.timeout.ms",
        10000,
        "longest wait for Kafka's group coordinator; never more than a third of zookeeper.session.timeout.ms",
        1,
    ),
    _word(
        "delivery.rule",
        "at_least_once",
        ("at_least_once", "at_next", "acknowledged"),
        "a message counts as consumed when the next one is asked for; or, as in the JVM, when it is handed out; "
        "or when it is acknowledged, in any order",
    ),
    _word(
        "commit.conflict",
        "keep",
        ("keep", "adopt"),
        "if another client wrote an offset of this member's partition: keep = the member's offset wins, adopt = "
        "the other one",
    ),
    _integer(
        "consumer.timeout.ms",
        -1,
        "how long a stream waits for a message before it raises ConsumerTimeoutError; -1 = without end",
        -1,
    ),
)
_FETCH = (
    _integer(
        "fetch.message.max.bytes",
        None,
        "most bytes to fetch from one partition at a time",
        1,
        derived=f"{KAFKA_FETCH_BYTES}, more for few partitions",
    ),
    _integer("fetch.min.bytes", 1, "fewest bytes that the broker waits for", 1),
    _integer("fetch.wait.max.ms", 100, "longest wait of the broker for fetch.min.bytes"),
    _integer("socket.timeout.ms", 30000, "longest wait for a broker's answer; at least fetch.wait.max.ms", 10),
    _integer("socket.receive.buffer.bytes", -1, "-1 = chosen by the operating system; Kafka's default is 65536", -1),
    _integer("refresh.leader.backoff.ms", 200, "wait before asking again for a leader or an offset", 1),
    _word(
        "isolation.level",
        "read_uncommitted",
        ("read_uncommitted", "read_committed"),
        "whether to consume messages of aborted and open transactions, as the Scala consumer does",
    ),
    _word(
        "fetcher",
        "auto",
        ("auto", "columnar", "librdkafka"),
        "which fetcher to use; auto = columnar if the extra `fast` is installed and supports the configuration, "
        "else librdkafka",
    ),
)
_ZOOKEEPER = (
    _text("zookeeper.connect", None, "host:port[,host:port...][/chroot]", required=True),
    _integer("zookeeper.session.timeout.ms", 6000, "requested from the server, which may grant another", 1),
    _integer(
        "zookeeper.connection.timeout.ms",
        None,
        "longest wait for a server",
        1,
        derived="zookeeper.session.timeout.ms",
    ),
    _integer("zookeeper.sync.time.ms", 2000, "only the default of rebalance.backoff.ms"),
    _flag(
        "zookeeper.set.acl",
        False,
        "let only clients with these credentials write the znodes that this client creates; registrations stay open",
    ),
    _secret("zookeeper.auth.digest", "user:password"),
    _word("zookeeper.sasl.mechanism", "DIGEST-MD5", ("DIGEST-MD5", "GSSAPI"), "SASL mechanism for zookeeper.sasl.*"),
    _text("zookeeper.sasl.username", None, "turns SASL on with DIGEST-MD5"),
    _secret("zookeeper.sasl.password", "for DIGEST-MD5"),
    _text("zookeeper.sasl.service", "zookeeper", "first part of the server's principal"),
    _text("zookeeper.sasl.principal", None, "the client's principal, for GSSAPI; none = that of the ticket cache"),
    _flag("zookeeper.ssl.client.enable", False, "TLS to ZooKeeper"),
    _text("zookeeper.ssl.truststore.location", None, "PEM file of the only certificates to trust"),
    _text(
        "zookeeper.ssl.keystore.location", None, "PEM file with the client's certificate, for servers that ask for one"
    ),
    _secret("zookeeper.ssl.keystore.password", "password of that key"),
    _text(
        "zookeeper.ssl.key.location", None, "PEM file with the client's key", derived="zookeeper.ssl.keystore.location"
    ),
    _word(
        "zookeeper.ssl.endpoint.identification.algorithm",
        "https",
        ("https", ""),
        "empty = accept any host name",
    ),
    _flag("zookeeper.ssl.verify.certificates", True, "false = accept any certificate"),
)
_KAFKA_SECURITY = (
    _word(
        "security.protocol",
        "PLAINTEXT",
        ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        "which of the brokers' listeners to use",
    ),
    _text("ssl.ca.location", None, "PEM file or folder of the certificates to trust", derived="the system's"),
    _text("ssl.certificate.location", None, "PEM file with the client's certificate"),
    _text("ssl.key.location", None, "PEM file with the client's key"),
    _secret("ssl.key.password", "password of that key"),
    _text("ssl.keystore.location", None, "PKCS#12 file with the client's key and certificate"),
    _secret("ssl.keystore.password", "password of that file"),
    _text("ssl.crl.location", None, "PEM file of revoked certificates"),
    _text("ssl.cipher.suites", None, "OpenSSL's list of ciphers"),
    _word("ssl.endpoint.identification.algorithm", "https", ("https", ""), "empty = accept any host name"),
    _flag("enable.ssl.certificate.verification", True, "false = accept any certificate"),
    _word(
        "sasl.mechanism",
        None,
        ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "GSSAPI", "OAUTHBEARER"),
        "SASL mechanism for sasl.*; only librdkafka speaks GSSAPI and OAUTHBEARER",
        derived="GSSAPI",
    ),
    _text("sasl.username", None, "for PLAIN and SCRAM"),
    _secret("sasl.password", "for PLAIN and SCRAM"),
    _text("sasl.kerberos.service.name", None, "first part of the brokers' principal", derived="kafka"),
    _text("sasl.kerberos.principal", None, "the client's principal"),
    _text("sasl.kerberos.keytab", None, "file with the client's key"),
    _text("sasl.kerberos.kinit.cmd", None, "shell command to get or renew a ticket"),
    _text("sasl.oauthbearer.method", None, "default or oidc"),
    _text("sasl.oauthbearer.client.id", None, "for oidc"),
    _secret("sasl.oauthbearer.client.secret", "for oidc"),
    _text("sasl.oauthbearer.token.endpoint.url", None, "for oidc"),
    _text("sasl.oauthbearer.scope", None, "for oidc"),
)
_TRUST = (
    _flag(
        "sasl.plain.without.tls",
        False,
        "whether PLAIN may send the password, and OAUTHBEARER its token, unencrypted, to any address that a broker has "
        "registered in ZooKeeper",
    ),
    _text(
        "broker.hosts",
        None,
        "the only broker addresses to connect to: host, host:port or .domain, separated by commas; librdkafka also "
        "connects to addresses that those brokers name",
        derived="any",
    ),
)

PROPERTIES: tuple[Property, ...] = (*_GROUP, *_OFFSETS, *_FETCH, *_ZOOKEEPER, *_KAFKA_SECURITY, *_TRUST)
"""All properties, in the order of the documents; without `rdkafka.*`, which is passed on."""

BY_NAME = {known.name: known for known in PROPERTIES}
PASSED_TO_LIBRDKAFKA = tuple(known.name for known in _KAFKA_SECURITY if known.name != "security.protocol")
"""Properties that are passed to librdkafka unchanged if they are set."""
RDKAFKA_PREFIX = "rdkafka."
"""`rdkafka.X` sets librdkafka's X, except settings that a property here, or this project itself, controls."""
DECIDED_HERE: dict[str, str] = {
    "bootstrap.servers": "brokers are found in ZooKeeper, and broker.hosts says which of them are believed",
    "metadata.broker.list": "brokers are found in ZooKeeper, and broker.hosts says which of them are believed",
    "enable.auto.offset.store": "a message counts by delivery.rule, not when librdkafka hands it over",
    "enable.partition.eof": "a stream waits at the end of a log; see consumer.timeout.ms",
    **dict.fromkeys(
        (
            "error_cb",
            "stats_cb",
            "throttle_cb",
            "oauth_cb",
            "on_commit",
            "on_delivery",
            "logger",
            "default.topic.config",
        ),
        "confluent_kafka wants a Python object there, and a property is text",
    ),
}
"""Settings of librdkafka that no property passes on, with the reason: others would lose messages or end streams."""

IGNORED: dict[str, str] = {
    "num.consumer.fetchers": "each stream has one connection to each broker it reads from",
    "queued.max.message.chunks": "buffered messages are bounded in bytes, see rdkafka.queued.max.messages.kbytes",
    "fetch.max.bytes": "the Scala consumer does not use it either; rdkafka.fetch.max.bytes is heard",
    "mirror.topics.whitelist": "for MirrorMaker",
    "mirror.topics.blacklist": "for MirrorMaker",
    "mirror.consumer.numthreads": "for MirrorMaker",
    "bootstrap.servers": "brokers are found in ZooKeeper",
    "key.deserializer": "keys and values are bytes here",
    "value.deserializer": "keys and values are bytes here",
    "zookeeper.clientCnxnSocket": "a Java class; zookeeper.ssl.client.enable alone turns TLS on",
    "zookeeper.ssl.keystore.type": "files are PEM",
    "zookeeper.ssl.truststore.type": "files are PEM",
    "zookeeper.ssl.truststore.password": "PEM certificates have none",
}
"""Properties of the JVM's consumers and tools that have no effect here, with the reason."""

HINTS: dict[str, str] = {
    "ssl.truststore.location": "Java key stores cannot be read here: give PEM certificates in ssl.ca.location",
    "ssl.truststore.password": "PEM certificates have none, see ssl.ca.location",
    "sasl.jaas.config": "give sasl.username and sasl.password instead",
    "sasl.mechanisms": "is written sasl.mechanism here",
    "enable.auto.commit": "the newer consumer's name of auto.commit.enable",
    "max.partition.fetch.bytes": "the newer consumer's name of fetch.message.max.bytes",
    "fetch.max.wait.ms": "the newer consumer's name of fetch.wait.max.ms",
    "request.timeout.ms": "the newer consumer's name of socket.timeout.ms",
    "receive.buffer.bytes": "the newer consumer's name of socket.receive.buffer.bytes",
    "session.timeout.ms": "of the newer consumer; here it is zookeeper.session.timeout.ms",
    "zookeeper": "--zookeeper on the command line is the property zookeeper.connect",
    "zk.connect": "Kafka 0.7's name of zookeeper.connect",
    "zk.sessiontimeout.ms": "Kafka 0.7's name of zookeeper.session.timeout.ms",
    "zk.connectiontimeout.ms": "Kafka 0.7's name of zookeeper.connection.timeout.ms",
    "zk.synctime.ms": "Kafka 0.7's name of zookeeper.sync.time.ms",
    "groupid": "Kafka 0.7's name of group.id",
    "consumerid": "Kafka 0.7's name of consumer.id",
    "socket.buffersize": "Kafka 0.7's name of socket.receive.buffer.bytes",
    "fetch.size": "Kafka 0.7's name of fetch.message.max.bytes",
    "autocommit.enable": "Kafka 0.7's name of auto.commit.enable",
    "autocommit.interval.ms": "Kafka 0.7's name of auto.commit.interval.ms",
    "autooffset.reset": "Kafka 0.7's name of auto.offset.reset",
    "rebalance.retries.max": "Kafka 0.7's name of rebalance.max.retries",
    "queuedchunks.max": "Kafka 0.7's name of queued.max.message.chunks, which has no effect here",
}
"""Names that other clients, or the command line, have for properties, with the name to use instead."""
