"""Finds what a run of the tests left behind. Reads /proc, so elsewhere than on Linux it finds nothing.

Children inherit the environment, whoever adopts them later: one variable set before the first test marks
every process that the run starts, directly or not.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

MARK = "LEGACY_CONSUMER_TEST_RUN"

_LISTEN = "0A"
PATIENCE = "LEGACY_CONSUMER_TEST_PATIENCE_S"
"""By this variable a run that is meant to leave something says so, and waits no longer than that."""
_ENDING_S = 30.0
"""A process that ends with its parent takes a moment to notice the parent's end, and longer on a busy machine."""


def processes_left(mark: str) -> list[str]:
    """Processes of this run that do not end by themselves in a moment: `pid command line`."""
    deadline = time.monotonic() + float(os.environ.get(PATIENCE, _ENDING_S))
    while (found := processes_of(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def processes_of(mark: str, proc: Path = Path("/proc")) -> list[str]:
    """Processes whose environment carries this run's mark, this one excepted."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in proc.glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append(f"{folder.name} {command[:160]}")
        except OSError:  # it ended while we looked, or is someone else's
            continue
    return sorted(found)


def ports_left(proc: Path = Path("/proc")) -> list[int]:
    """Return the ports on which this very process still listens. The ports of its children go with the children."""
    sockets = set()
    for link in (proc / "self" / "fd").glob("*"):
        with contextlib.suppress(OSError):  # the handle that lists the folder is in the list, and gone
            sockets.add(str(link.readlink()))
    tables = [table for name in ("tcp", "tcp6") if (table := proc / "self" / "net" / name).exists()]
    rows = [row.split() for table in tables for row in table.read_text().splitlines()[1:]]
    listening = [row for row in rows if row[3] == _LISTEN and f"socket:[{row[9]}]" in sockets]
    return sorted({int(row[1].rpartition(":")[2], 16) for row in listening})


def end_spark() -> None:
    """End the JVM that pyspark keeps as long as its Python process lives, lest it count as left behind."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    gateway = getattr(context, "_gateway", None)
    if gateway is None:
        return
    if context._active_spark_context is not None:
        context._active_spark_context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM takes the end of its input as the end of its driver
    with contextlib.suppress(subprocess.TimeoutExpired):  # it is then named among what is left
        gateway.proc.wait(timeout=30)
    context._gateway = context._jvm = None
