"""Every proof that docs/guarantees.md names exists: tests, files, mutants, and the words of the checkers."""

import pytest

from tests.support.named_proofs import MUTANTS, is_there, proofs_of, tables_of, text_of

TABLES = tables_of(text_of("guarantees.md"))
ROWS = [row for table in TABLES for row in table]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_every_promise_names_what_would_fail_if_it_were_broken_and_that_is_there(row):
    assert len(row) == 3
    proof = proofs_of(row[2])
    assert proof, "no test is named"
    assert [name for name in proof if not is_there(name)] == []


def test_promises_are_found_in_the_text():
    assert len(TABLES) == 4
    assert len(ROWS) > 35
    assert not is_there("test_of_nothing")
    assert not is_there("no-such-mutant")


def test_every_mutant_breaks_a_promise_that_is_written_down():
    to_operators = [row for table in tables_of(text_of("operations.md")) for row in table]
    assert MUTANTS - {name for row in [*ROWS, *to_operators] for name in proofs_of(row[-1])} == set()
