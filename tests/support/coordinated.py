"""Model members of a coordinated group, and a world of one coordinator in which tests decide what is lost and when.

The world carries out effects as the coordinator's shell does: writes at once, replies through a queue from which the
test delivers, delays or drops them. A member notices a lost reply as a client does: its connection breaks.
"""

from __future__ import annotations

import itertools
from collections import deque
from enum import Enum

from rebalance.coordination import Code, Coordinator, Settings
from rebalance.coordination.effects import (
    ForgetGroup,
    HeartbeatAnswer,
    JoinAnswer,
    Moved,
    Reply,
    StoreGroup,
    StoreOffsets,
    SyncAnswer,
)
from rebalance.coordination.requests import Heartbeat, JoinGroup, LeaveGroup, Leaving, Protocol, SyncGroup

GROUP = "g"
SESSION_MS = 10_000
REBALANCE_MS = 60_000
HEARTBEAT_MS = 3_000
PARTITIONS = tuple(range(6))


class Phase(Enum):
    OUT = "out"
    JOINING = "joining"
    SYNCING = "syncing"
    MEMBER = "member"


class ModelMember:
    """A minimal client of the coordinator: joins, assigns if it leads, syncs, sends heartbeats."""

    def __init__(
        self,
        world,
        name,
        *,
        session_ms=SESSION_MS,
        rebalance_ms=REBALANCE_MS,
        instance_id=None,
        id_first=False,
        protocols=("range",),
    ):
        self.world = world
        self.name = name
        self.session_ms = session_ms
        self.rebalance_ms = rebalance_ms
        self.instance_id = instance_id
        self.id_first = id_first
        self.protocols = tuple(Protocol(protocol, name.encode()) for protocol in protocols)
        self.member_id = ""
        self.generation = -1
        self.phase = Phase.OUT
        self.partitions = ()
        self.leads = False
        self.joins = 0
        self.errors = []
        self.waits_for = None
        self.last_beat = 0

    def join(self):
        self.phase = Phase.JOINING
        self.joins += 1
        self.waits_for = self.world.ask(
            self,
            JoinGroup,
            member_id=self.member_id,
            protocol_type="consumer",
            protocols=self.protocols,
            session_timeout_ms=self.session_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            instance_id=self.instance_id,
            client_id=self.name,
            id_first=self.id_first,
        )

    def sync(self, assignments=None):
        self.phase = Phase.SYNCING
        self.waits_for = self.world.ask(
            self,
            SyncGroup,
            member_id=self.member_id,
            generation=self.generation,
            assignments=assignments or {},
            instance_id=self.instance_id,
        )

    def beat(self):
        if self.phase is Phase.MEMBER and self.waits_for is None:
            self.last_beat = self.world.now
            self.waits_for = self.world.ask(
                self,
                Heartbeat,
                member_id=self.member_id,
                generation=self.generation,
                instance_id=self.instance_id,
            )

    def leave(self):
        self.world.ask(self, LeaveGroup, leaving=(Leaving(self.member_id, self.instance_id),))
        self.forget()
        self.phase, self.waits_for = Phase.OUT, None

    def forget(self):
        self.member_id, self.generation, self.partitions, self.leads = "", -1, (), False

    def connection_lost(self):
        """Give up the awaited reply: join again, or send the heartbeat again."""
        self.waits_for = None
        match self.phase:
            case Phase.JOINING:
                self.join()
            case Phase.SYNCING:
                self.join()
            case _:
                self.beat()

    def receive(self, reply_to, answer):
        if reply_to != self.waits_for:
            return  # a reply on a connection that the member has given up
        self.waits_for = None
        code = getattr(answer, "code", Code.NONE)
        if code is not Code.NONE:
            self.errors.append(code)
            self._refused(code, answer)
            return
        match answer:
            case JoinAnswer():
                self.member_id, self.generation = answer.member_id, answer.generation
                self.leads = answer.leader == answer.member_id
                self.sync(self.assign(answer.members) if self.leads else None)
            case SyncAnswer():
                self.phase = Phase.MEMBER
                self.last_beat = self.world.now
                self.partitions = tuple(answer.assignment)
                self.world.owned(self)
            case HeartbeatAnswer():
                pass

    def _refused(self, code, answer):
        match code:
            case Code.MEMBER_ID_REQUIRED:
                self.member_id = answer.member_id
                self.join()
            case Code.FENCED_INSTANCE_ID | Code.INCONSISTENT_GROUP_PROTOCOL | Code.GROUP_MAX_SIZE_REACHED:
                self.phase = Phase.OUT
            case Code.UNKNOWN_MEMBER_ID:
                self.forget()
                self.join()
            case Code.REBALANCE_IN_PROGRESS | Code.ILLEGAL_GENERATION:
                self.join()
            case _:
                self.world.retry(self)

    @staticmethod
    def assign(members):
        ids = sorted(member.member_id for member in members)
        return {id_: bytes(PARTITIONS[place :: len(ids)]) for place, id_ in enumerate(ids)}


class World:
    """One coordinator, the stored records, and the members. states: the states that the group went through."""

    def __init__(self, settings=None):
        self.settings = settings
        self.now = 0
        self.stored = {}
        self.offsets = {}
        self.states = ["Empty"]
        self.assignments = []
        self.replies = deque()
        self.asked = {}
        self.members = []
        self.owners = {}
        self._handles = itertools.count(1)
        self._suffixes = (f"{number:04}" for number in itertools.count(1))
        self.coordinator = self._elected()

    def _elected(self):
        coordinator = Coordinator(lambda: next(self._suffixes), self.settings or Settings())
        coordinator.elect()
        coordinator.load(list(self.stored.values()), self.offsets, self.now)
        return coordinator

    @property
    def group(self):
        return self.coordinator.groups.get(GROUP)

    def member(self, name, **how):
        made = ModelMember(self, name, **how)
        self.members.append(made)
        return made

    def ask(self, member, kind, **fields):
        handle = next(self._handles)
        self.asked[handle] = member
        self.carry_out(self.coordinator.handle(kind(reply_to=handle, group=GROUP, **fields), self.now))
        return handle

    def carry_out(self, effects):
        for effect in effects:
            match effect:
                case StoreGroup(stored):
                    self.check_write(stored)
                    self.stored[stored.group] = stored
                    if stored.members:
                        self.assignments.append(stored)
                case StoreOffsets(group, offsets):
                    self.offsets.setdefault(group, {}).update(offsets)
                case ForgetGroup(group):
                    self.stored.pop(group, None)
                case Moved():
                    self.states.append(effect.state.value)
                case Reply(to, answer):
                    self.replies.append((to, answer))

    def check_write(self, stored):
        """Check that generations rise, and that an assignment gives each partition to at most one member."""
        before = self.stored.get(stored.group)
        if before is not None:
            assert stored.generation >= before.generation
            if stored.generation == before.generation:  # a static member in its old place
                assert sorted(m.assignment for m in stored.members) == sorted(m.assignment for m in before.members)
        given = [partition for member in stored.members for partition in member.assignment]
        assert len(given) == len(set(given)), f"a partition twice in generation {stored.generation}"

    def owned(self, member):
        """Note that a member begins to read; check that no other member of its generation reads its partitions."""
        for partition in member.partitions:
            owner = self.owners.setdefault((member.generation, partition), member)
            same = owner is member or (owner.instance_id is not None and owner.instance_id == member.instance_id)
            assert same, f"partition {partition} of generation {member.generation}: {owner.name} and {member.name}"

    def retry(self, member):
        member.connection_lost()

    def deliver(self, count=None):
        """Deliver `count` replies, or all, including the replies to requests that they cause."""
        while self.replies and count != 0:
            handle, answer = self.replies.popleft()
            self.asked.pop(handle).receive(handle, answer)
            count = None if count is None else count - 1

    def lose_reply(self, member):
        """Drop the one reply on its way to this member. Returns: its answer."""
        [lost] = [reply for reply in self.replies if self.asked.get(reply[0]) is member]
        self.replies.remove(lost)
        return lost[1]

    def pass_time(self, ms, silent=()):
        """Fire timers and send the members' heartbeats, except for the silent members; each reply arrives at once."""
        end = self.now + ms
        while self.now < end:
            self.now = min(end, self.now + 500)
            self.carry_out(self.coordinator.tick(self.now))
            self.deliver()
            for member in self.members:
                if member not in silent and self.now - member.last_beat >= HEARTBEAT_MS:
                    member.beat()
            self.deliver()

    def beat(self, *members):
        """Let these members, or all, send a heartbeat; then deliver all replies."""
        for member in members or self.members:
            member.beat()
        self.deliver()

    def crash(self):
        """End the coordinator and drop all replies on their way; a successor loads the stored records."""
        self.replies.clear()
        self.states.append("lost")
        self.coordinator = self._elected()
        if self.group is not None:
            self.states.append(self.group.state.value)

    def reconnect(self, *members):
        """Let these members, or all, that wait for a reply send their request again to the successor."""
        for member in members or self.members:
            if member.waits_for is not None:
                member.connection_lost()
        self.deliver()
