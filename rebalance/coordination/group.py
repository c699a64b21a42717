"""One group in the coordinator's memory: its members, its generation, and the protocols that its members share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rebalance.coordination.effects import JoinedMember, StoredGroup, StoredMember
from rebalance.coordination.requests import CommittedOffset, Protocol
from rebalance.coordination.states import GROUP_TRANSITIONS, GroupEvent, GroupState
from zk_layout.model import TopicPartition


class Member:
    """One member. join_reply and sync_reply: its request that waits for an answer; None if there is none."""

    __slots__ = (
        "assignment", "client_id", "instance_id", "join_reply", "member_id", "protocols", "rebalance_timeout_ms",
        "session_timeout_ms", "sync_reply",
    )  # fmt: skip

    def __init__(
        self,
        member_id: str,
        instance_id: str | None,
        client_id: str,
        session_timeout_ms: int,
        rebalance_timeout_ms: int,
        protocols: tuple[Protocol, ...],
        assignment: bytes = b"",
    ) -> None:
        self.member_id = member_id
        self.instance_id = instance_id
        self.client_id = client_id
        self.session_timeout_ms = session_timeout_ms
        self.rebalance_timeout_ms = rebalance_timeout_ms
        self.protocols = protocols
        self.assignment = assignment
        self.join_reply: int | None = None
        self.sync_reply: int | None = None

    @property
    def is_waiting(self) -> bool:
        """Whether the coordinator owes the member an answer: the member cannot send heartbeats meanwhile."""
        return self.join_reply is not None or self.sync_reply is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Return its subscription in this protocol's encoding."""
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def stored(self) -> StoredMember:
        """Return the data for the atomic write."""
        return StoredMember(
            self.member_id,
            self.instance_id,
            self.client_id,
            self.session_timeout_ms,
            self.rebalance_timeout_ms,
            self.protocols,
            self.assignment,
        )


class Group:
    """A group. It keeps counts over its members, so that no request has to visit all of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.state = GroupState.EMPTY
        self.generation = 0
        self.protocol_type: str | None = None
        self.protocol: str | None = None
        self.leader: str | None = None
        self.members: dict[str, Member] = {}
        self.static: dict[str, str] = {}
        """{instance id: member id}."""
        self.pending: set[str] = set()
        """Member ids that the coordinator has given to clients, and with which no member has joined yet."""
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.joined = 0
        """The number of members that have joined and wait for the answer."""
        self.initial_delay_ends: int | None = None
        """The latest end of the initial delay, in ms; None if there is no such delay now."""
        self.grew = False
        """Whether a member was added since the last start of the initial delay."""
        self._offered: Counter[str] = Counter()

    @classmethod
    def load(cls, stored: StoredGroup) -> Group:
        """Return the group as its last coordinator wrote it."""
        group = cls(stored.group)
        for member in stored.members:
            group.add(
                Member(
                    member.member_id,
                    member.instance_id,
                    member.client_id,
                    member.session_timeout_ms,
                    member.rebalance_timeout_ms,
                    member.protocols,
                    member.assignment,
                )
            )
        group.generation = stored.generation
        group.protocol_type, group.protocol, group.leader = stored.protocol_type, stored.protocol, stored.leader
        if stored.members:
            group.move(GroupEvent.LOADED)
        return group

    def stored(self) -> StoredGroup:
        """Return the data for the atomic write."""
        members = tuple(member.stored() for member in self.members.values())
        return StoredGroup(self.name, self.generation, self.protocol_type, self.protocol, self.leader, members)

    def move(self, event: GroupEvent) -> None:
        """Move to the next state by the table."""
        self.state = GROUP_TRANSITIONS[self.state, event]

    def add(self, member: Member) -> None:
        """Add a member that is not in the group yet. The first one becomes the leader."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.pending.discard(member.member_id)
        self._offered.update({offered.name for offered in member.protocols})
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        """Remove a member. If it led, the oldest of the others becomes the leader."""
        del self.members[member.member_id]
        if member.instance_id is not None and self.static.get(member.instance_id) == member.member_id:
            del self.static[member.instance_id]
        self._offered.subtract({offered.name for offered in member.protocols})
        self.take_join(member)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, member_id: str) -> Member:
        """Replace the process of a static member by a new one, with a new member id. Returns: the new member."""
        led = self.leader == old.member_id
        new = Member(
            member_id,
            old.instance_id,
            old.client_id,
            old.session_timeout_ms,
            old.rebalance_timeout_ms,
            old.protocols,
            old.assignment,
        )
        self.remove(old)
        self.add(new)
        if led:
            self.leader = member_id
        return new

    def offer(self, member: Member, protocols: tuple[Protocol, ...]) -> None:
        """Set the member's protocols: it joins again, perhaps with another subscription."""
        self._offered.subtract({offered.name for offered in member.protocols})
        self._offered.update({offered.name for offered in protocols})
        member.protocols = protocols

    def await_join(self, member: Member, reply_to: int) -> int | None:
        """Note that the member has joined and waits. Returns: its earlier waiting request, which this one replaces."""
        former = member.join_reply
        if former is None:
            self.joined += 1
        member.join_reply = reply_to
        return former

    def take_join(self, member: Member) -> int | None:
        """Note that the member does not wait any more. Returns: the request to answer."""
        reply_to, member.join_reply = member.join_reply, None
        if reply_to is not None:
            self.joined -= 1
        return reply_to

    @property
    def everybody_joined(self) -> bool:
        """Whether every known member has joined, and every given member id was used."""
        return self.joined == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """The time that the slowest member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def fits(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Return whether a member that offers these protocols can be in one group with all the others."""
        names = {offered.name for offered in protocols}
        if not protocol_type or not names:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and any(self._offered[name] == len(self.members) for name in names)

    def common_protocols(self) -> set[str]:
        """Return the protocols that all members offer."""
        return {name for name, count in self._offered.items() if count == len(self.members)}

    def choose_protocol(self) -> str:
        """Return the protocol with the most votes; of several the one that the leader prefers.

        Each member votes for the first of its protocols that all members offer.
        """
        common = self.common_protocols()
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(offered.name for offered in member.protocols if offered.name in common)] += 1
        assert self.leader is not None
        leaders = [offered.name for offered in self.members[self.leader].protocols]
        return min(votes, key=lambda name: (-votes[name], leaders.index(name)))

    def member_list(self) -> tuple[JoinedMember, ...]:
        """Return all members, for the leader."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )
