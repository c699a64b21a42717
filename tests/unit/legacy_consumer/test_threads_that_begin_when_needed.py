"""The library's threads that start when there is work: the next call replaces a thread that did not start, or died."""

import itertools
import logging
import threading

import pytest

from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.leader_finder import LeaderFinder
from legacy_consumer.fetching.columnar.leaders import Leaders
from legacy_consumer.fetching.fetcher import EARLIEST
from legacy_consumer.fetching.positions import PositionFinder, Search
from legacy_consumer.member.broker_watch import BrokerWatch
from legacy_consumer.member.listener_calls import ListenerCalls
from legacy_consumer.offsets.progress import Committed, PartitionProgress
from legacy_consumer.operations.metrics.lag_sample import LagSampler
from tests.support.at_line import AtLine, TimeLimitError, forget_unstarted_threads, interrupt, time_is_over
from tests.support.waiting import eventually
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

TP = TopicPartition("t", 0)
BROKER = b'{"version":1,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1"}'


class Cluster:
    """One broker, which leads every partition, and has logs that begin at 3 and end at 7."""

    def read(self, partitions):
        return Leaders(dict.fromkeys(partitions, BrokerAddress(0, "h", 9092, 4)))

    def earliest(self, partitions):
        return dict.fromkeys(partitions, 3)

    def latest(self, partitions):
        return dict.fromkeys(partitions, 7)


class Leader:
    def __init__(self):
        self.finder = LeaderFinder(Cluster(), backoff_s=0.01, on_news=lambda: None)
        self.close = self.finder.close

    def ask(self):
        self.finder.search([TP])

    def is_done(self):
        return TP in self.finder.take()[0].addresses


class Position:
    def __init__(self):
        self.finder = PositionFinder(Cluster, reset_to=EARLIEST, backoff_s=0.01)
        self.close = self.finder.close

    def ask(self):
        self.finder.search([Search(TP, 1, EARLIEST)])

    def is_done(self):
        # an interrupted search may be found too, so the same offset may come twice
        return {found.offset for found in self.finder.take()} == {3}


class Hook:
    def __init__(self):
        self.called = []
        self.calls = ListenerCalls("g_a", self)
        self.close = self.calls.end

    def ask(self):
        self.calls.wait(self.calls.begin(lambda listener: listener.called.append(True), 5.0))

    def is_done(self):
        return self.called == [True] and self.calls.errors == 0


class Brokers:
    def __init__(self):
        self.store = MemoryStore(MemoryZooKeeper())
        self.store.start()
        self.store.create("/brokers/ids/1", BROKER, make_parents=True)
        self.watch = BrokerWatch(self.store, "g_a", lambda gone: None)
        self.ask = self.watch.start

    def is_done(self):
        return self.watch.brokers == (1,)

    def close(self):
        self.watch.close()
        self.store.close()


class LogEnds:
    def __init__(self):
        progress = {TP: PartitionProgress(1, 3, Committed(None, None))}
        self.sampler = LagSampler(lambda: progress, Cluster().latest)
        self.ask = self.sampler.read

    def is_done(self):
        sample = self.sampler.read()
        return sample is not None and sample.ends == {TP: 7}

    def close(self):
        """Do nothing, because the sampler's thread ends by itself."""


@pytest.fixture
def made():
    made = []
    yield made
    for one in made:
        one.close()


@pytest.mark.parametrize("make", [Leader, Position], ids=lambda make: make.__name__)
def test_whatever_line_of_a_search_is_interrupted_the_next_search_finds(made, make):
    """The consuming thread searches, and Ctrl-C may interrupt it anywhere."""
    for line in itertools.count():
        made.append(make())
        strike = AtLine(line, interrupt)
        try:
            with strike:
                made[-1].ask()
        except KeyboardInterrupt:
            made[-1].ask()
        eventually(made[-1].is_done)
        if not strike.struck:
            break
    assert line > 5, "the library's lines were not seen"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("strike_with", [interrupt, time_is_over], ids=["Ctrl-C", "time limit"])
@pytest.mark.parametrize("make", [Leader, Position, Brokers], ids=lambda make: make.__name__)
def test_a_thread_whose_start_is_interrupted_is_replaced_and_its_owner_can_be_closed(made, make, strike_with):
    """The thread may have started, and then die at once, because the interrupt left threading's own records wrong."""
    for line in itertools.count():
        made.append(make())
        strike = AtLine(line, strike_with, library=(threading.__file__,))
        try:
            with strike:
                made[-1].ask()
        except (KeyboardInterrupt, TimeLimitError):
            made[-1].ask()
        eventually(made[-1].is_done)
        made.pop().close()
        if not strike.struck:
            break
    assert line > 10, "the lines of start() were not seen"
    forget_unstarted_threads()


@pytest.mark.parametrize("make", [Leader, Position, Hook, Brokers, LogEnds], ids=lambda make: make.__name__)
def test_a_thread_that_the_system_refuses_once_begins_with_the_next_call(made, monkeypatch, make):
    made.append(make())

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            made[-1].ask()
    made[-1].ask()
    eventually(made[-1].is_done)


@pytest.mark.parametrize("make", [Leader, Position, Brokers], ids=lambda make: make.__name__)
def test_what_waits_for_a_thread_that_the_system_refused_can_be_closed(monkeypatch, make):
    """In an earlier version, no shutdown() could end after that."""

    def refuse(thread):
        raise RuntimeError("can't start new thread")

    made = make()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(RuntimeError, match="can't start new thread"):
            made.ask()
    made.close()


def test_hooks_are_called_after_a_log_that_raises(made):
    made.append(Hook())

    def raise_too(record):
        raise RuntimeError("a filter fails")

    logger = logging.getLogger("legacy_consumer.member.listener_calls")
    logger.addFilter(raise_too)
    try:
        made[-1].calls.wait(made[-1].calls.begin(lambda listener: listener.no_such_hook(), 5.0))
    finally:
        logger.removeFilter(raise_too)
    assert made[-1].calls.errors == 1
    made[-1].ask()
    assert made[-1].called == [True]
    assert not made[-1].calls.is_late


def test_a_watch_of_brokers_goes_on_after_an_error_that_nobody_foresaw(made, monkeypatch, caplog):
    made.append(Brokers())
    children, errors = made[-1].store.get_children, iter([RuntimeError("a defect"), UnicodeError("another")])

    def fail_twice(path, watcher=None):
        if (error := next(errors, None)) is not None:
            raise error
        return children(path, watcher)

    monkeypatch.setattr("legacy_consumer.member.broker_watch._PAUSE_S", 0.01)
    monkeypatch.setattr(made[-1].store, "get_children", fail_twice)
    made[-1].ask()
    eventually(made[-1].is_done)
    assert [record.exc_info[1].args for record in caplog.records] == [("a defect",), ("another",)]
