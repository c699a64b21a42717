"""A listener whose hooks commit, as users' code does: all that is consumed, or an offset that it names."""

from __future__ import annotations

import random


class Hooks:
    """Drawn from a generator of its own, so that worlds without such a listener are what they were."""

    def __init__(self, seed):
        self.rng = random.Random(f"hooks {seed}")
        self.commit = self.rng.random() < 0.2


class CommittingListener:
    """Others act before each hook commits."""

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
            # At its end the world checks that members have committed all consumed messages. A hook may commit less by
            # name, or write once more an offset that its member has just adopted.
            return
        user = rng.choice(member.users)
        what = rng.choice(("nothing", "consumed", "named"))
        if what == "consumed":
            user.ask_for_commit()
        elif what == "named":
            user.commit_by_name(rng)
