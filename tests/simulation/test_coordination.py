"""Storms over the coordinator: it keeps its promises, and the storms notice when it is broken on purpose."""

from dataclasses import replace

import pytest

import rebalance.coordination.coordinator as coordinator_module
from rebalance.coordination import Code, Coordinator, membership, rebalancing
from rebalance.coordination.effects import Reply, StoreGroup
from rebalance.coordination.turn import Turn
from tests.simulation import coordination

SEEDS = 250


def run_many(seeds):
    for seed in range(seeds):
        coordination.run(seed)


def test_no_storm_gives_a_partition_twice_or_leaves_a_member_waiting():
    run_many(SEEDS)


def ignore(*_):
    """Do nothing, in place of a function that a defect leaves out."""


def sync_of_any_generation(monkeypatch):
    monkeypatch.setattr(membership, "standing", lambda group, member_id, instance_id, _: membership.identity_error(
        group, member_id, instance_id))  # fmt: skip


def answers_before_the_write(monkeypatch):
    handle = Coordinator.handle

    def hasty(self, request, now):
        return tuple(sorted(handle(self, request, now), key=lambda effect: not isinstance(effect, Reply)))

    monkeypatch.setattr(Coordinator, "handle", hasty)


def no_limit_to_a_rebalance(monkeypatch):
    monkeypatch.setattr(coordinator_module, "join_timer_expired", ignore)


def no_end_of_a_session(monkeypatch):
    monkeypatch.setattr(coordinator_module, "session_expired", ignore)


def syncs_forgotten_when_a_rebalance_begins(monkeypatch):
    end_sync = rebalancing._end_sync

    def forgetful(turn, group, member, answer):
        if answer.code is Code.NONE:
            end_sync(turn, group, member, answer)
        else:
            member.sync_reply = None

    monkeypatch.setattr(rebalancing, "_end_sync", forgetful)


def answers_dropped_with_a_refused_write(monkeypatch):
    resign = Coordinator.resign
    monkeypatch.setattr(Coordinator, "resign", lambda self, now, undone=(): resign(self, now))


def loaded_members_without_a_session(monkeypatch):
    load, keep_alive = Coordinator.load, Turn.keep_alive

    def trusting(self, stored, offsets, now):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Turn, "keep_alive", ignore)
            load(self, stored, offsets, now)
        assert Turn.keep_alive is keep_alive

    monkeypatch.setattr(Coordinator, "load", trusting)


def generations_written_without_their_number(monkeypatch):
    handle = Coordinator.handle

    def numberless(self, request, now):
        return tuple(
            StoreGroup(replace(effect.stored, generation=0)) if isinstance(effect, StoreGroup) else effect
            for effect in handle(self, request, now)
        )

    monkeypatch.setattr(Coordinator, "handle", numberless)


@pytest.mark.parametrize(
    "broken",
    [
        sync_of_any_generation,
        answers_before_the_write,
        no_limit_to_a_rebalance,
        no_end_of_a_session,
        syncs_forgotten_when_a_rebalance_begins,
        answers_dropped_with_a_refused_write,
        loaded_members_without_a_session,
        generations_written_without_their_number,
    ],
)
def test_a_broken_coordinator_is_noticed(broken, monkeypatch):
    broken(monkeypatch)
    with pytest.raises(AssertionError, match="seed"):
        run_many(4 * SEEDS)
