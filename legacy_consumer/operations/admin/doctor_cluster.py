"""Examines ZooKeeper and the brokers as a consumer with this configuration would use them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.operations.admin.brokers import (
    KAFKA_OF_VERSION,
    BrokerSummary,
    read_broker_summaries,
    read_controller,
)
from legacy_consumer.operations.admin.findings import Finding, Severity, not_permitted
from legacy_consumer.operations.admin.reach import try_addresses, try_servers
from legacy_consumer.operations.admin.topics import read_topics
from zk_layout.errors import NotPermittedError
from zk_layout.model import Endpoint
from zk_layout.paths import BrokerIdsPath
from zk_layout.store import ZkStore

_REACH_S = 3.0
_SHOWN = 5


def examine_config(config: ClusterConfig, session_timeout_ms: int) -> Iterator[Finding]:
    """Report settings that contradict each other, or the session timeout that ZooKeeper granted.

    session_timeout_ms: the session timeout that ZooKeeper granted.
    """
    for warning in config.warnings:
        key = warning.partition("=")[0].partition(" ")[0]
        yield Finding(Severity.WARNING, "contradiction", key, warning, f"change or remove {key} in the configuration")
    asked_ms = config.zookeeper_session_timeout_ms
    if session_timeout_ms != asked_ms:
        yield Finding(
            Severity.WARNING,
            "session_timeout",
            "zookeeper.session.timeout.ms",
            f"ZooKeeper grants {session_timeout_ms} ms instead of {asked_ms}: partitions of a crashed member are free "
            "only after that",
            "set it to a value that the servers allow (minSessionTimeout and maxSessionTimeout in zoo.cfg)",
        )
    if isinstance(config, ConsumerConfig):
        patience_ms = config.rebalance_max_retries * config.rebalance_backoff_ms
        if patience_ms <= session_timeout_ms < asked_ms or asked_ms < patience_ms <= session_timeout_ms:
            yield Finding(
                Severity.WARNING,
                "gives_up_too_early",
                "rebalance.max.retries",
                f"a rebalance gives up after {patience_ms} ms, before a crashed member's session of "
                f"{session_timeout_ms} ms ends",
                "raise rebalance.max.retries or rebalance.backoff.ms until their product is above it",
            )


def examine_zookeeper(config: ClusterConfig) -> Iterator[Finding]:
    """Report each named server that cannot be reached. With one of three down, clients work until the next fails."""
    for server, problem in try_servers(config.zookeeper_connect, _REACH_S).items():
        if problem is not None:
            yield Finding(
                Severity.WARNING,
                "zookeeper_unreachable",
                server,
                f"ZooKeeper at {server} cannot be reached: {problem}",
                "start that server, open the way to it, or take it out of zookeeper.connect",
            )


def examine_brokers(store: ZkStore, config: ClusterConfig, looked: Counter[str] | None = None) -> Iterator[Finding]:
    """Examine registrations, listeners, versions, the controller, and whether each broker can be reached.

    looked: the counter to which the number of brokers is added.
    """
    brokers = read_broker_summaries(store)
    if looked is not None:
        looked["broker"] += len(brokers)
    if not brokers:
        yield Finding(
            Severity.ERROR,
            "no_broker",
            BrokerIdsPath().path,
            "no broker is registered",
            "start the brokers, or check the chroot of zookeeper.connect: it must be that of the brokers' own setting",
        )
        return
    yield from _registrations(brokers)
    yield from _listeners(brokers, config.security_protocol)
    yield from _versions(brokers)
    try:
        controller = read_controller(store)
    except NotPermittedError as error:
        yield not_permitted(error.path, str(error))
        return
    if controller is None or str(controller) not in {broker.broker_id for broker in brokers}:
        yield Finding(
            Severity.ERROR,
            "no_controller",
            "/controller",
            "no registered broker is the controller, so no leader is elected and no topic is created"
            if controller is None
            else f"broker {controller} is the controller and is not registered",
            "see the brokers' logs; deleting /controller makes them elect another",
        )


def examine_topics(store: ZkStore, looked: Counter[str] | None = None) -> Iterator[Finding]:
    """Report topics that consumers cannot read, wholly or in part. looked: the counter for the number of topics."""
    topics = read_topics(store)
    if looked is not None:
        looked["topic"] += len(topics)
    for topic in topics:
        if topic.closed is not None:
            yield not_permitted(topic.topic, f"topic {topic.topic}: {topic.closed}")
        if topic.problem is not None:
            yield Finding(
                Severity.ERROR,
                "unreadable_topic",
                topic.topic,
                topic.problem,
                "no consumer can assign its partitions: delete the topic, or write the znode as a broker would",
            )
    yield from _some_topics(
        Severity.ERROR,
        "no_leader",
        [(t.topic, t.no_leader) for t in topics if t.no_leader and not t.is_going],
        "partitions without a living leader, which no client can read,",
        "start the brokers that hold them: `legacy-consumer topics TOPIC` shows their replicas, and "
        "`legacy-consumer brokers` the registered brokers",
    )
    yield from _some_topics(
        Severity.WARNING,
        "under_replicated",
        [(t.topic, t.under_replicated) for t in topics if t.under_replicated and not t.no_leader and not t.is_going],
        "partitions with a replica that is not in sync",
        "`legacy-consumer topics TOPIC` shows which replicas are in sync: find out why other brokers are away or slow, "
        "before another one fails",
    )
    yield from _some_topics(
        Severity.WARNING,
        "stuck_deletion",
        [(t.topic, t.partitions) for t in topics if t.is_going],
        "partitions that are marked for deletion and still exist,",
        "set delete.topic.enable=true and start all brokers that hold replicas of them",
    )


def _registrations(brokers: Sequence[BrokerSummary]) -> Iterator[Finding]:
    for broker in brokers:
        if broker.problem is not None:
            yield Finding(
                Severity.ERROR,
                "unreadable_broker",
                f"{BrokerIdsPath().path}/{broker.broker_id}",
                broker.problem,
                "restart that broker; if it is no broker, delete the znode",
            )


def _listeners(brokers: Sequence[BrokerSummary], protocol: str) -> Iterator[Finding]:
    wanted: list[tuple[BrokerSummary, Endpoint]] = []
    for one in brokers:
        if one.broker is None:
            continue
        endpoint = one.broker.endpoint(protocol)
        offered = ", ".join(e.security_protocol for e in one.broker.endpoints) or "none"
        if endpoint is None:
            yield Finding(
                Severity.ERROR,
                "missing_listener",
                f"broker {one.broker_id}",
                f"broker {one.broker_id} has no {protocol} listener, only {offered}",
                f"set security.protocol to one of them, or give the broker a {protocol} listener",
            )
            continue
        wanted.append((one, endpoint))
        if one.broker.endpoint("PLAINTEXT") is None:
            yield Finding(
                Severity.NOTE,
                "no_plaintext",
                f"broker {one.broker_id}",
                f"broker {one.broker_id} has no PLAINTEXT listener, the only one that Kafka's Scala consumer can use",
                "members of the JVM cannot fetch from it; those of legacy-consumer can",
            )
    reached = try_addresses([(e.host, e.port) for _, e in wanted if e.host], _REACH_S)
    for one, endpoint in wanted:
        problem = reached.get((endpoint.host, endpoint.port)) if endpoint.host else "its registration names no host"
        if problem is not None:
            yield Finding(
                Severity.ERROR,
                "broker_unreachable",
                f"broker {one.broker_id}",
                f"broker {one.broker_id} at {endpoint.host}:{endpoint.port} ({protocol}) cannot be reached: {problem}",
                "start it, open the way to it, or set its advertised.listeners to an address that consumers reach",
            )


def _versions(brokers: Sequence[BrokerSummary]) -> Iterator[Finding]:
    by_version: dict[int, list[str]] = {}
    for one in brokers:
        if one.broker is not None:
            by_version.setdefault(one.broker.version, []).append(one.broker_id)
    if len(by_version) > 1:
        shown = "; ".join(
            f"Kafka {KAFKA_OF_VERSION.get(version, 'unknown')}: broker {', '.join(ids[:_SHOWN])}"
            for version, ids in sorted(by_version.items())
        )
        yield Finding(
            Severity.WARNING,
            "mixed_versions",
            BrokerIdsPath().path,
            f"brokers register in {len(by_version)} formats, so they are of different versions: {shown}",
            "finish the upgrade; members older than the newest broker may not read its registration",
        )


def _some_topics(
    severity: Severity, code: str, found: Sequence[tuple[str, int]], what: str, advice: str
) -> Iterator[Finding]:
    if found:
        some = ", ".join(f"{topic} ({many})" for topic, many in found[:_SHOWN])
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        topics = "1 topic" if len(found) == 1 else f"{len(found)} topics"
        yield Finding(severity, code, found[0][0], f"{what} in {topics}: {some}{more}", advice)
