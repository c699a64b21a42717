"""An iterator over messages that can be shut between any two: the native one and Python's keep the same promises."""

import ctypes
import threading
from itertools import chain

import legacy_consumer_native as native
import pytest

from legacy_consumer.fetching.message_iterator import ListIterator
from tests.support.record_encoder import Written, batch
from tests.support.record_sets import decoded

COUNT = 600
RUNS = [
    decoded(batch([Written(n, None, b"v", 1) for n in some])) for some in (range(1), range(1, 401), range(401, COUNT))
]


def over_columns():
    return native.MessageIterator([run.run for run in (RUNS[0], RUNS[1].slice(0, 0), *RUNS[1:])])


def over_a_list():
    return ListIterator([message for run in RUNS for message in run.messages()])


@pytest.fixture(params=[over_columns, over_a_list])
def messages(request):
    return request.param()


def offsets(messages):
    return [message.offset() for message in messages]


def test_nothing_leaves_it_before_it_is_allowed_and_no_more_than_that(messages):
    assert offsets(messages) == []
    assert messages.allow(2)
    assert offsets(messages) == [0, 1]
    assert offsets(messages) == []
    assert messages.allow(3)
    assert messages.allow(COUNT)
    assert offsets(messages) == list(range(2, COUNT))
    assert messages.handed_out == COUNT
    assert not messages.allow(1)


def test_it_counts_what_has_left_it(messages):
    messages.allow(COUNT)
    for number, message in enumerate(messages):
        assert message.offset() == number
        assert messages.handed_out == number + 1


def test_a_loop_over_one_that_is_shut_ends_where_it_stands_and_the_count_stays(messages):
    messages.allow(COUNT)
    seen = []
    for message in messages:
        seen.append(message.offset())
        if len(seen) == 5:
            assert messages.shut() == 5
    assert seen == [0, 1, 2, 3, 4]
    assert not messages.allow(COUNT)
    assert offsets(messages) == []
    assert messages.shut() == messages.handed_out == 5


def test_two_loops_share_its_messages_and_what_is_allowed(messages):
    messages.allow(4)
    one, other = iter(messages), iter(messages)
    assert [next(loop).offset() for loop in (one, other, one, other)] == [0, 1, 2, 3]
    assert next(one, None) is next(other, None) is None


def test_a_loop_that_stands_in_what_was_allowed_takes_nothing_beyond_what_is_allowed_later(messages):
    messages.allow(COUNT)
    loop = iter(messages)
    assert next(loop).offset() == 0
    messages.allow(1)
    assert len(offsets(chain(loop, messages))) == 1


@pytest.mark.parametrize("make", [over_columns, over_a_list])
def test_after_another_thread_has_shut_it_nothing_leaves_it(make):
    """Wherever the loop is: it ends with as many messages as shut() returned to the other thread."""
    for turn in range(20):
        messages = make()
        messages.allow(COUNT)
        told = []
        got = []

        def shut_behind(count, messages=messages, got=got, told=told):
            while len(got) < count:
                pass
            told.append(messages.shut())

        thread = threading.Thread(target=shut_behind, args=(turn * 20,))
        thread.start()
        for message in messages:
            got.append(message.offset())
        thread.join(60)
        assert got == list(range(told[0]))
        assert messages.handed_out == told[0]


@pytest.mark.parametrize("make", [over_columns, over_a_list])
def test_an_exception_from_another_thread_strikes_between_a_message_and_the_next(make):
    """A soft time limit raises such an exception: a message is counted and the loop has it, or neither."""
    me = ctypes.c_ulong(threading.get_ident())
    struck = 0
    for turn in range(20):
        messages = make()
        messages.allow(COUNT)
        got = []

        def strike_behind(count, got=got):
            while len(got) < count:
                pass
            ctypes.pythonapi.PyThreadState_SetAsyncExc(me, ctypes.py_object(KeyboardInterrupt))

        thread = threading.Thread(target=strike_behind, args=(turn * 20,))
        try:
            try:
                thread.start()
                for message in messages:
                    got.append(message.offset())
            finally:
                thread.join(60)
                # the interpreter raises an exception here that was set after the loop
                sum(range(1000))
        except KeyboardInterrupt:
            struck += 1
        taken = messages.handed_out
        assert got == list(range(len(got)))
        # the iterator may have handed out the last message before the loop had stored it
        assert taken - len(got) in (0, 1)
        messages.allow(COUNT)
        assert offsets(messages) == list(range(taken, COUNT))
    assert struck == 20


def test_any_message_of_columns_can_be_asked_for_whatever_has_left():
    messages = over_columns()
    messages.allow(450)
    assert len(offsets(messages)) == 450
    assert [messages[number].offset() for number in (599, 0, 1, 400, 401, 399)] == [599, 0, 1, 400, 401, 399]
    with pytest.raises(IndexError, match="no message 600 of 600"):
        messages[COUNT]
    messages.allow(COUNT)
    assert offsets(messages) == list(range(450, COUNT))


def test_messages_outlive_their_iterator_and_its_columns():
    columns = decoded(batch([Written(n, b"key", b"value%d" % n, 1) for n in range(3)]))
    messages = native.MessageIterator([columns.run])
    messages.allow(3)
    kept = list(messages)
    del columns, messages
    assert [message.value() for message in kept] == [b"value0", b"value1", b"value2"]
