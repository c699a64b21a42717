"""Finds processes and ports that a test run left behind. Reads /proc, so it finds nothing outside Linux.

Child processes inherit the environment, also if another process adopts them later: a variable that is set before the
first test marks every process that the run starts, directly or not.
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
"""The environment variable with the seconds to wait, for a test run that leaves a process on purpose."""
_ENDING_S = 30.0
"""Seconds to wait by default: a process needs a moment to notice its parent's end, and longer on a busy machine."""


def processes_left(mark: str) -> list[str]:
    """Return the processes of this run that do not end in time, as `pid command line`."""
    deadline = time.monotonic() + float(os.environ.get(PATIENCE, _ENDING_S))
    while (found := processes_of(mark)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def processes_of(mark: str, proc: Path = Path("/proc")) -> list[str]:
    """Return the processes with this run's mark in their environment, except this process."""
    wanted = f"{MARK}={mark}".encode()
    found = []
    for folder in proc.glob("[0-9]*"):
        if int(folder.name) == os.getpid():
            continue
        try:
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                command = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace").strip()
                found.append(f"{folder.name} {command[:160]}")
        except OSError:  # the process has ended meanwhile, or is another user's
            continue
    return sorted(found)


def ports_left(proc: Path = Path("/proc")) -> list[int]:
    """Return the ports on which this process still listens. Ports of its children close with the children."""
    sockets = set()
    for link in (proc / "self" / "fd").glob("*"):
        with contextlib.suppress(OSError):  # the list has the descriptor that listed it, which is closed now
            sockets.add(str(link.readlink()))
    tables = [table for name in ("tcp", "tcp6") if (table := proc / "self" / "net" / name).exists()]
    rows = [row.split() for table in tables for row in table.read_text().splitlines()[1:]]
    listening = [row for row in rows if row[3] == _LISTEN and f"socket:[{row[9]}]" in sockets]
    return sorted({int(row[1].rpartition(":")[2], 16) for row in listening})


def end_spark() -> None:
    """End pyspark's JVM, which else lives as long as this process and would count as left behind."""
    context = getattr(sys.modules.get("pyspark"), "SparkContext", None)
    gateway = getattr(context, "_gateway", None)
    if gateway is None:
        return
    if context._active_spark_context is not None:
        context._active_spark_context.stop()
    gateway.shutdown()
    gateway.proc.stdin.close()  # the JVM ends at the end of its input
    with contextlib.suppress(subprocess.TimeoutExpired):  # processes_left() then reports the JVM
        gateway.proc.wait(timeout=30)
    context._gateway = context._jvm = None
