"""The core of the columnar fetcher, without a broker: requests, sessions, and the events after an answer."""

import ast
import sys
from pathlib import Path

import pytest

import legacy_consumer.fetching.columnar.core as core_package
from legacy_consumer.config import ConsumerConfig
from legacy_consumer.fetching.columnar.core import (
    BrokerAddress,
    Failed,
    FetchCore,
    FindLeader,
    FindPosition,
    HangUp,
    Open,
    Records,
    Waiting,
)
from legacy_consumer.fetching.columnar.core.fetch_core import MOST_COMPLAINTS
from legacy_consumer.fetching.columnar.protocol.fetch import (
    FetchedPartition,
    FetchPartition,
    FetchResponse,
    FetchSession,
    encode_fetch,
)
from legacy_consumer.fetching.columnar.settings import FetchSettings
from tests.support.core_world import BACKOFF_S, SETTINGS, glance, record_set
from zk_layout.model import TopicPartition

T0, T1, T2 = (TopicPartition("t", number) for number in range(3))
BROKER, OTHER = (BrokerAddress(number, "h", 9092, 4) for number in (1, 2))
NOW = 1000.0
SESSION = 77
CORE = Path(core_package.__file__).parent


def core_of(positions, version=10, settings=SETTINGS, glance=glance):
    """Return a core that is connected to the broker, which leads all these partitions."""
    core = FetchCore(settings, glance)
    core.change(positions)
    for tp in positions:
        core.leader_found(tp, BROKER, NOW)
    assert core.requests(NOW) == [Open(BROKER)]
    core.opened(BROKER, version)
    return core


def request(core, now=NOW):
    (send,) = core.requests(now)
    return send


def answer(core, answers, *, session=0, now=NOW, error=0, throttle_ms=0):
    response = FetchResponse(throttle_ms, error, session, answers)
    return core.received(BROKER, response, now)


def says(error=0, records=None):
    return FetchedPartition(error, 7, (), records)


def answered(answers, position=5):
    """Return a core, and the events after an answer to its first request."""
    core = core_of({T0: position})
    request(core)
    return core, answer(core, answers)


@pytest.mark.parametrize("path", sorted(CORE.glob("*.py")), ids=lambda path: path.name)
def test_the_core_knows_no_socket_thread_clock_or_log(path):
    imported = set()
    for node in ast.walk(ast.parse(path.read_text())):
        match node:
            case ast.Import(names=names):
                imported |= {alias.name for alias in names}
            case ast.ImportFrom(module=module):
                imported.add(module)
    standard = {"__future__", "collections.abc", "dataclasses", "enum", "heapq", "typing"}
    errors = {"legacy_consumer.errors", "zk_layout.errors"}
    ours = {*errors, "legacy_consumer.fetching.columnar.settings", "zk_layout.model"}
    rooms = ("legacy_consumer.fetching.columnar.core.", "legacy_consumer.fetching.columnar.protocol")
    assert [name for name in imported - standard - ours if not name.startswith(rooms)] == []


# Sessions


def test_without_a_session_all_is_named_and_each_partition_comes_first_in_turn():
    core = core_of({T0: 5, T1: 5})
    firsts = []
    for _ in range(3):
        send = request(core)
        assert (set(send.partitions), send.session, send.forgotten) == ({T0, T1}, FetchSession(), ())
        firsts.append(next(iter(send.partitions)))
        answer(core, {T0: says(), T1: says()})
    assert firsts == [T0, T1, T0]


def test_in_a_session_only_what_changed_is_named():
    core = core_of({T0: 5, T1: 5})
    request(core)
    answer(core, {T0: says(records=record_set(5, 9))}, session=SESSION)
    core.change({T1: None, T2: 5})
    core.leader_found(T2, BROKER, NOW)
    send = request(core)
    assert send.session == FetchSession(SESSION, 1)
    assert send.partitions == {T0: FetchPartition(9, 1000), T2: FetchPartition(5, 1000)}
    assert send.forgotten == (T1,)
    answer(core, {}, session=SESSION)
    send = request(core)
    assert (send.session, send.partitions, send.forgotten) == (FetchSession(SESSION, 2), {}, ())


@pytest.mark.parametrize("error", [-1, 31, 106])
def test_a_request_that_is_refused_as_a_whole_is_repeated_with_all_partitions(error):
    """The broker may not have read it: an earlier version never asked again for the partition that it added."""
    core = core_of({T0: 5})
    request(core)
    answer(core, {T0: says()}, session=SESSION)
    core.change({T1: 9})
    core.leader_found(T1, BROKER, NOW)
    assert request(core).partitions.keys() == {T1}
    answer(core, {}, session=SESSION, error=error)
    again = request(core, NOW + 2 * BACKOFF_S)
    assert (again.session, again.partitions.keys()) == (FetchSession(), {T0, T1})


@pytest.mark.parametrize("ends", [lambda core: answer(core, {}, error=70), lambda core: core.lost(BROKER, "gone", NOW)])
def test_after_a_session_is_gone_all_is_named_again(ends):
    core = core_of({T0: 5, T1: 5})
    request(core)
    answer(core, {}, session=SESSION)
    request(core)
    if any(isinstance(event, FindLeader) for event in ends(core)):
        for tp in (T0, T1):
            core.leader_found(tp, BROKER, NOW)
        assert core.requests(NOW + 1) == [Open(BROKER)]
        core.opened(BROKER, 10)
    send = request(core, NOW + 1)
    assert (send.session, set(send.partitions)) == (FetchSession(), {T0, T1})


def lines_of_a_response(assigned):
    """Count the core's lines that run for a response with one of the assigned partitions, and the next request."""
    positions = {TopicPartition("t", number): 0 for number in range(assigned)}
    core = core_of(positions)
    request(core)
    answer(core, {}, session=SESSION)
    request(core)
    files = {str(path) for path in CORE.glob("*.py")}
    count = 0

    def note(frame, event, _):
        nonlocal count
        if frame.f_code.co_filename not in files:
            return None
        count += event == "line"
        return note

    before = sys.gettrace()
    sys.settrace(note)
    try:
        answer(core, {T0: says(records=record_set(0, 7))}, session=SESSION)
        send = core.requests(NOW)[0]
        core.look_for_silence(NOW)
        core.next_deadline()
    finally:
        sys.settrace(before)
    assert set(send.partitions) == {T0}
    return count


def test_a_response_costs_what_it_holds_however_many_partitions_are_assigned():
    few = lines_of_a_response(4)
    assert lines_of_a_response(5_000) == lines_of_a_response(20_000) == few < 200


# Answers


def test_records_are_read_on_from_behind_their_last():
    records = record_set(5, 9)
    core, events = answered({T0: says(records=records)})
    (one,) = events
    assert isinstance(one, Records)
    assert (one.partition, one.position, one.records) == (T0, 5, records)
    assert core.is_live(T0, one.life)
    assert request(core).partitions[T0].offset == 9


def test_an_answer_to_a_request_of_an_ended_life_changes_nothing():
    core = core_of({T0: 5})
    request(core)
    core.change({T0: 90})
    assert answer(core, {T0: says(records=record_set(5, 9)), T1: says(1)}) == []
    assert request(core).partitions[T0].offset == 90


def test_a_partition_that_is_given_up_and_taken_again_begins_anew_even_at_the_same_offset():
    core = core_of({T0: 5})
    request(core)
    core.change({T0: None})
    core.change({T0: 5})
    assert answer(core, {T0: says(records=record_set(5, 9))}) == [], "the topic may have been made anew meanwhile"
    assert request(core).partitions[T0].offset == 5


def test_a_silent_leader_is_left_as_soon_as_another_one_leads():
    core = core_of({T0: 5})
    request(core)
    silent_at = core.next_deadline()
    assert core.look_for_silence(silent_at) == [FindLeader((T0,))]
    assert HangUp(BROKER) in core.leader_found(T0, OTHER, silent_at)
    assert core.requests(silent_at) == [Open(OTHER)]
    assert answer(core, {T0: says(records=record_set(5, 9))}) == []


def test_received_records_stay_when_the_position_turns_out_to_be_inside_the_log():
    """A new leader's log may end lower for a moment (KIP-207), while the user still has the old leader's messages."""
    core = core_of({T0: 5})
    request(core)
    (records,) = answer(core, {T0: says(records=record_set(5, 9))})
    request(core)
    (search,) = answer(core, {T0: says(error=1)})
    assert search == FindPosition(T0, records.life, 9)
    assert core.requests(NOW) == []
    assert not core.placed(T0, search.life, 9)
    assert core.is_live(T0, records.life)
    assert request(core).partitions[T0].offset == 9


@pytest.mark.parametrize(
    ("code", "kind", "text"),
    [
        (1, FindPosition, ""),
        (-1, Waiting, "UNKNOWN_SERVER_ERROR"),
        (2, Failed, "t/0: offset 5: the broker says CORRUPT_MESSAGE"),
        (29, Failed, "t/0: offset 5: the broker says TOPIC_AUTHORIZATION_FAILED"),
    ],
)
def test_each_error_has_its_remedy(code, kind, text):
    core, (event,) = answered({T0: says(code)})
    assert isinstance(event, kind)
    if kind is not FindPosition:
        assert text in str(event.error if kind is Failed else event.reason)
        assert core.requests(NOW) == [], "it is asked for again without a pause"
        assert core.next_deadline() == NOW + BACKOFF_S
        assert T0 in request(core, NOW + BACKOFF_S).partitions


def test_a_broker_that_says_another_error_each_time_fills_neither_log_nor_memory():
    core, events = answered({T0: says(-1)})
    for turn in range(1, 100):
        now = NOW + 2 * turn * BACKOFF_S
        request(core, now)
        events += answer(core, {T0: says(1000 + turn)}, now=now)
    assert len({event.reason for event in events}) == len(events) == MOST_COMPLAINTS


def test_one_partition_that_moves_again_and_again_makes_the_search_wait():
    core, events = answered({T0: says(6)})
    assert events == [Waiting(T0, "NOT_LEADER_OR_FOLLOWER"), FindLeader((T0,), 0.0)]
    core.leader_found(T0, BROKER, NOW)
    request(core)
    assert answer(core, {T0: says(6)}) == [FindLeader((T0,), BACKOFF_S)], "and it is told once"


def test_a_batch_larger_than_the_answer_is_asked_for_in_its_own_size():
    core, events = answered({T0: says(records=record_set(5, 5, cut=3000))})
    assert events == []
    assert request(core).partitions == {T0: FetchPartition(5, 3000)}
    (event,) = answer(core, {T0: says(records=record_set(5, 5, cut=3000))})
    assert "does not come whole" in event.reason
    assert request(core, NOW + BACKOFF_S).partitions == {T0: FetchPartition(5, 6000)}


def test_a_batch_that_does_not_come_whole_is_asked_for_again_at_the_largest_fetch_size():
    """In an earlier version, each poll ended with struct.error while a broker kept sending only a part of the batch."""
    largest = 2**31 - 1
    config = ConsumerConfig.load(zookeeper_connect="h:1", group_id="g", fetch_message_max_bytes=largest)
    core = core_of({T0: 0}, settings=FetchSettings.of(config), glance=lambda _records, at: (at, largest))
    for later in (0, 1000, 2000):
        send = request(core, NOW + later)
        assert encode_fetch(send.version, send.limits, send.partitions, send.session, send.forgotten)
        assert send.partitions == {T0: FetchPartition(0, largest)}
        answer(core, {T0: says(records=record_set(0, 1))}, now=NOW + later)


def test_a_batch_larger_than_allowed_is_an_error_that_names_the_setting():
    core, (event,) = answered({T0: says(records=record_set(5, 5, cut=20_000))})
    assert "raise fetch.message.max.bytes" in str(event.error)
    assert core.requests(NOW) == []


def test_unreadable_records_wait_for_the_decoder_to_say_why():
    core, (told, records) = answered({T0: says(records=record_set(5, 5))})
    assert "nothing to be had at offset 5" in told.reason
    assert isinstance(records, Records)
    assert core.requests(NOW) == []
    assert request(core, NOW + BACKOFF_S).partitions[T0].offset == 5


def test_damage_is_asked_for_again_after_a_pause_where_it_begins():
    core, (records,) = answered({T0: says(records=record_set(5, 9))})
    core.damaged(T0, records.life, 7, NOW)
    assert core.requests(NOW) == []
    assert request(core, NOW + BACKOFF_S).partitions[T0].offset == 7


def test_a_broker_that_throttles_is_left_alone_for_as_long():
    core = core_of({T0: 5})
    request(core)
    answer(core, {T0: says()}, throttle_ms=500)
    assert core.requests(NOW + 0.4) == []
    assert core.next_deadline() == NOW + 0.5
    assert request(core, NOW + 0.5).broker == BROKER
