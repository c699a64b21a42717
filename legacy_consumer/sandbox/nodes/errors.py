"""What a cluster that starts can fail with.

LegacyConsumerError (zk_layout.errors)
  ClusterNotReadyError            retriable; what was waited for did not come in time
"""

from __future__ import annotations

from typing import ClassVar

from zk_layout.errors import LegacyConsumerError


class ClusterNotReadyError(LegacyConsumerError):
    """What was waited for did not come within timeout_s."""

    retriable: ClassVar[bool] = True

    def __init__(self, what: str, timeout_s: float) -> None:
        super().__init__(what, timeout_s)
        self.what = what
        self.timeout_s = timeout_s

    def __str__(self) -> str:
        return (
            f"waited {self.timeout_s:g} s in vain for {self.what}: look whether it is started and can be reached from "
            "here, or wait longer with --wait"
        )
