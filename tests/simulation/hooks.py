"""The user's hooks in a world: when they return, and a listener that commits in them, as the user's code may.

A hook runs on a thread of its own, which ends it at once, later, or so late that the member no longer waits for it.
"""

from __future__ import annotations

import random
from collections import deque
from dataclasses import dataclass

from tests.simulation.zookeeper import InjectedError


class Hooks:
    """Whether a world has such a listener. Its generator is its own: other choices of a seed do not depend on it."""

    def __init__(self, seed):
        self.rng = random.Random(f"hooks {seed}")
        self.commit = self.rng.random() < 0.2
        self.lasting = random.Random(f"hooks that last {seed}")
        self.lasts = self.lasting.choice((0.0, 0.3, 0.8))
        """The probability that a hook, or a broker that is asked for log ends, does not answer at once."""


@dataclass(eq=False, slots=True)
class HookCall:
    """One call of a hook; see legacy_consumer.member.listener_calls.HookCall."""

    hook: object
    wait_s: float
    on_return: object
    deadline: float | None = None
    is_done: bool = False


class HookCalls:
    """Replaces legacy_consumer.member.listener_calls.ListenerCalls in a world, which has one thread."""

    is_over = False
    give_up_at = 0.0

    def __init__(self, member, listener):
        self._member = member
        self._listener = listener
        self._hooks = member.world.hooks
        self._waiting = deque()
        self.is_running = False
        """Whether a hook is in the middle of a call, perhaps of a request."""
        self._given_up = None
        self.errors = 0

    @property
    def is_late(self):
        return self._given_up in self._waiting

    def begin(self, hook, wait_s, on_return):
        """Let the hook run at once, or later: see go_on."""
        call = HookCall(hook, wait_s, on_return)
        self._waiting.append(call)
        if len(self._waiting) == 1 and not self._is_lasting():
            self._run()
        return call

    def go_on(self):
        """Let the hooks that wait run, until one lasts."""
        while self._waiting and not self._is_lasting():
            self._run()

    def _is_lasting(self):
        return self.is_running or (self._member.world.faults and self._hooks.lasting.random() < self._hooks.lasts)

    def _run(self):
        """Call the first hook, and count an error of the user's code; Crash passes through."""
        call = self._waiting[0]
        self.is_running = True
        try:
            call.hook(self._listener)
        except InjectedError:
            self.errors += 1
        finally:
            self.is_running = False
        self._waiting.popleft()
        call.is_done = True
        call.on_return()

    def left_s(self, call):
        now = self._member.world.clock.now
        if call.deadline is None:
            call.deadline = now + (0.0 if self.is_late else call.wait_s)
        return 0.0 if call.is_done else max(0.0, call.deadline - now)

    def conclude(self, call):
        if not call.is_done:
            self.errors += 1
            self._given_up = call

    def let_all_return(self, timeout_s):
        """Let all hooks return: the coordinator's thread waits for them."""
        if self.is_running:
            # the hook has begun this turn, in a call of its own
            self._member.world.time.advance(timeout_s)
        while self._waiting and not self.is_running:
            self._run()

    def is_on_this_thread(self):
        return False


class LogEndsCall:
    """Replaces listener_calls.BoundedCall: brokers that say where logs end, at once or later."""

    def __init__(self, member, ask):
        self._member = member
        self._ask = ask
        self._answer = None

    @property
    def is_done(self):
        """Whether the brokers have answered; with each question they may answer."""
        hooks, faults = self._member.world.hooks, self._member.world.faults
        if self._answer is None and not (faults and hooks.lasting.random() < hooks.lasts):
            try:
                self._answer = (self._ask(), None)
            except Exception as error:
                self._answer = (None, error)
        return self._answer is not None

    def wait(self, _timeout_s):
        if self._answer is None:
            raise TimeoutError("the brokers do not answer")
        found, error = self._answer
        if error is not None:
            raise error
        return found


class CommittingListener:
    """Commits in each hook; other actors act before the commit."""

    def __init__(self, member):
        self._member = member

    def before_starting_fetchers(self, claimed, assignment):
        self._commit()

    def before_releasing_partitions(self, partitions):
        self._commit()

    def on_partitions_lost(self, partitions):
        self._commit()

    def _commit(self):
        member, world = self._member, self._member.world
        rng = world.hooks.rng
        world.interlude(member)
        if not world.faults:
            # At its end the world checks that members have committed all consumed messages. A commit by name may be of
            # less, or of an offset that the member has just adopted.
            return
        user = rng.choice(member.users)
        what = rng.choice(("nothing", "consumed", "named"))
        if what == "consumed":
            user.ask_for_commit()
        elif what == "named":
            user.commit_by_name(rng)
