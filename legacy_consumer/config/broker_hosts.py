"""Which of the brokers that ZooKeeper names may be spoken with: all, or only those whose addresses are pinned.

Whoever may create a znode under /brokers/ids sends members to the address in it. broker.hosts says where brokers are:

    kafka1.example.com          this host, any port
    kafka1.example.com:9093     this host and port; [::1]:9093
    .example.com                every host of this domain
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable
from dataclasses import replace

from zk_layout.errors import ConfigError
from zk_layout.model import Broker

logger = logging.getLogger(__name__)

_ONE = re.compile(r"(\.?[a-z0-9_-]+(?:\.[a-z0-9_-]+)*|\[[0-9a-f:.]+\])(?::([0-9]{1,5}))?")


class BrokerHosts:
    """The addresses of broker.hosts; without any, a broker may be anywhere."""

    def __init__(self, text: str | None) -> None:
        """Raises: ConfigError."""
        self._pinned: list[tuple[str, int | None]] = []
        self._said: set[tuple[int, str, int]] = set()
        for one in (text or "").lower().split(",") if text is not None else ():
            match = _ONE.fullmatch(one.strip())
            if match is None or not 0 < int(match[2] or 1) < 65536:
                raise ConfigError("broker.hosts", text, f"{one.strip()!r} is no host, host:port or .domain")
            self._pinned.append((match[1].strip("[]"), int(match[2]) if match[2] else None))

    def has(self, host: str, port: int) -> bool:
        """Whether a broker may be there."""
        name = host.lower()
        return not self._pinned or any(
            (name.endswith(pinned) if pinned.startswith(".") else name == pinned) and wanted in {None, port}
            for pinned, wanted in self._pinned
        )

    def keep(self, brokers: Iterable[Broker]) -> list[Broker]:
        """The brokers, without the listeners that are elsewhere; the log names these, each once."""
        return [
            replace(broker, endpoints=tuple(one for one in broker.endpoints if self._keeps(broker, one.host, one.port)))
            for broker in brokers
        ]

    def _keeps(self, broker: Broker, host: str, port: int) -> bool:
        kept = self.has(host or "localhost", port)
        if not kept and (broker.broker_id, host, port) not in self._said:
            self._said.add((broker.broker_id, host, port))
            logger.warning(
                "broker %d is not spoken with at %s:%d: broker.hosts does not name it", broker.broker_id, host, port
            )
        return kept
