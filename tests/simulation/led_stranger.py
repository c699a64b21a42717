"""A stranger in a led group: a client that writes, replaces and deletes the znodes of leader and members.

It changes the present data, so that members can parse most of it: other numbers and names, other groups' paths, nulls,
deep nesting, a truncated text. It also puts persistent znodes where ephemeral ones belong.
"""

from __future__ import annotations

import contextlib
import json
import random

from rebalance.led.records import generation_path, leader_path, members_path, round_path
from tests.simulation.zookeeper import GROUP
from tests.support.hostile_bytes import hostile_json, hostile_version_of
from zk_layout.errors import MultiFailedError, ZooKeeperError
from zk_layout.store import CreateOp, DeleteOp

CHANCE = 0.04
"""The probability that the stranger acts in a step."""


class LedStranger:
    """The stranger of a led world; a generator of its own gives one to 30 % of these worlds."""

    def __init__(self, world):
        self.world = world
        self.rng = random.Random(f"led stranger {world.seed}")
        self.is_there = world.led is not None and self.rng.random() < 0.3

    def act(self):
        if not self.is_there or not self.world.faults or self.rng.random() >= CHANCE:
            return
        self._do_something(self._somewhere())

    def act_last(self):
        """Act once more just before the faults end: the leader must notice and repair the data."""
        if self.is_there and self.rng.random() < 0.5:
            self._do_something(self.rng.choice((round_path(GROUP), generation_path(GROUP))))

    def _do_something(self, path):
        deed = self.rng.choice((self._overwrite, self._overwrite, self._overwrite, self._delete, self._replace))
        with contextlib.suppress(ZooKeeperError):
            deed(path)

    def _somewhere(self):
        members = self._members()
        places = [round_path(GROUP), generation_path(GROUP), leader_path(GROUP)]
        if members:
            places.append(f"{members_path(GROUP)}/{self.rng.choice(members)}")
        return self.rng.choice(places)

    def _members(self):
        admin, folder = self.world.admin, members_path(GROUP)
        return list(admin.get_children(folder)) if admin.exists(folder) is not None else []

    def _overwrite(self, path):
        data = self._hostile(self.world.admin.get_data(path).data)
        self.world.admin.set_data(path, data)
        self.world.record("stranger", path, data, False)

    def _delete(self, path):
        self.world.admin.delete(path)
        self.world.record("stranger", path, None, False)

    def _replace(self, path):
        """Replace a znode by a persistent one, perhaps with a child."""
        data = self._hostile(self.world.admin.get_data(path).data)
        below = [CreateOp(f"{path}/x", b"")] if self.rng.random() < 0.5 else []
        with contextlib.suppress(MultiFailedError):
            self.world.admin.multi([DeleteOp(path), CreateOp(path, data), *below])
            self.world.record("stranger", path, data, False)

    def _hostile(self, data):
        chance = self.rng.random()
        if chance < 0.1:
            return self.rng.choice((None, b"", b"[" * 2000, data))
        if chance < 0.25:
            return hostile_json(self.rng)
        try:
            document = json.loads(data or b"")
        except (ValueError, RecursionError):
            return hostile_json(self.rng)
        if chance < 0.5 and isinstance(document, dict):
            return json.dumps(self._false_version(document)).encode()
        changed = hostile_version_of(document, self.rng)
        return changed if chance < 0.9 else changed[: self.rng.randrange(len(changed) + 1)]

    def _false_version(self, document):
        """Return a valid document that the leader did not write: it refuses members, or one has no partitions."""
        if isinstance(document.get("refused"), dict):
            names = self._members()
            return document | {"refused": dict.fromkeys(self.rng.sample(names, self.rng.randint(0, len(names))), "no")}
        shares = document.get("shares")
        robbed = self.rng.choice(sorted(shares)) if isinstance(shares, dict) and shares else None
        if robbed is None or not isinstance(shares[robbed], dict):
            return document
        return document | {"shares": shares | {robbed: shares[robbed] | {"partitions": {}}}}
