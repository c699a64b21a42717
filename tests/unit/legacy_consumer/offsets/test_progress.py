"""The counts of consumed and committed messages while positions move."""

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


def test_an_offset_committed_by_name_counts_as_done_in_the_epoch_in_which_it_was_named_and_in_no_other():
    progress = Progress()
    epoch = progress.begin(TP, 4, Committed(None, None))
    progress.note_committed({TP: Committed(9, 0)}, {TP: epoch})
    assert progress.get(TP).to_commit == 9
    later = progress.new_epoch()
    progress.move(TP, epoch, later, 2, None)
    progress.note_committed({TP: Committed(9, 1)}, {TP: epoch})
    assert progress.get(TP).to_commit == 2, "it was moved back meanwhile"
    progress.note_committed({TP: Committed(5, 2)})
    assert progress.get(TP).done is None, "an auto commit names nothing"


def test_what_was_named_is_forgotten_in_its_own_epoch_alone():
    progress = Progress()
    epoch = progress.begin(TP, 4, Committed(None, None))
    progress.note_committed({TP: Committed(9, 0)}, {TP: epoch})
    progress.forget_done({TP: epoch - 1, TopicPartition("u", 0): epoch})
    assert progress.get(TP).done == 9
    progress.forget_done({TP: epoch})
    assert progress.get(TP).done is None
