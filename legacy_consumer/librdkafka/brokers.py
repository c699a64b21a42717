"""Reads the living brokers from ZooKeeper."""

from __future__ import annotations

import logging

from zk_layout.closed_znodes import read_each
from zk_layout.codecs.broker import decode_broker
from zk_layout.errors import MalformedZnodeError, NoNodeError, NotPermittedError
from zk_layout.model import Broker
from zk_layout.paths import BrokerIdPath, BrokerIdsPath
from zk_layout.store import ZkStore

logger = logging.getLogger(__name__)


def read_brokers(store: ZkStore) -> list[Broker]:
    """The registered brokers by id; one that cannot be read is named in the log and left out."""
    parent = BrokerIdsPath().path
    try:
        found = map(BrokerIdPath.parse, (f"{parent}/{name}" for name in store.get_children(parent)))
    except NoNodeError:
        return []
    paths = [BrokerIdPath(number).path for number in sorted(one.broker_id for one in found if one is not None)]
    brokers: list[Broker] = []
    for path, znode in zip(paths, read_each(store, paths), strict=True):
        if znode is None:
            continue  # it went away meanwhile
        try:
            if isinstance(znode, NotPermittedError):
                raise znode
            brokers.append(decode_broker(path, znode.data))
        except (MalformedZnodeError, NotPermittedError) as error:
            logger.warning("a broker is left out: %s", error)
    return brokers
