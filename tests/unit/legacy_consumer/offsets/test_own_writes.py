"""A member recognizes which stored offsets are its own, although answers get lost."""

import pytest

from legacy_consumer.offsets.own_writes import OwnWrites, version_after
from legacy_consumer.offsets.progress import Commit, Committed
from zk_layout.model import TopicPartition

A, B = TopicPartition("t", 0), TopicPartition("t", 1)
SEEN = Committed(3, 7)
STORED = Committed(9, 8, transaction=50)
"""ZooKeeper stores this when it carries out Commit(9, SEEN)."""


@pytest.mark.parametrize(("version", "after"), [(None, 0), (0, 1), (7, 8), (2**31 - 1, -(2**31)), (-1, 0)])
def test_a_version_is_counted_as_zookeeper_counts_it(version, after):
    assert version_after(Commit(1, Committed(None, version))) == after


def test_a_write_without_an_answer_is_the_members_own_and_one_of_another_offset_or_version_is_not():
    own = OwnWrites()
    own.begin({A: Commit(9, SEEN)}, 1)
    assert own.holds(A, STORED)
    assert own.may_have_changed(A, SEEN)
    assert not own.holds(A, Committed(9, 9, transaction=50))
    assert not own.holds(A, Committed(8, 8, transaction=50))
    assert not own.holds(B, STORED)
    assert not own.may_have_changed(B, SEEN)


def test_a_write_that_zookeeper_refused_is_not_the_members_own():
    own = OwnWrites()
    commits = {A: Commit(9, SEEN)}
    own.begin(commits, 1)
    own.take_back()
    assert not own.holds(A, STORED)
    assert not own.may_have_changed(A, SEEN)


def test_a_refusal_says_nothing_of_an_earlier_request_for_the_same_that_has_no_answer():
    own = OwnWrites()
    own.begin({A: Commit(9, SEEN), B: Commit(2, SEEN)}, 1)
    for again in ({A: Commit(9, SEEN)}, {A: Commit(9, SEEN), B: Commit(2, SEEN)}):
        own.begin(again, 1)
        own.take_back()
    assert own.holds(A, STORED)


def test_what_was_written_after_a_later_answer_is_no_earlier_request_without_an_answer():
    """An operator may write the very offset and version that a lost request would have written."""
    own = OwnWrites()
    own.begin({A: Commit(9, SEEN)}, 1)
    own.begin({B: Commit(5, SEEN)}, 1)
    assert own.holds(A, Committed(9, 8, transaction=61)), "nothing is known yet"
    own.note({B: Committed(5, 8, transaction=60)})
    assert own.holds(A, Committed(9, 8, transaction=59))
    assert not own.holds(A, Committed(9, 8, transaction=61))
    own.begin({A: Commit(9, SEEN)}, 1)
    own.begin({}, 1)
    assert own.holds(A, Committed(9, 8, transaction=61)), "another request without an answer"


def test_a_found_write_settles_no_other_request():
    own = OwnWrites()
    own.begin({A: Commit(9, SEEN), B: Commit(9, SEEN)}, 1)
    own.begin({B: Commit(10, SEEN)}, 1)
    own.take_back()
    own.note({B: Committed(9, 8, transaction=50)})
    assert own.holds(A, Committed(9, 8, transaction=61))


def test_an_answer_ends_the_doubt_about_earlier_requests_for_the_partition_alone():
    own = OwnWrites()
    own.begin({A: Commit(9, SEEN), B: Commit(9, SEEN)}, 1)
    own.begin({A: Commit(10, SEEN)}, 1)
    own.note({A: Committed(10, 8, transaction=60)})
    assert own.holds(A, Committed(10, 8, transaction=60))
    assert not own.holds(A, Committed(10, 8, transaction=61)), "another client's, at the same version"
    assert not own.holds(A, STORED)
    assert own.holds(B, STORED)
    assert own.may_have_changed(A, SEEN), "the caller has not noted the answer"
    assert not own.may_have_changed(A, Committed(10, 8))


def test_nothing_of_an_ended_session_is_in_doubt():
    own = OwnWrites()
    own.begin({A: Commit(9, SEEN)}, 1)
    own.begin({B: Commit(9, SEEN)}, 2)
    assert not own.holds(A, STORED)
    own.begin({A: Commit(9, SEEN)}, None)
    assert own.holds(B, STORED), "a commit without a session of its own ends none"


def test_of_requests_without_an_answer_only_what_differs_is_kept():
    own = OwnWrites()
    many = {TopicPartition("t", number): Commit(1, SEEN) for number in range(100)}
    for offset in range(1000):
        own.begin({**many, A: Commit(offset, SEEN)}, 1)
    assert sum(map(len, own._doubtful.values())) == 99 + 999


class LookedAt(dict):
    """A dict that calls a function after each lookup."""

    def __init__(self, of, then):
        super().__init__(of)
        self._then = then

    def get(self, *args):
        found = super().get(*args)
        self._then()
        return found

    def __contains__(self, key):
        is_in = super().__contains__(key)
        self._then()
        return is_in


@pytest.mark.parametrize("place", ["_asked", "_doubtful", "_written"])
@pytest.mark.parametrize("requests", [1, 2])
def test_an_answer_that_comes_while_another_thread_looks_leaves_the_write_the_members_own(place, requests):
    for ask in (lambda own: own.holds(A, STORED), lambda own: own.may_have_changed(A, SEEN)):
        own = OwnWrites()
        for _ in range(requests):
            own.begin({A: Commit(9, SEEN)}, 1)
        setattr(own, place, LookedAt(getattr(own, place), lambda own=own: own.note({A: STORED})))
        assert ask(own)
