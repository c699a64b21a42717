"""What is counted as consumed and committed while positions move."""

import pytest

from legacy_consumer.offsets.progress import Committed, Progress
from zk_layout.model import TopicPartition

TP = TopicPartition("t", 0)


@pytest.mark.parametrize(("place", "why"), [(44, "an aborted transaction"), (500, "outside the log"), (3, "a new log")])
def test_messages_consumed_before_a_move_still_count_as_committed_after_it(place, why):
    progress = Progress()
    epochs = {TP: progress.begin(TP, 0, Committed(None, None))}
    progress.note_consumed({TP: 20}, epochs)
    progress.note_committed({TP: Committed(20, 0)})
    progress.note_consumed({TP: 32}, epochs)
    progress.note_consumed({TP: place}, epochs, placed=True)
    progress.note_committed({TP: Committed(place, 1)})
    assert progress.totals() == ({"t": 32}, {"t": 32}), why
