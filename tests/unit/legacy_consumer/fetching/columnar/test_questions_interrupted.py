"""A question to a broker that an exception interrupts: the next question gets its own answer."""

import gc
import itertools

import pytest

from legacy_consumer import ConsumerConfig
from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.fetching.columnar import open_log_offsets
from legacy_consumer.fetching.columnar.metadata import MetadataAsker
from tests.support.at_line import AfterCall, TimeLimitError, interrupt, time_is_over
from tests.support.scripted_broker import ScriptedBroker
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

TP = TopicPartition("t", 0)
LEADER = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'
CONFIG = ConsumerConfig.load(zookeeper_connect="memory", group_id="g")


class Ends:
    """Asks for the begin and the end of a log."""

    def __init__(self, broker):
        self.store = MemoryStore(MemoryZooKeeper())
        self.store.start()
        self.store.create("/brokers/ids/0", broker.registration(), make_parents=True)
        self.store.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})), make_parents=True)
        self.store.create("/brokers/topics/t/partitions/0/state", LEADER, make_parents=True)
        self.asked = open_log_offsets(CONFIG, self.store)

    def ask(self):
        self.asked.latest([TP])

    def check(self):
        assert self.asked.earliest([TP]) == {TP: 0}
        assert self.asked.latest([TP]) == {TP: 7}

    def close(self):
        self.asked.close()
        self.store.close()


class Metadata:
    """Asks for the metadata of a cluster."""

    def __init__(self, broker):
        self.server = ("127.0.0.1", broker.port)
        self.asker = MetadataAsker(CONFIG)

    def ask(self):
        self.asker.ask(self.server, ["t"])

    def check(self):
        assert set(self.asker.ask(self.server, ["t"]).partitions) == {TP}

    def close(self):
        self.asker.close()


@pytest.fixture
def broker():
    broker = ScriptedBroker()
    broker.logs[TP] = [b"v"] * 7
    yield broker
    broker.close()


# Ctrl-C may come before the library has stored a new socket: the garbage collector closes it and warns
@pytest.mark.filterwarnings("ignore:.*unclosed <socket:pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore:.*unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("make", [Ends, Metadata], ids=lambda make: make.__name__)
@pytest.mark.parametrize("strike_with", [interrupt, time_is_over], ids=["Ctrl-C", "time limit"])
def test_whatever_call_of_a_question_is_interrupted_the_next_one_is_answered(broker, make, strike_with):
    question = make(broker)
    question.check()
    for number in itertools.count():
        strike = AfterCall(number, strike_with)
        try:
            with strike:
                question.ask()
        except (KeyboardInterrupt, TimeLimitError):
            assert strike.struck
        question.check()
        if not strike.struck:
            break
    assert number > 30, "the library's calls were not seen"
    gc.collect()  # so that this test, and no later one, gets the warnings
    question.close()


def test_a_broker_of_which_only_the_address_is_known_is_named_by_it(broker):
    broker.close()
    with pytest.raises(BrokersUnavailableError, match=rf"^the broker at 127\.0\.0\.1:{broker.port} cannot be reached"):
        MetadataAsker(CONFIG).ask(("127.0.0.1", broker.port), ["t"])
