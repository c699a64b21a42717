"""librdkafka's settings for one cluster, from the configuration and the brokers' registrations. No I/O."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeAlias

from legacy_consumer.config import ClusterConfig, ConsumerConfig
from legacy_consumer.config.broker_hosts import BrokerHosts
from legacy_consumer.config.properties import KAFKA_FETCH_BYTES
from legacy_consumer.errors import BrokersUnavailableError, MissingListenerError
from zk_layout.model import Broker

SettingsDict: TypeAlias = dict[str, str | int | float | bool]

_QUEUE_BUDGET_KBYTES = 65536
"""The buffer of all streams together; each broker's fetch in flight comes on top."""
_PARTITIONS_AT_ONCE = 50
"""A response of one broker has room for this many partitions. While its queue is full, librdkafka names the partitions
in the same order in each request. The broker leaves out the last ones if its response has no room for them."""
_LARGEST_RESPONSE_BYTES = 2**31 - 1
_FRAME_BYTES = 512
_MOST_MS = 300_000
_MOST_FETCH_BYTES = 1_000_000_000
_MOST_BYTES = 100_000_000
"""librdkafka refuses larger values than these; other clients do not, and their properties files must work unchanged."""
_MOST_SERVERS = 100
"""The most brokers in bootstrap.servers. librdkafka starts a thread for each, and learns the other brokers from the
first that answers. Any client can register thousands of brokers, and 20,000 threads bring the machine down.
"""
_FETCH_SIZES = {
    "fetch.max.bytes",
    "fetch.message.max.bytes",
    "max.partition.fetch.bytes",
    "message.max.bytes",
    "receive.message.max.bytes",
}
"""Limits that librdkafka compares with each other; it refuses a handle if they contradict."""


def bootstrap_servers(brokers: Collection[Broker], security_protocol: str) -> str:
    """Return the addresses of the listeners with this protocol, in the order of broker ids, at most _MOST_SERVERS.

    Raises: BrokersUnavailableError without any broker, MissingListenerError if none has such a listener.
    """
    if not brokers:
        raise BrokersUnavailableError("no broker is registered in ZooKeeper under /brokers/ids: is Kafka running?")
    endpoints = [broker.endpoint(security_protocol) for broker in sorted(brokers, key=lambda b: b.broker_id)]
    found = [f"[{e.host}]:{e.port}" if ":" in e.host else f"{e.host}:{e.port}" for e in endpoints if e is not None]
    if not found:
        offered = {endpoint.security_protocol for broker in brokers for endpoint in broker.endpoints}
        raise MissingListenerError(security_protocol, tuple(sorted(offered)))
    return ",".join(found[:_MOST_SERVERS])


def protocol_settings(brokers: Collection[Broker]) -> SettingsDict:
    """Return the settings for brokers older than 0.10, which cannot report their protocol versions.

    Their registration tells them apart: version 1 is 0.8, version 2 is 0.9. The oldest broker decides; newer ones
    understand its protocol too.
    """
    oldest = min((broker.version for broker in brokers), default=3)
    if oldest >= 3:
        return {}
    return {"api.version.request": False, "broker.version.fallback": "0.8.2" if oldest == 1 else "0.9.0"}


def _spoken_with(config: ClusterConfig, brokers: Collection[Broker]) -> list[Broker]:
    """Return the brokers with an allowed listener of the protocol: only these tell how old the cluster is."""
    hosts, protocol = BrokerHosts(config.broker_hosts), config.security_protocol
    return [
        broker
        for broker in brokers
        if any(one.security_protocol == protocol and hosts.has(one.host, one.port) for one in broker.endpoints)
    ]


def client_settings(config: ClusterConfig, brokers: Collection[Broker]) -> SettingsDict:
    """Return the settings that every handle needs. Raises: BrokersUnavailableError, MissingListenerError."""
    return {
        "bootstrap.servers": bootstrap_servers(
            BrokerHosts(config.broker_hosts).keep(brokers), config.security_protocol
        ),
        "client.id": config.client_id,
        "security.protocol": config.security_protocol,
        "socket.timeout.ms": min(config.socket_timeout_ms, _MOST_MS),
        "socket.receive.buffer.bytes": min(max(0, config.socket_receive_buffer_bytes), _MOST_BYTES),
        "reconnect.backoff.max.ms": 2000,  # with librdkafka's 10 s a restarted broker would stay unnoticed for so long
        "enable.metrics.push": False,
        **protocol_settings(_spoken_with(config, brokers)),
        **dict(config.kafka_security),
    }


def _consumer_settings(config: ClusterConfig, brokers: Collection[Broker], group_id: str) -> SettingsDict:
    return {
        **client_settings(config, brokers),
        "group.id": group_id,
        "enable.auto.commit": False,
        "enable.auto.offset.store": False,
        "allow.auto.create.topics": False,
        # the Scala consumer knows no transactions: it reads all there is, up to the high watermark
        "isolation.level": "read_uncommitted",
    }


def query_settings(config: ClusterConfig, brokers: Collection[Broker]) -> SettingsDict:
    """Return the settings of a handle that only reads. Raises: BrokersUnavailableError, MissingListenerError."""
    return {**client_settings(config, brokers), "allow.auto.create.topics": False, **_without_sizes(config)}


def group_offsets_settings(config: ConsumerConfig, brokers: Collection[Broker]) -> SettingsDict:
    """Return the settings for a group's coordinator. Raises: BrokersUnavailableError, MissingListenerError."""
    settings = _consumer_settings(config, brokers, config.group_id)
    settings["socket.timeout.ms"] = timeout_ms = min(max(10, config.offsets_channel_socket_timeout_ms), _MOST_MS)
    # librdkafka keeps a commit for this time while it knows no coordinator; a later commit must not overtake it
    settings["session.timeout.ms"] = min(timeout_ms, 60_000)
    return {**settings, **_without_sizes(config)}


def _without_sizes(config: ClusterConfig) -> dict[str, str]:
    """Return the passed-through settings without fetch limits, which a handle that never fetches does not need."""
    return {name: value for name, value in config.rdkafka if name not in _FETCH_SIZES}


def fetcher_settings(config: ConsumerConfig, brokers: Collection[Broker], streams: int) -> SettingsDict:
    """Return the settings of one stream. streams: the number that share the buffer. Raises: as client_settings.

    Measured (100-byte messages, 4 partitions, one broker): librdkafka waits fetch.queue.backoff.ms, a second, whenever
    the queue is full, which reduces the throughput to a tenth; 2 ms and 20,000 messages are as fast as anything and
    hold 20 MB. Checking CRCs, as the JVM does, costs nothing that can be measured.
    """
    fetch_bytes = min(config.fetch_message_max_bytes or KAFKA_FETCH_BYTES, _MOST_FETCH_BYTES)
    fetch_max_bytes = min(_PARTITIONS_AT_ONCE * max(fetch_bytes, KAFKA_FETCH_BYTES), _MOST_FETCH_BYTES)
    given = dict(config.rdkafka)
    limit = str(given.get("receive.message.max.bytes", ""))
    if limit.isdecimal():
        # librdkafka refuses to fetch more than it may receive
        fetch_max_bytes = max(fetch_bytes, min(fetch_max_bytes, int(limit) - _FRAME_BYTES))
    settings: SettingsDict = {
        **_consumer_settings(config, brokers, config.group_id),
        # librdkafka returns an error for a position outside the log: the fetcher reads the log's ends, logs, and resets
        "auto.offset.reset": "error",
        "check.crcs": True,
        "enable.partition.eof": False,
        "fetch.message.max.bytes": fetch_bytes,
        "fetch.max.bytes": fetch_max_bytes,
        "fetch.min.bytes": min(config.fetch_min_bytes, _MOST_BYTES),
        # a second less than the longest socket timeout, as librdkafka requires
        "fetch.wait.max.ms": min(config.fetch_wait_max_ms, _MOST_MS - 1000),
        "isolation.level": config.isolation_level,
        "fetch.error.backoff.ms": min(config.refresh_leader_backoff_ms, _MOST_MS),
        "fetch.queue.backoff.ms": 2,
        "queued.min.messages": 20000,
        "queued.max.messages.kbytes": max(_QUEUE_BUDGET_KBYTES // max(1, streams), fetch_bytes // 1024, 1024),
        "receive.message.max.bytes": _receive_limit(_spoken_with(config, brokers), fetch_max_bytes),
        "max.poll.interval.ms": 86400000,  # no group on the brokers' side waits for this consumer
    }
    return {**settings, **given}


def _receive_limit(brokers: Collection[Broker], fetch_max_bytes: int) -> int:
    # a broker before 0.10.1 has no limit for a whole response: it fills fetch.message.max.bytes for every partition
    if min((broker.version for broker in brokers), default=4) <= 3:
        return _LARGEST_RESPONSE_BYTES
    return max(100_000_000, fetch_max_bytes + _FRAME_BYTES)
