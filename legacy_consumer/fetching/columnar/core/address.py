"""The address of a broker."""

from __future__ import annotations

from typing import NamedTuple


class BrokerAddress(NamedTuple):
    """One listener of one broker; registration_version is that of its znode."""

    broker_id: int
    host: str
    port: int
    registration_version: int

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def in_words(self) -> str:
        """The text for messages; a broker of which only the address is known has no id."""
        return f"broker {self.broker_id} at {self}" if self.broker_id >= 0 else f"the broker at {self}"
