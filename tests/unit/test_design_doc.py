"""Every proof that docs/design-and-practice.md names exists; so does all that the issue of the documents requires."""

import pytest

from tests.support.named_proofs import ROOT, is_there, proofs_of, tables_of, text_of

TEXT = text_of("design-and-practice.md")
ROWS = [row for table in tables_of(TEXT) for row in table]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0][:50])
def test_every_row_says_what_is_written_what_kafka_does_what_we_do_and_which_test_shows_it(row):
    assert len(row) == 5
    assert all(row)
    proof = [name for name in proofs_of(row[4]) if not name.startswith("docs/")]
    assert proof, "no test is named"
    assert [name for name in proof if not is_there(name)] == []


def test_the_page_is_linked_and_its_examples_are_there():
    assert len(ROWS) > 15
    for page in ("README.md", "docs/architecture.md"):
        assert "design-and-practice.md" in (ROOT / page).read_text(encoding="utf-8")
    named = [name for name in proofs_of(TEXT) if name.startswith("examples/")]
    assert named
    assert [name for name in named if not (ROOT / name).is_file()] == []
