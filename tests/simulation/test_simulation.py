"""Thousands of seeded worlds: never two owners of a partition, never a lost message, and every group settles."""

import logging
import os
import re
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest

from tests.simulation import running
from tests.simulation.running import DEFAULT_SEEDS, FEW_SEEDS, history_of, run_many, run_seeds

ROOT = Path(__file__).parents[2]
PROCESSES = min(4, os.cpu_count() or 1)


def test_a_thousand_worlds_keep_every_promise():
    outcome = run_many(0, FEW_SEEDS, PROCESSES, stop_after=5)
    report = [f"seed {seed}: {text}" for seed, (_, text) in sorted(outcome.failures.items())[:5]]
    report += [f"replay: python -m tests.simulation --seed {seed} -v" for seed in sorted(outcome.failures)[:1]]
    assert not outcome.failures, "\n".join(report)
    assert outcome.schedules == FEW_SEEDS
    assert outcome.deliveries > 10_000, "worlds in which nothing is delivered prove nothing"
    assert outcome.duplicates > 0, "worlds without forced hand-overs prove little"


def test_a_world_that_does_not_end_is_told_with_its_seed(monkeypatch):
    def endless(seed):
        while True:
            with suppress(Exception):  # like a member whose thread joins again without end
                sum(range(100)) if seed == 7 else threading.Event().wait()

    monkeypatch.setattr(running, "run_world", endless)
    before = signal.setitimer(signal.ITIMER_REAL, 0)  # the bound of pytest-timeout
    try:
        outcome = run_seeds([7, 8], bound_s=0.05)
    finally:
        signal.setitimer(signal.ITIMER_REAL, *before)
    assert outcome.schedules == 0
    assert {seed: check for seed, (check, _) in outcome.failures.items()} == {7: "EndlessWorld", 8: "EndlessWorld"}
    assert "no end after 0.05 s" in outcome.failures[7][1]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_ten_thousand_worlds_keep_every_promise(many_worlds):
    code, told = many_worlds.outcome()
    assert code == 0, told
    assert told.startswith(f"{DEFAULT_SEEDS - FEW_SEEDS} schedules in "), told


@pytest.mark.parametrize("hash_seed", ["0", "4711"])
def test_a_seed_tells_the_same_story_in_every_process(hash_seed):
    seeds = range(60, 72)
    here = "\n".join("\n".join(history_of(seed)) for seed in seeds)
    program = (
        "import logging; logging.disable(50)\n"
        "from tests.simulation.running import history_of\n"
        f"print('\\n'.join('\\n'.join(history_of(seed)) for seed in {list(seeds)}))"
    )
    environment = {**os.environ, "PYTHONHASHSEED": hash_seed, "PYTHONPATH": str(ROOT)}
    there = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert there.stdout.rstrip("\n") == here


def test_a_logging_handler_that_raises_at_each_record_changes_no_world(request, monkeypatch):
    class Raising(logging.Handler):
        raised = 0

        def emit(self, record):
            Raising.raised += 1
            raise OSError("the disk is full")

    def story_of(seed):
        return [re.sub(r'"request":"\w+"', "", line) for line in history_of(seed)]

    seeds = range(100)
    before = [story_of(seed) for seed in seeds]
    monkeypatch.setattr(logging, "raiseExceptions", False)
    for name in ("zk_layout", "rebalance", "legacy_consumer"):
        logger, handler = logging.getLogger(name), Raising()
        request.addfinalizer(partial(logger.removeHandler, handler))
        request.addfinalizer(partial(logger.setLevel, logger.level))
        logger.addHandler(handler)
        logger.setLevel(logging.DEBUG)
    assert [story_of(seed) for seed in seeds] == before
    assert Raising.raised > len(seeds)


def test_two_seeds_tell_two_stories():
    assert history_of(1) != history_of(2)
