"""One request at a time to the coordinator: its answers, its writes, and the number of its timer operations."""

import ast
import itertools
from pathlib import Path

import pytest

import rebalance.coordination
from rebalance.coordination import Code, Coordinator, CoordinatorState, GroupState, Settings
from rebalance.coordination.effects import (
    ForgetGroup,
    JoinAnswer,
    Moved,
    OffsetsAnswer,
    Reply,
    StoreGroup,
    StoreOffsets,
)
from rebalance.coordination.requests import (
    CommitOffsets,
    CommittedOffset,
    FetchOffsets,
    FindCoordinator,
    Heartbeat,
    JoinGroup,
    LeaveGroup,
    Leaving,
    Protocol,
    SyncGroup,
)
from rebalance.coordination.states import COORDINATOR_TRANSITIONS, GROUP_TRANSITIONS, draw
from rebalance.coordination.timers import NEVER_MS, Timers
from zk_layout.model import TopicPartition

TP = TopicPartition("t", 0)
DOC = Path(__file__).parents[3] / "docs" / "coordination.md"


class Desk:
    """Sends requests to a coordinator one after another, and keeps its answers and effects."""

    def __init__(self, **settings):
        suffixes = itertools.count(1)
        self.coordinator = Coordinator(lambda: str(next(suffixes)), Settings(**settings))
        self.coordinator.elect()
        self.coordinator.load((), {}, 0)
        self.now = 0
        self.handles = itertools.count(1)
        self.answers = {}
        self.effects = []

    def ask(self, kind, group="g", **fields):
        """Send a request. Returns: the answer, or the request's handle in self.answers if the answer comes later."""
        handle = next(self.handles)
        self.take(self.coordinator.handle(kind(handle, group, **fields), self.now))
        return self.answers.get(handle, handle)

    def take(self, effects):
        self.effects += effects
        self.answers.update({effect.to: effect.answer for effect in effects if isinstance(effect, Reply)})

    def wait(self, ms):
        self.now += ms
        self.take(self.coordinator.tick(self.now))

    def join(self, member_id="", protocols=("range",), protocol_type="consumer", session_ms=10_000, **fields):
        return self.ask(
            JoinGroup,
            member_id=member_id,
            protocol_type=protocol_type,
            protocols=tuple(Protocol(name, b"") for name in protocols),
            session_timeout_ms=session_ms,
            rebalance_timeout_ms=30_000,
            **fields,
        )

    def sync(self, joined, **fields):
        return self.ask(SyncGroup, member_id=joined.member_id, generation=joined.generation, **fields)

    def beat(self, joined, **fields):
        return self.ask(Heartbeat, member_id=joined.member_id, generation=joined.generation, **fields).code

    def commit(self, member_id="", generation=-1, offset=5, **fields):
        offsets = {TP: CommittedOffset(offset, **fields)}
        return self.ask(CommitOffsets, member_id=member_id, generation=generation, offsets=offsets).codes[TP]

    def stable(self, **fields):
        joined = self.join(**fields)
        self.sync(joined, assignments={joined.member_id: b"all"})
        return joined


@pytest.fixture
def desk():
    return Desk()


def test_a_coordinator_that_is_down_or_loading_answers_every_request_with_that_error():
    coordinator = Coordinator(lambda: "1")
    requests = [
        JoinGroup(1, "g", "", "consumer", (Protocol("range", b""),), 10_000, 10_000),
        SyncGroup(1, "g", "m", 1),
        Heartbeat(1, "g", "m", 1),
        LeaveGroup(1, "g", (Leaving("m"),)),
        FetchOffsets(1, "g", (TP,)),
    ]

    def codes():
        return {coordinator.handle(request, 0)[0].answer.code for request in requests}

    assert codes() == {Code.NOT_COORDINATOR}
    assert coordinator.handle(FindCoordinator(1, "g"), 0)[0].answer.code is Code.COORDINATOR_NOT_AVAILABLE
    coordinator.elect()
    assert coordinator.state is CoordinatorState.CATCHING_UP
    assert codes() == {Code.COORDINATOR_LOAD_IN_PROGRESS}
    coordinator.load((), {}, 0)
    assert coordinator.state is CoordinatorState.READY
    assert coordinator.handle(FindCoordinator(1, "g"), 0)[0].answer.code is Code.NONE
    [reply] = coordinator.handle(CommitOffsets(1, "g", "m", 3, {TP: CommittedOffset(1)}), 0)
    assert reply.answer.codes == {TP: Code.ILLEGAL_GENERATION}


def test_a_coordinator_that_resigns_answers_all_that_waits_and_knows_nothing_any_more(desk):
    a = desk.stable()
    waiting = desk.join()
    desk.take(desk.coordinator.resign(desk.now))
    assert desk.answers[waiting].code is Code.NOT_COORDINATOR
    assert desk.beat(a) is Code.NOT_COORDINATOR
    assert desk.coordinator.groups == {}
    assert desk.coordinator.next_deadline() is None


def test_a_coordinator_whose_write_is_refused_answers_the_waiting_members_with_an_error(desk):
    a = desk.stable()
    waits = desk.join()
    a = desk.join(a.member_id)
    b = desk.answers[waits]
    follower = desk.sync(b)
    effects = desk.coordinator.handle(SyncGroup(99, "g", a.member_id, a.generation, {}), desk.now)
    [place] = [place for place, effect in enumerate(effects) if isinstance(effect, StoreGroup)]
    desk.take(desk.coordinator.resign(desk.now, effects[place + 1 :]))
    assert desk.answers[99].code is desk.answers[follower].code is Code.NOT_COORDINATOR


def test_generation_and_assignment_are_written_in_one_piece_before_the_first_reply(desk):
    joined = desk.join()
    desk.effects.clear()
    desk.sync(joined, assignments={joined.member_id: b"all"})
    moved, stored, reply = desk.effects
    assert isinstance(moved, Moved)
    assert isinstance(stored, StoreGroup)
    assert isinstance(reply, Reply)
    assert stored.stored.generation == joined.generation == 1
    assert [member.assignment for member in stored.stored.members] == [b"all"]


def test_an_id_that_the_coordinator_does_not_know_is_refused_and_no_id_gets_one(desk):
    assert desk.join("unknown").code is Code.UNKNOWN_MEMBER_ID
    assert desk.coordinator.groups == {}
    assert desk.join(client_id="client").member_id == "client-1"


def test_a_member_that_never_uses_the_id_it_was_given_is_not_waited_for_longer_than_its_session(desk):
    a = desk.stable()
    given = desk.join(id_first=True)
    assert given.code is Code.MEMBER_ID_REQUIRED
    waits = desk.join(a.member_id)
    assert isinstance(waits, int), "the group waits for the new id"
    desk.wait(10_000)
    assert desk.answers[waits].generation == 2
    assert desk.join(given.member_id).code is Code.UNKNOWN_MEMBER_ID


@pytest.mark.parametrize(
    ("protocol_type", "protocols"), [("connect", ("range",)), ("consumer", ("roundrobin",)), ("consumer", ())]
)
def test_a_newcomer_whose_protocols_do_not_fit_is_refused_and_nothing_changes_for_the_others(
    desk, protocol_type, protocols
):
    a = desk.stable(protocols=("range", "sticky"))
    desk.effects.clear()
    refused = desk.join(protocol_type=protocol_type, protocols=protocols)
    assert refused.code is Code.INCONSISTENT_GROUP_PROTOCOL
    assert [type(effect) for effect in desk.effects] == [Reply]
    assert desk.beat(a) is Code.NONE


def test_the_protocol_that_most_members_like_best_is_chosen_among_those_that_all_offer(desk):
    a = desk.stable(protocols=("sticky", "range", "roundrobin"))
    b = desk.join(protocols=("range", "roundrobin"))
    c = desk.join(protocols=("roundrobin", "range"))
    answer = desk.join(a.member_id, protocols=("sticky", "range", "roundrobin"))
    assert answer.protocol == "range"
    assert desk.answers[b].protocol == desk.answers[c].protocol == "range"
    assert len(answer.members) == 3
    assert desk.answers[b].members == ()


@pytest.mark.parametrize("session_ms", [5_999, 1_800_001, 0, -1])
def test_a_session_timeout_out_of_bounds_is_refused(desk, session_ms):
    assert desk.join(session_ms=session_ms).code is Code.INVALID_SESSION_TIMEOUT


def test_a_full_group_accepts_only_its_own_members():
    desk = Desk(group_max_size=1)
    a = desk.stable()
    assert desk.join().code is Code.GROUP_MAX_SIZE_REACHED
    assert desk.join(a.member_id).code is Code.NONE


def test_an_empty_group_waits_for_more_members_as_long_as_each_new_one_renews_the_initial_delay():
    desk = Desk(group_initial_rebalance_delay_ms=3_000)
    first = desk.join()
    desk.wait(2_000)
    second = desk.join()
    desk.wait(1_500)
    assert first not in desk.answers, "somebody came, so the delay begins anew"
    desk.wait(3_000)
    assert desk.answers[first].generation == desk.answers[second].generation == 1
    assert len(desk.answers[first].members) == 2


def test_a_static_member_that_starts_again_gets_its_assignment_without_a_rebalance_and_its_former_self_is_fenced(desk):
    a = desk.stable(instance_id="i")
    again = desk.join(instance_id="i")
    assert again.code is Code.NONE
    assert again.generation == a.generation
    assert again.member_id != a.member_id
    assert again.leader != again.member_id, "it does not assign anew"
    assert desk.sync(again).assignment == b"all"
    assert desk.beat(a, instance_id="i") is Code.FENCED_INSTANCE_ID
    assert desk.beat(a) is Code.UNKNOWN_MEMBER_ID
    assert desk.join(a.member_id, instance_id="i").code is Code.FENCED_INSTANCE_ID
    assert desk.beat(again, instance_id="i") is Code.NONE


def test_a_static_member_that_starts_again_and_changes_the_chosen_protocol_makes_a_rebalance(desk):
    a = desk.stable(instance_id="i", protocols=("range", "sticky"))
    again = desk.join(instance_id="i", protocols=("sticky", "range"))
    assert again.generation == a.generation + 1
    assert again.leader == again.member_id


def test_a_static_member_that_is_away_keeps_its_place_until_its_session_is_over(desk):
    a, b = desk.stable(instance_id="i"), desk.join(session_ms=60_000)
    desk.wait(5_000)
    joined = desk.join(a.member_id, instance_id="i")
    b = desk.answers[b]
    desk.sync(joined, assignments={b.member_id: b"b"})
    assert desk.beat(b) is Code.NONE
    desk.wait(9_000)
    assert desk.beat(b) is Code.NONE
    desk.wait(1_010)
    assert desk.beat(b) is Code.REBALANCE_IN_PROGRESS


def test_an_operator_removes_a_static_member_by_its_instance_id(desk):
    desk.stable(instance_id="i")
    answer = desk.ask(LeaveGroup, leaving=(Leaving("", "i"), Leaving("", "other"), Leaving("x", None)))
    assert [code for _, code in answer.left] == [Code.NONE, Code.UNKNOWN_MEMBER_ID, Code.UNKNOWN_MEMBER_ID]
    assert desk.coordinator.groups["g"].state is GroupState.EMPTY


def test_a_member_that_one_request_names_twice_leaves_once_and_is_unknown_then(desk):
    a = desk.stable()
    desk.join(instance_id="i")
    named = (Leaving(a.member_id), Leaving(a.member_id), Leaving("", "i"), Leaving("", "i"))
    answer = desk.ask(LeaveGroup, leaving=named)
    assert [code for _, code in answer.left] == [Code.NONE, Code.UNKNOWN_MEMBER_ID] * 2


def test_a_commit_follows_the_state_of_the_group(desk):
    assert desk.commit() is Code.NONE, "a tool writes offsets of a group without members"
    a = desk.join()
    assert desk.commit(a.member_id, a.generation) is Code.REBALANCE_IN_PROGRESS, "partitions are being assigned"
    desk.sync(a, assignments={})
    assert desk.commit(a.member_id, a.generation, 7) is Code.NONE
    assert desk.commit(a.member_id, a.generation - 1) is Code.ILLEGAL_GENERATION
    assert desk.commit() is Code.UNKNOWN_MEMBER_ID, "a tool cannot write offsets under members"
    assert desk.commit("x", a.generation) is Code.UNKNOWN_MEMBER_ID
    desk.join()
    assert desk.commit(a.member_id, a.generation, 8) is Code.NONE, "before it joins again a member commits"
    assert desk.ask(FetchOffsets, partitions=None) == OffsetsAnswer(Code.NONE, {TP: CommittedOffset(8)})


def test_a_commit_with_too_much_metadata_is_refused_for_its_partition_alone(desk):
    assert desk.commit(metadata="x" * 4097) is Code.OFFSET_METADATA_TOO_LARGE
    assert desk.ask(FetchOffsets, partitions=(TP,)).offsets == {TP: None}
    assert not [effect for effect in desk.effects if isinstance(effect, StoreOffsets)]


def test_metadata_is_measured_in_characters_of_16_bits_as_by_a_broker(desk):
    assert desk.commit(metadata="é" * 4096) is Code.NONE
    assert desk.commit(metadata="é" * 4097) is Code.OFFSET_METADATA_TOO_LARGE
    assert desk.commit(metadata="😀" * 2048) is Code.NONE
    assert desk.commit(metadata="😀" * 2049) is Code.OFFSET_METADATA_TOO_LARGE


def test_offsets_of_an_unknown_group_are_none_and_the_question_makes_no_group(desk):
    assert desk.ask(FetchOffsets, partitions=(TP,)) == OffsetsAnswer(Code.NONE, {TP: None})
    assert desk.ask(FetchOffsets, group="", partitions=None) == OffsetsAnswer(Code.NONE, {})
    assert desk.coordinator.groups == {}


def test_a_group_without_a_name_is_refused(desk):
    assert desk.join(group="").code is Code.INVALID_GROUP_ID


def test_a_commit_holds_the_session(desk):
    a = desk.stable()
    for _ in range(5):
        desk.wait(9_000)
        assert desk.commit(a.member_id, a.generation) is Code.NONE


def test_an_unused_group_is_forgotten_and_one_with_offsets_is_not():
    desk = Desk(empty_group_ms=1_000)
    for group in ("unused", "used"):
        joined = desk.join(group=group)
        if group == "used":
            desk.ask(SyncGroup, group, member_id=joined.member_id, generation=1)
            desk.ask(CommitOffsets, group, member_id=joined.member_id, generation=1, offsets={TP: CommittedOffset(1)})
        desk.ask(LeaveGroup, group, leaving=(Leaving(joined.member_id),))
    desk.wait(5_000)
    assert set(desk.coordinator.groups) == {"used"}
    assert ForgetGroup("unused") in desk.effects
    assert desk.effects[-2].state is GroupState.DEAD


def test_a_member_that_waits_for_an_answer_is_not_lost_however_long_it_waits(desk):
    a = desk.stable(session_ms=30_000)
    waits = desk.join(session_ms=6_000)
    for _ in range(3):
        desk.wait(9_000)
        assert desk.beat(a) is Code.REBALANCE_IN_PROGRESS
    desk.join(a.member_id)
    assert len(desk.coordinator.groups["g"].members) == 2
    assert desk.answers[waits].code is Code.NONE


def test_a_second_join_of_a_member_that_waits_takes_the_place_of_the_first(desk):
    desk.stable()
    given = desk.join(id_first=True).member_id
    first = desk.join(given)
    second = desk.join(given)
    assert desk.answers[first].code is Code.REBALANCE_IN_PROGRESS
    assert isinstance(second, int)


# Timers.


def test_timers_fire_in_order_never_early_and_at_most_a_slot_late():
    timers = Timers()
    timers.set("late", 0, 105)
    timers.set("early", 0, 101)
    timers.set("cancelled", 0, 50)
    timers.cancel("cancelled")
    assert timers.take_due(104) is None
    assert [timers.take_due(110), timers.take_due(110), timers.take_due(110)] == ["late", "early", None]
    assert len(timers) == 0
    assert timers.next_deadline() is None


def test_a_timer_that_never_fires_leaves_nothing_however_often_it_is_set_anew():
    timers = Timers()
    for now in range(0, 10_000, 100):
        timers.set("for ever", now, NEVER_MS)
        timers.set("soon", now, 10)
        timers.set("soon", now, NEVER_MS)
        assert timers.take_due(now + 100) is None
    assert (len(timers), timers.next_deadline()) == (0, None)


def operations_of_a_round(members):
    """Return the timer operations of one heartbeat of each member, in a group of this size that has settled."""
    desk = Desk()
    group = "g"
    handles = [desk.join(session_ms=10_000 + number % 100, id_first=True) for number in range(members)]
    waiting = [desk.join(given.member_id) for given in handles]
    joined = [one if isinstance(one, JoinAnswer) else desk.answers[one] for one in waiting]
    leader = next(one for one in joined if one.member_id == one.leader)
    desk.sync(leader, assignments={})
    rounds = 3
    before = desk.coordinator.timer_operations
    start = desk.now
    for turn in range(rounds):
        for place, one in enumerate(joined):
            desk.now = start + turn * 3_000 + place * 3_000 // members
            assert desk.beat(one) is Code.NONE
        desk.wait(0)
    assert len(desk.coordinator.groups[group].members) == members
    return (desk.coordinator.timer_operations - before) / (rounds * members)


def test_a_heartbeat_costs_as_many_timer_operations_in_a_group_of_5000_as_in_one_of_50():
    small, middle, large = (operations_of_a_round(members) for members in (50, 500, 5_000))
    assert large <= middle * 1.05
    assert middle <= small * 1.05
    assert small < 20


def test_timers_cost_as_much_with_100000_as_with_100():
    def cost(count):
        timers = Timers()
        for number in range(count):
            timers.set(number, 0, 10_000 + number % 1_000)
        before = timers.operations
        for number in range(count):
            timers.set(number, 5_000 + number % 1_000, 10_000)
        return (timers.operations - before) / count

    small, middle, large = cost(100), cost(3_000), cost(100_000)
    assert large <= middle * 1.05 <= small * 1.1


# No I/O.


def test_the_coordinator_imports_nothing_that_waits_or_touches_the_outside_world():
    calculating = {
        "__future__",
        "collections",
        "dataclasses",
        "enum",
        "heapq",
        "itertools",
        "typing",
        "zk_layout.model",
    }
    imported = set()
    for file in Path(rebalance.coordination.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                imported.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                imported.add(node.module)
    assert "rebalance.coordination.timers" in imported
    strange = {name for name in imported if not calculating & {name, name.partition(".")[0]}}
    assert {name for name in strange if not name.startswith("rebalance.coordination")} == set()


# The document.


def test_the_document_shows_the_tables_of_states_as_they_are():
    text = DOC.read_text(encoding="utf-8")
    for picture in (draw(GROUP_TRANSITIONS, GroupState.EMPTY), draw(COORDINATOR_TRANSITIONS, CoordinatorState.DOWN)):
        assert f"```mermaid\n{picture}\n```" in text


def test_every_state_but_dead_has_a_way_out_and_every_state_is_reached():
    for transitions, states in ((GROUP_TRANSITIONS, GroupState), (COORDINATOR_TRANSITIONS, CoordinatorState)):
        assert {state for state, _ in transitions} | {GroupState.DEAD} >= set(states)
        assert set(transitions.values()) >= set(states) - {GroupState.EMPTY}
    assert not [state for state, _ in GROUP_TRANSITIONS if state is GroupState.DEAD]
