"""The users of a member's streams in a simulated world, and the exceptions and signals that interrupt them.

An exception such as KeyboardInterrupt interrupts a thread inside a call of the library: before or after a poll has its
effect, at a look at the clock, when the thread takes messages in hand, before or after a request of a commit; in some
worlds at any line of the library. The thread continues, or dies and another one replaces it. A signal handler ends the
streams or shuts the member down at any line.

The consuming threads, and other threads beside a thread that polls, seek, pause, resume, ask for the position and
acknowledge. An exception may interrupt such a call at any line of it. Then the user asks the stream whether the call
had its effect, or makes the call again.
"""

from __future__ import annotations

import contextlib
import itertools
import random
import sys

from legacy_consumer.errors import ConsumerTimeoutError, FetchError, NoCommittedOffsetError, NotAssignedError
from tests.simulation.by_hand import place
from tests.simulation.checker import Violation
from tests.simulation.fetching import no_strike
from tests.simulation.zookeeper import InjectedError
from tests.support.at_line import AtLine
from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition

STYLES = ("batches", "next", "iterate", "arrow")
_ANOTHER_THREAD = 0
_LINES = (15, 60, 200)
"""The most lines of the library that a call passes before something happens: a short call, a poll, a commit."""
_STEERING_LINES = 110
_ACKNOWLEDGING_LINES = 50
"""The number of lines that an acknowledgement passes."""


class Interrupted(BaseException):
    """Interrupts a thread at any line. Like KeyboardInterrupt it is no Exception."""


_STRIKES = (Interrupted, InjectedError)


def _interrupt():
    raise Interrupted


def _fail():
    raise InjectedError("no memory")


@contextlib.contextmanager
def nobody_struck():
    """Suspend the trace of AtLine while other actors act in the middle of a call: only lines of the call count."""
    before = sys.gettrace()
    sys.settrace(None)
    try:
        yield
    finally:
        sys.settrace(before)


class Trouble:
    """Decides what interrupts a world's users. Its generators are its own: other choices do not depend on them."""

    def __init__(self, world, *, acknowledges):
        self._world = world
        self.rng = rng = random.Random(f"users {world.seed}")
        self._strikes = rng.choice((0.01, 0.05)) if rng.random() < 0.25 else 0.0
        self._deaths = rng.choice((0.1, 0.3)) if rng.random() < 0.25 else 0.0
        self.switches = rng.random() < 0.15 and not acknowledges
        """Whether users change their way of reading; not with acknowledgements, which Arrow batches do not have."""
        self._idents = itertools.count(1000)
        self._lines = random.Random(f"lines {world.seed}")
        self._at_lines = self._lines.choice((0.2, 0.7)) if self._lines.random() < 0.25 else 0.0
        self.signals = random.Random(f"signals {world.seed}")
        self.has_signals = self.signals.random() < 0.15
        """Whether signal handlers and hooks end streams and shut members down in the middle of calls."""
        self._steering = random.Random(f"struck steering {world.seed}")
        self._strikes_steering = self._steering.choice((0.0, 0.5, 0.9))
        self.naming = random.Random(f"names offsets {world.seed}")
        self._names = self.naming.choice((0.2, 0.6)) if self.naming.random() < 0.3 else 0.0
        """The probability that a user commits an offset by name before a call."""

    def new_ident(self):
        """Return the number of a new thread."""
        return next(self._idents)

    def strike(self, times=1):
        """Raise Interrupted now and then. times: the factor by which it is more frequent."""
        if self._strikes and self._world.faults and self.rng.random() < self._strikes * times:
            raise Interrupted

    def at_a_line(self, member):
        """Return a context for a user's call of the library.

        In it, now and then, an exception or a signal handler interrupts the thread at one of the library's lines.
        """
        if not self._world.faults:
            return contextlib.nullcontext()
        if self._at_lines and self._lines.random() < self._at_lines:
            return AtLine(self._lines.randrange(self._lines.choice(_LINES)), _interrupt)
        if self.has_signals and self.signals.random() < 0.05:
            handler = self.signals.choice((member.end_streams, member.ask_to_close))
            return AtLine(self.signals.randrange(self.signals.choice(_LINES)), lambda: member.closing or handler())
        return contextlib.nullcontext()

    def at_a_line_of_steering(self, lines=_STEERING_LINES):
        """Return a context as at_a_line does, for a seek, pause, resume, position or acknowledgement.

        An InjectedError may interrupt the call, too.
        """
        rng = self._steering
        if not self._world.faults or rng.random() >= self._strikes_steering:
            return contextlib.nullcontext()
        return AtLine(rng.randrange(lines), rng.choice((_interrupt, _interrupt, _fail)))

    def befall(self, user):
        """Now and then, between two calls of a user: end its thread, or let another thread commit.

        Such a commit is by name, or of all that is consumed.
        """
        if self._names and self.naming.random() < self._names and not (user.member.turning or user.member.closing):
            user.commit_by_name(self.naming)
        if not self._deaths or self.rng.random() >= self._deaths:
            return
        if self.rng.random() < 0.6 or user.member.turning or user.member.closing:
            user.die()
        else:
            user.ask_for_commit()


class User:
    """The consuming thread of one stream: takes messages, handles them, comes back, commits; and its successors."""

    def __init__(self, member, stream, fetcher, clock, ident, style):
        self.member = member
        self.stream = stream
        self.fetcher = fetcher
        self.clock = clock
        self.ident = ident
        self.style = style
        self.hand = []
        self.away_until = 0.0
        self._iterator = None
        self._left_behind = []
        """Messages that a dead thread had in hand; they count as consumed once its successor asks for more."""

    def take(self, size):
        """Finish the messages in hand and take the next ones; True if there were some, or if the user has sought."""
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
            self._note_places()
            member.world.checker.check_told_of_failures(member.name)
        except FetchError:
            self._iterator = None
            member.world.record("told of a failed poll", member.name)
            messages = ()
        except Interrupted:
            self._iterator = None
            member.world.record("interrupted", member.name, self.ident)
            messages = ()
        except NoCommittedOffsetError as error:
            # the user seeks now, or after a later error; an iterator that raised an error has ended
            self._iterator = None
            world = member.world
            has_sought = (not world.faults or world.placing.rng.random() < 0.7) and place(member, error.partition)
            messages = ()
        finally:
            self.clock.strike = no_strike
            self.fetcher.found_ends.clear()
            member.world.checker.failed_polls.discard(member.name)
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

    def _note_places(self):
        """Record the partitions that begin at a log end that the fetcher has found, once position() shows it."""
        for tp, end in sorted(self.fetcher.found_ends.items()):
            with contextlib.suppress(NotAssignedError):
                if self.stream.position(tp) == end:
                    self.member.world.record("placed", self.member.name, tp, end, "fetched")

    def _seen(self, handed_out):
        """Return the messages that the stream handed out, as [(partition, offset)]."""
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
        """Acknowledge messages in hand. rng: chooses some of them, and their order; None acknowledges all."""
        some = list(self.hand) if rng is None else rng.sample(self.hand, rng.randint(0, len(self.hand)))
        self.hand = [one for one in self.hand if one not in some]
        world = self.member.world
        for tp, number in some:
            try:
                with world.trouble.at_a_line_of_steering(_ACKNOWLEDGING_LINES):
                    self._acknowledge_one(tp, number)
                if rng is not None and rng.random() < 0.1:
                    self._acknowledge_one(tp, number)
            except _STRIKES:
                if rng is not None and rng.random() < 0.3:
                    # the thread dies: another thread of the pool acknowledges the message later
                    world.record("may be acked", self.member.name, tp, number)
                    self.hand.append((tp, number))
                    continue
                self._acknowledge_one(tp, number)
            world.record("acked", self.member.name, tp, number, self.ident)

    def _acknowledge_one(self, tp, number):
        with contextlib.suppress(NotAssignedError):
            self.member.delivery.stream_with(tp).acknowledge(tp, number)

    def commit(self):
        """Finish the messages in hand and commit all that is consumed."""
        self.done()
        self.ask_for_commit(self.ident)

    def ask_for_commit(self, ident=_ANOTHER_THREAD):
        """Commit all that is consumed. ident: the thread that asks, which may be any."""
        self._ask(ident, lambda committer: committer.commit_consumed(ident))

    def commit_by_name(self, rng):
        """Commit an offset by name: the user declares all messages before it done, also messages in other users' hands.

        Sometimes the member no longer owns the partition.
        """
        member, world = self.member, self.member.world
        handed_out = world.checker.handed_out(member.name)
        # With offsets in Kafka users name only partitions that the member owns. Before a commit of any other partition
        # to Kafka, the member only reads whether the partition has an owner, and the checker sees no transaction. The
        # same holds where topics are created again: users have seen no message of the new topic yet.
        only_owned = world.group_offsets.is_used or world.topics.come_and_go
        named = [tp for tp in handed_out if not only_owned or member.progress.get(tp) is not None]
        if not named:
            return
        tp = rng.choice(named)
        offset = max(0, handed_out[tp] - rng.choice((0, 0, 1, 3)))
        if tp.topic not in world.placing.topics:
            progress = member.progress.get(tp)
            world.record("named", member.name, tp, offset, None if progress is None else progress.committed.offset)
        self._ask(_ANOTHER_THREAD, lambda committer: committer.commit_offsets({tp: offset}))

    def _ask(self, ident, commit):
        member = self.member
        before = member.using, member.committing
        member.using = member.committing = True
        try:
            with member.world.trouble.at_a_line(member):
                result = commit(member.delivery.committer)
            for tp, stored in sorted(result.committed.items()):
                member.world.record("committed", member.name, tp, stored.offset)
        except (LegacyConsumerError, InjectedError):
            pass
        except Interrupted:
            member.world.record("interrupted", member.name, ident)
        finally:
            member.using, member.committing = before
            member.wake_at = 0.0

    def die(self):
        """End the thread by an exception that no code catches; a supervisor starts another thread for the stream."""
        world = self.member.world
        self.ident = world.trouble.new_ident()
        self._iterator = None
        world.record("replaced", self.member.name, self.ident)
        if not world.acknowledges:
            # a pool of threads acknowledges: its other threads continue with the messages in hand
            self._left_behind += self.hand
            self.hand = []

    def steer(self, rng):
        """Pause, resume or seek a partition of the member, or ask for its position, as users may at any moment."""
        member, world = self.member, self.member.world
        owned = sorted(member.owned)
        if not owned:
            return
        tp = rng.choice(owned)
        try:
            stream = member.delivery.stream_with(tp)
        except NotAssignedError:
            return
        what = rng.choice(("paused", "resumed", "sought", "position"))
        offset = rng.randint(0, world.kafka.ends[tp])
        calls = {
            "paused": lambda: stream.pause_partitions([tp]),
            "resumed": lambda: stream.resume_partitions([tp]),
            "sought": lambda: stream.seek(tp, offset),
            "position": lambda: stream.position(tp),
        }
        before = _assigned(tp, stream.position, tp)
        if not member.closing:
            # shutdown() drops the messages that its own thread has in hand
            world.record("position", member.name, tp, before)
        try:
            with world.trouble.at_a_line_of_steering():
                _assigned(tp, calls[what])
        except _STRIKES:
            if what == "sought":
                position = _assigned(tp, stream.position, tp)
                if position not in (before, offset):
                    raise Violation(
                        "half a seek", f"{member.name} is at {position} of {tp}, was at {before}, sought {offset}"
                    ) from None
                # position() does not show a seek to the present position, so the user seeks again
                is_done = position == offset != before
            else:
                is_done = (tp in _assigned(tp, stream.paused)) == (what == "paused")
            may_give_up = what != "sought" or before != offset
            if what == "position" or (not is_done and may_give_up and rng.random() < 0.5):
                return
            if not is_done:
                _assigned(tp, calls[what])
        if what == "sought":
            world.record("sought", member.name, tp, offset)
            world.placing.keep(tp, offset - 1)
        elif what != "position":
            world.record(what, member.name, tp)


def _assigned(tp, call, *arguments):
    """Call a stream that must have this partition, also after an interrupted call. Raises: Violation if it has not."""
    try:
        return call(*arguments)
    except NotAssignedError:
        raise Violation("half a seek", f"its stream does not know {tp} any more") from None
