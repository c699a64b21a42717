"""The group's offsets as Spark sees them: `python -m spark_source` as a child, since Spark itself stays out of here."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from legacy_consumer.sandbox.quickstart.children import start_guarded
from legacy_consumer.sandbox.quickstart.errors import QuickstartError
from legacy_consumer.sandbox.servers.process import Workspace

_PROGRAM = "spark_source"
_TIMEOUT_S = 120.0
_POLL_S = 0.05
_END_S = 10.0


def read_offsets(
    zookeeper: str, group: str, workspace: Workspace, wait: Callable[[float], None]
) -> list[dict[str, object]]:
    """The rows of the format zk_offsets for one group, by column name, ordered by partition.

    wait is called with seconds while Spark works. Raises: QuickstartError with Spark's last words.
    """
    if importlib.util.find_spec(_PROGRAM) is None or importlib.util.find_spec("pyspark") is None:
        raise QuickstartError("Spark is not installed: install legacy-consumer[spark]")
    folder = workspace.folder / "spark"
    folder.mkdir()
    output, errors = folder / "rows.json", folder / "errors"
    # everything that Spark writes beside its rows goes into a folder that is always removed
    environment = {
        **os.environ,
        "TMPDIR": os.fspath(folder),
        "SPARK_LOCAL_DIRS": os.fspath(folder),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
        "JAVA_TOOL_OPTIONS": f"{os.environ.get('JAVA_TOOL_OPTIONS', '')} -Djava.io.tmpdir={folder}".strip(),
    }
    with output.open("wb") as out, errors.open("wb") as err:
        # the JVM ends by itself when the Python process that started it is gone
        process = start_guarded(
            [sys.executable, "-m", _PROGRAM, "--zookeeper", zookeeper, "--group", group, "--json"],
            workspace,
            stdout=out,
            stderr=err,
            folder=folder,
            environment=environment,
        )
    try:
        deadline = time.monotonic() + _TIMEOUT_S
        while process.poll() is None:
            if time.monotonic() > deadline:
                raise QuickstartError(f"Spark did not read the offsets within {_TIMEOUT_S:g} s")
            wait(_POLL_S)
    finally:
        _end_group(process)
    if process.returncode != 0:
        words = [line.strip() for line in errors.read_text(encoding="utf-8", errors="replace").split("\n")]
        last = next((line for line in reversed(words) if line), "it printed no error")
        raise QuickstartError(f"Spark could not read the offsets: {last}")
    return _rows(output.read_bytes())


def _rows(output: bytes) -> list[dict[str, object]]:
    try:
        rows: list[dict[str, object]] = [{**json.loads(line)} for line in output.splitlines()]
        return sorted(rows, key=lambda row: int(str(row["partition"])))
    except (ValueError, TypeError, KeyError) as error:
        raise QuickstartError(f"{_PROGRAM} did not print rows of offsets: {error}") from error


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """Kill the program and all processes that it started, and wait until they have ended."""
    process.kill()
    process.wait(_END_S)
    if process.stdin is not None:
        process.stdin.close()
    deadline = time.monotonic() + _END_S
    while (left := _living_in_session(process.pid)) and time.monotonic() < deadline:
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_S)


def _living_in_session(session: int) -> list[int]:
    """Processes of a session, from /proc: Spark's Python workers have process groups of their own."""
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it ended while we looked
            # behind the name, which may hold anything: state, parent, process group, session
            state, _, _, its_session = stat.read_text().rpartition(")")[2].split()[:4]
            if int(its_session) == session and state not in "ZX":
                found.append(int(stat.parent.name))
    return found
