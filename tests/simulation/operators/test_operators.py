"""Seeded stories of operators: commands given twice, in any order, killed, with others in the middle."""

from __future__ import annotations

import random

import pytest

from tests.simulation.operators.everything import carry_out_everything
from tests.simulation.operators.model import Operators
from tests.simulation.operators.running import run_story
from tests.simulation.operators.world import OperatorsWorld


@pytest.mark.parametrize("seed", range(30))
def test_no_command_moves_loses_or_forgets_anything_that_it_did_not_name(seed):
    run_story(seed)


@pytest.mark.parametrize("seed", range(4))
def test_each_command_does_its_work_given_twice_and_all_agree_about_it(monkeypatch, tmp_path, seed):
    carry_out_everything(Operators(OperatorsWorld(monkeypatch, tmp_path), random.Random(seed)))
