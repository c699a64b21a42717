"""An operator's commands against the group, each in a separate process."""

from __future__ import annotations

import itertools
import json
import os
import subprocess
import sys
import time

from tests.chaos.world import GROUP, ROOT, TOPIC

COMMAND_S = 120.0
KEPT = 10_000
"""The most characters kept of a command's output."""
_numbers = itertools.count(1)


def command(world, *words):
    """Run a command, and record how it ended. Returns: its exit code; None if it did not end in time."""
    whole = [sys.executable, "-m", "legacy_consumer", *words, "--zookeeper", world.servers.ensemble.connect]
    began = time.monotonic()
    try:
        done = subprocess.run(
            whole,
            cwd=world.folder,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=COMMAND_S,
        )
    except subprocess.TimeoutExpired:
        code, said = None, f"it did not end within {COMMAND_S:g} s"
    else:
        code, said = done.returncode, (done.stdout + done.stderr)[-KEPT:]
    world.history.write("command", command=" ".join(words[:2]), began=began, code=code, said=said)
    return code


def reset_live(world, targets):
    """Move the group's offsets to {partition: offset} with `offsets reset --live`, and record what it did.

    The command's backup holds the offsets before; there is no backup if the command has written nothing.
    """
    folder = world.folder / f"reset-{next(_numbers)}"
    folder.mkdir()
    wanted = folder / "wanted.txt"
    wanted.write_text("".join(f"/consumers/{GROUP}/offsets/{TOPIC}/{p}:{offset}\n" for p, offset in targets.items()))
    began = time.monotonic()
    how = ("--from-file", str(wanted), "--live", "--execute", "--backup-dir", str(folder))
    code = command(world, "offsets", "reset", GROUP, *how)
    ended = time.monotonic()
    for backup in folder.glob("*.json"):
        stood = json.loads(backup.read_text("utf-8"))["offsets"][GROUP][TOPIC]
        for partition, offset in targets.items():
            before = stood[str(partition)] or 0
            world.history.write(
                "reset", ended, partition=partition, offset=offset, before=before, began=began, sure=code == 0
            )
