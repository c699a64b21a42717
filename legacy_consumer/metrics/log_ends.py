"""Where the logs of owned partitions end, asked for while somebody scrapes and by nobody's waiting."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Collection, Mapping

from rebalance.clock import Clock, SystemClock
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition

logger = logging.getLogger(__name__)


class LogEnds:
    """Remembers answers for max_age_s; a scrape that finds older ones starts a question and goes on with the old.

    ask: connector.log_ends. The first scrape therefore knows no lag.
    """

    def __init__(
        self,
        ask: Callable[[Collection[TopicPartition]], Mapping[TopicPartition, int]],
        *,
        max_age_s: float = 10.0,
        clock: Clock | None = None,
    ) -> None:
        self._ask = ask
        self._max_age_s = max_age_s
        self._clock = clock or SystemClock()
        self._known: Mapping[TopicPartition, int] = {}
        self._asked_at = float("-inf")
        self._asking = threading.Lock()

    def of(self, partitions: Collection[TopicPartition]) -> Mapping[TopicPartition, int]:
        """What is known; returns at once."""
        fresh = self._clock.monotonic() - self._asked_at < self._max_age_s
        if (
            partitions
            and not (fresh and self._known.keys() >= set(partitions))
            and self._asking.acquire(blocking=False)
        ):
            thread = threading.Thread(target=self._refresh, args=(list(partitions),), name="log-ends", daemon=True)
            thread.start()
        return self._known

    def _refresh(self, partitions: list[TopicPartition]) -> None:
        try:
            self._known = dict(self._ask(partitions))
        except LegacyConsumerError as error:
            logger.debug("no log ends for metrics: %s", error)
        except Exception:
            logger.exception("no log ends for metrics")
        finally:
            self._asked_at = self._clock.monotonic()
            self._asking.release()
