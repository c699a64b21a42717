"""The decisions of a fetcher, without sockets, threads, clock or log, which the caller has."""

from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.core.events import (
    Event,
    Failed,
    FindLeader,
    FindPosition,
    HangUp,
    Open,
    Order,
    Records,
    Send,
    Waiting,
)
from legacy_consumer.fetching.columnar.core.fetch_core import FetchCore

__all__ = [
    "BrokerAddress",
    "Event",
    "Failed",
    "FetchCore",
    "FindLeader",
    "FindPosition",
    "HangUp",
    "Open",
    "Order",
    "Records",
    "Send",
    "Waiting",
]
