"""Every order of events in a small group; `make simulate EXHAUSTIVE=1` goes deeper."""

import pytest

from rebalance.reader import GroupReader
from tests.simulation.exhaustive import Choices, Group, SmallWorld, run, walk
from tests.simulation.mutation import PATCHES, all_patches, is_walked, run_mutant
from tests.support.named_proofs import proofs_of, tables_of, text_of

DOCUMENTED = text_of("testing.md").partition("## Every order of events")[2].partition("\n## ")[0]
WALKS, MUTANTS = tables_of(DOCUMENTED)
FROM = {
    "the start of the members": (2, False),
    "a settled group": (2, True),
    "the start of three members": (3, False),
    "a settled group of three": (3, True),
}
DEPTHS = {name: 3 if verdict.startswith("with three") else 2 for names, verdict in MUTANTS for name in proofs_of(names)}
NOT_NOTICED = {name for names, verdict in MUTANTS if verdict.startswith("no: ") for name in proofs_of(names)}


def documented_walks():
    found = []
    for start, *figures in WALKS:
        faults, events, states, worlds = (int(figure.replace(",", "")) for figure in figures)
        members, settled = FROM[start]
        is_short = (members, events) == (2, 2)
        marks = () if is_short else (pytest.mark.long, pytest.mark.timeout(1200))
        name = f"{start}, {faults} faults, {events} events"
        found.append(pytest.param(Group(members, settled, faults, events), states, worlds, marks=marks, id=name))
    return found


@pytest.mark.parametrize(("group", "least_states", "least_worlds"), documented_walks())
def test_every_order_of_events_of_a_small_group_keeps_every_promise(group, least_states, least_worlds):
    told = walk(group)
    assert told.failures == {}
    assert told.states >= least_states
    assert told.worlds >= least_worlds


def test_the_document_says_of_each_mutant_of_the_rebalance_once_whether_the_walk_notices_it():
    named = [name for names, _ in MUTANTS for name in proofs_of(names)]
    assert sorted(named) == [patch.stem for patch in all_patches() if is_walked(patch)]
    assert {verdict.split()[0] for _, verdict in MUTANTS} == {"with", "no:"}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", DEPTHS)
def test_the_walk_notices_the_mutants_that_the_document_says_it_notices(name):
    caught = run_mutant(PATCHES / f"{name}.patch", depth=DEPTHS[name])
    assert bool(caught.check) == (name not in NOT_NOTICED)


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
