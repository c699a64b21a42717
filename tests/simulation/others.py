"""Actors of a simulated world that are no members: operators that reset a running group and delete, and strangers.

An operator runs the real command, `offsets reset --live`; other actors act between its requests. It may end at any
request: by Ctrl-C (in order), or killed (its session lives on for a while). A stranger is a foreign client that writes
registrations, requests, answers, offsets and owners, valid or not.
"""

from __future__ import annotations

import contextlib
import random

from legacy_consumer.member.resets import (
    Answer,
    AnswerState,
    Request,
    RequestState,
    answer_path,
    answers_path,
    encode_answer,
    encode_request,
)
from legacy_consumer.operations.admin.live_resets import write_live
from legacy_consumer.operations.admin.offset_plans import make_plan, read_standings
from tests.simulation.zookeeper import COMMANDS_MULTI_BYTES, GROUP, IDS, OFFSETS, OWNERS, REQUEST
from tests.support.hostile_bytes import hostile_json
from zk_layout.codecs import decode_offset, encode_offset
from zk_layout.errors import LegacyConsumerError, MalformedZnodeError, NoNodeError, NotEmptyError, ZooKeeperError

HOSTILE = (
    None,
    b"",
    b"t",
    b"\xff\x00",
    b"[" * 2000,
    b'{"version":1}',
    b'{"version":1,"subscription":{"t0":2147483647},"pattern":"static","timestamp":"0"}',
    b'{"version":1,"subscription":{"t0":1e999},"pattern":"static","timestamp":"0"}',
    b'{"version":1,"subscription":{"(x+x+)+y":1},"pattern":"white_list","timestamp":"0"}',
    b'{"version":1,"id":"s","state":"prepare","partitions":{"t0":[1e999]}}',
    b'{"version":1,"id":"s","state":"prepare","partitions":{"t0":[-1,0,0,2147483647],"../..":[0]}}',
)
"""Data that a foreign client writes where members look for a registration or a request."""
OTHER_TOPIC = b'{"version":1,"subscription":{"elsewhere":1},"pattern":"static","timestamp":"0"}'


class Abandoned(BaseException):
    """The operator ends the command. Like KeyboardInterrupt it is no Exception."""


class OperatorClock:
    """The clock of an operator's command; the other actors act while the command waits."""

    def __init__(self, world):
        self._world = world

    def monotonic(self):
        return self._world.clock.now

    def wait(self, event, timeout_s):
        self._world.go_on_meanwhile(timeout_s)
        return event.is_set()


class Others:
    """The operators and strangers of a world. A generator of their own decides which of them the world has."""

    def __init__(self, world):
        self.world = world
        self.rng = rng = random.Random(f"others {world.seed}")
        self.resets = rng.random() < 0.4
        self.hostile = rng.random() < 0.25
        self.deletes = rng.random() < 0.25
        self.twins = rng.random() < 0.2
        self.refuse = rng.choice((0.0, 0.0, 0.0, 0.01, 0.04))
        self._operator = None
        self._patience = 0
        self._strangers = []
        self._garbled = set()
        self._count = 0

    def actions(self):
        """Return [(weight, method)] for the world's choice."""
        return [
            (2 if self.resets else 0, self.reset_live),
            (1 if self.hostile else 0, self.write_nonsense),
            (1 if self.hostile else 0, self.ask_as_a_stranger),
            (1 if self.hostile else 0, self.answer_as_a_stranger),
            (1 if self.hostile else 0, self.garble_offset),
            (1 if self.hostile else 0, self.take_an_owner_away),
            (1 if self.hostile else 0, self.overwrite_a_registration),
            (1 if self.hostile else 0, self.overwrite_an_owner),
            (1 if self.deletes else 0, self.delete_offset),
            (1 if self.deletes else 0, self.delete_group),
            (1 if self.twins else 0, self.world.join_as_a_twin),
        ]

    # The operator's command.

    def reset_live(self):
        """Run the whole command; other actors act between its requests."""
        world = self.world
        known = sorted(world.kafka.ends)
        if self._operator is not None or not known or not world.faults or self.rng.random() < 0.5:
            return
        offsets = {tp: self.rng.randint(0, world.kafka.ends[tp]) for tp in known if self.rng.random() < 0.6}
        self._count += 1
        name = f"operator {self._count}"
        self._operator = store = world.server.connect(name)
        store.least_multi_bytes = COMMANDS_MULTI_BYTES
        self._patience = self.rng.choice((3, 10, 30, 1000, 1000, 1000))
        world.record("operator", "resets live", name, dict(sorted(offsets.items())))
        try:
            plan = make_plan(store, GROUP, read_standings(store, GROUP), offsets)
            followed = write_live(store, plan, timeout_s=self.rng.choice((1.0, 4.0)), clock=OperatorClock(world))
        except LegacyConsumerError as error:
            world.record("operator", "gives up", name, type(error).__name__)
        except Abandoned:
            world.record("operator", "stops", name)
        else:
            if not followed.unanswered:
                written = {change.partition: change.after for change in followed.plan.to_write}
                world.record("operator", "was followed", written)
        finally:
            self._operator = None
            world.end_of(store)

    def before_request(self, store):
        """Return whether the store is the command's. Raises: Abandoned if the operator ends the command here."""
        if store is not self._operator:
            return False
        self._patience -= 1
        if self._patience == 0:
            if self.rng.random() < 0.5:
                # killed: the command cannot clean up
                self.world.server.suspend(store)
            raise Abandoned
        return True

    # Deletions.

    def delete_offset(self):
        """Delete the committed offset of one partition, in ZooKeeper or in Kafka."""
        tp = self._some_partition()
        if tp is None:
            return
        kept = self.world.group_offsets
        in_kafka = kept.is_alone or (kept.is_dual and self.rng.random() < 0.5)
        if kept.forget(tp) if in_kafka else self._delete(f"{OFFSETS}/{tp.topic}/{tp.partition}"):
            self.world.record("operator", "deletes the offset of", tp)

    def delete_group(self):
        """Delete some of the group's owners, offsets and answers, with folders that are then empty; never ids."""
        if self.rng.random() < 0.7:
            return
        self.world.record("operator", "deletes what the group has")
        for root in self.rng.sample([OWNERS, OFFSETS, answers_path(GROUP)], k=self.rng.randint(1, 3)):
            self._delete_below(root)

    def _delete_below(self, path):
        admin = self.world.admin
        try:
            children = admin.get_children(path)
        except NoNodeError:
            return
        for name in children:
            self._delete_below(f"{path}/{name}")
        self._delete(path)

    def _delete(self, path):
        try:
            self.world.admin.delete(path)
        except (NoNodeError, NotEmptyError):
            return False
        return True

    # Strangers.

    def write_nonsense(self):
        """Write invalid data as a registration or as a request, in a znode that is ephemeral or not."""
        self._count += 1
        path = self.rng.choice((f"{IDS}/stranger{self._count}", f"{IDS}/stranger{self._count}", REQUEST))
        self._write(path, self.rng.choice(HOSTILE) if self.rng.random() < 0.5 else hostile_json(self.rng))

    def overwrite_a_registration(self):
        """Overwrite the registration of a living member.

        Any client may, if an ACL lets JVM members register. Not of JVM members, which never read their own again.
        """
        mine = sorted(name for name in self.world.checker.registered if not name.startswith(f"{GROUP}_jvm"))
        if not mine or self.rng.random() < 0.5:
            return
        path = f"{IDS}/{self.rng.choice(mine)}"
        data = self.rng.choice((*HOSTILE, OTHER_TOPIC, OTHER_TOPIC))
        self.world.admin.set_data(path, data)
        self.world.record("stranger", path, data, False)

    def take_an_owner_away(self):
        """Delete an owner znode of a living member, as any client may that can delete in the folder."""
        tp = self._some_partition()
        path = f"{OWNERS}/{tp.topic}/{tp.partition}" if tp is not None else ""
        if path and self.rng.random() < 0.5 and self._delete(path):
            self.world.record("stranger", path, None, False)

    def overwrite_an_owner(self):
        """Write other data into an owner znode."""
        tp = self._some_partition()
        path = f"{OWNERS}/{tp.topic}/{tp.partition}" if tp is not None else ""
        if not path or self.world.admin.exists(path) is None:
            return
        data = self.rng.choice((b"", b"an operator was here", f"{GROUP}_m1-0".encode(), f"{GROUP}_m2-7".encode()))
        self.world.admin.set_data(path, data)
        self.world.record("stranger", path, data, False)

    def ask_as_a_stranger(self):
        """Write a request like an operator's, which no command ends."""
        known = sorted(self.world.kafka.ends)
        if known:
            state = self.rng.choice(list(RequestState))
            self._count += 1
            self._write(REQUEST, encode_request(Request(f"stranger {self._count}", state, frozenset(known))))

    def answer_as_a_stranger(self):
        """Answer the present request in the name of a member."""
        names = sorted(self.world.checker.registered)
        known = sorted(self.world.kafka.ends)
        if not names or not known:
            return
        try:
            text = self.world.admin.get_data(REQUEST).data or b""
        except NoNodeError:
            return
        request_id = text.decode("utf-8", "replace").partition('"id":"')[2].partition('"')[0]
        answer = Answer(request_id, self.rng.choice(list(AnswerState)), frozenset(known), "")
        self._write(answer_path(GROUP, self.rng.choice(names)), encode_answer(answer))

    def garble_offset(self):
        """Write unreadable data as the offset of a partition."""
        tp = self._some_partition()
        if tp is None or self.rng.random() < 0.5:
            return
        self._garbled.add(tp)
        self._put(tp, self.rng.choice((b"", b"12 ", b"x", b"99999999999999999999", b"-")))

    def _put(self, tp, data):
        path = f"{OFFSETS}/{tp.topic}/{tp.partition}"
        if self.world.admin.exists(path) is None:
            self.world.admin.create(path, data, make_parents=True)
        else:
            self.world.admin.set_data(path, data)

    def _write(self, path, data):
        if not self._strangers or self.rng.random() < 0.3:
            self._strangers.append(self.world.server.connect(f"stranger {len(self._strangers)}"))
        store = self.rng.choice(self._strangers)
        ephemeral = self.rng.random() < 0.5
        try:
            store.create(path, data, ephemeral=ephemeral, make_parents=True)
        except ZooKeeperError:
            return
        self.world.record("stranger", path, data, ephemeral)

    def leave(self):
        """End the strangers when the faults are over, and clean up behind them."""
        for store in self._strangers:
            store.close()
        self._strangers = []
        admin = self.world.admin
        with contextlib.suppress(NoNodeError):
            for name in admin.get_children(IDS):
                if name.startswith("stranger"):
                    self._delete(f"{IDS}/{name}")
        for tp in sorted(self._garbled):
            try:
                path = f"{OFFSETS}/{tp.topic}/{tp.partition}"
                decode_offset(path, admin.get_data(path).data)
            except NoNodeError:
                continue
            except MalformedZnodeError:
                self._put(tp, encode_offset(self.world.checker.offsets.get(tp, (0, ""))[0]))
        # a stranger's request that is left has no session, so members ignore it, and it stays

    def _some_partition(self):
        known = sorted(self.world.kafka.ends)
        return known[int(self.rng.random() * len(known))] if known else None
