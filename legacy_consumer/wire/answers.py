"""What follows from a broker's answer for each partition that it was asked about: decided here, done by the fetcher."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from legacy_consumer.errors import FetchError
from legacy_consumer.wire.backlog import RecordSet
from legacy_consumer.wire.partition import PartitionState
from legacy_consumer.wire.protocol import error_codes
from legacy_consumer.wire.protocol.error_codes import Remedy, error_name, remedy
from legacy_consumer.wire.protocol.fetch import FetchedPartition
from legacy_consumer.wire.records import AbortedTransaction, glance
from legacy_consumer.wire.settings import FetchSettings
from zk_layout.model import TopicPartition

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class Findings:
    """What one response says. errors are for the user, complaints ((partition, reason), ...) for the log.

    outdated: partitions whose position lies outside the log. moved: those that another broker leads.
    """

    records: list[RecordSet] = field(default_factory=list)
    outdated: list[TopicPartition] = field(default_factory=list)
    moved: list[TopicPartition] = field(default_factory=list)
    errors: list[FetchError] = field(default_factory=list)
    complaints: list[tuple[TopicPartition, str]] = field(default_factory=list)
    well: list[TopicPartition] = field(default_factory=list)
    """Partitions with nothing to complain of: what came of them can be read on from, or nothing has come yet."""


def take_answers(
    answers: Mapping[TopicPartition, FetchedPartition],
    asked: Mapping[TopicPartition, tuple[int, int]],
    states: Mapping[TopicPartition, PartitionState],
    settings: FetchSettings,
    now: float,
) -> Findings:
    """Bring the partitions' states up to date with what was answered, and say what is to be done.

    asked: {partition: (life, offset)} of the request; what was asked in a life that has ended counts no more.
    """
    taking = _Taking(settings, now)
    for tp, answer in answers.items():
        life, offset = asked.get(tp, (0, -1))
        state = states.get(tp)
        if state is None or state.life != life:
            continue
        if answer.error != error_codes.NONE:
            taking.error(tp, state, offset, answer.error)
            continue
        state.failures = 0
        if answer.records:
            taking.records(tp, state, offset, answer, answer.records)
        else:
            taking.found.well.append(tp)
    return taking.found


class _Taking:
    """The findings of one response, while they are being made."""

    def __init__(self, settings: FetchSettings, now: float) -> None:
        self.found = Findings()
        self._settings = settings
        self._later = now + settings.backoff_s

    def error(self, tp: TopicPartition, state: PartitionState, offset: int, code: int) -> None:
        state.failures += 1
        match remedy(code):
            case Remedy.FIND_POSITION:
                state.is_placed = False
                if state.failures > 1:  # the log's ends say that it lies inside, and the broker that it does not
                    state.not_before = self._later
                self.found.outdated.append(tp)
            case Remedy.FIND_LEADER:
                self.found.complaints.append((tp, error_name(code)))
                self.found.moved.append(tp)
            case Remedy.TELL_USER:
                state.not_before = self._later
                self.found.errors.append(FetchError(tp, f"offset {offset}: the broker says {error_name(code)}"))
            case Remedy.AGAIN | Remedy.NEW_SESSION:
                state.not_before = self._later
                self.found.complaints.append((tp, error_name(code)))

    def records(
        self, tp: TopicPartition, state: PartitionState, offset: int, answer: FetchedPartition, records: memoryview
    ) -> None:
        # by the heads of the batches alone, so that the next request is sent before anything is decoded; if they lie,
        # decoding finds out, and the fetcher goes back to where it did
        next_offset, incomplete_bytes = glance(records, offset)
        if incomplete_bytes:
            self._enlarge(tp, state, offset, incomplete_bytes)
            return
        aborted = tuple(AbortedTransaction(*one) for one in answer.aborted)
        self.found.records.append(RecordSet(tp, state.life, offset, records, aborted))
        state.larger_bytes = 0
        if next_offset == offset:
            # nothing that could be read; decoding says why, and until then there is no sense in asking again
            state.not_before = self._later
            self.found.complaints.append((tp, f"nothing to be had at offset {offset} of {len(records)} bytes"))
            return
        state.position = next_offset
        self.found.well.append(tp)

    def _enlarge(self, tp: TopicPartition, state: PartitionState, offset: int, needed: int) -> None:
        """A batch of messages is larger than what was asked for: ask for as much, as far as that is allowed."""
        largest = self._settings.largest_bytes
        if needed > largest:
            state.not_before = self._later
            self.found.errors.append(
                FetchError(
                    tp,
                    f"offset {offset}: messages of {needed} bytes together are more than the {largest} that are "
                    "allowed: raise fetch.message.max.bytes",
                )
            )
            return
        if state.larger_bytes >= needed:
            # as much was asked for, and still it does not come whole
            state.not_before = self._later
            self.found.complaints.append((tp, f"a batch of {needed} bytes at offset {offset} does not come whole"))
        state.larger_bytes = min(max(needed, 2 * state.larger_bytes), largest)
        logger.debug("%s: a batch of %d bytes at offset %d: asks for as much", tp, needed, offset)


def have_failed_again(moved: Collection[TopicPartition], states: Mapping[TopicPartition, PartitionState]) -> bool:
    """Whether the look for a leader is to wait, since the last one found nobody better."""
    return any(states[tp].failures > 1 for tp in moved)
