"""Seeded schedules of the core: what may go wrong between a fetcher and its brokers, and what never may follow."""

import os

import pytest

from tests.support.core_world import World

SEEDS = int(os.environ.get("CORE_SCHEDULES", "600"))
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_every_message_comes_once_and_in_order_whatever_goes_wrong(part):
    for seed in range(part, SEEDS, PARTS):
        try:
            World(seed).run()
        except Exception as error:
            raise AssertionError(f"World({seed}).run(): {error!r}") from error
