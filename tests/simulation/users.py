"""The users of a member's streams in a simulated world, and what befalls them.

Ctrl-C strikes a thread inside a call of the library: before or after a poll has its effect, at a look at the clock,
when messages are taken in hand, before or after a request of a commit; in some worlds at any line of the library. The
thread goes on, or dies and is replaced. A signal handler ends the streams or shuts the member down at any line.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys

from legacy_consumer.errors import ConsumerTimeoutError, NoCommittedOffsetError, NotAssignedError
from tests.simulation.by_hand import place
from tests.simulation.fetching import no_strike
from tests.simulation.zookeeper import InjectedError
from tests.support.at_line import AtLine
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition

STYLES = ("batches", "next", "iterate", "arrow")
_ANOTHER_THREAD = 0
_LINES = (15, 60, 200)
"""Of the library, that a call passes: a short one, one that polls, one that commits."""


class Interrupted(BaseException):
    """An exception that strikes a thread at any line: no Exception, as KeyboardInterrupt is none."""


def _interrupt():
    raise Interrupted


@contextlib.contextmanager
def nobody_struck():
    """Others act in the midst of a call: what is to happen at a line of that call waits until it goes on."""
    before = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(before)


class Trouble:
    """The troubles of a world's users. Drawn from a generator of their own, so that other worlds stay as they were."""

    def __init__(self, world, *, acknowledges):
        self._world = world
        self.rng = rng = random.Random(f"users {world.seed}")
        self._strikes = rng.choice((0.01, 0.05)) if rng.random() < 0.25 else 0.0
        self._deaths = rng.choice((0.1, 0.3)) if rng.random() < 0.25 else 0.0
        self.switches = rng.random() < 0.15 and not acknowledges
        """Whether users read now in one way and now in another; Arrow batches have no acknowledgements."""
        self._idents = itertools.count(1000)
        self._lines = random.Random(f"lines {world.seed}")
        self._at_lines = self._lines.choice((0.2, 0.7)) if self._lines.random() < 0.25 else 0.0
        self.signals = random.Random(f"signals {world.seed}")
        self.has_signals = self.signals.random() < 0.15
        """Whether signal handlers and hooks end streams and shut members down, whatever those are in the midst of."""

    def new_ident(self):
        """Of a thread that has not been there before."""
        return next(self._idents)

    def strike(self, times=1):
        """Raise Interrupted now and then. times: the factor by which it is more frequent."""
        if self._strikes and self._world.faults and self.rng.random() < self._strikes * times:
            raise Interrupted

    def at_a_line(self, member):
        """While a user calls the library: now and then something happens at one of its lines."""
        if not self._world.faults:
            return contextlib.nullcontext()
        if self._at_lines and self._lines.random() < self._at_lines:
            return AtLine(self._lines.randrange(self._lines.choice(_LINES)), _interrupt)
        if self.has_signals and self.signals.random() < 0.05:
            handler = self.signals.choice((member.end_streams, member.ask_to_close))
            return AtLine(self.signals.randrange(self.signals.choice(_LINES)), lambda: member.closing or handler())
        return contextlib.nullcontext()

    def befall(self, user):
        """Between two calls of a user: its thread dies, or another one commits."""
        if not self._deaths or self.rng.random() >= self._deaths:
            return
        if self.rng.random() < 0.6 or user.member.turning or user.member.closing:
            user.die()
        else:
            user.ask_for_commit(_ANOTHER_THREAD)


class User:
    """The thread that consumes one stream: takes, holds for a while, comes back, commits; and its successors."""

    def __init__(self, member, stream, clock, ident, style):
        self.member = member
        self.stream = stream
        self.clock = clock
        self.ident = ident
        self.style = style
        self.hand = []
        self.away_until = 0.0
        self._iterator = None
        self._left_behind = []
        """The hand of a thread that died: it counts when the thread's successor comes for more, and not before."""

    def take(self, size):
        """Come back, and take what comes next; True if there was something."""
        self.hand = [*self._left_behind, *self.hand]
        self._left_behind = []
        self.done()
        member = self.member
        member.using = True
        has_sought = False
        trouble = member.world.trouble
        try:
            self.clock.strike = trouble.strike
            if trouble.switches:
                self.style = trouble.rng.choice(STYLES)
            with trouble.at_a_line(member):
                handed_out = self._next(size)
            messages = self._seen(handed_out)
        except Interrupted:
            self._iterator = None
            member.world.record("interrupted", member.name, self.ident)
            messages = ()
        except NoCommittedOffsetError as error:
            # now or by and by; a loop that ended in an error is over
            self._iterator = None
            world = member.world
            has_sought = (not world.faults or world.placing.rng.random() < 0.7) and place(member, error.partition)
            messages = ()
        finally:
            self.clock.strike = no_strike
            member.using = False
            member.wake_at = 0.0
        for tp, number in messages:
            member.world.record("took", member.name, tp, number, self.ident)
            self.hand.append((tp, number))
        if member.settings.at_next:
            self.done()
        return has_sought or bool(messages)

    def _next(self, size):
        if self.style == "batches":
            return next(self.stream.batches(size, timeout=0.05), None)
        if self.style == "arrow":
            columns = ("topic", "partition", "offset")
            return next(self.stream.arrow_batches(size, timeout=0.05, columns=columns), None)
        try:
            if self.style != "next" and self._iterator is None:
                self._iterator = iter(self.stream)
            return next(self.stream if self.style == "next" else self._iterator)
        except (ConsumerTimeoutError, StopIteration):
            self._iterator = None
            return None

    def _seen(self, handed_out):
        """Give the user what is handed out, whatever happens while it looks at that."""
        if handed_out is None:
            return ()
        if self.style == "batches":
            return [(one.tp, one.number) for one in handed_out]
        if self.style == "arrow":
            rows = handed_out.to_pylist()
            return [(TopicPartition(row["topic"], row["partition"]), row["offset"]) for row in rows]
        return ((handed_out.tp, handed_out.number),)

    def done(self):
        """Count the messages in hand as done; with delivery.rule=acknowledged some of them, in any order."""
        world = self.member.world
        if world.acknowledges:
            self._acknowledge(world.acknowledging if world.faults else None)
            return
        for tp, number in self.hand:
            world.record("acked", self.member.name, tp, number, self.ident)
            world.placing.keep(tp, number)
        self.hand.clear()

    def _acknowledge(self, rng):
        """rng: chooses which; without it all."""
        some = list(self.hand) if rng is None else rng.sample(self.hand, rng.randint(0, len(self.hand)))
        self.hand = [one for one in self.hand if one not in some]
        for tp, number in some:
            self.member.world.record("acked", self.member.name, tp, number, self.ident)
            with contextlib.suppress(NotAssignedError):
                self.member.delivery.stream_with(tp).acknowledge(tp, number)

    def commit(self):
        """Say so to ZooKeeper."""
        self.done()
        self.ask_for_commit(self.ident)

    def ask_for_commit(self, ident):
        """ident: of the thread that asks, which may be any."""
        member = self.member
        member.using = member.committing = True
        try:
            with member.world.trouble.at_a_line(member):
                member.delivery.committer.commit_consumed(ident)
        except (LegacyConsumerError, InjectedError):
            pass
        except Interrupted:
            member.world.record("interrupted", member.name, ident)
        finally:
            member.using = member.committing = False
            member.wake_at = 0.0

    def die(self):
        """End the thread by an exception that no code catches; a supervisor starts another one for the stream."""
        world = self.member.world
        self.ident = world.trouble.new_ident()
        self._iterator = None
        world.record("replaced", self.member.name, self.ident)
        if not world.acknowledges:
            # acknowledgements are a pool's: its other workers go on with them
            self._left_behind += self.hand
            self.hand = []

    def steer(self, rng):
        """Pause, resume or seek a partition of the member, as its user may at any moment between two takes."""
        member, world = self.member, self.member.world
        owned = sorted(member.owned)
        if not owned:
            return
        tp = rng.choice(owned)
        try:
            stream = member.delivery.stream_with(tp)
            what = rng.choice(("paused", "resumed", "sought"))
            if what == "sought":
                offset = rng.randint(0, world.kafka.ends[tp])
                stream.seek(tp, offset)
                world.record("sought", member.name, tp, offset)
                world.placing.keep(tp, offset - 1)
            else:
                (stream.pause_partitions if what == "paused" else stream.resume_partitions)([tp])
                world.record(what, member.name, tp)
        except NotAssignedError:
            pass
