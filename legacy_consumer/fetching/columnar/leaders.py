"""Finds the leaders of partitions and their addresses in ZooKeeper, or from a broker if ZooKeeper does not answer.

    /brokers/ids                                 one request for the names; left out if all leaders were found last time
    /brokers/ids/<id>, .../partitions/<p>/state  one batched read for all

ZooKeeper has a new leader before the brokers do: the controller first writes the state, then sends it to them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from legacy_consumer.config.broker_hosts import BrokerHosts
from legacy_consumer.errors import BrokersUnavailableError, KafkaError, MissingListenerError
from legacy_consumer.fetching.columnar.connection import Connection
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.metadata import (
    FIRST_THAT_CREATES_NO_TOPIC,
    decode_metadata,
    encode_metadata,
)
from legacy_consumer.fetching.left_out import warn_of_left_out
from legacy_consumer.fetching.topic_names import NO_SUCH_NAME, has_a_possible_name
from zk_layout.closed_znodes import read_each
from zk_layout.codecs import decode_broker, decode_partition_state
from zk_layout.errors import MalformedZnodeError, NoNodeError, NotPermittedError, ZooKeeperError
from zk_layout.loggers import safe_logger
from zk_layout.model import Broker, TopicPartition
from zk_layout.paths import BrokerIdPath, BrokerIdsPath, PartitionStatePath, broker_ids
from zk_layout.store import ZkStore, Znode

logger = safe_logger(__name__)

Read: TypeAlias = "Znode | NotPermittedError | None"
"""A znode, the error if an ACL hides it, or None if there is none."""


@dataclass(frozen=True, slots=True)
class Leaders:
    """The result of a search for leaders. Each requested partition is in one of the two mappings.

    addresses: the address of the broker that leads the partition. missing: the reason why no leader was found.
    """

    addresses: Mapping[TopicPartition, BrokerAddress] = field(default_factory=dict)
    missing: Mapping[TopicPartition, str] = field(default_factory=dict)


def match_leaders(
    states: Mapping[TopicPartition, Read], brokers: Mapping[int, Broker], security_protocol: str
) -> Leaders:
    """Match partition states and registrations.

    Raises: BrokersUnavailableError without any broker, MissingListenerError if none has such a listener.
    """
    if not brokers:
        raise BrokersUnavailableError("no broker is registered in ZooKeeper under /brokers/ids: is Kafka running?")
    listeners = addresses_of(brokers.values(), security_protocol)
    if not listeners:
        offered = {endpoint.security_protocol for broker in brokers.values() for endpoint in broker.endpoints}
        raise MissingListenerError(security_protocol, tuple(sorted(offered)))
    addresses: dict[TopicPartition, BrokerAddress] = {}
    missing: dict[TopicPartition, str] = {}
    for tp, znode in states.items():
        if znode is None:
            missing[tp] = "ZooKeeper knows no leader of it yet, if there is such a partition at all"
            continue
        try:
            leader = decode_partition_state(PartitionStatePath(*tp).path, _data(znode)).leader
        except (MalformedZnodeError, NotPermittedError) as error:
            missing[tp] = str(error)
            continue
        if leader in listeners:
            addresses[tp] = listeners[leader]
        elif leader < 0:
            missing[tp] = "it has no leader: see whether the brokers of its replicas run"
        elif leader in brokers:
            missing[tp] = f"its leader, broker {leader}, has no {security_protocol} listener"
        else:
            missing[tp] = f"its leader, broker {leader}, is not registered"
    return Leaders(addresses, missing)


def _data(znode: Znode | NotPermittedError) -> bytes | None:
    """Return the znode's data. Raises: the error that stands for a hidden znode."""
    if isinstance(znode, NotPermittedError):
        raise znode
    return znode.data


def addresses_of(brokers: Collection[Broker], security_protocol: str) -> dict[int, BrokerAddress]:
    """Return {broker id: the address of its listener} for brokers that have such a listener."""
    found: dict[int, BrokerAddress] = {}
    for broker in brokers:
        endpoint = broker.endpoint(security_protocol)
        if endpoint is not None:
            # an empty host means all interfaces of the broker's machine: only a client on that machine can use it
            host = endpoint.host or "localhost"
            found[broker.broker_id] = BrokerAddress(broker.broker_id, host, endpoint.port, broker.version)
    return found


class LeaderReader:
    """Reads leaders, from any thread."""

    def __init__(
        self,
        store: ZkStore,
        security_protocol: str,
        open_connection: Callable[[BrokerAddress], Connection],
        *,
        timeout_s: float,
        hosts: BrokerHosts | None = None,
    ) -> None:
        self._store = store
        self._hosts = hosts or BrokerHosts(None)
        self._protocol = security_protocol
        self._open_connection = open_connection
        self._timeout_s = timeout_s
        # replaced, never changed
        self._brokers: Mapping[int, BrokerAddress] = {}
        self._topics: frozenset[str] = frozenset()
        """The topics that exist, because partitions of them have a state."""
        self._left_out: Mapping[int, str] = {}
        self._ids: tuple[int, ...] = ()
        """The brokers registered at the last read; empty if a leader was missing: the next read lists them again."""

    def brokers(self) -> dict[int, BrokerAddress]:
        """Return every broker that has a listener of our protocol. Raises: as read."""
        ids = self._broker_ids()
        self._match({}, ids, read_each(self._store, [BrokerIdPath(broker_id).path for broker_id in ids]))
        self._ids = tuple(ids)
        return dict(self._brokers)

    def read(self, partitions: Collection[TopicPartition]) -> Leaders:
        """Return the leaders of these partitions.

        Raises: BrokersUnavailableError without any broker, MissingListenerError if none has our listener;
        ZooKeeperError if neither ZooKeeper nor a broker answers.
        """
        wanted = [tp for tp in partitions if has_a_possible_name(tp.topic)]
        impossible = {tp: NO_SUCH_NAME for tp in partitions if not has_a_possible_name(tp.topic)}
        try:
            leaders = self._find(wanted)
        except ZooKeeperError as error:
            leaders = self._ask_brokers(wanted, error)
        return replace(leaders, missing={**leaders.missing, **impossible}) if impossible else leaders

    def _find(self, partitions: list[TopicPartition]) -> Leaders:
        ids, self._ids = self._ids, ()
        if ids:
            with suppress(KafkaError):
                leaders = self._look_at(partitions, ids)
                if not leaders.missing:
                    self._ids = ids
                    return leaders
        ids = tuple(self._broker_ids())
        leaders = self._look_at(partitions, ids)
        if not leaders.missing:
            self._ids = ids
        return leaders

    def _look_at(self, partitions: list[TopicPartition], ids: Sequence[int]) -> Leaders:
        if not ids:
            # without brokers the search is repeated again and again, so it does not read the states
            return match_leaders({}, {}, self._protocol)
        paths = [BrokerIdPath(broker_id).path for broker_id in ids]
        paths += [PartitionStatePath(*tp).path for tp in partitions]
        znodes = read_each(self._store, paths)
        states = dict(zip(partitions, znodes[len(ids) :], strict=True))
        self._topics |= {tp.topic for tp, znode in states.items() if znode is not None}
        return self._match(states, ids, znodes[: len(ids)])

    def _broker_ids(self) -> list[int]:
        try:
            return broker_ids(self._store.get_children(BrokerIdsPath().path))
        except NoNodeError:
            return []

    def _match(self, states: Mapping[TopicPartition, Read], ids: Sequence[int], znodes: Sequence[Read]) -> Leaders:
        brokers: dict[int, Broker] = {}
        left_out: dict[int, str] = {}
        for broker_id, znode in zip(ids, znodes, strict=True):
            if znode is None:
                continue  # the broker left between the two reads
            try:
                [brokers[broker_id]] = self._hosts.keep([decode_broker(BrokerIdPath(broker_id).path, _data(znode))])
            except (MalformedZnodeError, NotPermittedError) as error:
                left_out[broker_id] = str(error)
        # while a leader is missing, the registrations are read every second: log each reason only once
        known, self._left_out = self._left_out, left_out
        warn_of_left_out([reason for broker_id, reason in left_out.items() if known.get(broker_id) != reason])
        leaders = match_leaders(states, brokers, self._protocol)
        self._brokers = addresses_of(brokers.values(), self._protocol)
        return leaders

    def _ask_brokers(self, partitions: list[TopicPartition], error: ZooKeeperError) -> Leaders:
        """Ask the last known brokers for metadata; the first answer counts."""
        for address in self._brokers.values():
            try:
                connection = self._open_connection(address)
                try:
                    return self._ask(connection, partitions)
                finally:
                    connection.close()
            except KafkaError as refusal:
                logger.debug("no metadata from broker %d: %s", address.broker_id, refusal)
        raise error

    def _ask(self, connection: Connection, partitions: list[TopicPartition]) -> Leaders:
        version = connection.versions.of(Api.METADATA)
        topics = {tp.topic for tp in partitions}
        if version < FIRST_THAT_CREATES_NO_TOPIC:
            topics &= self._topics  # other topics may not exist, and the request would create them
        if not topics:
            return Leaders(missing=dict.fromkeys(partitions, "ZooKeeper cannot be asked about it for now"))
        body = encode_metadata(version, sorted(topics))
        metadata = decode_metadata(version, connection.ask(Api.METADATA, body, self._timeout_s))
        metadata.check()
        leaders = metadata.leaders
        addresses: dict[TopicPartition, BrokerAddress] = {}
        for tp in partitions:
            leader = leaders.get(tp, -1)
            if leader in metadata.brokers:
                host, port = metadata.brokers[leader]
                if not self._hosts.has(host, port):
                    continue
                known = self._brokers.get(leader)
                registration = known.registration_version if known else connection.address.registration_version
                addresses[tp] = BrokerAddress(leader, host, port, registration)
        logger.info("ZooKeeper cannot be asked for now: leaders from %s", connection.address)
        return Leaders(addresses, {tp: "no broker names a leader" for tp in partitions if tp not in addresses})
