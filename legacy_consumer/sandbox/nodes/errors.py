"""Errors of a starting cluster.

LegacyConsumerError (zk_layout.errors)
  ClusterNotReadyError            retriable; a condition did not hold in time
"""

from __future__ import annotations

from typing import ClassVar

from zk_layout.errors import LegacyConsumerError


class ClusterNotReadyError(LegacyConsumerError):
    """A condition did not hold within timeout_s."""

    retriable: ClassVar[bool] = True

    def __init__(self, what: str, timeout_s: float) -> None:
        super().__init__(what, timeout_s)
        self.what = what
        self.timeout_s = timeout_s

    def _text(self) -> str:
        return (
            f"waited {self.timeout_s:g} s in vain for {self.what}: check that it runs and can be reached from here, "
            "or wait longer with --wait"
        )
