"""The user's code of a Python member: a loop over its stream, and other calls of users.

A member consumes on its main thread, where signals interrupt it, or on another thread, which may die and be replaced.
The loop records each message before it asks for the next one: a message that is not recorded is not consumed.
"""

from __future__ import annotations

import contextlib
import os
import random
import signal
import threading
import time
from pathlib import Path

from legacy_consumer import LegacyConsumerError, NotAssignedError
from tests.chaos.history import HistoryFile, runs_of
from tests.chaos.producing import number_of
from zk_layout.signals import Flag

COMMIT_EVERY_S = 0.7
BATCH_WAIT_S = 0.5
BATCH_MESSAGES = 50
WORK_S = 0.001
"""Seconds that a user spends on a message, so that a burst of messages is in hands and buffers for a while."""
SIGNALS_S = 0.004
"""The longest time, in seconds, between two signals that interrupt."""
INTERRUPTED_S = 3.0
"""The longest time, in seconds, for all interrupts of one command."""
WAITS = ("wait", "consume")
STRUCK_WAITING = 0.001
"""The share of signals that interrupt a waiting thread; a thread waits most of the time."""
SUCCESSOR_S = 0.5
"""The longest time, in seconds, between the death of a thread and the start of its successor."""
AGAIN_S = 0.001
SOUGHT = 2
"""The most partitions of one seek command."""


class TimeLimit(Exception):  # noqa: N818 (as Celery's SoftTimeLimitExceeded, it says what happened)
    """The soft time limit of the user's code has passed."""


class DiedError(Exception):
    """Ends the consuming thread."""


INTERRUPTS = (KeyboardInterrupt, TimeLimit)


class Looks:
    """A stream's lease. at: when the last check began that found the lease to hold."""

    def __init__(self, holds):
        self._holds = holds
        self.at = float("-inf")

    def __call__(self):
        at = time.monotonic()
        if not self._holds():
            return False
        self.at = at
        return True


class User:
    """The user of one member. how: each, batches or arrow. on: main or thread."""

    def __init__(self, connector, how, on, history):
        self._connector = connector
        self._how = how
        self._on = on
        self._history = history
        # a Flag: an exception may interrupt any wait, which would break the lock of a threading.Event
        self._never = Flag()
        self._taken = None
        """The message or batch that the stream handed out, and the loop has not recorded yet."""
        self._asked = self._committed = time.monotonic()
        self._is_open = False
        """Whether the loop would catch an interrupt now."""
        self._interrupts = 0
        self._is_to_die = False
        self._is_over = False

    def hear_signals(self):
        signal.signal(signal.SIGTERM, self._told_to_end)
        if self._on == "main":
            signal.signal(signal.SIGINT, self._interrupted)

    # The loop.

    def consume(self, stream):
        """Consume until the stream ends."""
        gated = stream._stream
        self._looks = gated._may_hand_out = Looks(gated._may_hand_out)
        if self._on == "main":
            self._consume(stream)
        while not self._is_over:
            thread = threading.Thread(target=self._consume, args=(stream,))
            thread.start()
            thread.join()
            if not self._is_over:
                self._never.wait(random.uniform(0, SUCCESSOR_S))

    def _consume(self, stream):
        try:
            while not self._is_over:
                try:
                    self._is_open = True
                    self._loop(stream)
                    self._is_over = True
                    self._is_open = False
                except INTERRUPTS:
                    self._write_down()
        except DiedError:
            raise
        except Exception as error:
            self._is_over = True
            self._history.write("failed", error=f"{type(error).__name__}: {error}")
            raise

    def _loop(self, stream):
        self._asked = time.monotonic()
        match self._how:
            case "each":
                messages = stream
            case "batches":
                messages = stream.batches(BATCH_MESSAGES, timeout=BATCH_WAIT_S)
            case "arrow":
                messages = stream.arrow_batches(BATCH_MESSAGES, timeout=BATCH_WAIT_S)
        # an attribute, so that a message handed out just before an interrupt is found there
        for self._taken in messages:
            count = self._write_down()
            if self._is_to_die:
                self._is_to_die = False
                self._history.write("died")
                raise DiedError
            self._never.wait(WORK_S * count)
            if self._how != "each" and time.monotonic() - self._committed > COMMIT_EVERY_S:
                self._committed = time.monotonic()
                self._commit()
            self._is_open = True
            self._asked = time.monotonic()

    def _write_down(self):
        """Record the messages of _taken, once. Returns: their number. No signal handler acts during this method."""
        at = time.monotonic()
        if self._taken is None:
            return 0
        facts = self._facts(self._taken)
        for partition, first, last, number in runs_of(facts):
            self._history.write(
                "delivered",
                at,
                partition=partition,
                first=first,
                last=last,
                seq=number,
                asked=self._asked,
                looked=self._looks.at,
            )
        self._taken = None
        return len(facts)

    def _facts(self, taken):
        if self._how == "arrow":
            columns = (taken.column(name).to_pylist() for name in ("partition", "offset", "value"))
            return [(partition, offset, number_of(value)) for partition, offset, value in zip(*columns, strict=True)]
        messages = [taken] if self._how == "each" else taken
        return [(message.partition(), message.offset(), number_of(message.value())) for message in messages]

    def _commit(self):
        """Commit in addition to the auto commit, as a careful user does; RecordingOffsets records the result."""
        try:
            self._connector.commit_offsets()
        except Exception as error:
            self._history.write("commit refused", error=type(error).__name__)

    # Signals.

    def _interrupted(self, signum, frame):
        if _is_writing(frame):
            _send_again(signum)
        elif self._is_open and (frame.f_code.co_name not in WAITS or random.random() < STRUCK_WAITING):
            self._is_open = False
            self._interrupts += 1
            error = random.choice(INTERRUPTS)
            where = f"{Path(frame.f_code.co_filename).name} {frame.f_code.co_name}"
            self._history.write("interrupted", error=error.__name__, where=where)
            raise error

    def _told_to_end(self, signum, frame):
        if _is_writing(frame):
            _send_again(signum)
            return
        self._is_open = False
        call = random.choice((self._connector.end_streams, self._connector.shutdown))
        self._history.write("told to end", call=call.__name__, on=self._on)
        call()

    # The runner's commands, on a thread beside the loop.

    def obey(self, lines):
        """Carry out the command in each line and print `done`, until a line says `shutdown`."""
        for line in lines:
            what, *arguments = line.decode().split()
            if what == "shutdown":
                break
            try:
                getattr(self, what)(*map(float, arguments))
            except LegacyConsumerError as error:
                self._history.write("refused", command=what, error=type(error).__name__)
            except Exception as error:
                self._history.write("failed", error=f"{what}: {type(error).__name__}: {error}")
            print("done", flush=True)
        self._connector.end_streams()

    def die(self):
        """End the consuming thread with its next message in hand; another thread takes its place."""
        self._is_to_die = True

    def interrupt(self, times):
        enough, late = self._interrupts + times, time.monotonic() + INTERRUPTED_S
        while self._interrupts < enough and time.monotonic() < late:
            self._never.wait(random.uniform(0, SIGNALS_S))
            os.kill(os.getpid(), signal.SIGINT)

    def pause(self, seconds):
        """Pause half of the member's partitions, one by one, and resume them later."""
        owned = sorted(self._connector.status.owned)
        for tp in random.sample(owned, (len(owned) + 1) // 2):
            began = time.monotonic()
            with contextlib.suppress(NotAssignedError):
                self._connector.pause([tp])
                self._history.write("paused", partition=tp.partition, began=began)
        self._never.wait(seconds)
        while paused := self._connector.paused():
            for tp in paused:
                self._history.write("resumed", partition=tp.partition)
                with contextlib.suppress(NotAssignedError):
                    self._connector.resume([tp])

    def seek(self, back):
        """Move some of the member's partitions back by this number of messages."""
        owned = sorted(self._connector.status.owned)
        for tp in random.sample(owned, min(SOUGHT, len(owned))):
            with contextlib.suppress(NotAssignedError):
                began, position = time.monotonic(), self._connector.position(tp)
                if position:
                    offset = max(0, position - int(back))
                    self._connector.seek(tp, offset)
                    self._history.write("sought", partition=tp.partition, offset=offset, before=position, began=began)


def _is_writing(frame):
    """Return whether a signal interrupted a write to the history, which must happen exactly once."""
    while frame is not None:
        if frame.f_code in (User._write_down.__code__, HistoryFile.write.__code__):
            return True
        frame = frame.f_back
    return False


def _send_again(signum):
    threading.Timer(AGAIN_S, os.kill, (os.getpid(), signum)).start()
