"""A group coordinator in memory, held to the promises of legacy_consumer.offsets.kafka.GroupOffsets."""

from __future__ import annotations

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.offsets import KafkaOffset


class FakeGroupOffsets:
    """A group coordinator with faults.

    down: how many of the next calls find no coordinator. lost: how many of the next writes are done without an answer.
    refused: partitions whose commits it refuses. untold: partitions that its answers to reads lack.
    """

    def __init__(self):
        self.kept = {}
        self.writes = []
        self.closed = False
        self.mend()

    def mend(self):
        """End all faults, and remove the hooks before calls."""
        self.down = self.lost = 0
        self.untold, self.refused = set(), set()
        self.before_read = self.before_write = lambda: None

    def read(self, partitions, timeout_s):
        self.before_read()
        self._answer()
        return {tp: self.kept.get(tp, KafkaOffset(None)) for tp in partitions if tp not in self.untold}

    def write(self, offsets, timeout_s):
        self.before_write()
        self._answer()
        self.writes.append({tp: kept.offset for tp, kept in offsets.items()})
        self.kept.update({tp: kept for tp, kept in offsets.items() if tp not in self.refused})
        if self.lost:
            self.lost -= 1
            raise BrokersUnavailableError("no answer to a commit within 0.1 s")
        return "unknown topic or partition" if self.refused & offsets.keys() else None

    def close(self):
        self.closed = True

    def _answer(self):
        if self.down:
            self.down -= 1
            raise BrokersUnavailableError("no group coordinator answered within 0.1 s")
