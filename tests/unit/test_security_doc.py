"""Whatever docs/security.md names as proof is there."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "security.md").read_text(encoding="utf-8")
ROWS = [line.strip("|").split(" | ") for line in TEXT.splitlines() if "`test_" in line and line.startswith("|")]
TESTS = {
    name
    for path in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"(?m)^def (test_\w+)\(", path.read_text(encoding="utf-8"))
}


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[0].strip()[:50])
def test_every_claim_names_tests_that_are_there(row):
    assert len(row) == 3
    assert [name for name in re.findall(r"`(test_\w+)`", row[2]) if name not in TESTS] == []


def test_every_row_of_the_claims_names_a_test_and_so_does_the_rest():
    tables = TEXT.split("## What a stranger can do")[1]
    lines = tables.splitlines()
    assert len(ROWS) == sum(line.startswith("|") for line in lines) - 2 * sum(
        line.startswith("| ---") for line in lines
    )
    assert {name for name in re.findall(r"`(test_\w+)`", TEXT) if name not in TESTS} == set()
