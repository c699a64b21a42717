"""A listener whose hooks commit, as the user's code may: all that is consumed, or an offset by name."""

from __future__ import annotations

import random


class Hooks:
    """Whether a world has such a listener. Its generator is its own: other choices of a seed do not depend on it."""

    def __init__(self, seed):
        self.rng = random.Random(f"hooks {seed}")
        self.commit = self.rng.random() < 0.2


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
