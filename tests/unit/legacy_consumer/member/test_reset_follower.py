"""A member's side of a reset, without threads: which partitions it holds, whatever the coordinator does."""

from __future__ import annotations

import logging
from unittest.mock import Mock

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legacy_consumer.member.resets import (
    AnswerState,
    Request,
    RequestState,
    ResetFollower,
    answer_path,
    answers_path,
    decode_answer,
    encode_request,
    request_path,
    standing_reset,
)
from legacy_consumer.member.resets.records import HOLD_MS
from legacy_consumer.offsets import Commit, DualOffsetStore, KafkaOffsetStore, ZooKeeperOffsetStore
from legacy_consumer.offsets.progress import Committed, Progress
from rebalance.errors import PartlyBegunError
from tests.simulation.offsets_in_kafka import ask_once
from tests.support.fake_group_offsets import FakeGroupOffsets
from tests.support.group_members import RecordingDelivery
from tests.support.steps import finish
from zk_layout.errors import ConnectionLostError, NotPermittedError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper, Refusal
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.paths import OffsetPath
from zk_layout.store import CreateOp, DeleteOp

TPS = [TopicPartition("t", n) for n in range(3)]
MINE = ConsumerThreadId("g_a", 0)
REQUEST = request_path("g")


class Offsets:
    """Committed offsets that a test writes."""

    def __init__(self):
        self.committed = {tp: Committed(0, 0) for tp in TPS}
        self.error = None
        self.unanswered = set()

    def wrote(self, tp, stored):
        return (tp, stored.offset) in self.unanswered

    def read(self, partitions):
        if self.error is not None:
            raise self.error
        return {tp: self.committed[tp] for tp in partitions}

    def write(self, tp, offset):
        self.committed[tp] = Committed(offset, self.committed[tp].version + 1)


class FollowingDelivery(RecordingDelivery):
    """A fake of the coordinator's delivery. adopted: {partition: the offset from which it had to continue}."""

    def __init__(self):
        super().__init__()
        self.resetting = frozenset()
        self.adopted = {}
        self.cannot_begin = set()

    def begin(self, claimed, assignment):
        yield from super().begin([tp for tp in claimed if tp not in self.cannot_begin], assignment)
        if held := self.cannot_begin & claimed.keys():
            raise PartlyBegunError(dict.fromkeys(held, "its offset is unreadable"))

    def follow(self, find):
        found = find()
        self.adopted |= {tp: committed.offset for tp, committed in found.items()}
        return found

    def end(self, partitions):
        yield from super().end(partitions)
        self.flowing -= set(partitions)


class World:
    """A follower, its errands, and an operator's store."""

    def __init__(self, offsets=None, **options):
        """offsets: makes the store of offsets from the member's ZkStore; None for Offsets, which a test writes."""
        self.zookeeper = MemoryZooKeeper()
        self.operator, self.store = MemoryStore(self.zookeeper), MemoryStore(self.zookeeper)
        self.operator.start()
        self.store.start()
        self.operator.ensure_path(answers_path("g"))
        self.delivery, self.progress = FollowingDelivery(), Progress()
        self.offsets = Offsets() if offsets is None else offsets(self.store)
        self.errands = []
        self.alarms = {}
        self.follower = ResetFollower(
            self.store,
            "g",
            "g_a",
            self.delivery,
            offsets=self.offsets,
            progress=self.progress,
            post=self.errands.append,
            later=lambda errand, delay_ms: self.alarms.__setitem__(delay_ms, errand),
            **options,
        )
        self.follower.start()
        self.settle()

    def settle(self):
        while self.errands:
            self.errands.pop(0).run()

    def begin(self, tps):
        for tp in tps:
            self.progress.begin(tp, 0, self.offsets.committed[tp])
        finish(self.follower.begin(dict.fromkeys(tps, MINE), {}))
        self.settle()

    def ask(self, tps=TPS, state=RequestState.PREPARE, ephemeral=True, request_id="r"):
        self.operator.create(REQUEST, encode_request(Request(request_id, state, frozenset(tps))), ephemeral=ephemeral)
        self.settle()

    def apply(self, tps=TPS, request_id="r"):
        self.operator.set_data(REQUEST, encode_request(Request(request_id, RequestState.APPLIED, frozenset(tps))))
        self.settle()

    def replace(self, tps, request_id):
        """Replace the request with another before the member looks."""
        data = encode_request(Request(request_id, RequestState.PREPARE, frozenset(tps)))
        self.operator.multi([DeleteOp(REQUEST), CreateOp(REQUEST, data, ephemeral=True)])
        self.settle()

    def call_off(self):
        self.operator.delete(REQUEST)
        self.settle()

    def break_requests(self, kind, error):
        """Let the member's requests of this kind fail from now on, while its connection stays."""
        own = self.store.session_id
        self.zookeeper.fault = lambda session_id, what: Refusal(error) if (session_id, what) == (own, kind) else None

    def answer(self):
        path = answer_path("g", "g_a")
        return None if self.operator.exists(path) is None else self.operator.get_data(path).data


STEPS = st.lists(
    st.tuples(
        st.sampled_from(["claim", "stop", "take back", "release", "ask", "write", "apply", "call off", "wait"]),
        st.sampled_from(TPS),
    ),
    max_size=25,
)


@settings(max_examples=150, deadline=None)
@given(STEPS)
def test_a_partition_flows_if_neither_a_release_nor_a_request_keeps_it_shut(steps):
    world = World()
    owned, releasing, asked, overdue = set(), set(), None, False
    for number, (what, tp) in enumerate(steps):
        match what:
            case "claim" if tp not in owned:
                owned.add(tp)
                world.begin([tp])
            case "stop" if tp in owned:
                releasing.add(tp)
                world.follower.stop([tp])
            case "take back" if tp in releasing:
                releasing.remove(tp)
                world.follower.go_on([tp])
            case "release" if tp in owned:
                owned.discard(tp)
                releasing.discard(tp)
                finish(world.follower.end([tp]))
                world.progress.forget([tp])
            case "ask" if asked is None:
                asked, overdue, request_id = "prepare", False, str(number)
                world.ask(TPS[:2], request_id=request_id)
            case "write" if asked == "prepare":
                world.offsets.write(tp, 7)
            case "apply" if asked == "prepare":
                asked = "applied"
                world.apply(TPS[:2], request_id)
            case "call off" if asked is not None:
                asked = None
                world.call_off()
            case "wait" if asked == "prepare":
                overdue = True
                world.alarms[HOLD_MS].run()
        held = owned & set(TPS[:2]) if asked == "prepare" and not overdue else set()
        assert world.delivery.flowing == owned - releasing - held
        assert world.follower.held == held
        assert world.delivery.resetting & owned == held


@pytest.mark.parametrize("ending", ["given up", "applied"])
def test_a_partition_that_drains_for_its_release_stays_shut_when_a_reset_ends(ending):
    world = World()
    world.begin(TPS)
    world.follower.stop([TPS[0]])
    world.ask()
    if ending == "applied":
        world.offsets.write(TPS[0], 5)
        world.apply()
        assert world.delivery.adopted == {TPS[0]: 5}, "its last commit must not overwrite what the operator wrote"
    world.call_off()
    assert world.delivery.flowing == set(TPS[1:])


def test_a_partition_that_was_stopped_before_it_began_flows_after_a_reset_once_it_is_claimed_again():
    world = World()
    world.follower.stop(TPS)
    world.begin(TPS)
    world.ask()
    world.call_off()
    assert world.delivery.flowing == set(TPS)


@pytest.mark.parametrize("ending", ["called off", "applied"])
def test_an_own_commit_without_an_answer_is_gone_on_from_only_if_the_operator_has_written(ending):
    world = World()
    world.begin(TPS)
    world.ask()
    for tp in TPS[:2]:
        world.offsets.write(tp, 5)
    world.offsets.unanswered.add((TPS[0], 5))
    if ending == "applied":
        world.apply()
        assert world.delivery.adopted == {TPS[0]: 5, TPS[1]: 5}
    else:
        world.call_off()
        assert world.delivery.adopted == {TPS[1]: 5}, "users may have gone on from there, or sought, since"


def test_a_member_whose_answer_fails_does_not_continue_a_second_time_from_what_it_committed_since(monkeypatch):
    world = World()
    world.begin(TPS[:1])
    world.ask()
    world.offsets.write(TPS[0], 6)
    with monkeypatch.context() as patched:
        patched.setattr(world.store, "create", Mock(side_effect=ConnectionLostError("lost")))
        world.apply()
    assert world.delivery.adopted == {TPS[0]: 6}
    # the member's own next commit: ZooKeeper carried it out, but its answer was lost
    world.offsets.write(TPS[0], 8)
    world.offsets.unanswered.add((TPS[0], 8))
    world.alarms[2000].run()
    assert world.delivery.adopted == {TPS[0]: 6}
    assert decode_answer("", world.answer()).state is AnswerState.DONE


@pytest.mark.parametrize("ending", ["readable", "called off", "too long"])
def test_a_member_that_cannot_read_what_a_reset_wrote_does_not_say_that_it_continues_from_there(ending, caplog):
    """An ACL forbids the read, or another client overwrote the znode: the operator must not read that all is done."""
    world = World()
    world.begin(TPS[:2])
    world.ask()
    world.offsets.write(TPS[0], 6)
    world.offsets.committed[TPS[1]] = Committed(None, None, problem="an ACL forbids it")
    world.apply()
    assert decode_answer("", world.answer()).state is AnswerState.READY
    assert f"cannot follow the reset that {REQUEST} asks for: {TPS[1]}: an ACL forbids it" in caplog.text
    assert world.delivery.flowing == set()
    if ending == "readable":
        world.offsets.committed[TPS[1]] = Committed(7, 1)
        world.alarms[2000].run()
        assert decode_answer("", world.answer()).state is AnswerState.DONE
        assert world.delivery.adopted == {TPS[0]: 6, TPS[1]: 7}
    elif ending == "called off":
        world.call_off()
        assert world.delivery.adopted == {TPS[0]: 6}
    else:
        world.alarms[HOLD_MS].run()
        assert world.answer() is None
        world.alarms[2000].run()
    assert world.delivery.flowing == set(TPS[:2])
    assert caplog.text.count("cannot follow") == 1


def test_each_request_that_cannot_be_followed_is_a_warning_of_its_own(caplog):
    world = World()
    world.begin(TPS[:1])
    world.offsets.committed[TPS[0]] = Committed(None, None, problem="an ACL forbids it")
    for request_id in ("r", "s"):
        world.ask(request_id=request_id)
        world.apply(request_id=request_id)
        world.call_off()
    assert [one.levelname for one in caplog.records if "cannot follow" in one.message] == ["WARNING", "WARNING"]


@pytest.mark.parametrize("stores", ["zookeeper", "both"])
@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_reset_to_what_was_committed_last_is_seen_if_the_znode_was_deleted_meanwhile(stores, is_deleted):
    def make(store):
        in_zookeeper = ZooKeeperOffsetStore(store, "g")
        if stores == "zookeeper":
            return in_zookeeper
        in_kafka = KafkaOffsetStore(store, "g", FakeGroupOffsets(), timeout_s=1.0, asking=ask_once)
        return DualOffsetStore(in_zookeeper, in_kafka)

    world = World(make)
    tp = TPS[0]
    for path in ("/consumers/g/ids/g_a", "/consumers/g/owners/t/0"):
        world.store.create(path, b"", ephemeral=True, make_parents=True)
    (seen,) = world.offsets.read([tp]).values()
    session_id = world.store.session_id
    committed = world.offsets.commit({tp: Commit(5, seen)}, consumer_id="g_a", session_id=session_id).committed[tp]
    world.progress.begin(tp, 5, committed)
    finish(world.follower.begin({tp: MINE}, {}))
    world.settle()
    world.ask([tp])
    if is_deleted:
        path = OffsetPath("g", *tp).path
        world.operator.delete(path)
        world.operator.create(path, b"5")
        assert world.offsets.read([tp])[tp] == committed, "no version tells them apart"
    world.apply([tp])
    assert world.delivery.adopted == ({tp: 5} if is_deleted else {})


def test_a_request_is_seen_before_anything_that_is_claimed_is_committed():
    world = World()
    world.operator.create(REQUEST, encode_request(Request("r", RequestState.APPLIED, frozenset(TPS))), ephemeral=True)
    for tp in TPS:
        world.progress.begin(tp, 0, world.offsets.committed[tp])
        # another client writes after the claim has read the offset and before the partition begins
        world.offsets.write(tp, 9)
    finish(world.follower.begin(dict.fromkeys(TPS, MINE), {}))
    assert world.delivery.adopted == dict.fromkeys(TPS, 9)


def test_a_request_that_partitions_met_as_they_began_is_not_asked_for_again():
    world = World()
    world.operator.create(REQUEST, encode_request(Request("r", RequestState.PREPARE, frozenset(TPS))), ephemeral=True)
    asked = world.zookeeper.requests["exists"]
    world.begin(TPS)
    assert world.follower.held == set(TPS)
    assert world.zookeeper.requests["exists"] == asked + 1


def test_a_request_that_no_session_stands_for_holds_nothing(caplog):
    world = World()
    world.begin(TPS)
    with caplog.at_level(logging.WARNING):
        world.ask(ephemeral=False)
    assert world.delivery.flowing == set(TPS)
    assert world.answer() is None
    assert "which no command that runs has written: delete it" in caplog.text
    assert standing_reset(world.operator, "g").heeded is False


def test_a_request_that_stays_in_its_first_step_holds_nobody_for_long(caplog):
    world = World()
    world.begin(TPS)
    world.ask()
    assert world.follower.held == set(TPS)
    assert standing_reset(world.operator, "g").holds == set(TPS)
    with caplog.at_level(logging.WARNING):
        world.alarms[HOLD_MS].run()
    assert world.delivery.flowing == set(TPS)
    assert world.answer() is None, "the operator must not write under a member that goes on"
    assert "waits no longer for the reset" in caplog.text
    world.follower.look()
    assert world.delivery.flowing == set(TPS)


@pytest.mark.parametrize("is_refused", [False, True])
def test_what_a_request_held_flows_when_another_request_takes_its_place(is_refused):
    world = World(topics_by_hand=frozenset({"hand"}))
    world.begin(TPS)
    world.ask(TPS[:2])
    world.replace([TPS[1], TopicPartition("hand", 0)] if is_refused else TPS[1:], "s")
    held = set() if is_refused else set(TPS[1:])
    assert world.follower.held == held
    assert world.delivery.resetting == held
    assert world.delivery.flowing == set(TPS) - held
    answer = decode_answer("", world.answer())
    assert (answer.request_id, answer.partitions) == ("s", held)
    assert answer.state is (AnswerState.REFUSED if is_refused else AnswerState.READY)


@pytest.mark.parametrize("ending", ["called off", "applied"])
def test_an_offset_that_is_gone_is_gone_on_from_only_if_the_operator_has_written(ending, caplog):
    """In an earlier version, with auto.offset.reset=largest, a member skipped all messages up to the log's end."""
    world = World()
    world.begin(TPS[:1])
    world.ask()
    world.offsets.committed[TPS[0]] = Committed(None, None)
    if ending == "applied":
        world.apply()
    else:
        world.call_off()
    assert world.delivery.adopted == ({TPS[0]: None} if ending == "applied" else {})
    assert ("continues from t/0: auto.offset.reset" in caplog.text) == (ending == "applied")
    assert world.delivery.flowing == set(TPS[:1])


@pytest.mark.parametrize("comes", ["before", "after"])
def test_a_member_answers_for_partitions_that_could_not_begin_and_does_not_open_them(comes):
    world = World()
    world.delivery.cannot_begin = {TPS[1], TPS[2]}
    if comes == "before":
        world.ask(TPS[:2])
    with pytest.raises(PartlyBegunError):
        world.begin(TPS)
    if comes == "after":
        world.ask(TPS[:2])
    assert decode_answer("", world.answer()).partitions == set(TPS[:2])
    world.offsets.write(TPS[0], 5)
    world.apply(TPS[:2])
    answer = decode_answer("", world.answer())
    assert (answer.state, answer.partitions) == (AnswerState.DONE, set(TPS[:2]))
    assert world.delivery.flowing == {TPS[0]}
    assert world.delivery.resetting == {TPS[1]}, "it may have read its offset before the operator wrote"
    world.offsets.write(TPS[1], 6)
    world.delivery.cannot_begin = set()
    world.begin(TPS[1:])
    assert world.delivery.adopted == {TPS[0]: 5}
    assert world.delivery.flowing == set(TPS)
    world.call_off()
    world.ask(TPS[2:], request_id="s")
    assert decode_answer("", world.answer()).partitions == {TPS[2]}


@pytest.mark.parametrize("error", [ConnectionLostError("lost"), OSError("unexpected")])
def test_a_reset_whose_end_cannot_be_looked_at_is_looked_at_again(error):
    world = World()
    world.begin(TPS)
    world.ask()
    world.offsets.error = error
    world.call_off()
    assert world.delivery.flowing == set()
    world.offsets.error = None
    world.alarms[2000].run()
    assert world.delivery.flowing == set(TPS)


@pytest.mark.parametrize("error", [ConnectionLostError("late"), NotPermittedError(REQUEST), OSError("unexpected")])
@pytest.mark.parametrize("refusal", [None, "it keeps its offsets in kafka"])
@pytest.mark.parametrize("failing", ["exists", "get_data", "create"])
def test_a_member_that_fails_to_read_or_to_answer_a_request_looks_again_and_answers(failing, refusal, error, caplog):
    """The connection stays, so no session event makes the member look; after a failed exists() it has no watch."""
    caplog.set_level(logging.INFO)
    world = World(refusal=refusal)
    world.begin(TPS)
    world.break_requests(failing, error)
    world.ask()
    world.alarms[2000].run()
    assert world.answer() is None
    world.zookeeper.fault = None
    world.alarms.pop(2000).run()
    answer = decode_answer("", world.answer())
    assert answer.state is (AnswerState.READY if refusal is None else AnswerState.REFUSED)
    [said] = [one for one in caplog.records if "cannot" in one.message]
    is_seen = failing == "create"
    assert said.levelname == ("WARNING" if is_seen or not isinstance(error, ConnectionLostError) else "INFO")
    assert ("cannot follow the reset that" if is_seen else "cannot read whether") in said.message


def test_a_member_whose_request_about_resets_fails_sees_the_next_reset():
    world = World()
    world.begin(TPS)
    world.break_requests("exists", ConnectionLostError("late"))
    world.ask()
    world.call_off()
    world.zookeeper.fault = None
    world.alarms.pop(2000).run()
    assert 2000 not in world.alarms, "nothing stands, and the watch stands again"
    world.ask(request_id="s")
    assert world.follower.held == set(TPS)


def test_a_member_without_a_connection_looks_for_a_reset_only_when_it_is_back():
    """Each request would wait for the connection on the coordinator's thread, which must react to the loss."""
    world = World()
    world.begin(TPS)
    world.break_requests("exists", ConnectionLostError("late"))
    world.ask()
    world.zookeeper.fault = None
    world.zookeeper.suspend(world.store)
    world.settle()
    world.alarms.pop(2000).run()
    assert 2000 not in world.alarms
    world.zookeeper.resume(world.store)
    world.settle()
    assert world.follower.held == set(TPS)


@pytest.mark.parametrize(
    "data",
    [
        b'{"version":1,"id":"x","state":"prepare","partitions":{"t":[1e999]}}',
        b'{"version":1,"id":"x","state":"prepare","partitions":{"t":[' + b"9" * 5000 + b"]}}",
        b'{"version":1,"id":"x","state":"prepare","partitions":{"t":"012"}}',
        b'{"version":1,"id":[],"state":[],"partitions":{"t":[0]}}',
        b"[" * 100_000,
        b"\xff",
        b"",
    ],
)
def test_a_request_of_nonsense_is_a_warning_and_holds_nothing(data, caplog):
    world = World()
    world.begin(TPS)
    with caplog.at_level(logging.WARNING):
        world.operator.create(REQUEST, data, ephemeral=True)
        world.settle()
    assert world.delivery.flowing == set(TPS)
    assert REQUEST in caplog.text
    assert standing_reset(world.operator, "g").holds == frozenset()


def test_an_outage_says_nothing_about_resets_that_nobody_asked_for(caplog):
    world = World()
    world.begin(TPS)
    with caplog.at_level(logging.WARNING):
        world.zookeeper.suspend(world.store)
        world.settle()
        world.zookeeper.resume(world.store)
        world.settle()
    assert caplog.messages == []
    world.ask()
    assert world.follower.held == set(TPS), "and the request is seen afterwards"


def test_a_member_with_acls_makes_the_folder_of_requests_that_others_could_make():
    zookeeper = MemoryZooKeeper()
    admin = MemoryStore(zookeeper)
    admin.start()
    world = World(keeps_folder=True)
    world.operator.delete(answers_path("g"))
    world.operator.delete("/consumers/g/requests")
    world.follower._keeps_folder = True
    world.follower.look()
    assert world.operator.get_children("/consumers/g/requests") == ("answers",)
    admin.close()


def test_an_answer_whose_deletion_fails_is_deleted_later():
    world = World()
    world.begin(TPS)
    world.ask()
    world.break_requests("delete", ConnectionLostError("no answer in time"))
    world.call_off()
    assert world.answer() is not None
    world.zookeeper.fault = None
    world.alarms[2000].run()
    assert world.answer() is None


def test_an_error_without_a_text_is_logged_loud_once(caplog):
    world = World()
    world.begin(TPS)
    world.ask()
    world.offsets.error = AssertionError()
    with caplog.at_level(logging.DEBUG):
        world.apply()
        for _ in range(3):
            world.alarms[2000].run()
    assert [record.levelname for record in caplog.records if "cannot follow" in record.message] == [
        "WARNING", "DEBUG", "DEBUG", "DEBUG",
    ]  # fmt: skip
