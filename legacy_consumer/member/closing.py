"""Closes a connector from anywhere: by any thread, in a signal handler, and again after a failure."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

_SLICE_S = 0.01
"""The interval at which a waiting thread looks whether the steps still run."""


class Closing:
    """Steps that run in order, each until it has succeeded once, even if others fail."""

    def __init__(self, name: str, steps: Sequence[Callable[[], None]]) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._left = list(steps)

    def run(self, patience_s: float) -> None:
        """Run the remaining steps. Of several threads one runs them, and the others wait for it, up to patience_s.

        Raises: after all steps have run the first Ctrl-C, or other error that is no Exception; without any the first
        error. The next call retries the failed steps.
        """
        give_up_at = time.monotonic() + patience_s
        while self._lock.locked():
            if time.monotonic() >= give_up_at:
                return
            time.sleep(_SLICE_S)
        # not acquire(timeout) before a try: after an exception between the two the lock would never be released
        with self._lock:
            errors = self._run_left()
        for error in errors:
            logger.error("%s: did not close in order", self._name, exc_info=error)
        if errors:
            raise min(errors, key=lambda error: isinstance(error, Exception))

    def _run_left(self) -> list[BaseException]:
        errors: list[BaseException] = []
        for step in list(self._left):
            try:
                step()
            except BaseException as error:  # noqa: BLE001 - it is raised after the last step
                errors.append(error)
            else:
                self._left.remove(step)
        return errors
