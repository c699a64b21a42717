"""The tests that docs/operations.md and docs/migrate.md name behind their promises exist."""

import pytest

from tests.support.named_proofs import is_there, proofs_of, tables_of, text_of

PAGES = ("operations.md", "migrate.md")
ROWS = [row for page in PAGES for row in tables_of(text_of(page).partition("## The test behind each promise")[2])[0]]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_every_promise_to_operators_names_tests_that_are_there(row):
    assert len(row) == 2
    proof = proofs_of(row[1])
    assert proof, "no test is named"
    assert [name for name in proof if not is_there(name)] == []


def test_the_promises_of_both_pages_are_found():
    assert len(ROWS) > 35
