"""Random stories of operators on real servers, by seed; tests/simulation/operators runs many more in memory."""

from __future__ import annotations

import random

import pytest

from tests.integration.operators_world import RealOperatorsWorld
from tests.simulation.operators.everything import carry_out_everything
from tests.simulation.operators.model import Operators

pytestmark = pytest.mark.kafka

STEPS = 5


@pytest.fixture
def told(monkeypatch, tmp_path, cluster):
    """Return a function that runs the story of a seed; an error's text then holds the story."""

    def tell(seed, story):
        world = RealOperatorsWorld(monkeypatch, tmp_path, cluster)
        operators = Operators(world, random.Random(seed))
        try:
            story(operators)
        except AssertionError as error:
            raise AssertionError("\n".join([f"seed {seed}: {error}", *operators.told])) from error
        finally:
            world.close()

    return tell


@pytest.mark.parametrize("broker_version", ["2.8.2"])
@pytest.mark.parametrize("seed", range(2))
def test_on_real_servers_no_command_changes_an_offset_that_it_did_not_name(told, seed):
    def steps(operators):
        for _ in range(STEPS):
            operators.step()

    told(seed, steps)


@pytest.mark.parametrize("broker_version", ["2.8.2"])
def test_on_real_servers_each_command_does_its_work_given_twice_and_all_agree_about_it(told):
    told(0, carry_out_everything)
