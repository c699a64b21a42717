"""Child processes that begin only once their end is provided for."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO

from legacy_consumer.sandbox.servers.process import Workspace


def start_guarded(
    command: Sequence[str],
    workspace: Workspace,
    *,
    stdout: int | IO[bytes],
    stderr: IO[bytes],
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
) -> subprocess.Popen[bytes]:
    """Start a program in a session of its own, with a pipe for its input, and have it killed when this process ends.

    A shell waits for a line before it becomes the program: by then the workspace's keeper knows its id. If anything
    interrupts us before that, Ctrl-C in the middle of Popen included, the shell reads the end of the pipe and ends.
    """
    process = subprocess.Popen(
        ["/bin/sh", "-c", 'read -r go && exec "$@"', command[0], *command],
        stdin=subprocess.PIPE,
        stdout=stdout,
        stderr=stderr,
        start_new_session=True,
        cwd=None if folder is None else os.fspath(folder),
        env=None if environment is None else dict(environment),
    )
    assert process.stdin is not None
    try:
        workspace.guard(process.pid)
        process.stdin.write(b"go\n")
        process.stdin.flush()
    except BaseException:
        process.kill()
        process.wait()
        process.stdin.close()
        raise
    return process
