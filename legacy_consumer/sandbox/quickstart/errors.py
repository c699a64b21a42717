"""The quickstart's branch of the error tree.

LegacyConsumerError (zk_layout.errors)
  QuickstartError                   the story cannot go on: no flights, a member that died by itself, Spark that failed
"""

from __future__ import annotations

from zk_layout.errors import LegacyConsumerError


class QuickstartError(LegacyConsumerError):
    """The quickstart cannot go on."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason

    def _text(self) -> str:
        return self.reason
