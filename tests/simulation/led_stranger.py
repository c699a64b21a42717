"""A stranger in a led group: it writes, replaces and deletes the znodes in which leader and members speak.

What it writes is made from what stands there, so that most of it can be read: other numbers and names, other groups'
paths, nulls, depths, a cut end. It puts also what no session ends where only a session's znode belongs.
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
"""At each step of a world that has one."""


class LedStranger:
    """Drawn from a generator of its own; a third of all led worlds have one."""

    def __init__(self, world):
        self.world = world
        self.rng = random.Random(f"led stranger {world.seed}")
        self.is_there = world.led is not None and self.rng.random() < 0.3

    def act(self):
        if not self.is_there or not self.world.faults or self.rng.random() >= CHANCE:
            return
        self._do_something(self._somewhere())

    def act_last(self):
        """Just before the faults end: what it leaves has to be found and mended."""
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
        """By what no session ends, perhaps with something below it."""
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
        """Sound, but not what the leader wrote: it refuses members, or gives one of them nothing."""
        if isinstance(document.get("refused"), dict):
            names = self._members()
            return document | {"refused": dict.fromkeys(self.rng.sample(names, self.rng.randint(0, len(names))), "no")}
        shares = document.get("shares")
        robbed = self.rng.choice(sorted(shares)) if isinstance(shares, dict) and shares else None
        if robbed is None or not isinstance(shares[robbed], dict):
            return document
        return document | {"shares": shares | {robbed: shares[robbed] | {"partitions": {}}}}
