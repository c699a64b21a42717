"""What follows from an answer, without a broker."""

from dataclasses import replace

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.wire.answers import have_failed_again, take_answers
from legacy_consumer.wire.connection import BrokerAddress
from legacy_consumer.wire.partition import PartitionState
from legacy_consumer.wire.protocol.fetch import FetchedPartition
from legacy_consumer.wire.settings import FetchSettings
from tests.support.record_encoder import Written, batch
from zk_layout.model import TopicPartition

T0, T1 = (TopicPartition("t", number) for number in range(2))
SETTINGS = replace(
    FetchSettings.of(ConsumerConfig.load(zookeeper_connect="h:1", group_id="g", refresh_leader_backoff_ms=200)),
    largest_bytes=10_000,
)
RECORDS = batch([Written(5, None, b"v", 7), Written(6, None, b"w", 7)])
NOW = 1000.0


def state(position=5, life=1, **fields):
    return PartitionState(life, position, True, BrokerAddress(1, "h", 9092, 4), **fields)


def answer(error=0, records=b""):
    return FetchedPartition(error, 7, (), memoryview(bytearray(records)))


def take(states, answers, asked=None):
    return take_answers(answers, asked or {tp: (1, s.position) for tp, s in states.items()}, states, SETTINGS, NOW)


def test_records_are_read_on_from_behind_their_last():
    states = {T0: state(failures=3, larger_bytes=5000)}
    found = take(states, {T0: answer(records=RECORDS)})
    assert [(one.partition, one.life, one.position, bytes(one.records)) for one in found.records] == [
        (T0, 1, 5, RECORDS)
    ]
    assert found.well == [T0]
    assert (states[T0].position, states[T0].failures, states[T0].larger_bytes) == (7, 0, 0)


def test_what_was_asked_in_a_life_that_has_ended_changes_nothing():
    states = {T0: state(position=90, life=2)}
    found = take(states, {T0: answer(records=RECORDS), T1: answer(1)}, {T0: (1, 5), T1: (1, 0)})
    assert (found.records, found.outdated, found.well) == ([], [], [])
    assert (states[T0].position, states[T0].failures) == (90, 0)


def test_each_partition_is_well_or_not_by_itself():
    states = {T0: state(), T1: state(failures=1)}
    assert take(states, {T0: answer(6), T1: answer()}).well == [T1]


def test_a_partition_that_nobody_asked_for_is_passed_over():
    states = {T0: state()}
    assert take(states, {T0: answer(6)}, {T1: (1, 0)}).moved == []


@pytest.mark.parametrize(
    ("code", "shown"),
    [
        (1, {"outdated": [T0]}),
        (6, {"moved": [T0], "complaints": [(T0, "NOT_LEADER_OR_FOLLOWER")]}),
        (-1, {"complaints": [(T0, "UNKNOWN_SERVER_ERROR")]}),
        (29, {"errors": ["t/0: offset 5: the broker says TOPIC_AUTHORIZATION_FAILED"]}),
    ],
)
def test_each_error_has_its_remedy(code, shown):
    states = {T0: state()}
    found = take(states, {T0: answer(code)})
    seen = {
        "outdated": found.outdated,
        "moved": found.moved,
        "complaints": found.complaints,
        "errors": [str(error) for error in found.errors],
    }
    assert {name: value for name, value in seen.items() if value} == shown
    assert states[T0].is_placed == (code != 1)
    assert states[T0].not_before == (NOW + 0.2 if code in {-1, 29} else 0.0)


def test_one_partition_that_moves_again_and_again_makes_the_search_wait():
    states = {T0: state(), T1: state(failures=1)}
    assert take(states, {T0: answer(6)}).moved == [T0]
    assert not have_failed_again([T0], states)
    take(states, {T1: answer(6)})
    assert have_failed_again([T0, T1], states)


def test_a_batch_larger_than_the_answer_is_asked_for_in_its_own_size():
    states = {T0: state()}
    found = take(states, {T0: answer(records=RECORDS[:-10])})
    assert (found.records, found.errors) == ([], [])
    assert (states[T0].larger_bytes, states[T0].position) == (len(RECORDS), 5)
    take(states, {T0: answer(records=RECORDS[:-10])})
    assert states[T0].larger_bytes == 2 * len(RECORDS)


def test_a_batch_larger_than_allowed_is_an_error_that_names_the_setting():
    states = {T0: state()}
    large = batch([Written(5, None, b"v" * 20_000, 7)])
    found = take(states, {T0: answer(records=large[:9000])})
    assert "raise fetch.message.max.bytes" in str(found.errors[0])
    assert states[T0].not_before == NOW + 0.2


def test_what_cannot_be_read_waits_for_the_decoder_to_say_why():
    states = {T0: state(position=6)}
    damaged = RECORDS[:8] + b"\0\0\0\5" + RECORDS[12:]  # no batch is so small
    found = take(states, {T0: answer(records=damaged)})
    assert len(found.records) == 1
    assert found.well == []
    assert states[T0].position == 6
    assert states[T0].not_before == NOW + 0.2
    assert "nothing to be had at offset 6" in found.complaints[0][1]
