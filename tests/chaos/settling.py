"""How long a fault was felt: by the messages that had to wait."""

from __future__ import annotations

from collections import defaultdict

from tests.chaos.lives import FaultSpan, Story

LATE_S = 1.0
"""A message that is handed out this much later than it was acknowledged has waited for a fault to be over."""


class Flow:
    """When each message was first handed out."""

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
        """settle_s: from the fault's end until every partition flows without a message that waited longer than LATE_S.

        longest_wait_s: of a message acknowledged since the fault's beginning. Looked at until the next fault.
        None: some partition never flowed.
        """
        settled, longest = 0.0, 0.0
        for partition, messages in sorted(self._acked.items()):
            seen = [(at, out) for at, out in messages if out is not None and (until is None or at < until)]
            if not seen:
                continue  # a partition that came later
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
