"""How long a fault had an effect, measured by messages that had to wait."""

from __future__ import annotations

from collections import defaultdict

from tests.chaos.lives import FaultSpan, Story

LATE_S = 1.0
"""Seconds between acknowledgement and delivery after which a message counts as having waited for a fault's end."""


class Flow:
    """When each acknowledged message was first handed out."""

    def __init__(self, story: Story) -> None:
        first: dict[int, dict[int, float]] = defaultdict(dict)
        for delivery in story.deliveries:
            seen = first[delivery.partition]
            for offset in range(delivery.first, delivery.last + 1):
                seen.setdefault(offset, delivery.at)
        self._acked = {
            partition: sorted(
                ((at, first[partition].get(offset)) for offset, (_, at) in acked.items()), key=lambda pair: pair[0]
            )
            for partition, acked in story.acked.items()
        }

    def settled(self, fault: FaultSpan, until: float | None) -> dict:
        """Return how the flow settled after a fault, by messages acknowledged before `until`.

        settle_s: from the fault's end until all partitions flow and no message waits longer than LATE_S; None if a
        partition never flowed. longest_wait_s: the longest wait of a message acknowledged since the fault began.
        """
        settled, longest = 0.0, 0.0
        for partition, messages in sorted(self._acked.items()):
            seen = [(at, out) for at, out in messages if out is not None and (until is None or at < until)]
            if not seen:
                continue  # the partition was added later
            flowed = [out for at, out in seen if at >= fault.ended]
            if not flowed:
                return {"settle_s": None, "longest_wait_s": None, "partition": partition}
            settled = max(settled, min(flowed) - fault.ended)
            for at, out in seen:
                if at >= fault.began:
                    longest = max(longest, out - at)
                if out - at > LATE_S and out >= fault.began:
                    settled = max(settled, out - fault.ended)
        return {"settle_s": round(settled, 3), "longest_wait_s": round(longest, 3)}
