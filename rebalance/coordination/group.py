"""One group in the coordinator's memory: its members, its generation, and the protocols that its members share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from rebalance.coordination.effects import JoinedMember, StoredGroup, StoredMember
from rebalance.coordination.requests import CommittedOffset, Protocol
from rebalance.coordination.states import GROUP_TRANSITIONS, GroupEvent, GroupState
from zk_layout.model import TopicPartition


class Member:
    """One member. join_reply and sync_reply: the request of it that waits for its answer; None if none does."""

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
        """Whether a request of it waits in the coordinator: it cannot send heartbeats meanwhile."""
        return self.join_reply is not None or self.sync_reply is not None

    def metadata(self, protocol: str | None) -> bytes:
        """Its subscription in this protocol's encoding."""
        return next((offered.metadata for offered in self.protocols if offered.name == protocol), b"")

    def stored(self) -> StoredMember:
        """For the atomic write."""
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
    """A group. What has to be counted over all members is kept as a count, so no request costs a walk over them."""

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
        """Ids that were given out and that no member has joined with yet."""
        self.offsets: dict[TopicPartition, CommittedOffset] = {}
        self.joined = 0
        """How many members have joined and wait."""
        self.initial_delay_ends: int | None = None
        """The latest end of an initial delay; None if none goes on."""
        self.grew = False
        """Whether a member was added since the initial delay was last begun."""
        self._offered: Counter[str] = Counter()

    @classmethod
    def load(cls, stored: StoredGroup) -> Group:
        """The group as its last coordinator wrote it."""
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
        """For the atomic write."""
        members = tuple(member.stored() for member in self.members.values())
        return StoredGroup(self.name, self.generation, self.protocol_type, self.protocol, self.leader, members)

    def move(self, event: GroupEvent) -> None:
        """Go where the table leads."""
        self.state = GROUP_TRANSITIONS[self.state, event]

    def add(self, member: Member) -> None:
        """A member that is not in the group yet. The first one leads."""
        self.members[member.member_id] = member
        if member.instance_id is not None:
            self.static[member.instance_id] = member.member_id
        self.pending.discard(member.member_id)
        self._offered.update({offered.name for offered in member.protocols})
        if self.leader is None:
            self.leader = member.member_id

    def remove(self, member: Member) -> None:
        """A member that is in the group. The oldest of the others leads if it led."""
        del self.members[member.member_id]
        if member.instance_id is not None and self.static.get(member.instance_id) == member.member_id:
            del self.static[member.instance_id]
        self._offered.subtract({offered.name for offered in member.protocols})
        self.take_join(member)
        if self.leader == member.member_id:
            self.leader = next(iter(self.members), None)

    def replace(self, old: Member, member_id: str) -> Member:
        """The process of a static member is another one: it takes the place of the old one under a new id."""
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
        """The member joins again, perhaps with another subscription."""
        self._offered.subtract({offered.name for offered in member.protocols})
        self._offered.update({offered.name for offered in protocols})
        member.protocols = protocols

    def await_join(self, member: Member, reply_to: int) -> int | None:
        """The member has joined and waits. Returns: its former request that waits, which it has given up."""
        former = member.join_reply
        if former is None:
            self.joined += 1
        member.join_reply = reply_to
        return former

    def take_join(self, member: Member) -> int | None:
        """The member waits no longer. Returns: the request to answer."""
        reply_to, member.join_reply = member.join_reply, None
        if reply_to is not None:
            self.joined -= 1
        return reply_to

    @property
    def everybody_joined(self) -> bool:
        """Whether every known member has joined, and every id that was given out has been used."""
        return self.joined == len(self.members) and not self.pending

    @property
    def rebalance_timeout_ms(self) -> int:
        """How long the slowest member may take to join again."""
        return max((member.rebalance_timeout_ms for member in self.members.values()), default=0)

    def fits(self, protocol_type: str, protocols: Iterable[Protocol]) -> bool:
        """Return whether a member that offers these can be in one group with all the others."""
        names = {offered.name for offered in protocols}
        if not protocol_type or not names:
            return False
        if not self.members:
            return True
        return protocol_type == self.protocol_type and any(self._offered[name] == len(self.members) for name in names)

    def common_protocols(self) -> set[str]:
        """The protocols that all members offer."""
        return {name for name, count in self._offered.items() if count == len(self.members)}

    def choose_protocol(self) -> str:
        """Each member votes for the first of its protocols that all offer; of two with as many votes, the leader's."""
        common = self.common_protocols()
        votes: Counter[str] = Counter()
        for member in self.members.values():
            votes[next(offered.name for offered in member.protocols if offered.name in common)] += 1
        assert self.leader is not None
        leaders = [offered.name for offered in self.members[self.leader].protocols]
        return min(votes, key=lambda name: (-votes[name], leaders.index(name)))

    def member_list(self) -> tuple[JoinedMember, ...]:
        """All members as the leader sees them."""
        return tuple(
            JoinedMember(member.member_id, member.instance_id, member.metadata(self.protocol))
            for member in self.members.values()
        )
