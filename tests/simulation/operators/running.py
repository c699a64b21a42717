"""Runs the story of one seed."""

from __future__ import annotations

import random
import tempfile
from pathlib import Path

import pytest

from tests.simulation.operators.model import Operators
from tests.simulation.operators.world import OperatorsWorld

STEPS = 16


def run_story(seed):
    """Run the story of a seed. Raises: AssertionError with the story, if a rule does not hold."""
    with pytest.MonkeyPatch.context() as patch, tempfile.TemporaryDirectory() as folder:
        operators = Operators(OperatorsWorld(patch, Path(folder)), random.Random(seed))
        try:
            for _ in range(STEPS):
                operators.step()
        except AssertionError as error:
            story = "\n".join(operators.told)
            raise AssertionError(f"seed {seed}: {error}\n{story}") from error
