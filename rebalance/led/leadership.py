"""The leader of a led group: it runs the coordinator over the members' znodes, and assigns.

A member's ephemeral znode is its join, and its session is its heartbeat: when the znode is deleted, the member has
left. The coordinator's answers go into two znodes. `round` asks the members to join again; `generation` gives each
member its share.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from rebalance.assignors.seam import Assignor
from rebalance.coordination.codes import Code
from rebalance.coordination.coordinator import Coordinator
from rebalance.coordination.effects import (
    Effect,
    JoinAnswer,
    Moved,
    Reply,
    StoredGroup,
    StoredMember,
    StoreGroup,
)
from rebalance.coordination.group import Group, Member
from rebalance.coordination.requests import NO_MEMBER, JoinGroup, LeaveGroup, Leaving, Protocol, Request, SyncGroup
from rebalance.coordination.states import GroupState
from rebalance.coordination.timers import NEVER_MS
from rebalance.coordination.turn import Settings
from rebalance.led.cluster import read_cluster
from rebalance.led.dividing import divide
from rebalance.led.journal import Journal
from rebalance.led.records import (
    Generation,
    Joining,
    Round,
    Share,
)
from rebalance.led.roster import Roster
from rebalance.led.watched import WatchedZnodes
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore, Znode

logger = safe_logger(__name__)

_NOBODY = 0
"""The address for answers of the coordinator: no client waits for one, because the two znodes hold the answers."""


class Leadership:
    """One member's time as the leader. Used by the coordinator's thread alone.

    watched: the member's watched znodes, to which the list of members and each member's znode are added.
    """

    def __init__(
        self,
        store: ZkStore,
        watched: WatchedZnodes,
        group: str,
        consumer_id: str,
        assignors: Mapping[str, Assignor],
        session_id: int,
        *,
        initial_delay_ms: int,
    ) -> None:
        self._store = store
        self._roster = Roster(watched, group, consumer_id)
        self._group = group
        self._name = consumer_id
        self._assignors = assignors
        self._journal = Journal(store, group, consumer_id, session_id)
        settings = Settings(
            group_max_session_timeout_ms=NEVER_MS,
            group_initial_rebalance_delay_ms=initial_delay_ms,
            empty_group_ms=NEVER_MS,
        )
        self._suffix = ""
        self._coordinator = Coordinator(lambda: self._suffix, settings)
        self._joined: dict[str, Joining] = {}
        """{member id: its last offer}."""
        self._rounds: dict[str, int] = {}
        """{member id: the latest round for which it counts as joined}."""
        self._refused: dict[str, str] = {}
        self._topics: Mapping[str, int] = {}
        self._shares: Mapping[str, Share] = {}
        """As assigned last; they reach `generation` with the coordinator's write, which comes next."""
        self._leaders_answer: JoinAnswer | None = None

    @property
    def state(self) -> GroupState:
        """The state of the group."""
        group = self._coordinator.groups.get(self._group)
        return GroupState.EMPTY if group is None else group.state

    def next_deadline(self) -> int | None:
        """Return when look() must be called at the latest; None: when a watch fires."""
        return self._coordinator.next_deadline()

    def begin(self, now: int) -> None:
        """Take the group over. Raises: DeposedError if another one leads; ZooKeeper's errors."""
        self._journal.take_over()
        given = self._journal.generation
        self._topics = given.topics if _gives_all(given) else {}
        self._coordinator.elect()
        joined = self._roster.read()
        self._coordinator.load([self._stored(joined)] if self._journal.generation.shares else [], {}, now)
        logger.info("%s: leads group %s in generation %d", self._name, self._group, self._journal.generation.number)

    def restore(self, asked: Znode | None, given: Znode | None) -> bool:
        """Write the round and the generation again if another client wrote one of them; return whether one had."""
        return self._journal.restore(asked, given)

    def look(self, topics: Mapping[str, int], now: int) -> None:
        """Read the members' offers, and take the steps that follow.

        topics: {topic: number of partitions} of all that members of the group subscribe to, as it is now.
        Raises: DeposedError; ZooKeeper's errors.
        """
        joined = self._roster.read()
        self._take(self._coordinator.tick(now))
        known = self._known()
        for member_id in [one for one, member in known.items() if not _offers(joined.get(one), member)]:
            self._handle(LeaveGroup(_NOBODY, self._group, (Leaving(member_id),)), now)
            self._joined.pop(member_id, None)
        self._joined = {one: told for one, told in self._joined.items() if one in joined}
        self._rounds = {one: number for one, number in self._rounds.items() if one in joined}
        there = {joining.consumer_id for joining in joined.values()}
        self._refused = {name: why for name, why in self._refused.items() if name in there}
        for member_id, joining in joined.items():
            told = self._joined.get(member_id)
            is_refused = joining.consumer_id in self._refused
            if told != joining or (is_refused and not self._known()):
                self._join(joining, now)
        if self._is_behind(topics):
            self._take(self._coordinator.rebalance(self._group, now))
        self._get_on(topics, now)

    def hears(self, member_id: str) -> bool:
        """Return whether the last look could read this member's offer."""
        return member_id in self._joined

    def _known(self) -> Mapping[str, Member]:
        group = self._coordinator.groups.get(self._group)
        return {} if group is None else group.members

    def _stored(self, joined: Mapping[str, Joining]) -> StoredGroup:
        """Return the last generation with the members that are still there; the others have left."""
        given = self._journal.generation
        members = []
        for member_id, share in given.shares.items():
            joining = joined.get(member_id)
            if joining is None or joining.consumer_id != share.consumer_id:
                # it joins like a new member: another client wrote this share under another name, so no member has it
                continue
            if all(offered.name != given.protocol for offered in joining.protocols):
                # so does a member whose offer lacks the group's strategy, because another client wrote that offer
                continue
            if joining.written == share.joined:
                self._joined[member_id] = joining
                protocols = joining.protocols
            else:
                # the member has joined again since: look() handles that
                protocols = tuple(Protocol(offered.name, b"") for offered in joining.protocols)
            self._rounds[member_id] = self._round_of(joining)
            members.append(
                StoredMember(
                    member_id,
                    None,
                    joining.consumer_id,
                    NEVER_MS,
                    joining.rebalance_timeout_ms,
                    protocols,
                    b"",
                )
            )
        ids = [one.member_id for one in members]
        leader = given.leader if given.leader in ids else next(iter(ids), None)
        return StoredGroup(self._group, given.number, "consumer", given.protocol, leader, tuple(members))

    def _round_of(self, joining: Joining) -> int:
        asked = self._journal.round
        if joining.consumer_id in asked.joined:
            return asked.number
        # no member joins a round before the leader asks for it
        return joining.round if joining.round <= asked.number else -1

    def _is_behind(self, topics: Mapping[str, int]) -> bool:
        """Return whether a stable group has to be assigned anew though no member has changed."""
        if self.state is not GroupState.STABLE:
            return False
        if self._journal.round.number > self._journal.generation.round:
            # the last leader asked for this round and did not end it
            return True
        left = self._journal.generation.shares.keys() - self._known().keys()
        return dict(topics) != dict(self._topics) or bool(left)

    def _join(self, joining: Joining, now: int) -> None:
        # the leader may have refused the member's earlier offer
        self._refused.pop(joining.consumer_id, None)
        self._joined[joining.member_id] = joining
        self._rounds[joining.member_id] = max(self._round_of(joining), self._rounds.get(joining.member_id, 0))
        self._rejoin(joining, now)

    def _rejoin(self, joining: Joining, now: int) -> None:
        known = joining.member_id in self._known()
        self._suffix = f"{joining.session_id:x}"
        self._handle(
            JoinGroup(
                _NOBODY,
                self._group,
                joining.member_id if known else NO_MEMBER,
                "consumer",
                joining.protocols,
                NEVER_MS,
                joining.rebalance_timeout_ms,
                client_id=joining.consumer_id,
            ),
            now,
        )

    def _handle(self, request: Request, now: int) -> None:
        self._take(self._coordinator.handle(request, now), request)

    def _take(self, effects: Sequence[Effect], request: Request | None = None) -> None:
        for effect in effects:
            match effect:
                case Reply(_, JoinAnswer() as answer) if answer.members:
                    self._leaders_answer = answer
                case Reply(_, JoinAnswer() as answer) if answer.code is Code.INCONSISTENT_GROUP_PROTOCOL and isinstance(
                    request, JoinGroup
                ):
                    self._refuse(request)
                case StoreGroup(stored):
                    self._store_generation(stored)
                case Moved():
                    state, why = effect.state.value, effect.why.value
                    logger.debug("%s: group %s is %s: %s", self._name, self._group, state, why)
                case _:
                    pass

    def _refuse(self, request: JoinGroup) -> None:
        theirs = sorted(self._coordinator.groups[self._group].common_protocols())
        ours = _brief([offered.name for offered in request.protocols])
        why = f"it offers {ours}, and the group's members share {_brief(theirs)}"
        self._refused[request.client_id] = why
        logger.warning("%s: member %s is refused: %s", self._name, request.client_id, why)

    def _get_on(self, topics: Mapping[str, int], now: int) -> None:
        """Take the next steps until the group waits for a member, or for nothing."""
        while True:
            group = self._coordinator.groups.get(self._group)
            if group is not None and group.state is GroupState.PREPARING_REBALANCE:
                if self._journal.generation.round >= self._journal.round.number and group.members:
                    if not self._needs_round(group):
                        return
                    self._announce(group)
                elif not self._rejoin_those_that_have(group, now):
                    break
            elif (
                group is not None
                and group.state is GroupState.COMPLETING_REBALANCE
                and self._leaders_answer is not None
            ):
                answer, self._leaders_answer = self._leaders_answer, None
                self._topics = dict(topics)
                self._shares = self._assign(answer)
                self._handle(SyncGroup(_NOBODY, self._group, answer.member_id, answer.generation), now)
            else:
                break
        if dict(self._journal.round.refused) != self._refused:
            self._journal.write_round(replace(self._journal.round, refused=dict(self._refused)))

    def _needs_round(self, group: Group) -> bool:
        """Return whether the group waits for members, which a new round must ask to join."""
        return any(member.join_reply is None for member in group.members.values())

    def _announce(self, group: Group) -> None:
        """Ask the members to join again, except members that already wait."""
        waiting = [member_id for member_id, member in group.members.items() if member.join_reply is not None]
        number = max(self._journal.round.number, self._journal.generation.round) + 1
        joined = frozenset(self._joined[member_id].consumer_id for member_id in waiting)
        self._journal.write_round(Round(number, joined, dict(self._refused)))
        self._rounds.update(dict.fromkeys(waiting, number))

    def _rejoin_those_that_have(self, group: Group, now: int) -> bool:
        """Join again the members that have joined this round: a restarted rebalance asks no member twice.

        Returns: whether there were any.
        """
        again = [
            member_id
            for member_id, member in group.members.items()
            if member.join_reply is None
            and self._rounds.get(member_id, -1) >= self._journal.round.number
            and self._joined[member_id].consumer_id not in self._refused
        ]
        for member_id in again:
            self._rejoin(self._joined[member_id], now)
        return bool(again)

    def _assign(self, answer: JoinAnswer) -> dict[str, Share]:
        previous = {member_id: share.partitions for member_id, share in self._journal.generation.shares.items()}
        told = {member.member_id: member.metadata for member in answer.members}
        assignor = self._assignors.get(answer.protocol)
        cluster = read_cluster(self._store, self._topics, assignor)
        given = divide(self._name, assignor, answer.protocol, told, cluster, previous)
        return {
            member_id: Share(joining.consumer_id, share.partitions, share.user_data, joining.written)
            for member_id, share in given.items()
            for joining in (self._joined[member_id],)
        }

    def _store_generation(self, stored: StoredGroup) -> None:
        shares = {one.member_id: self._shares[one.member_id] for one in stored.members}
        generation = Generation(
            stored.generation,
            self._journal.round.number,
            stored.protocol or "",
            stored.leader or "",
            shares,
            self._topics,
        )
        self._journal.write_generation(generation)
        logger.info(
            "%s: group %s: generation %d of %d members, by %s",
            self._name, self._group, generation.number, len(shares), generation.protocol or "nobody",
        )  # fmt: skip


def _gives_all(given: Generation) -> bool:
    """Return whether a generation gives each partition of its topics to one member.

    A generation that another client wrote may not, nor one whose assignor failed.
    """
    partitions = sorted(tp for share in given.shares.values() for tp in share.partitions)
    # the numbers first: another client may write a count of billions, and such a list would fill the memory
    return len(partitions) == sum(max(0, count) for count in given.topics.values()) and partitions == sorted(
        TopicPartition(topic, number) for topic, count in given.topics.items() for number in range(count)
    )


def _offers(joining: Joining | None, member: Member) -> bool:
    """Return whether the member is there and offers the strategies that are known of it.

    If another client wrote other strategies in its place, no other member shares them as long as they count.
    """
    return joining is not None and {one.name for one in joining.protocols} == {one.name for one in member.protocols}


def _brief(names: Sequence[str]) -> str:
    """Shorten the names: any client can write names of any length and number."""
    return ", ".join(name[:100] for name in names[:10])
