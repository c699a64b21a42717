"""The search for positions: the errors that it waits out, and the errors that it reports."""

import logging

import pytest

from legacy_consumer.errors import BrokersUnavailableError, FetchError, MissingListenerError
from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.fetching.positions import PositionFinder, Search
from tests.support.waiting import eventually
from zk_layout.errors import LegacyConsumerError, NotPermittedError
from zk_layout.model import TopicPartition

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)


class Logs:
    """Each log begins at 3 and ends at 8. failures: raised first, one a call; refused: {partition: its error}."""

    def __init__(self, *failures, refused=None):
        self.failures = list(failures)
        self.refused = dict(refused or {})
        self.questions = 0

    def earliest(self, partitions):
        self.questions += 1
        if self.failures:
            raise self.failures.pop(0)
        return {tp: 3 for tp in partitions if tp not in self.refused}

    def latest(self, partitions):
        return {tp: 8 for tp in partitions if tp not in self.refused}

    def at_time(self, partition, time_ms):
        if partition in self.refused:
            raise self.refused[partition]
        return 3

    def close(self):
        pass


@pytest.fixture
def finder_of():
    made = []

    def make(logs, backoff_s=0.001):
        made.append(PositionFinder(lambda: logs, reset_to=EARLIEST, backoff_s=backoff_s))
        return made[-1]

    yield make
    for finder in made:
        finder.close()


def found_by(finder):
    """Return {partition: the position found}, or raise the finder's failure."""
    taken = []

    def take():
        try:
            taken.extend(finder.take())
        except LegacyConsumerError as failure:
            taken.append(failure)
        return taken

    eventually(take)
    if isinstance(taken[0], LegacyConsumerError):
        raise taken[0]
    return {one.search.partition: one.offset for one in taken}


@pytest.mark.parametrize(
    "error",
    [
        MissingListenerError("SSL", ("PLAINTEXT",)),
        NotPermittedError("/brokers/ids/0"),
        FetchError(HERE, "Topic authorization failed"),
    ],
)
def test_a_failure_that_does_not_pass_is_told_and_the_search_goes_on_with_whoever_goes_on(finder_of, error):
    logs = Logs(error)
    finder = finder_of(logs)
    finder.search([Search(HERE, 1, EARLIEST)])
    with pytest.raises(type(error)) as caught:
        found_by(finder)
    assert caught.value is error
    assert found_by(finder) == {HERE: 3}
    assert not finder.is_busy


@pytest.mark.parametrize("error", [BrokersUnavailableError("h:1"), RuntimeError("unexpected"), KeyError(HERE)])
def test_the_search_goes_on_after_an_error_that_may_pass_or_was_not_expected(finder_of, error):
    finder = finder_of(Logs(error))
    finder.search([Search(HERE, 1, LATEST)])
    assert found_by(finder) == {HERE: 8}


def test_brokers_are_asked_for_a_position_again_at_once_when_brokers_change(finder_of):
    logs = Logs(BrokersUnavailableError("no broker answered"))
    finder = finder_of(logs, backoff_s=3600.0)
    finder.search([Search(HERE, 1, EARLIEST)])
    eventually(lambda: logs.questions == 1 and not logs.failures)
    assert finder.is_busy
    finder.look_now()
    assert found_by(finder) == {HERE: 3}


def test_a_failure_is_told_once_for_each_try(finder_of):
    logs = Logs(*[NotPermittedError(f"/{n}") for n in range(3)])
    finder = finder_of(logs)
    finder.search([Search(HERE, 1, LATEST)])
    for n in range(3):
        with pytest.raises(NotPermittedError, match=f"^/{n} "):
            found_by(finder)
        assert logs.questions <= n + 2
    assert found_by(finder) == {HERE: 8}


def test_a_passing_error_is_waited_out(finder_of):
    finder = finder_of(Logs(*[BrokersUnavailableError("not yet")] * 5))
    finder.search([Search(HERE, 1, LATEST)])
    assert found_by(finder) == {HERE: 8}


def test_a_partition_that_is_refused_is_told_of_and_the_others_are_found(finder_of):
    finder = finder_of(Logs(refused={THERE: FetchError(THERE, "Topic authorization failed")}))
    finder.search([Search(HERE, 1, EARLIEST), Search(THERE, 2, EARLIEST)])
    assert found_by(finder) == {HERE: 3}
    with pytest.raises(FetchError, match="t/1: Topic authorization failed"):
        found_by(finder)


def test_a_refused_partition_is_told_of_though_another_one_has_no_leader(finder_of, monkeypatch):
    monkeypatch.setattr("legacy_consumer.fetching.positions._REASON_S", 0.0)
    refused = {HERE: BrokersUnavailableError("t/0: no leader"), THERE: FetchError(THERE, "no")}
    finder = finder_of(Logs(refused=refused))
    finder.search([Search(HERE, 1, EARLIEST), Search(THERE, 2, EARLIEST)])
    with pytest.raises(FetchError, match="t/1: no"):
        found_by(finder)


def test_a_partition_without_a_leader_yet_is_found_once_it_has_one(finder_of):
    logs = Logs(refused={THERE: BrokersUnavailableError("t/1: no leader")})
    finder = finder_of(logs)
    finder.search([Search(THERE, 1, EARLIEST)])
    eventually(lambda: logs.questions > 2)
    assert finder.take() == []
    logs.refused.clear()
    assert found_by(finder) == {THERE: 3}


def test_a_failure_of_what_is_not_looked_for_any_more_is_forgotten(finder_of):
    logs = Logs(NotPermittedError("/brokers"))
    finder = finder_of(logs)
    finder.search([Search(HERE, 1, EARLIEST)])
    eventually(lambda: not logs.failures)
    finder.forget([HERE])
    eventually(lambda: not finder.is_busy)
    assert finder.take() == []
    finder.search([Search(THERE, 1, EARLIEST)])
    assert found_by(finder) == {THERE: 3}


@pytest.mark.parametrize(("count", "warnings", "others"), [(1, 1, 0), (3, 3, 0), (500, 4, 497)])
def test_a_reset_of_many_partitions_at_once_takes_few_lines(finder_of, caplog, count, warnings, others):
    caplog.set_level(logging.DEBUG)
    finder, partitions = finder_of(Logs()), [TopicPartition("t", number) for number in range(count)]
    finder.search([Search(tp, 1, 0) for tp in partitions])
    assert found_by(finder) == dict.fromkeys(partitions, 3)
    told = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(told) == warnings
    assert told[0] == "t/0: offset 0 is outside the log, which holds 3 to 8; going to 3, by auto.offset.reset"
    if others:
        assert told[-1].startswith(f"{others} more partitions go on elsewhere, by auto.offset.reset")
    assert len([record for record in caplog.records if record.levelno == logging.DEBUG]) == others


def test_positions_inside_their_logs_are_not_told(finder_of, caplog):
    finder = finder_of(Logs())
    finder.search([Search(HERE, 1, EARLIEST), Search(THERE, 1, 5)])
    assert found_by(finder) == {HERE: 3, THERE: 5}
    assert caplog.records == []
