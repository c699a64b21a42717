"""The transition table: what each event means in each phase."""

import itertools

import pytest

from rebalance.errors import PartitionOwnedError
from rebalance.machine import (
    Announce,
    BackoffExpired,
    Blocked,
    CancelTimer,
    CloseExpired,
    CloseRequested,
    Deregistered,
    DoubtOwnership,
    Drained,
    DrainExpired,
    Draining,
    DropOwnership,
    Expired,
    Failed,
    ForgetGroup,
    Leave,
    MemberState,
    PauseDelivery,
    Phase,
    Policy,
    Rebalance,
    Reconnected,
    Register,
    Registered,
    RegistrationBlocked,
    ResumeDelivery,
    SessionStarted,
    Settled,
    Started,
    StartTimer,
    Suspended,
    SuspicionExpired,
    TimerName,
    Triggered,
    Unblocked,
    step,
)
from zk_layout.errors import ConnectionLostError

POLICY = Policy(max_retries=3, backoff_ms=2000, suspicion_ms=1500, drain_timeout_ms=3000)
BLOCKED_BY = PartitionOwnedError({})
ALL_EVENTS = [
    Started(),
    Registered(),
    RegistrationBlocked(),
    Triggered("members changed"),
    Settled(),
    Draining(),
    Blocked(),
    Failed(ConnectionLostError()),
    Drained(),
    DrainExpired(),
    Unblocked(),
    BackoffExpired(),
    Suspended(),
    SuspicionExpired(),
    Reconnected(),
    Expired(),
    SessionStarted(),
    Deregistered(),
    CloseRequested(1000),
    CloseExpired(),
]


def run(*events, state=None):
    """The state after these events, and the actions of the last one."""
    state = state or MemberState()
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
    assert Announce(Phase.STABLE) in actions


def test_a_trigger_while_stable_rebalances():
    state, actions = run(*STABLE, Triggered("members changed"))
    assert state.phase is Phase.REBALANCING
    assert actions == (Rebalance(),)


def test_an_owner_znode_that_goes_away_is_a_reason_to_try_at_once_and_no_try_is_used_up():
    state, actions = run(*STABLE, Triggered("x"), Blocked(), Unblocked())
    assert actions == (Rebalance(),)
    assert state.tries == 0


def test_the_back_off_is_an_upper_bound_that_unblocking_does_not_prolong():
    state, actions = run(*STABLE, Triggered("x"), Blocked())
    assert actions == (StartTimer(TimerName.BACKOFF, 2000),)
    state, actions = run(Unblocked(), Blocked(), state=state)
    assert actions == ()
    state, actions = run(BackoffExpired(), state=state)
    assert state.tries == 1
    assert actions == (Rebalance(),)


def test_using_up_the_tries_makes_a_member_degraded_that_goes_on_trying():
    state, _ = run(*STABLE, Triggered("x"))
    for _ in range(3):
        state, _ = run(Blocked(), BackoffExpired(), state=state)
    state, actions = run(Blocked(), state=state)
    assert state.phase is Phase.DEGRADED
    assert Announce(Phase.DEGRADED) in actions
    assert StartTimer(TimerName.BACKOFF, 2000) in actions
    state, actions = run(BackoffExpired(), Settled(), state=state)
    assert state == MemberState(phase=Phase.STABLE)


def test_what_is_in_users_hands_is_waited_for_once_and_not_longer():
    state, actions = run(*STABLE, Triggered("x"), Draining())
    assert actions == (StartTimer(TimerName.DRAIN, 3000),)
    state, actions = run(Triggered("y"), Draining(), state=state)
    assert actions == (), "another trigger must not prolong the wait"
    state, actions = run(DrainExpired(), state=state)
    assert actions == (Rebalance(final=True),)


def test_a_drained_stream_lets_the_rebalance_go_on_at_once():
    assert run(*STABLE, Triggered("x"), Draining(), Drained())[1] == (Rebalance(),)


def test_a_short_loss_of_the_connection_stops_nothing():
    state, actions = run(*STABLE, Suspended())
    assert actions == (StartTimer(TimerName.SUSPICION, 1500),)
    state, actions = run(Reconnected(), state=state)
    assert ResumeDelivery() not in actions
    assert actions[-3:] == (ForgetGroup(), DoubtOwnership(), Rebalance())
    assert state.connected


def test_a_long_loss_of_the_connection_pauses_delivery_until_the_session_is_known_to_live():
    state, actions = run(*STABLE, Suspended(), SuspicionExpired())
    assert actions == (PauseDelivery(),)
    state, actions = run(Reconnected(), state=state)
    assert ResumeDelivery() in actions
    assert not state.paused


def test_nothing_is_attempted_without_a_connection():
    state, _ = run(*STABLE, Suspended())
    for event in (Triggered("x"), Drained(), Unblocked(), BackoffExpired(), DrainExpired()):
        _, actions = step(state, event, POLICY)
        assert not [action for action in actions if isinstance(action, (Rebalance, Register))], event


def test_an_expired_session_drops_everything_and_the_next_one_registers_again():
    state, actions = run(*STABLE, Expired())
    assert state.phase is Phase.EXPIRED
    assert actions[0] == DropOwnership()
    state, actions = run(SessionStarted(), state=state)
    assert state.phase is Phase.JOINING
    assert Register() in actions


def test_a_deleted_registration_is_made_again():
    state, actions = run(*STABLE, Triggered("members changed"), Deregistered())
    assert state.phase is Phase.JOINING
    assert actions == (Register(),)


def test_leaving_waits_for_what_is_in_hand_then_leaves():
    state, actions = run(*STABLE, CloseRequested(9000))
    assert state.phase is Phase.LEAVING
    assert actions[-2:] == (StartTimer(TimerName.CLOSE, 9000), Rebalance(leaving=True))
    state, actions = run(Draining(), Drained(), state=state)
    assert actions == (Rebalance(leaving=True),)
    state, actions = run(Settled(), state=state)
    assert state.phase is Phase.CLOSED
    assert Leave() in actions


def test_leaving_does_not_outlast_its_time():
    state, actions = run(*STABLE, CloseRequested(9000), Draining(), CloseExpired())
    assert state.phase is Phase.CLOSED
    assert Leave() in actions


def test_leaving_without_a_connection_waits_for_it_as_long_as_leaving_may_take():
    state, actions = run(*STABLE, Suspended(), CloseRequested(9000))
    assert state.phase is Phase.LEAVING
    assert StartTimer(TimerName.CLOSE, 9000) in actions
    state, actions = run(Reconnected(), state=state)
    assert Rebalance(leaving=True) in actions
    state, _ = run(*STABLE, Suspended(), CloseRequested(9000), CloseExpired())
    assert state.phase is Phase.CLOSED


@pytest.mark.parametrize(
    "events",
    [(), (Started(),), STABLE, (*STABLE, Suspended()), (*STABLE, Expired()), (*STABLE, Triggered("x"), Blocked())],
    ids=["created", "joining", "stable", "suspended", "expired", "waiting"],
)
def test_every_state_can_be_closed(events):
    state, _ = run(*events, CloseRequested(1000))
    if state.phase is not Phase.CLOSED:
        state, _ = run(CloseExpired(), state=state)
    assert state.phase is Phase.CLOSED


def test_a_closed_member_does_nothing_more():
    closed = MemberState(phase=Phase.CLOSED)
    assert all(step(closed, event, POLICY) == (closed, ()) for event in ALL_EVENTS)


def reachable(depth):
    """Every state that some sequence of events leads to."""
    seen = {MemberState()}
    frontier = seen
    for _ in range(depth):
        frontier = {step(s, e, POLICY)[0] for s, e in itertools.product(frontier, ALL_EVENTS)} - seen
        seen = seen | frontier
    return {s for s in seen if s.tries <= 4}


def test_no_reachable_state_is_a_dead_end():
    """With the connection back, obstacles gone and timers expiring, every member that is not closed becomes stable."""
    mend = (Reconnected(), SessionStarted(), Started(), Registered(), BackoffExpired(), Registered(), DrainExpired())
    states = reachable(7)
    assert len(states) > 50
    for state in states:
        if state.phase in (Phase.CLOSED, Phase.LEAVING):
            continue
        mended, _ = run(*mend, Triggered("x"), Settled(), state=state)
        assert mended.phase is Phase.STABLE, state


def test_whoever_waits_has_a_timer_or_is_told():
    """A state that waits for a back-off or a drain has started that timer on the way there, never a second one."""
    for state in reachable(6):
        for event in ALL_EVENTS:
            after, actions = step(state, event, POLICY)
            started = {action.name for action in actions if isinstance(action, StartTimer)}
            cancelled = {action.name for action in actions if isinstance(action, CancelTimer)}
            if after.backing_off and not state.backing_off:
                assert TimerName.BACKOFF in started
            if TimerName.BACKOFF in started:
                assert not state.backing_off
                assert TimerName.BACKOFF not in cancelled
            if after.phase in (Phase.WAITING, Phase.DEGRADED):
                assert after.backing_off or not after.connected
