"""Runs one world through its faults, and judges its history."""

from __future__ import annotations

import json
import random
import time
from dataclasses import replace
from pathlib import Path

from tests.chaos.checker import Rules, check
from tests.chaos.faults import OF_LED_GROUPS, OF_THE_JVM, SHORT, drawn, strike_all
from tests.chaos.history import load_history
from tests.chaos.telling import Telling
from tests.chaos.timeline import draw
from tests.chaos.world import AUDIT_S, FETCHERS, KAFKA, SESSION_TIMEOUT_S, NoFlowError, Plan, World

WARM_UP_S = 2.0
QUIET_S = 1.0
"""Seconds between two rounds of faults, in which late effects of a fault can show."""


def run_chaos(
    folder: Path,
    seed: int,
    minutes: float | None = None,
    say=print,
    fetchers: str | None = None,
    transactions: bool | None = None,
    led: bool | None = None,
    kafka: str | None = None,
) -> dict:
    """Run once. Returns: the figures, with the violations found.

    minutes: how long to draw faults; None: the short list, once. fetchers: one of FETCHERS. transactions: see Plan.
    led: whether the group is led. kafka: one of KAFKA. None of the last four: drawn from the seed.
    """
    chosen = random.Random(seed)
    plan = Plan(conflict=chosen.choice(["adopt", "keep"]), fetchers=chosen.choice(list(FETCHERS)))
    plan = replace(plan, codec=chosen.choice(["gzip", "snappy", "lz4"]), transactions=chosen.random() < 0.5)
    if transactions is not None:
        plan = replace(plan, transactions=transactions)
    # a generator of its own: the other choices of a seed do not depend on it
    leading = random.Random(f"led {seed}")
    strategies = ("range", "sticky", "cooperative-sticky", f"{Telling.__module__}:{Telling.__name__}")
    if led or (led is None and leading.random() < 0.3):
        plan = replace(plan, led=leading.choice(strategies))
    if plan.transactions or plan.led is not None:
        plan = replace(plan, python=plan.python + plan.jvm, jvm=0)
    if fetchers is not None:
        plan = replace(plan, fetchers=fetchers)
    plan = replace(plan, kafka=kafka or random.Random(f"kafka {seed}").choice(KAFKA))
    began = time.monotonic()
    failure = None
    with World(folder, plan, chosen) as world:
        world.history.write("began", seed=seed, conflict=plan.conflict, kafka=plan.kafka)
        world.await_flow(time.monotonic())
        world.pause(WARM_UP_S)
        up = time.monotonic()
        without = (OF_THE_JVM if plan.jvm == 0 else frozenset()) | (OF_LED_GROUPS if plan.led is None else frozenset())
        short = SHORT if plan.led is None else (*SHORT, *(tuple(OF_LED_GROUPS),) * 3)
        rounds = iter(short) if minutes is None else drawn(chosen, without=without)
        try:
            for names in rounds:
                say(f"{time.monotonic() - began:6.1f} s  {', '.join(names)}")
                strike_all(world, names)
                world.pause(QUIET_S)
                if minutes is not None and time.monotonic() - up > 60 * minutes:
                    break
            world.end()
        except NoFlowError as error:
            failure = str(error)
            world.history.write("gave up", error=failure[:500])
    figures = judge(folder)
    if failure is not None:
        figures["violations"].insert(0, f"not settled: {failure}")
    return figures


def judge(folder: Path) -> dict:
    """Return the figures of a recorded history."""
    events = load_history(folder)
    began = next(event for event in events if event.what == "began")
    figures = check(events, Rules(audit_s=AUDIT_S, session_timeout_s=SESSION_TIMEOUT_S))
    seconds = round(events[-1].at - events[0].at, 1)
    told = {name: began[name] for name in ("seed", "conflict", "kafka")}
    return {**told, "seconds": seconds, **figures}


def write_results(folder: Path, figures: dict, json_path: Path | None, svg_path: Path | None) -> None:
    """Write the figures and the picture, if paths are given; missing folders are created."""
    for path in filter(None, (json_path, svg_path)):
        path.parent.mkdir(parents=True, exist_ok=True)
    if json_path is not None:
        json_path.write_text(json.dumps(figures, indent=1) + "\n", encoding="utf-8")
    if svg_path is not None:
        svg_path.write_text(draw(load_history(folder), _title(figures)), encoding="utf-8")


def _title(figures: dict) -> str:
    violations = len(figures["violations"])
    return (
        f"seed {figures['seed']}: {figures['acknowledged']} messages, {figures['lost']} lost, "
        f"{figures['duplicates']} delivered again, {violations} violations"
    )
