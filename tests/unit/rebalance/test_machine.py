"""The transition table: what each event means in each phase."""

import itertools
from dataclasses import replace
from pathlib import Path

import pytest

from rebalance.absence import GroupMemory
from rebalance.actions import (
    CancelTimer,
    DropOwnership,
    ForgetGroup,
    GuardOwnership,
    Leave,
    PauseDelivery,
    Rebalance,
    Register,
    ResumeDelivery,
    StartTimer,
)
from rebalance.errors import PartitionOwnedError
from rebalance.events import (
    Answered,
    Blocked,
    CloseRequested,
    Connected,
    Deregistered,
    Doubted,
    Drained,
    Draining,
    Expired,
    Failed,
    GroupNoted,
    IdTaken,
    Left,
    Overtaken,
    Refused,
    Registered,
    RegistrationBlocked,
    Settled,
    Started,
    Suspended,
    Timer,
    Triggered,
    Unanswered,
    Unblocked,
)
from rebalance.machine import LEAST_PAUSE_MS, MOST_LOOKS, QUIET_MS, TABLE, MemberState, Phase, Policy, draw, step
from zk_layout.errors import AuthenticationError, ConnectionLostError
from zk_layout.model import ConsumerRegistration, SubscriptionPattern

DOC = Path(__file__).parents[3] / "docs" / "architecture.md"
POLICY = Policy(max_retries=3, backoff_ms=2000, suspicion_ms=1500, drain_timeout_ms=3000, absence_ms=30_000)
ONE = ConsumerRegistration(SubscriptionPattern.STATIC, (("t", 1),), 0)
WHOLE, SMALLER = {"a": ONE, "b": ONE}, {"a": ONE}
AWAY = GroupMemory(SMALLER, before=WHOLE)
IN_THE_WAY = Blocked(PartitionOwnedError({}))
LOST = Failed(ConnectionLostError())
ALL_EVENTS = [
    Started(),
    Registered(),
    RegistrationBlocked(),
    IdTaken(),
    Left(),
    Triggered("members changed"),
    Settled(),
    GroupNoted(AWAY),
    GroupNoted(GroupMemory(WHOLE)),
    Draining(),
    Unanswered(500),
    Answered(),
    IN_THE_WAY,
    LOST,
    Overtaken(),
    Drained(),
    Unblocked(),
    Suspended(0.0),
    Connected(1),
    Connected(2),
    Expired(),
    Refused(AuthenticationError()),
    Deregistered(),
    Doubted(),
    CloseRequested(1000),
    *Timer,
]


def run(*events, state=None):
    """Return the state after these events, and the actions of the last event."""
    state = state or MemberState(session_id=1)
    actions = ()
    for event in events:
        state, actions = step(state, event, POLICY)
    return state, actions


STABLE = (Started(), Registered(), Settled())


def test_joining_registers_then_rebalances_then_is_stable():
    assert run(Started())[1] == (Register(),)
    state, actions = run(Started(), Registered())
    assert state.phase is Phase.REBALANCING
    assert Rebalance() in actions
    state, actions = run(*STABLE)
    assert state.phase is Phase.STABLE
    assert StartTimer(Timer.QUIET, QUIET_MS) in actions


def test_a_trigger_while_stable_rebalances():
    state, actions = run(*STABLE, Triggered("members changed"))
    assert state.phase is Phase.REBALANCING
    assert actions == (Rebalance(),)


def test_an_owner_znode_that_goes_away_is_a_reason_to_try_at_once_and_no_try_is_used_up():
    state, actions = run(*STABLE, Triggered("x"), IN_THE_WAY, Unblocked())
    assert actions == (Rebalance(),)
    assert state.tries == 0


def test_the_back_off_is_an_upper_bound_that_unblocking_does_not_prolong():
    state, actions = run(*STABLE, Triggered("x"), IN_THE_WAY)
    assert actions == (StartTimer(Timer.BACKOFF, 2000),)
    state, actions = run(Unblocked(), IN_THE_WAY, state=state)
    assert actions == ()
    state, actions = run(Timer.BACKOFF, state=state)
    assert state.tries == 1
    assert actions == (Rebalance(),)


def test_a_member_that_has_used_up_its_tries_is_degraded_and_keeps_trying():
    state, _ = run(*STABLE, Triggered("x"))
    for _ in range(3):
        state, _ = run(IN_THE_WAY, Timer.BACKOFF, state=state)
    state, actions = run(IN_THE_WAY, state=state)
    assert (state.phase, state.shown, state.degraded) == (Phase.WAITING, Phase.DEGRADED, True)
    assert StartTimer(Timer.BACKOFF, 2000) in actions
    state, _ = run(Timer.BACKOFF, state=state)
    assert state.shown is Phase.DEGRADED, "while it tries again, too"
    state, _ = run(Settled(), state=state)
    assert (state.shown, state.tries, state.obstacle) == (Phase.STABLE, 0, None)


def test_messages_in_hand_delay_a_release_once_and_not_longer():
    state, actions = run(*STABLE, Triggered("x"), Draining())
    assert actions == (StartTimer(Timer.DRAIN, 3000),)
    state, actions = run(Triggered("y"), Draining(), state=state)
    assert actions == (), "another trigger must not prolong the wait"
    state, actions = run(Timer.DRAIN, state=state)
    assert actions == (Rebalance(final=True),)


def test_a_rebalance_that_waits_for_an_answer_goes_on_when_it_comes_or_after_its_time():
    asked = (*STABLE, Triggered("x"), Unanswered(500))
    state, actions = run(*asked)
    assert state.phase is Phase.REBALANCING
    assert actions[-1] == StartTimer(Timer.ANSWER, 500)
    for event in (Answered(), Timer.ANSWER, Triggered("y")):
        assert run(event, state=state)[1] == (Rebalance(),)
    settled, _ = run(Settled(), state=state)
    for event in (Answered(), Timer.ANSWER):
        assert run(event, state=settled) == (settled, ()), "the member no longer awaits an answer"


def test_each_release_has_its_own_time_for_messages_in_hand():
    """In an earlier version, the next release got what the first one had left of its time, or none at all."""
    first = (*STABLE, Triggered("x"), Draining())
    for ends in (Drained(), Timer.DRAIN):
        state, actions = run(*first, ends, Unanswered(500))
        assert CancelTimer(Timer.DRAIN) in actions
        state, actions = run(Answered(), state=state)
        assert actions == (Rebalance(final=False),)
        assert run(Draining(), state=state)[1] == (StartTimer(Timer.DRAIN, 3000),)


def test_a_member_that_leaves_waits_for_its_users_once_also_if_its_listener_is_slow():
    state, _ = run(*STABLE, CloseRequested(9000), Draining(), Timer.DRAIN, Unanswered(500))
    assert run(Answered(), state=state)[1] == (Rebalance(leaving=True, final=True),)


def test_a_drained_stream_lets_the_rebalance_continue_at_once():
    assert run(*STABLE, Triggered("x"), Draining(), Drained())[1] == (Rebalance(),)


def test_a_short_loss_of_the_connection_stops_nothing():
    state, actions = run(*STABLE, Suspended(0.0))
    assert actions == (StartTimer(Timer.SUSPICION, 1500, since_s=0.0),)
    state, actions = run(Connected(1), state=state)
    assert ResumeDelivery() not in actions
    assert actions[-2:] == (ForgetGroup(), Rebalance(doubtful=True))
    assert state.connected


def test_a_long_loss_of_the_connection_pauses_delivery_until_the_session_is_known_to_live():
    state, actions = run(*STABLE, Suspended(0.0), Timer.SUSPICION)
    assert actions == (PauseDelivery(),)
    state, actions = run(Connected(1), state=state)
    assert ResumeDelivery() in actions
    assert not state.paused


def test_nothing_is_attempted_without_a_connection():
    state, _ = run(*STABLE, Suspended(0.0))
    for event in (Triggered("x"), Drained(), Unblocked(), Timer.BACKOFF, Timer.DRAIN):
        _, actions = step(state, event, POLICY)
        assert not [action for action in actions if isinstance(action, (Rebalance, Register))], event


def test_an_expired_session_drops_everything_and_the_next_one_registers_again():
    state, actions = run(*STABLE, Expired())
    assert state.phase is Phase.EXPIRED
    assert actions[0] == DropOwnership()
    state, actions = run(Connected(2), state=state)
    assert state.phase is Phase.JOINING
    assert Register() in actions


def test_a_deleted_registration_is_made_again():
    state, actions = run(*STABLE, Triggered("members changed"), Deregistered())
    assert state.phase is Phase.JOINING
    assert actions == (Register(),)


def test_leaving_waits_for_messages_in_hand():
    state, actions = run(*STABLE, CloseRequested(9000))
    assert state.phase is Phase.LEAVING
    assert actions[-2:] == (StartTimer(Timer.CLOSE, 9000), Rebalance(leaving=True))
    state, actions = run(Draining(), Drained(), state=state)
    assert actions == (Rebalance(leaving=True),)
    state, actions = run(Settled(), state=state)
    assert actions == (Leave(),)
    state, _ = run(Left(), state=state)
    assert state.phase is Phase.CLOSED


def test_leaving_is_tried_again_after_an_error_when_the_connection_is_back_and_after_a_pause():
    failed, actions = run(*STABLE, CloseRequested(9000), Failed(ConnectionLostError("lost")))
    assert failed.phase is Phase.LEAVING
    assert actions == (StartTimer(Timer.BACKOFF, LEAST_PAUSE_MS),)
    _, actions = run(Timer.BACKOFF, state=failed)
    assert actions == (Rebalance(leaving=True),)
    away, actions = run(Suspended(0.0), Timer.BACKOFF, state=failed)
    assert actions == ()
    state, actions = run(Connected(1), state=away)
    assert Rebalance(leaving=True, doubtful=True) in actions
    state, actions = run(Settled(), Failed(ConnectionLostError("lost")), Timer.CLOSE, state=state)
    assert (state.phase, actions[-1]) == (Phase.CLOSED, Leave())


def test_a_member_that_leaves_and_is_not_registered_any_more_registers_again_for_its_last_commit():
    state, actions = run(*STABLE, CloseRequested(9000), Deregistered())
    assert (state.phase, actions) == (Phase.LEAVING, (Register(),))
    _, actions = run(Registered(), state=state)
    assert actions == (Rebalance(leaving=True),)
    after, actions = run(RegistrationBlocked(), state=state)
    assert (after.phase, actions[-1]) == (Phase.CLOSED, Leave())
    # it owns partitions still, so it tries until they are released
    after, actions = run(IdTaken(), state=state)
    assert (after.phase, actions) == (Phase.LEAVING, (Leave(),))


def test_of_several_requests_to_leave_the_one_with_the_least_time_counts():
    _, actions = run(*STABLE, CloseRequested(9000), CloseRequested(1000))
    assert actions == (StartTimer(Timer.CLOSE, 1000, no_later=True),)


def test_a_member_that_leaves_waits_for_its_users_once():
    state, actions = run(*STABLE, CloseRequested(9000), Draining(), Timer.DRAIN)
    assert actions == (Rebalance(leaving=True, final=True),)
    _, actions = run(Failed(ConnectionLostError("lost")), Timer.BACKOFF, state=state)
    assert actions == (Rebalance(leaving=True, final=True),)


def test_a_member_that_leaves_without_a_connection_hands_out_nothing_more():
    state, actions = run(*STABLE, Suspended(0.0), CloseRequested(9000))
    assert actions[-1] == PauseDelivery()
    assert state.paused
    _, actions = run(Connected(1), state=state)
    assert ResumeDelivery() in actions


def test_a_member_that_joins_has_nothing_to_wait_for_unless_its_id_was_deleted():
    state, _ = run(Started(), Suspended(0.0), CloseRequested(9000))
    assert state.phase is Phase.CLOSED
    state, _ = run(*STABLE, Triggered("x"), Deregistered(), Suspended(0.0), CloseRequested(9000))
    assert state.phase is Phase.LEAVING


def test_leaving_does_not_outlast_its_time():
    state, actions = run(*STABLE, CloseRequested(9000), Draining(), Timer.CLOSE)
    assert state.phase is Phase.CLOSED
    assert Leave() in actions


def test_leaving_without_a_connection_waits_for_it_as_long_as_leaving_may_take():
    state, actions = run(*STABLE, Suspended(0.0), CloseRequested(9000))
    assert state.phase is Phase.LEAVING
    assert StartTimer(Timer.CLOSE, 9000) in actions
    state, actions = run(Connected(1), state=state)
    assert Rebalance(leaving=True, doubtful=True) in actions
    state, _ = run(*STABLE, Suspended(0.0), CloseRequested(9000), Timer.CLOSE)
    assert state.phase is Phase.CLOSED


@pytest.mark.parametrize(
    "events",
    [(), (Started(),), STABLE, (*STABLE, Suspended(0.0)), (*STABLE, Expired()), (*STABLE, Triggered("x"), IN_THE_WAY)],
    ids=["created", "joining", "stable", "suspended", "expired", "waiting"],
)
def test_every_state_can_be_closed(events):
    state, _ = run(*events, CloseRequested(1000))
    if state.phase is not Phase.CLOSED:
        state, _ = run(Timer.CLOSE, state=state)
    assert state.phase is Phase.CLOSED


def test_a_closed_member_does_nothing_more():
    closed = MemberState(phase=Phase.CLOSED)
    assert all(step(closed, event, POLICY) == (closed, ()) for event in ALL_EVENTS)


def reachable(depth, policy=POLICY):
    """Return every state that a sequence of at most depth events leads to."""
    first = MemberState(session_id=1)
    seen = frontier = {repr(first): first}
    for _ in range(depth):
        after = [step(state, event, policy)[0] for state, event in itertools.product(frontier.values(), ALL_EVENTS)]
        # counters go no further than to where they change a decision
        found = {repr(state): state for state in after if state.tries <= 1 and state.looks <= 1}
        frontier = {key: state for key, state in found.items() if key not in seen}
        seen = seen | frontier
    return seen.values()


GATHERING = replace(POLICY, gather_ms=3000)


@pytest.mark.parametrize("policy", [POLICY, GATHERING], ids=["plain", "gathering"])
def test_no_reachable_state_is_a_dead_end(policy):
    """Once it is connected, nothing blocks it and timers expire, every member that does not leave becomes stable."""
    mend = (Connected(3), Started(), Registered(), Timer.GATHER, Timer.BACKOFF, Registered(), Timer.GATHER, Timer.DRAIN)
    states = reachable(4, policy)
    assert len(states) > 500
    for state in states:
        if state.phase in (Phase.CLOSED, Phase.LEAVING):
            continue
        mended = state
        for event in (*mend, Triggered("x"), Settled()):
            mended, _ = step(mended, event, policy)
        assert mended.phase is Phase.STABLE, state


def test_every_waiting_state_has_a_timer_or_an_event_that_ends_it():
    """The step into a state that waits for a back-off or a drain starts that timer, and never a second one."""
    for state in reachable(4):
        for event in ALL_EVENTS:
            after, actions = step(state, event, POLICY)
            started = {action.name for action in actions if isinstance(action, StartTimer)}
            cancelled = {action.name for action in actions if isinstance(action, CancelTimer)}
            if after.backing_off and not state.backing_off:
                assert Timer.BACKOFF in started
            if Timer.BACKOFF in started:
                assert not state.backing_off
                assert Timer.BACKOFF not in cancelled
            if after.phase is Phase.WAITING:
                assert after.backing_off or not after.connected
            if after.memory.is_waiting and after.phase not in (Phase.LEAVING, Phase.CLOSED):
                assert (Timer.ABSENCE in started) is not state.memory.is_waiting
                assert Timer.ABSENCE not in cancelled


def test_the_first_claim_waits_for_others_once():
    state, actions = step(MemberState(phase=Phase.JOINING, session_id=1), Registered(), GATHERING)
    assert (state.phase, actions[-1]) == (Phase.GATHERING, StartTimer(Timer.GATHER, 3000))
    assert step(state, Triggered("members changed"), GATHERING) == (state, ())
    state, actions = step(state, Timer.GATHER, GATHERING)
    assert (state.phase, actions) == (Phase.REBALANCING, (Rebalance(),))
    state, _ = step(state, Deregistered(), GATHERING)
    state, _ = step(state, Registered(), GATHERING)
    assert state.phase is Phase.REBALANCING


def test_a_session_that_ends_while_gathering_is_followed_by_one_that_claims_at_once():
    state = MemberState(session_id=1)
    for event in (Started(), Registered(), Expired(), Connected(2), Registered()):
        state, actions = step(state, event, GATHERING)
    assert (state.phase, state.session_id, actions[-1]) == (Phase.REBALANCING, 2, Rebalance())


def test_a_member_whose_look_was_overtaken_waits_for_the_news_and_looks_a_last_time_in_the_end():
    state, _ = run(Started(), Registered())
    for looks in range(1, MOST_LOOKS):
        state, actions = run(Overtaken(), state=state)
        assert (state.looks, actions) == (looks, ())
        state, actions = run(Triggered("members changed"), state=state)
        assert actions == (Rebalance(last_look=looks == MOST_LOOKS - 1),)


def test_a_drain_that_timed_out_is_not_waited_for_again_when_the_group_changes_meanwhile():
    state, actions = run(*STABLE, Triggered("x"), Draining(), Timer.DRAIN, Overtaken(), Triggered("y"))
    assert actions == (Rebalance(final=True),)
    assert run(IN_THE_WAY, Unblocked(), state=state)[1] == (Rebalance(),)


def test_a_doubt_lasts_until_a_rebalance_has_looked():
    state, actions = run(*STABLE, Doubted())
    assert actions == (Rebalance(doubtful=True),)
    state, actions = run(LOST, Timer.BACKOFF, state=state)
    assert actions == (Rebalance(doubtful=True),)
    assert not run(IN_THE_WAY, state=state)[0].doubted


def test_the_time_of_an_absence_runs_from_the_first_departure_until_the_group_is_whole():
    state, actions = run(*STABLE, Triggered("b left"), GroupNoted(AWAY))
    assert actions == (StartTimer(Timer.ABSENCE, POLICY.absence_ms),)
    state, actions = run(Settled(), Triggered("c left"), state=state)
    assert actions == (Rebalance(memory=AWAY),)
    assert run(GroupNoted(replace(AWAY, last={})), state=state)[1] == ()
    state, actions = run(GroupNoted(GroupMemory(WHOLE)), state=state)
    assert actions == (CancelTimer(Timer.ABSENCE),)
    assert state.memory == GroupMemory(WHOLE)


@pytest.mark.parametrize("meanwhile", [[], [LOST], [Suspended(0.0)], [Expired()], [Connected(2)]], ids=str)
def test_an_absence_ends_with_its_time_whatever_came_between_and_no_session_cuts_it_short(meanwhile):
    state, _ = run(*STABLE, GroupNoted(AWAY), Settled())
    for event in meanwhile:
        state, actions = step(state, event, POLICY)
        assert CancelTimer(Timer.ABSENCE) not in actions
    assert state.memory == AWAY
    state, _ = run(Timer.ABSENCE, state=state)
    assert state.memory == GroupMemory(SMALLER)


def test_a_member_that_is_settled_looks_again_when_the_time_of_an_absence_is_over():
    state, _ = run(*STABLE, GroupNoted(AWAY), Settled())
    assert run(Timer.ABSENCE, state=state)[1] == (Rebalance(memory=GroupMemory(SMALLER)),)


def test_refused_credentials_are_remembered_until_there_is_a_session():
    refused = Refused(AuthenticationError())
    state, _ = run(*STABLE, refused)
    assert (state.phase, state.refusal) == (Phase.EXPIRED, refused.error)
    assert run(Connected(2), state=state)[0].refusal is None


def test_owner_znodes_are_watched_once_all_is_quiet_and_not_without_a_connection():
    assert run(*STABLE, Timer.QUIET)[1] == (GuardOwnership(),)
    assert run(*STABLE, Triggered("x"), Timer.QUIET)[1] == ()
    assert run(*STABLE, Suspended(0.0), Timer.QUIET)[1] == ()


def test_of_the_rows_for_one_phase_and_event_only_the_last_one_may_count_always():
    conditions = {}
    for row in TABLE:
        for pair in itertools.product(row.phases, row.events):
            conditions.setdefault(pair, []).append(row.only_if)
    assert all(None not in found[:-1] for found in conditions.values())


def test_the_picture_of_the_table_is_the_one_in_the_documents():
    assert f"```mermaid\n{draw()}\n```" in DOC.read_text(encoding="utf-8")
