"""The worker's brake keeps the rate of messages."""

import threading
import time

from legacy_consumer.sandbox.quickstart.worker import Brake
from tests.support.stopwatch import Stopwatch


def test_without_a_rate_the_brake_does_not_wait():
    with Stopwatch() as watch:
        Brake(0).wait_after(10_000_000)
    assert watch.seconds < 1.0


def test_a_rate_is_kept_over_many_batches():
    brake = Brake(1000)
    began = time.monotonic()
    for _ in range(10):
        brake.wait_after(20)
    assert time.monotonic() - began >= 0.19


def test_releasing_the_brake_ends_the_wait_that_is_going_on():
    brake = Brake(0.001)
    waiting = threading.Thread(target=brake.wait_after, args=(1,))
    waiting.start()
    brake.set_rate(0)
    waiting.join(60)
    assert not waiting.is_alive()
