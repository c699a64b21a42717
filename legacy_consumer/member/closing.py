"""Closes a connector from anywhere: by any thread, in a signal handler, and again after a failure."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Sequence

logger = logging.getLogger(__name__)


class Closing:
    """Steps that run in order, each until it has succeeded once, even if others fail."""

    def __init__(self, name: str, steps: Sequence[Callable[[], None]]) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._left = list(steps)

    def run(self, patience_s: float) -> None:
        """Run the remaining steps. Of several threads one runs them, and the others wait for it, up to patience_s.

        Raises: the first error, after all steps have run. The next call retries the failed steps.
        """
        if not self._lock.acquire(timeout=patience_s):
            return
        try:
            errors: list[Exception] = []
            for step in list(self._left):
                try:
                    step()
                except Exception as error:
                    logger.exception("%s: did not close in order", self._name)
                    errors.append(error)
                else:
                    self._left.remove(step)
        finally:
            self._lock.release()
        if errors:
            raise errors[0]
