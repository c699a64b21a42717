"""Every order of events in a few small groups; `make simulate EXHAUSTIVE=1` goes deeper."""

import pytest

from rebalance.reader import GroupReader
from tests.simulation.exhaustive import ALL_CELLS, SCOPES, SMALL, names_of, run, walk, walk_all
from tests.simulation.mutation import PATCHES, all_patches, is_walked, run_mutant
from tests.simulation.small_world import Choices, Scope, SmallWorld
from tests.support.named_proofs import proofs_of, tables_of, text_of

DOCUMENTED = text_of("testing.md").partition("## Every order of events")[2].partition("\n## ")[0]
WALKS, CELLS, MUTANTS = tables_of(DOCUMENTED)
VERDICTS = {name: verdict for names, verdict in MUTANTS for name in proofs_of(names)}


def documented_cells():
    """Return {phase: the names of the events that the small walk does not reach there}."""
    found = {}
    for phases, events, _ in CELLS:
        for phase in proofs_of(phases):
            found.setdefault(phase, []).extend(proofs_of(events))
    return {phase: sorted(names) for phase, names in sorted(found.items())}


def test_the_small_walk_keeps_every_promise_and_reaches_all_cells_that_the_document_does_not_except():
    walks = list(walk_all(SMALL))
    assert [told.failures for told in walks if told.failures] == []
    reached = frozenset().union(*(told.cells for told in walks))
    assert names_of(ALL_CELLS - reached) == documented_cells()


@pytest.mark.long
@pytest.mark.timeout(1800)
def test_the_whole_walk_keeps_every_promise_and_saw_as_much_as_the_document_says():
    walks = list(walk_all(SCOPES))
    assert [told.failures for told in walks if told.failures] == []
    reached = frozenset().union(*(told.cells for told in walks))
    for phase, names in names_of(ALL_CELLS - reached).items():
        assert set(names) <= set(documented_cells()[phase])
    for told, (*_, states, worlds) in zip(walks, WALKS, strict=True):
        assert told.states >= int(states.replace(",", ""))
        assert told.worlds >= int(worlds.replace(",", ""))


def test_the_document_describes_the_scopes():
    described = [(proofs_of(name)[0], *map(int, figures[:3])) for name, *figures in WALKS]
    assert described == [(scope.name, scope.depth, scope.small, scope.faults) for scope in SCOPES]


def test_the_document_says_of_each_mutant_of_the_rebalance_whether_the_small_walk_notices_it():
    named = [name for names, _ in MUTANTS for name in proofs_of(names)]
    assert sorted(named) == [patch.stem for patch in all_patches() if is_walked(patch)]
    assert {verdict.partition(":")[0] for _, verdict in MUTANTS} == {"yes", "no"}


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", VERDICTS)
def test_the_small_walk_notices_the_mutants_that_the_document_says_it_notices(name):
    caught = run_mutant(PATCHES / f"{name}.patch", walked=True)
    assert bool(caught.check) == VERDICTS[name].startswith("yes")


def test_a_member_that_reads_nothing_again_is_found(monkeypatch):
    monkeypatch.setattr(GroupReader, "notice", lambda self, event: "nothing")
    for settled in (False, True):
        told = walk(Scope("a", 1, 1, settled=settled, faults=0))
        assert "not settled" in next(iter(told.failures.values()))


def test_the_same_choices_are_the_same_story():
    scope = Scope("a", 4, 4, settled=False)
    stories = [run(scope, (0, 1, 3), {})[0] for _ in range(2)]
    assert stories[0].history == stories[1].history
    assert stories[0].fingerprint() == stories[1].fingerprint()


def test_only_pending_deliveries_the_time_and_messages_in_hand_distinguish_two_states():
    scope = Scope("a", 3, 3, users=True)
    one, other = SmallWorld(scope, Choices()), SmallWorld(scope, Choices())
    one.begin()
    other.begin()
    assert one.fingerprint() == other.fingerprint()
    one.operator.delete("/consumers/g/ids/g_a")
    assert one.fingerprint() != other.fingerprint()
    other.operator.delete("/consumers/g/ids/g_a")
    assert one.fingerprint() == other.fingerprint()
    one.server.deliver_next(one.members[1].store)
    assert one.fingerprint() != other.fingerprint()
    other.server.deliver_next(other.members[1].store)
    assert one.fingerprint() == other.fingerprint()
    one.finish(one.members[0])
    assert one.fingerprint() != other.fingerprint()
