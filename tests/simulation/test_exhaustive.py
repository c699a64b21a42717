"""Every order of events in a small group; `make simulate EXHAUSTIVE=1` goes deeper."""

import pytest

from rebalance.reader import GroupReader
from tests.simulation.exhaustive import Choices, Group, SmallWorld, run, walk


@pytest.mark.parametrize(
    ("group", "least_states"),
    [(Group(2, settled=False, faults=1, depth=2), 200), (Group(2, settled=True, faults=1, depth=2), 60)],
    ids=["forming", "settled"],
)
def test_every_order_of_events_of_a_small_group_keeps_every_promise(group, least_states):
    told = walk(group)
    assert told.failures == {}
    assert told.states > least_states


def test_a_member_that_reads_nothing_again_is_found(monkeypatch):
    monkeypatch.setattr(GroupReader, "notice", lambda self, event: "nothing")
    for settled in (False, True):
        told = walk(Group(2, settled=settled, faults=0, depth=1))
        assert "not settled" in next(iter(told.failures.values()))


def test_the_same_choices_are_the_same_story():
    group = Group(2, settled=False, depth=4)
    stories = [run(group, (0, 1, 3), {})[0] for _ in range(2)]
    assert stories[0].history == stories[1].history
    assert stories[0].fingerprint() == stories[1].fingerprint()


def test_only_pending_deliveries_and_the_time_distinguish_two_states():
    group = Group(2, settled=True)
    one, other = SmallWorld(group, Choices()), SmallWorld(group, Choices())
    one.begin(group)
    other.begin(group)
    assert one.fingerprint() == other.fingerprint()
    one.operator.delete("/consumers/g/ids/g_a")
    assert one.fingerprint() != other.fingerprint()
    other.operator.delete("/consumers/g/ids/g_a")
    assert one.fingerprint() == other.fingerprint()
    one.server.deliver_next(one.members[1].store)
    assert one.fingerprint() != other.fingerprint()
