"""Every proof that docs/coordination.md names exists."""

import pytest

from tests.support.named_proofs import is_there, proofs_of, tables_of, text_of

[ROWS] = tables_of(text_of("coordination.md").partition("## What shows it\n")[2])


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_every_row_names_what_shows_it_and_that_is_there(row):
    _, shown_by = row
    proofs = proofs_of(shown_by)
    assert proofs, "no test is named"
    assert [name for name in proofs if not is_there(name)] == []


def test_the_rows_are_found():
    assert len(ROWS) > 30
