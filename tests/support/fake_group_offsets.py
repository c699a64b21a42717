"""A group coordinator in memory, held to the promises of legacy_consumer.offsets.kafka.GroupOffsets."""

from __future__ import annotations

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.offsets import KafkaOffset


class FakeGroupOffsets:
    """down: the next so many calls find no coordinator. refused: partitions it does not take."""

    def __init__(self):
        self.kept = {}
        self.down = 0
        self.refused = set()
        self.writes = []
        self.before_write = lambda: None
        self.closed = False

    def read(self, partitions, timeout_s):
        self._answer()
        return {tp: self.kept.get(tp, KafkaOffset(None)) for tp in partitions}

    def write(self, offsets, timeout_s):
        self.before_write()
        self._answer()
        self.writes.append({tp: kept.offset for tp, kept in offsets.items()})
        self.kept.update({tp: kept for tp, kept in offsets.items() if tp not in self.refused})
        return "unknown topic or partition" if self.refused & offsets.keys() else None

    def close(self):
        self.closed = True

    def _answer(self):
        if self.down:
            self.down -= 1
            raise BrokersUnavailableError("no group coordinator answered within 0.1 s")
