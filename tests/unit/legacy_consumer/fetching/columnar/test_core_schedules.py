"""Seeded schedules of the core: faults between a fetcher and its brokers, and the rules that hold after each."""

import os

import pytest

from tests.support.core_world import World

QUICK = 1000
ALL = int(os.environ.get("CORE_SCHEDULES", "100000"))
PARTS = 10


def run(seeds):
    """Run one schedule for each seed."""
    for seed in seeds:
        try:
            World(seed).run()
        except Exception as error:
            raise AssertionError(f"World({seed}).run(): {error!r}") from error


def test_every_message_comes_once_and_in_order_whatever_goes_wrong():
    run(range(QUICK))


@pytest.mark.slow
@pytest.mark.parametrize("part", range(PARTS))
def test_every_message_comes_once_and_in_order_in_very_many_schedules(part):
    run(range(QUICK + part, ALL, PARTS))
