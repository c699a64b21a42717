"""The brokers to which a member may connect: all that ZooKeeper lists, or only brokers with pinned addresses.

Members connect to the address in a znode under /brokers/ids, and any client with the permission to create one there
can choose that address. broker.hosts pins addresses:

    kafka1.example.com          this host, any port
    kafka1.example.com:9093     this host and port; [::1]:9093
    .example.com                every host of this domain
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace

from zk_layout.errors import ConfigError
from zk_layout.loggers import safe_logger
from zk_layout.model import Broker, Endpoint

logger = safe_logger(__name__)

_SHOWN = 3
_MOST_SAID = 100
"""The most warnings of one object: any client may register thousands of brokers, each with thousands of listeners."""
_HOST = re.compile(r"[a-z0-9_.:%-]+")
"""A registration of version 1 may hold any text as its host, and librdkafka would read `a,b` as two hosts."""
_ONE = re.compile(r"(\.?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")


class BrokerHosts:
    """The addresses of broker.hosts; without any, every address is allowed."""

    def __init__(self, text: str | None) -> None:
        """Parse broker.hosts. Raises: ConfigError."""
        self._pinned: list[tuple[str, int | None]] = []
        self._said: set[tuple[int, str]] = set()
        for one in (text or "").lower().split(",") if text is not None else ():
            match = _ONE.fullmatch(one.strip())
            if match is None or not 0 < int(match[2] or 1) < 65536:
                raise ConfigError("broker.hosts", text, f"{one.strip()!r} is no host, host:port or .domain")
            self._pinned.append((match[1].strip("[]"), int(match[2]) if match[2] else None))

    def has(self, host: str, port: int) -> bool:
        """Return whether a member may connect to this address; an empty host is the broker's own machine."""
        name = host.lower() or "localhost"
        if not self._pinned:
            return True
        return _HOST.fullmatch(name) is not None and any(
            (name.endswith(pinned) if pinned.startswith(".") else name == pinned) and wanted in {None, port}
            for pinned, wanted in self._pinned
        )

    def keep(self, brokers: Iterable[Broker]) -> list[Broker]:
        """Remove listeners at other addresses from the brokers; log some of the removed listeners, each broker once."""
        return [
            replace(broker, endpoints=kept) if len(kept := self._kept(broker)) < len(broker.endpoints) else broker
            for broker in brokers
        ]

    def _kept(self, broker: Broker) -> tuple[Endpoint, ...]:
        kept = tuple(one for one in broker.endpoints if self.has(one.host, one.port))
        if len(kept) < len(broker.endpoints):
            elsewhere = [f"{one.host}:{one.port}" for one in broker.endpoints if one not in kept]
            self._say(broker.broker_id, elsewhere)
        return kept

    def _say(self, broker_id: int, elsewhere: Sequence[str]) -> None:
        some = ", ".join(elsewhere[:_SHOWN])
        if (broker_id, some) not in self._said and len(self._said) < _MOST_SAID:
            self._said.add((broker_id, some))
            more = f" and {len(elsewhere) - _SHOWN} more" if len(elsewhere) > _SHOWN else ""
            logger.warning("broker %d is not spoken with at %s%s: broker.hosts does not name it", broker_id, some, more)
