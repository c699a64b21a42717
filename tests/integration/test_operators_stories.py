"""Stories of operators over real servers, by their seeds; tests/simulation/operators tells many more in memory."""

from __future__ import annotations

import random

import pytest

from tests.integration.operators_world import RealOperatorsWorld
from tests.simulation.operators.model import Operators

pytestmark = pytest.mark.kafka

STEPS = 5


@pytest.mark.parametrize("broker_version", ["2.8.2"])
@pytest.mark.parametrize("seed", range(4))
def test_on_real_servers_no_command_moves_loses_or_forgets_what_it_did_not_name(monkeypatch, tmp_path, cluster, seed):
    world = RealOperatorsWorld(monkeypatch, tmp_path, cluster)
    try:
        story = Operators(world, random.Random(seed))
        for _ in range(STEPS):
            story.step()
    except AssertionError as error:
        told = "\n".join(story.told)
        raise AssertionError(f"seed {seed}: {error}\n{told}") from error
    finally:
        world.close()
