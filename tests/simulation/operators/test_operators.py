"""Seeded stories of operators: commands given twice, in any order, killed, with others in the middle."""

from __future__ import annotations

import pytest

from tests.simulation.operators.running import run_story


@pytest.mark.parametrize("seed", range(30))
def test_no_command_moves_loses_or_forgets_anything_that_it_did_not_name(seed):
    run_story(seed)
