"""Reads the registered brokers from ZooKeeper."""

from __future__ import annotations

from legacy_consumer.fetching.left_out import warn_of_left_out
from zk_layout.closed_znodes import read_each
from zk_layout.codecs.broker import decode_broker
from zk_layout.errors import MalformedZnodeError, NoNodeError, NotPermittedError
from zk_layout.model import Broker
from zk_layout.paths import BrokerIdPath, BrokerIdsPath, broker_ids
from zk_layout.store import ZkStore


def read_brokers(store: ZkStore) -> list[Broker]:
    """Return the registered brokers by id; an unreadable registration is left out, with a warning."""
    try:
        names = store.get_children(BrokerIdsPath().path)
    except NoNodeError:
        return []
    paths = [BrokerIdPath(number).path for number in broker_ids(names)]
    brokers: list[Broker] = []
    left_out: list[str] = []
    for path, znode in zip(paths, read_each(store, paths), strict=True):
        if znode is None:
            continue  # the broker left between the two reads
        try:
            if isinstance(znode, NotPermittedError):
                raise znode
            brokers.append(decode_broker(path, znode.data))
        except (MalformedZnodeError, NotPermittedError) as error:
            left_out.append(str(error))
    warn_of_left_out(left_out)
    return brokers
