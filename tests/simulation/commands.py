"""Operators' commands in a simulated world, as the library carries them out: delete, prune, copy, restore a backup.

Other actors act before each request of a command. Without force no command may change a group that has members; so the
checker knows which operators give commands without force.
"""

from __future__ import annotations

import random

from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.deletion import delete_group, delete_tree
from legacy_consumer.operations.admin.offset_plans import make_plan, read_standings, readable_offsets
from legacy_consumer.operations.admin.offset_writes import write_plan
from legacy_consumer.operations.admin.pruning import find_unused, read_use, zookeeper_ms
from tests.simulation.zookeeper import COMMANDS_MULTI_BYTES, GROUP
from zk_layout.errors import LegacyConsumerError

_COPY = "copy"
"""The group to which the operator copies offsets."""


class Commands:
    """The commands of a world. Its generator is its own: the other choices of a seed do not depend on it."""

    def __init__(self, world):
        self._world = world
        self._rng = rng = random.Random(f"commands {world.seed}")
        self._are_given = rng.random() < 0.1
        self._store = None
        self._count = 0
        self._backup = {}

    def act(self):
        """Now and then let an operator give a command, one at a time."""
        if not (self._are_given and self._store is None and self._world.faults):
            return
        # most commands work only while no member is registered, which is rare
        if self._rng.random() < (0.03 if self._world.checker.registered else 0.5):
            what = self._rng.choice((self._delete, self._delete_topic, self._prune, self._copy, self._put_back))
            self._give(what)

    def is_giving(self, store):
        """Return whether this is the store of the command that runs now."""
        return store is self._store

    def _give(self, what):
        world = self._world
        self._count += 1
        name = f"operator's command {self._count}"
        self._store = store = world.server.connect(name)
        store.least_multi_bytes = COMMANDS_MULTI_BYTES
        is_forced = what == self._put_back and self._rng.random() < 0.5
        if not is_forced:
            world.checker.careful.add(name)
        world.record("operator", "begins", name, what.__name__.strip("_"))
        try:
            what(store, force=is_forced) if what == self._put_back else what(store)
        except LegacyConsumerError as error:
            world.record("operator", "gives up", name, type(error).__name__)
        else:
            world.record("operator", "is done", name)
        finally:
            self._store = None
            world.end_of(store)

    def _delete(self, store):
        delete_group(store, GROUP)

    def _delete_topic(self, store):
        [use] = read_use(store, [GROUP]) or [None]
        if use is not None:
            delete_tree(store, use.tree, topic=self._rng.choice(sorted(self._world.partitions)))

    def _prune(self, store):
        for use in find_unused(read_use(store, [GROUP, _COPY]), now_ms=zookeeper_ms(store), older_than_ms=500):
            delete_tree(store, use.tree)

    def _copy(self, store):
        topics = TopicsOnce(store)
        offsets = readable_offsets(GROUP, read_standings(store, GROUP, topics))
        try:
            standings = read_standings(store, _COPY, topics)
        except LegacyConsumerError:
            standings = None
        write_plan(store, make_plan(store, _COPY, standings, offsets, topics=topics))
        self._backup = offsets

    def _put_back(self, store, *, force):
        plan = make_plan(store, GROUP, read_standings(store, GROUP), self._backup)
        write_plan(store, plan, force=force)
