"""Handles a broker's answer for one partition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from legacy_consumer.errors import FetchError
from legacy_consumer.fetching.columnar.core.events import Records
from legacy_consumer.fetching.columnar.core.partition import Partition
from legacy_consumer.fetching.columnar.protocol import error_codes
from legacy_consumer.fetching.columnar.protocol.error_codes import Remedy, error_name, remedy
from legacy_consumer.fetching.columnar.protocol.fetch import FetchedPartition
from legacy_consumer.fetching.columnar.settings import FetchSettings
from zk_layout.model import TopicPartition


@dataclass(slots=True)
class Answer:
    """rests: do not ask for the partition again before a pause. error: for the user's code; complaint: for the log.

    is_well: there is nothing to complain about.
    """

    remedy: Remedy | None = None
    records: Records | None = None
    error: FetchError | None = None
    complaint: str | None = None
    rests: bool = False
    is_well: bool = False


def judge(
    tp: TopicPartition,
    one: Partition,
    fetched: FetchedPartition,
    settings: FetchSettings,
    glance: Callable[[memoryview, int], tuple[int, int]],
) -> Answer:
    """Update the partition from the answer, and return the consequences."""
    if fetched.error != error_codes.NONE:
        return _judge_error(tp, one, fetched.error)
    one.failures = 0
    if not fetched.records:
        return Answer(is_well=True)
    # reads only the heads of the batches, so that the next request is sent before anything is decoded; if a head is
    # wrong, decoding notices it, and damaged() goes back to that place
    next_offset, incomplete_bytes = glance(fetched.records, one.position)
    if incomplete_bytes:
        return _enlarge(tp, one, incomplete_bytes, settings.largest_bytes)
    answer = Answer(records=Records(tp, one.life, one.position, fetched.records, fetched.aborted))
    one.larger_bytes = 0
    if next_offset == one.position:
        # nothing can be read; decoding reports the reason, and until then another request makes no sense
        answer.rests = True
        answer.complaint = f"nothing to be had at offset {one.position} of {len(fetched.records)} bytes"
    else:
        one.position = next_offset
        answer.is_well = True
    return answer


def _judge_error(tp: TopicPartition, one: Partition, code: int) -> Answer:
    one.failures += 1
    what = remedy(code)
    match what:
        case Remedy.FIND_POSITION:
            one.is_placed = False
            # at the second time the position lies between the log's ends, but the broker refuses it
            return Answer(what, rests=one.failures > 1)
        case Remedy.FIND_LEADER:
            return Answer(what, complaint=error_name(code))
        case Remedy.TELL_USER:
            error = FetchError(tp, f"offset {one.position}: the broker says {error_name(code)}")
            return Answer(what, error=error, rests=True)
        case _:
            return Answer(what, complaint=error_name(code), rests=True)


def _enlarge(tp: TopicPartition, one: Partition, needed: int, largest: int) -> Answer:
    """Let the next request ask for a batch of messages that is larger than the last limit, if that is allowed."""
    if needed > largest:
        error = FetchError(
            tp,
            f"offset {one.position}: messages of {needed} bytes together are more than the {largest} that are allowed: "
            "raise fetch.message.max.bytes",
        )
        return Answer(error=error, rests=True)
    answer = Answer()
    if one.larger_bytes >= needed:
        # the last request asked for this size, and the batch was still incomplete
        answer.rests = True
        answer.complaint = f"a batch of {needed} bytes at offset {one.position} does not come whole"
    one.larger_bytes = min(max(needed, 2 * one.larger_bytes), largest)
    return answer
