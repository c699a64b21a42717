"""The stopwatch by which tests limit durations."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

from tests.support.stopwatch import Stopwatch

ROOT = Path(__file__).parents[2]
PROGRAM = """
import sys
from tests.support.stopwatch import Stopwatch
with Stopwatch() as watch:
    print("begun", flush=True)
    sys.stdin.readline()
print(watch.seconds, watch.late_s)
"""


def test_the_time_of_a_standstill_of_the_process_is_not_counted():
    began = time.monotonic()
    with subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout.readline() == "begun\n"
            process.send_signal(signal.SIGSTOP)
            os.waitid(os.P_PID, process.pid, os.WSTOPPED)
            stopped = time.monotonic()
            threading.Event().wait(0.5)
            stood_s = time.monotonic() - stopped
            process.send_signal(signal.SIGCONT)
            told = process.communicate("\n", timeout=60)[0]
        finally:
            process.kill()
    seconds, late_s = map(float, told.split())
    assert late_s > stood_s - 0.1
    assert seconds < time.monotonic() - began - stood_s + 0.1


class NeverInTime(threading.Event):
    """An event whose wait() ignores its time limit, and returns only once the event is set."""

    def __init__(self):
        super().__init__()
        self.asked = threading.Event()

    def wait(self, timeout=None):
        self.asked.set()
        return super().wait()


def test_a_standstill_that_the_body_is_the_first_to_wake_from_is_not_counted_either():
    watch = Stopwatch()
    watch._ended = NeverInTime()
    with watch:
        assert watch._ended.asked.wait(60)
        threading.Event().wait(0.2)
    assert watch.late_s > 0.18
