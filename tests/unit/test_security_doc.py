"""Every claim of docs/security.md, in a table or in a sentence, names a test, and the test exists."""

import re

import pytest

from tests.support.named_proofs import TESTS, is_there, proofs_of, tables_of, text_of

TEXT = text_of("security.md")
ROWS = [row for table in tables_of(TEXT) for row in table]
PARAGRAPHS = [
    block
    for block in re.split(r"\n\s*\n", TEXT)
    if not block.startswith(("#", "|")) and not block.rstrip().endswith(":")
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_every_claim_names_tests_that_are_there(row):
    proof = proofs_of(row[-1])
    assert proof, "no test is named"
    assert [name for name in proof if not is_there(name)] == []


@pytest.mark.parametrize("paragraph", PARAGRAPHS[2:], ids=lambda text: text[:50])
def test_every_sentence_outside_the_tables_stands_beside_its_test(paragraph):
    """The first two paragraphs introduce the page and its first table, so they need no test."""
    assert "`test_" in paragraph


def test_no_test_is_named_that_is_not_there():
    assert len(ROWS) > 40
    assert len(PARAGRAPHS) > 5
    assert {name for name in re.findall(r"`(test_\w+)`", TEXT) if name not in TESTS} == set()
