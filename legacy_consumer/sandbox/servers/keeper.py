"""Outlives the process that started it just long enough to end its servers and remove its folder.

Run as a program with the folder as its argument; standard input carries one process id a line. When the writing end
is closed or the parent is gone, however it went, every process named is killed and the folder removed.

Why a process of its own: a process that is killed with -9 cannot clean up. PR_SET_PDEATHSIG, the kernel's own answer,
fires when the thread that forked ends, not the process, and would end servers that were started from a short-lived
thread; nor does it remove folders. Reading the end of a pipe has no such catch, except that the pipe stays open while
a forked sibling still holds it: hence the look at the parent's id once a second.
"""

from __future__ import annotations

import contextlib
import os
import select
import shutil
import signal
import sys

PARENT_CHECK_S = 1.0


class _Target:
    """A process to end; held by a pidfd where the kernel has them, so that a reused id is never hit."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.fd: int | None = None
        with contextlib.suppress(OSError, AttributeError):
            self.fd = os.pidfd_open(pid)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            if self.fd is not None:
                signal.pidfd_send_signal(self.fd, signal.SIGKILL)
            else:
                os.kill(self.pid, signal.SIGKILL)

    def wait(self, timeout_s: float) -> None:
        """Until it is gone, so that it writes nothing more into the folder."""
        if self.fd is not None:
            select.select([self.fd], [], [], timeout_s)


def main(folder: str) -> None:
    """Guard until the parent ends, then clean up."""
    parent = os.getppid()
    targets: dict[int, _Target] = {}
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], PARENT_CHECK_S)
        if readable:
            chunk = os.read(0, 4096)
            if not chunk:
                break
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                targets[int(line)] = _Target(int(line))
        elif os.getppid() != parent:
            break
    for target in targets.values():
        target.kill()
    for target in targets.values():
        target.wait(5.0)
    shutil.rmtree(folder, ignore_errors=True)


if __name__ == "__main__":
    main(sys.argv[1])
