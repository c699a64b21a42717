"""A command that changes something, or answers by its exit code, works although nothing takes its output."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from legacy_consumer.operations.cli import main
from legacy_consumer.operations.cli.helpers import removals
from legacy_consumer.sandbox.quickstart import screen as screen_module
from legacy_consumer.sandbox.quickstart import story
from tests.simulation.operators.world import OperatorsWorld
from tests.support.memory_cluster import cluster_of_unused_groups

GROUPS = ("a", "b", "c", "d")
CHANGES = {
    "reset": ["offsets", "reset", "a", "--to-latest"],
    "reset --json": ["offsets", "reset", "a", "--to-latest", "--json"],
    "copy": ["offsets", "copy", "a", "new"],
    "import": ["offsets", "import", "FILE"],
    "import --format csv": ["offsets", "import", "FILE", "--format", "csv"],
    "delete": ["groups", "delete", "a", "b"],
    "delete of a topic": ["groups", "delete", "a", "b", "--topic", "t"],
    "prune": ["groups", "prune", "--older-than", "1s"],
    "prune --json": ["groups", "prune", "--older-than", "1s", "--json"],
}


@pytest.fixture
def cluster(monkeypatch):
    return cluster_of_unused_groups(monkeypatch, GROUPS)


@pytest.fixture
def unread():
    """A pipe whose reader has closed its end."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w") as pipe:
        yield pipe


@pytest.fixture
def full():
    """A file on a full disk."""
    with Path("/dev/full").open("w") as file:
        yield file


def typed(command, folder):
    file = folder / "given.json"
    file.write_text(json.dumps({"version": 1, "offsets": {group: {"t": {"0": 30}} for group in GROUPS}}))
    return [str(file) if word == "FILE" else word for word in command]


@pytest.mark.parametrize("unread_streams", [{"out"}, {"err"}, {"out", "err"}], ids=" and ".join)
@pytest.mark.parametrize("command", CHANGES)
def test_a_change_is_made_whole_without_a_reader(cluster, tmp_path, monkeypatch, unread, command, unread_streams):
    words = [*typed(CHANGES[command], tmp_path), "--execute"]
    out = unread if "out" in unread_streams else sys.stdout
    err = unread if "err" in unread_streams else sys.stderr
    assert cluster.run_into(out, err, *words, "--backup-dir", str(tmp_path)) == 0
    assert len(list(tmp_path.iterdir())) == 2
    with_readers = cluster_of_unused_groups(monkeypatch, GROUPS)
    assert with_readers.run(*words, "--no-backup").code == 0
    assert cluster.tree() == with_readers.tree() != cluster_of_unused_groups(monkeypatch, GROUPS).tree()


def test_a_reader_that_goes_away_stops_no_prune_between_two_groups(cluster, monkeypatch, unread):
    original = removals.delete_tree

    def meanwhile(store, tree, **options):
        if tree.group == "b":
            cluster.join("b", "m", '{"t":1}')
        return original(store, tree, **options)

    monkeypatch.setattr(removals, "delete_tree", meanwhile)
    words = ["groups", "prune", "--older-than", "1s", "--execute", "--no-backup"]
    assert cluster.run_into(sys.stdout, unread, *words) == 0
    assert cluster.store.get_children("/consumers") == ("b",)


@pytest.mark.parametrize("command", CHANGES)
def test_a_full_disk_stops_no_change_and_is_told_behind_it(cluster, tmp_path, capsys, full, command):
    before = cluster.tree()
    words = [*typed(CHANGES[command], tmp_path), "--execute", "--backup-dir", str(tmp_path)]
    assert cluster.run_into(full, sys.stderr, *words) == 1
    assert cluster.tree() != before
    told = capsys.readouterr().err.splitlines()[-1]
    assert told == "Error: the command is done, but its output cannot be written: No space left on device"


@pytest.mark.parametrize("verb", ["apply", "rollback", "finish"])
def test_a_step_of_a_migration_is_made_without_a_reader(monkeypatch, tmp_path, unread, verb):
    world = OperatorsWorld(monkeypatch, tmp_path)
    for step in ("apply", verb) if verb != "apply" else ("apply",):
        words = ["migrate", step, "g", "--execute", "--backup", str(tmp_path / f"{step}.json")]
        assert world.run_into(unread, sys.stderr, *words) == 0
    phase = json.loads(world.store.get_data("/consumers/g/migration").data)["phase"]
    assert phase == {"apply": "applied", "rollback": "rolled back", "finish": "finished"}[verb]


@pytest.mark.parametrize(
    ("command", "code"),
    [
        (["groups", "describe", "a", "--check"], 1),
        (["groups", "describe", "a"], 0),
        (["doctor"], 1),
        (["groups", "verify", "a"], 1),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else str(value),
)
def test_an_exit_code_that_is_a_verdict_needs_no_reader(cluster, unread, command, code):
    cluster.join("a", "m", '{"t":1}', ("t", 7), ephemeral=False)
    assert cluster.run_into(unread, sys.stderr, *command) == code


@pytest.mark.parametrize(("failures", "code"), [([], 0), (["a flight is lost"], 1)])
def test_a_quickstart_goes_on_without_a_reader_and_its_exit_code_tells_of_lost_flights(
    monkeypatch, unread, failures, code
):
    """rich ends a program with exit code 1 and without a word if its output has no reader."""

    def run_story(screen, **_):
        for second in range(3):
            screen.say(second, "something happened")
        return SimpleNamespace(failures=failures)

    monkeypatch.setattr(story, "run_story", run_story)
    monkeypatch.setattr(screen_module, "print_summary", lambda console, report: console.print(report.failures))
    monkeypatch.setattr(sys, "stdout", unread)
    with pytest.raises(SystemExit) as ended:
        main(["quickstart"])
    assert ended.value.code == code
