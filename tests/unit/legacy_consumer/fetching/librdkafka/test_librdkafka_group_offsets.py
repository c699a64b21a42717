"""LibrdkafkaGroupOffsets: when it opens another handle, and which requests do not wait for the old one to close."""

import threading

import pytest

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.librdkafka import LibrdkafkaGroupOffsets
from legacy_consumer.offsets import KafkaOffset
from tests.support.interrupting import interrupt
from zk_layout.model import TopicPartition

P0 = TopicPartition("t", 0)


class Handle:
    """A handle that answers, or raises. close() waits until the test allows it, at most 10 s."""

    def __init__(self, answers=True):
        self.answers = answers
        self.committed_of = []
        self.may_close = threading.Event()
        self.closed = threading.Event()

    def committed(self, partitions, timeout_s):
        self._answer()
        self.committed_of.append(list(partitions))
        return dict.fromkeys(partitions, (7, "note"))

    def commit(self, offsets, timeout_s):
        self._answer()

    def close(self):
        self.may_close.wait(10)
        self.closed.set()

    def _answer(self):
        if not self.answers:
            raise BrokersUnavailableError("no answer")


class Handles:
    def __init__(self, *answers):
        self.answers = list(answers)
        self.opened = []

    def __call__(self):
        self.opened.append(Handle(self.answers.pop(0)))
        return self.opened[-1]

    def end(self):
        for handle in self.opened:
            handle.may_close.set()


@pytest.fixture
def rig():
    made = []

    def make(*answers):
        made.append(Handles(*answers))
        return made[-1], LibrdkafkaGroupOffsets(made[-1])

    yield make
    for handles in made:
        handles.end()


def test_nothing_is_opened_before_the_first_question_and_one_handle_serves_all(rig):
    handles, offsets = rig(True)
    assert handles.opened == []
    assert offsets.read([P0], 1.0) == {P0: KafkaOffset(7, "note")}
    assert offsets.write({P0: KafkaOffset(8)}, 1.0) is None
    assert len(handles.opened) == 1


def test_a_question_without_an_answer_is_asked_over_the_same_handle_twice_more(rig):
    handles, offsets = rig(False, True)
    for _ in range(3):
        with pytest.raises(BrokersUnavailableError):
            offsets.read([P0], 1.0)
    assert len(handles.opened) == 1
    assert offsets.read([P0], 1.0)[P0].offset == 7
    assert len(handles.opened) == 2


def test_no_commit_begins_while_an_earlier_one_without_an_answer_may_still_be_carried_out(rig):
    handles, offsets = rig(False, True)
    with pytest.raises(BrokersUnavailableError):
        offsets.write({P0: KafkaOffset(8)}, 1.0)
    assert offsets.read([P0], 1.0)[P0].offset == 7, "reading goes on at once"
    with pytest.raises(BrokersUnavailableError, match="may still be carried out"):
        offsets.write({P0: KafkaOffset(9)}, 0.01)
    handles.end()
    assert offsets.write({P0: KafkaOffset(9)}, 60.0) is None
    assert handles.opened[0].closed.is_set()


def test_no_commit_begins_while_an_earlier_one_may_still_be_carried_out_though_its_wait_was_interrupted(rig):
    handles, offsets = rig(False, True)
    with pytest.raises(BrokersUnavailableError):
        offsets.write({P0: KafkaOffset(7)}, 1.0)
    interrupt(lambda: offsets.write({P0: KafkaOffset(8)}, 60.0))
    with pytest.raises(BrokersUnavailableError, match="may still be carried out"):
        offsets.write({P0: KafkaOffset(8)}, 0.05)
    assert len(handles.opened) == 1


def test_a_handle_that_no_thread_could_be_had_to_close_is_closed_before_the_next_commit(rig, monkeypatch):
    handles, offsets = rig(False, True)

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            offsets.write({P0: KafkaOffset(8)}, 1.0)
    assert offsets.read([P0], 1.0)[P0].offset == 7
    with pytest.raises(BrokersUnavailableError, match="may still be carried out"):
        offsets.write({P0: KafkaOffset(9)}, 0.01)
    handles.end()
    assert offsets.write({P0: KafkaOffset(9)}, 60.0) is None
    assert handles.opened[0].closed.is_set()


def test_after_closing_no_question_opens_anything(rig):
    handles, offsets = rig(True)
    offsets.read([P0], 1.0)
    handles.end()
    offsets.close()
    offsets.close()
    assert handles.opened[0].closed.is_set()
    with pytest.raises(BrokersUnavailableError, match="were closed"):
        offsets.read([P0], 1.0)


def test_a_topic_of_a_name_that_no_broker_takes_has_no_offset_there_and_is_not_asked_for(rig):
    """Such a name does not fit into a request, and would spoil the answer for the other partitions."""
    nameless = TopicPartition("x" * 40_000, 0)
    handles, offsets = rig(True)
    assert offsets.read([nameless, P0], 1.0) == {P0: KafkaOffset(7, "note"), nameless: KafkaOffset(None, "")}
    assert "longer than 255 bytes" in offsets.write({nameless: KafkaOffset(5, "")}, 1.0)
    assert handles.opened[0].committed_of == [[P0]]
