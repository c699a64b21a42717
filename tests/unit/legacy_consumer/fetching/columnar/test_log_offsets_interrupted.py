"""A question for the ends of logs that an exception interrupts: the next question gets its own answer."""

import itertools

import pytest

from legacy_consumer import ConsumerConfig
from legacy_consumer.fetching.columnar import open_log_offsets
from tests.support.at_line import AfterCall, TimeLimitError, interrupt, time_is_over
from tests.support.scripted_broker import ScriptedBroker
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

TP = TopicPartition("t", 0)
LEADER = b'{"controller_epoch":1,"leader":0,"version":1,"leader_epoch":0,"isr":[0]}'


@pytest.fixture
def log_offsets():
    broker = ScriptedBroker()
    broker.logs[TP] = [b"v"] * 7
    store = MemoryStore(MemoryZooKeeper())
    store.start()
    store.create("/brokers/ids/0", broker.registration(), make_parents=True)
    store.create("/brokers/topics/t", encode_topic(TopicAssignment({0: (0,)})), make_parents=True)
    store.create("/brokers/topics/t/partitions/0/state", LEADER, make_parents=True)
    asked = open_log_offsets(ConsumerConfig.load(zookeeper_connect="memory", group_id="g"), store)
    yield asked
    asked.close()
    store.close()
    broker.close()


@pytest.mark.parametrize("strike_with", [interrupt, time_is_over], ids=["Ctrl-C", "time limit"])
def test_whatever_call_of_a_question_is_interrupted_the_next_one_is_answered(log_offsets, strike_with):
    assert log_offsets.latest([TP]) == {TP: 7}
    for number in itertools.count():
        strike = AfterCall(number, strike_with)
        try:
            with strike:
                log_offsets.latest([TP])
        except (KeyboardInterrupt, TimeLimitError):
            assert strike.struck
        assert log_offsets.earliest([TP]) == {TP: 0}, f"interrupted at {number}"
        assert log_offsets.latest([TP]) == {TP: 7}, f"interrupted at {number}"
        if not strike.struck:
            break
    assert number > 50, "the library's calls were not seen"
