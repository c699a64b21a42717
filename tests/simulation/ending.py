"""The end of a simulated world: no more faults; the group settles, users get all messages, and all members leave."""

from __future__ import annotations

import contextlib
import random

from rebalance.assignors import ASSIGNORS
from rebalance.led.cluster import threads_of
from rebalance.led.records import NO_GENERATION, decode_generation, generation_path
from rebalance.snapshot import GroupSnapshot
from tests.simulation.checker import Violation
from tests.simulation.zookeeper import GROUP, IDS
from zk_layout.codecs import decode_registration
from zk_layout.errors import MalformedZnodeError, NoNodeError
from zk_layout.model import ConsumerThreadId, TopicPartition

SETTLE_S = 40.0
"""Seconds for a group to settle: sessions end (9), claims are tried (4 x 2), users finish (3), audits come (10)."""


class Ending:
    """Ends a world; the methods are called in the order of World.run."""

    def __init__(self, world):
        self._world = world
        self._settle_s = SETTLE_S + world.settings.absence_ms / 1000
        self._twins_stay = random.Random(f"twins {world.seed}").random() < 0.5

    def heal_everything(self):
        """Restore every connection, process and ACL, and shut down members whose streams have ended."""
        self._world.server.tree.forbidden.clear()
        self._world.denials.open_everything()
        self._world.denials.shut_down_refused()
        for member in list(self._world.time.frozen):
            self._world.time.go_on(member)
        for store in list(self._world.time.cut):
            self._world.time.heal(store)
        for member in list(self._world.members):
            if member.ending and not member.closing:
                member.ask_to_close()
        self._end_twins()

    def _end_twins(self):
        """Shut down members that share the id of a registered member; in some worlds they stay and wait for the id."""
        if not self._twins_stay:
            for member in self._waiting_twins():
                member.ask_to_close()

    def _waiting_twins(self):
        open_members = [member for member in self._world.members if not member.closing]
        registered = {member.consumer_id for member in open_members if member.is_registered}
        return [one for one in open_members if one.consumer_id in registered and not one.is_registered]

    def calm_down(self, limit_s=None, *, must=False):
        """Let all actors act until the group has settled, or time is up. must: raise Violation if time is up."""
        end = self._world.clock.now + (self._settle_s if limit_s is None else limit_s)
        while not self._is_settled():
            if self._world.clock.now > end:
                if must and not self._is_held_up_by_a_jvm():
                    raise Violation("not settled", self._describe())
                return
            self._let_everybody_act()
            self._end_twins()
            self._world.time.advance(0.5)

    def _is_held_up_by_a_jvm(self):
        """Return whether a JVM member holds an owner znode that it should not have.

        A JVM member that finds its own claim, whose reply was lost, does not undo it: the znode stays until the session
        ends.
        """
        expected = self._expected()
        ids = {jvm.name: jvm.consumer_id for jvm in self._world.jvms}
        return any(
            life.actor in ids and (tp not in expected or expected[tp].consumer_id != ids[life.actor])
            for tp, life in self._world.checker.owners.items()
        )

    def _let_everybody_act(self):
        for store in list(self._world.server._stores):
            store.deliver()
        for member in list(self._world.members):
            if member.alive:
                member.come_to_rest()
        for jvm in self._world.jvms:
            for _ in range(200):
                if self._world.clock.now < jvm.sleeping_until or not jvm.has_work:
                    break
                jvm.resume()
        for member in list(self._world.members):
            for user in member.users:
                if user.away_until <= self._world.clock.now and self._world.rng.random() < 0.7:
                    user.take(3)

    def _is_settled(self):
        twins = self._waiting_twins()
        members = [member for member in self._world.members if member not in twins]
        if (
            self._world.time.orphans
            or self._world.time.cut
            or any(member.closing or not member.is_settled for member in members)
        ):
            return False
        if any(member.wake_at <= self._world.clock.now or member.is_overwritten for member in members):
            return False
        if any(member.follower.held for member in self._world.members):
            # the request has ended, and each member reads it again until it has seen that
            return False
        if any(self._world.checker.actors[member.name].suspended_at is not None for member in self._world.members):
            return False
        if any(jvm.has_work for jvm in self._world.jvms) or any(store.queue for store in self._world.server._stores):
            return False
        expected = self._expected()
        # a JVM member gives up after its tries, and never checks its owner znodes
        helpless = {jvm.consumer_id for jvm in self._world.jvms}
        for tp, thread in expected.items():
            owner = self._world.checker.owners.get(tp)
            if thread.consumer_id in helpless:
                if owner is not None and owner.actor in self._world.checker.actors:
                    return False
            elif owner is None or self._id_of(owner.actor) != thread.consumer_id:
                return False
        for member in members:
            mine = {tp: thread for tp, thread in expected.items() if thread.consumer_id == member.consumer_id}
            if dict(member.owned) != mine:
                return False
        return not any(member.owned for member in twins)

    def _id_of(self, name):
        for member in (*self._world.members, *self._world.jvms):
            if member.name == name:
                return member.consumer_id
        return None

    def _expected(self):
        """Return the assignment for the group as ZooKeeper has it now."""
        tree = self._world.server.tree
        members = {}
        try:
            for name in tree.children(IDS).names:
                path = f"{IDS}/{name}"
                with contextlib.suppress(MalformedZnodeError):
                    members[name] = decode_registration(path, tree.read(path).data)
        except NoNodeError:
            return {}
        partitions = {topic: tuple(range(count)) for topic, count in self._world.partitions.items()}
        if members and all(told.coordination == "leader" for told in members.values()):
            return self._expected_of_led(GroupSnapshot(GROUP, members, partitions))
        return ASSIGNORS[self._world.settings.strategy](GroupSnapshot(GROUP, members, partitions), "1.0")

    def _expected_of_led(self, snapshot):
        """Return the last generation's assignment; "nobody" owns a partition that it should have and has not.

        If the generation does not name exactly the registered members, nobody owns any partition.
        """
        given = self._generation()
        twins = self._waiting_twins()
        registered = [member for member in self._world.members if member not in twins]
        lives = {f"{member.consumer_id}-{member.store.server_session_id:x}" for member in registered}
        topics = {topic for told in snapshot.members.values() for topic, _ in told.subscription}
        due = {TopicPartition(topic, n) for topic in topics for n in snapshot.partitions[topic]}
        found = threads_of(given.shares, snapshot)
        nobody = ConsumerThreadId("nobody", 0)
        if lives != given.shares.keys():
            return dict.fromkeys(due, nobody)
        return {**dict.fromkeys(due, nobody), **found}

    def _generation(self):
        """Return the generation of the led group in ZooKeeper."""
        path = generation_path(GROUP)
        try:
            return decode_generation(path, self._world.server.tree.read(path).data)
        except (NoNodeError, MalformedZnodeError):
            # no generation yet, or a stranger's data, which the leader must overwrite
            return NO_GENERATION

    def _describe(self):
        phases = ", ".join(
            f"{member.name} {member.coordinator.status.phase.value} {sorted(map(str, member.owned))}"
            f" {member.coordinator.status.error or ''}"
            for member in self._world.members
        )
        owners = {str(tp): life.actor for tp, life in sorted(self._world.checker.owners.items())}
        expected = {str(tp): str(thread) for tp, thread in self._expected().items()}
        gave_up = f"members of the JVM {[jvm.gave_up for jvm in self._world.jvms]}"
        return f"{phases}; owners {owners}; expected {expected}; {gave_up}"

    def let_jvms_leave(self):
        """Stop all JVM members in order; then the rest of the group must settle."""
        if not self._world.jvms:
            return
        for jvm in list(self._world.jvms):
            self._world.jvms.remove(jvm)
            self._world.record("leaves", jvm.name)
            jvm.stop()
        self.calm_down(must=True)

    def deliver_everything(self):
        """Let users take messages until none come, and check that all were delivered."""
        twins = self._waiting_twins()
        settled = [member for member in self._world.members if member not in twins]
        if {topic for member in settled for topic in member.subscription} < self._world.partitions.keys():
            self._world.join(always=True, everything=True)
            self.calm_down(must=True)
        for member in self._world.members:
            for user in member.users:
                user.away_until = 0.0
                # one of two polls may only raise NoCommittedOffsetError
                while user.take(4) or user.take(4):
                    pass
        self._world.checker.check_everything_was_delivered()

    def let_everybody_leave(self):
        """Shut all members down in order, at the same time, and check what they leave behind."""
        for member in list(self._world.members):
            member.ask_to_close()
        end = self._world.clock.now + 10.0
        while self._world.members:
            if self._world.clock.now > end:
                raise Violation("never leaves", self._describe())
            self._let_everybody_act()
            self._world.time.advance(0.2)
        self._world.checker.check_everything_was_left_in_order()
