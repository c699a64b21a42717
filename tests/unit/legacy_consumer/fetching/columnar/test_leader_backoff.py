"""How often a LeaderFinder asks for a leader that does not exist."""

import threading

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.leader_finder import LeaderFinder, next_pause
from legacy_consumer.fetching.columnar.leaders import Leaders
from tests.support.waiting import eventually
from zk_layout.model import TopicPartition

TP = TopicPartition("t", 0)
BROKER = BrokerAddress(1, "localhost", 9092, 4)


def pauses(*news):
    pause = 0.2
    told = []
    for is_news in news:
        pause = next_pause(pause, 0.2, is_news=is_news)
        told.append(round(pause, 3))
    return told


def test_the_same_answer_again_and_again_is_asked_for_less_and_less_and_news_begin_anew():
    assert pauses(True, False, False, False, False) == [0.2, 0.4, 0.8, 1.0, 1.0]
    assert pauses(False, False, False, True, False) == [0.4, 0.8, 1.0, 0.2, 0.4]


class ScriptedReader:
    """A reader that gives these answers one after another, and repeats the last."""

    def __init__(self, *answers):
        self._answers = list(answers)

    def read(self, partitions):
        answer = self._answers.pop(0) if len(self._answers) > 1 else self._answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def test_a_leader_is_found_after_no_broker_no_leader_and_the_same_again():
    none = BrokersUnavailableError("no broker is registered")
    missing = Leaders(missing={TP: "it has no leader"})
    found = threading.Event()
    reader = ScriptedReader(none, none, none, missing, missing, Leaders({TP: BROKER}))
    finder = LeaderFinder(reader, backoff_s=0.001, on_news=found.set)
    finder.search([TP])
    assert found.wait(30)
    assert finder.take() == (Leaders({TP: BROKER}, {TP: "it has no leader"}), None)
    assert finder.take() == (Leaders(), None)
    finder.close()


def test_a_partition_that_is_no_longer_looked_for_is_not_reported():
    other = TopicPartition("t", 1)
    told = threading.Event()
    both = Leaders({other: BROKER}, missing={TP: "it has no leader"})
    finder = LeaderFinder(ScriptedReader(both), backoff_s=60, on_news=told.set)
    finder.search([TP, other])
    assert told.wait(30)
    finder.forget([TP])
    assert finder.take() == (Leaders({other: BROKER}), None)
    finder.close()


def test_partitions_without_a_leader_are_looked_for_at_once_when_brokers_change():
    found = threading.Event()
    asked = threading.Event()

    class Reader(ScriptedReader):
        def read(self, partitions):
            asked.set()
            return super().read(partitions)

    finder = LeaderFinder(
        Reader(Leaders(missing={TP: "it has no leader"}), Leaders({TP: BROKER})), backoff_s=600, on_news=found.set
    )
    finder.search([TP])
    assert asked.wait(30)
    eventually(lambda: finder.take()[0].missing)
    finder.look_now()
    assert found.wait(30)
    finder.close()
