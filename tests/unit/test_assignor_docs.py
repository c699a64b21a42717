"""docs/assignors.md agrees with the code."""

from __future__ import annotations

import pytest

from rebalance.assignors.strategies import STRATEGIES
from tests.support.assignor_tables import DOC, written


def test_the_tables_are_what_the_code_makes():
    """`python -m tests.support.assignor_tables` rewrites the tables."""
    text = DOC.read_text(encoding="utf-8")
    assert written(text) == text


def test_a_table_that_differs_from_the_code_is_found():
    text = DOC.read_text(encoding="utf-8")
    assert written(text.replace("| a | s/0, t/0", "| a | s/1, t/0")) == text
    with pytest.raises(ValueError, match="0 places for table 'coordinated sticky'"):
        written(text.replace("table: coordinated sticky", "table: other"))


def test_every_strategy_is_there_by_its_name():
    text = DOC.read_text(encoding="utf-8")
    assert [name for name in STRATEGIES if f"### `{name}`" not in text] == []
