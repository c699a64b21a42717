"""A message of either fetcher: both kinds have the same values, are equal, and can be copied and pickled."""

import copy
import operator
import pickle

import confluent_kafka
import pytest
from hypothesis import given
from hypothesis import strategies as st

from legacy_consumer.errors import FetchError
from legacy_consumer.fetching.fetcher import Message
from legacy_consumer.fetching.librdkafka.batch import LibrdkafkaBatch
from legacy_consumer.fetching.message_batch import MessageBatch
from tests.support.record_encoder import Written, batch, messages
from tests.support.record_sets import TP, decoded

DATA = st.none() | st.binary(max_size=20)
WRITTEN = st.builds(
    Written,
    offset=st.integers(0, 2**40),
    key=DATA,
    value=DATA,
    timestamp=st.integers(0, 2**42),
    headers=st.lists(st.tuples(st.text(max_size=5), DATA), max_size=3).map(tuple),
)


def by_columns(written):
    return decoded(batch([written])).messages()[0]


def by_librdkafka(written, timestamp=None):
    made = confluent_kafka.Message(
        topic=TP.topic,
        partition=TP.partition,
        offset=written.offset,
        key=written.key,
        value=written.value,
        headers=list(written.headers) or None,
        timestamp=timestamp or (1, written.timestamp),
    )
    return LibrdkafkaBatch([made], {}).messages()[0]


def public(thing):
    return {name for name in dir(thing) if not name.startswith("_")} - {"count", "index"}  # methods of a tuple


SAMPLE = Written(7, b"k", b"value", 1234, (("h", b"1"),))


@given(WRITTEN)
def test_both_kinds_say_the_same_and_so_does_a_copy(written):
    ours, theirs = by_columns(written), by_librdkafka(written)
    copies = [pickle.loads(pickle.dumps(one)) for one in (ours, theirs)] + [copy.copy(ours), copy.deepcopy(theirs)]
    for one in (theirs, *copies):
        for name in public(Message):
            assert getattr(one, name)() == getattr(ours, name)(), name
        assert one == ours
        assert not (one != ours)  # noqa: SIM202 - a tuple has its own !=
        assert hash(one) == hash(ours)
        assert len(one) == len(ours) == len(written.value or b"")
        assert repr(one) == repr(ours)
        assert one
    assert len({ours, theirs, *copies}) == 1


@pytest.mark.parametrize("make", [by_columns, by_librdkafka])
def test_both_kinds_have_what_the_protocol_names_and_nothing_else(make):
    one = make(SAMPLE)
    assert public(one) == public(Message) == public(copy.copy(one))
    assert one.error() is None
    assert not hasattr(one, "__dict__")  # a dictionary for each message would cost 300 bytes


@pytest.mark.parametrize("make", [by_columns, by_librdkafka])
@pytest.mark.parametrize(
    "other",
    [
        Written(8, b"k", b"value", 1234, (("h", b"1"),)),
        Written(7, b"K", b"value", 1234, (("h", b"1"),)),
        Written(7, None, b"value", 1234, (("h", b"1"),)),
        Written(7, b"k", None, 1234, (("h", b"1"),)),
        Written(7, b"k", b"value", 1235, (("h", b"1"),)),
        Written(7, b"k", b"value", 1234),
    ],
)
def test_messages_that_differ_in_any_field_are_not_equal(make, other):
    assert make(SAMPLE) != make(other)
    assert make(SAMPLE) != by_columns(other)
    assert make(SAMPLE) != ("t", 0)


@pytest.mark.parametrize("make", [by_columns, by_librdkafka])
def test_messages_have_no_order(make):
    for compare in (operator.lt, operator.le, operator.gt, operator.ge):
        with pytest.raises(TypeError):
            compare(make(SAMPLE), make(SAMPLE))


def test_a_message_without_a_timestamp_has_the_same_value_with_both_fetchers():
    [ours] = decoded(messages([Written(1, None, b"v")], 0)).messages()
    theirs = by_librdkafka(Written(1, None, b"v"), timestamp=(confluent_kafka.TIMESTAMP_NOT_AVAILABLE, 0))
    assert ours.timestamp() == theirs.timestamp() == (0, -1)
    assert ours == theirs


class WithHole:
    """A message of confluent_kafka with a header whose name is not UTF-8."""

    def __init__(self):
        self._headers = None
        self._asked = 0

    def headers(self):
        self._asked += 1
        if self._headers is None:
            assert self._asked == 1, "the process would end here"
            raise SystemError("returned a result with an exception set")
        return self._headers

    def set_headers(self, headers):
        self._headers = headers

    def topic(self):
        return "t"

    def partition(self):
        return 3

    def offset(self):
        return 7


def test_headers_that_librdkafkas_client_cannot_decode_are_an_error_each_time_they_are_asked_for():
    batch = LibrdkafkaBatch([WithHole()], {})
    for _ in range(3):
        with pytest.raises(FetchError, match=r"^t/3: offset 7: the name of a header is not UTF-8"):
            batch.messages()[0].headers()


def test_lists_of_both_kinds_behave_like_lists():
    written = [Written(number, None, b"v", number) for number in range(4)]
    ours = MessageBatch(decoded(batch(written)).messages())
    theirs = MessageBatch([by_librdkafka(one) for one in written])
    assert ours == theirs == list(ours)
    assert pickle.loads(pickle.dumps(ours)) == theirs
    assert theirs[2] in ours
    assert ours.index(theirs[2]) == 2
    assert ours.count(theirs[2]) == 1
    ours.remove(theirs[2])
    assert [one.offset() for one in ours] == [0, 1, 3]
    ours.reverse()
    assert [one.offset() for one in sorted(ours, key=lambda one: one.offset())] == [0, 1, 3]
    assert ours + theirs == [*ours, *theirs]
    kept = []
    kept = kept + ours
    assert kept == ours
