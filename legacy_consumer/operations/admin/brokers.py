"""Summaries of the registered brokers for operators."""

from __future__ import annotations

import contextlib
from dataclasses import dataclass

from zk_layout.closed_znodes import read_or_stat
from zk_layout.codecs import decode_broker, decode_controller, decode_controller_epoch
from zk_layout.errors import MalformedZnodeError, NoNodeError, NotPermittedError
from zk_layout.model import Broker
from zk_layout.paths import BrokerIdsPath, ControllerEpochPath, ControllerPath, broker_ids
from zk_layout.store import ZkStore

KAFKA_OF_VERSION = {
    1: "0.8",
    2: "0.9",
    3: "0.10.0 to 0.10.1",
    4: "0.10.2 to 2.6",
    5: "2.7+",
}
"""{version of a registration: the Kafka versions that write it}."""


@dataclass(frozen=True, slots=True)
class BrokerSummary:
    """One child of `/brokers/ids`.

    broker: None if the registration cannot be read; then problem is the reason. since_ms: when the broker registered,
    by ZooKeeper's clock; None if an ACL hides that.
    controller_epoch: the number of controllers so far; None unless this broker is the controller.
    """

    broker_id: str
    broker: Broker | None
    since_ms: int | None
    is_controller: bool
    problem: str | None = None
    controller_epoch: int | None = None


def read_broker_summaries(store: ZkStore) -> list[BrokerSummary]:
    """Return the registered brokers, sorted by id. Raises: ZooKeeperError."""
    try:
        names = store.get_children(BrokerIdsPath().path)
    except NoNodeError:
        return []
    controller = epoch = None
    with contextlib.suppress(NotPermittedError):
        controller, epoch = read_controller(store), _read_controller_epoch(store)
    paths = [f"{BrokerIdsPath().path}/{name}" for name in names]
    found: list[BrokerSummary] = []
    znodes, closed = read_or_stat(store, paths)
    for name, path, znode in zip(names, paths, znodes, strict=True):
        if znode is None and path not in closed:
            continue
        since_ms = None if znode is None else znode.stat.ctime_ms
        if not broker_ids([name]):
            found.append(BrokerSummary(name, None, since_ms, False, f"{path} is not named by a number"))
            continue
        try:
            if znode is None or path in closed:
                raise closed[path]
            broker = decode_broker(path, znode.data)
        except (MalformedZnodeError, NotPermittedError) as error:
            found.append(BrokerSummary(name, None, since_ms, int(name) == controller, str(error)))
        else:
            is_controller = broker.broker_id == controller
            found.append(BrokerSummary(name, broker, since_ms, is_controller, None, epoch if is_controller else None))
    return sorted(found, key=lambda one: (one.broker is None, broker_ids([one.broker_id]), one.broker_id))


def read_controller(store: ZkStore) -> int | None:
    """Return the id of the controller; None if there is none. Raises: ZooKeeperError."""
    path = ControllerPath().path
    try:
        return decode_controller(path, store.get_data(path).data).broker_id
    except (NoNodeError, MalformedZnodeError):
        return None


def _read_controller_epoch(store: ZkStore) -> int | None:
    path = ControllerEpochPath().path
    try:
        return decode_controller_epoch(path, store.get_data(path).data)
    except (NoNodeError, MalformedZnodeError):
        return None
