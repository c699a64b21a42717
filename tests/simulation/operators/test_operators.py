"""Seeded stories of operators: commands given twice, in any order, killed, or disturbed by other clients."""

from __future__ import annotations

import contextlib
import random

import pytest

from tests.simulation.operators.everything import carry_out_everything
from tests.simulation.operators.model import Kill, Operators, StoryEndsError
from tests.simulation.operators.running import run_story
from tests.simulation.operators.world import OperatorsWorld


@pytest.mark.parametrize("seed", range(30))
def test_no_command_moves_loses_or_forgets_anything_that_it_did_not_name(seed):
    run_story(seed)


@pytest.mark.parametrize("seed", range(2))
def test_each_command_does_its_work_given_twice_and_all_agree_about_it(monkeypatch, tmp_path, seed):
    carry_out_everything(Operators(OperatorsWorld(monkeypatch, tmp_path), random.Random(seed)))


COMMANDS = 11
WRITE_MOST = (1, 7)
"""The commands of that story with the most writes: `offsets reset --live` and `migrate apply`."""


@pytest.mark.parametrize(
    "command",
    [pytest.param(n, marks=() if n in WRITE_MOST else pytest.mark.long) for n in range(1, COMMANDS + 1)],
)
def test_a_command_killed_at_any_of_its_writes_is_done_when_it_is_given_again(tmp_path_factory, command):
    """Each write position, before ZooKeeper gets the write and after it has."""

    def tell(doom):
        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(StoryEndsError):
            operators = Operators(OperatorsWorld(patch, tmp_path_factory.mktemp("story")), random.Random(0))
            operators.doom = doom
            try:
                carry_out_everything(operators)
            except AssertionError as error:
                raise AssertionError("\n".join([f"{doom}: {error}", *operators.told])) from error
        return operators

    writes = tell(None).writes_of
    assert (len(writes), max(writes)) == (COMMANDS, max(writes[n - 1] for n in WRITE_MOST))
    for write in range(1, writes[command - 1] + 1):
        for before in (True, False):
            # only writes to ZooKeeper call after_write: a Kill after a write to Kafka is the one before the next write
            assert "killed" in tell((command, Kill(write, before))).told or not before
