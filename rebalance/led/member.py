"""What each member of a led group does: it joins each round, reads each generation, and leads if nobody does.

A member writes one znode and reads a few for each change, whatever the size of the group. What a generation gives to it
is claimed under /owners as in every group, and what it takes is released there: an owner znode is the barrier between
the old owner and the new one, and all tools see the group as they see a classic one.

With an eager strategy a member gives up everything before it joins. With a cooperative one it keeps what it has; what
the generation takes from it, it gives up and joins again, and then the next generation gives that to its new owner.

While a member of the group follows no leader (of the JVM, or with group.coordination=classic) all go by the classic
rule, in which each member computes the same assignment for itself.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from rebalance.assignors.seam import (
    Assignor,
    Broker,
    Cluster,
    MemberAssignment,
    PartitionPlace,
    RebalanceProtocol,
    Subscription,
)
from rebalance.assignors.strategies import common_protocol
from rebalance.clock import Clock
from rebalance.coordination.requests import Protocol
from rebalance.errors import DeposedError, RebalanceError
from rebalance.events import Event, Triggered
from rebalance.led.leadership import Leadership
from rebalance.led.records import (
    NO_GENERATION,
    Joining,
    Round,
    Share,
    coordination_path,
    decode_generation,
    decode_round,
    encode_joining,
    encode_subscription,
    generation_path,
    leader_path,
    member_path,
    members_path,
    round_path,
)
from rebalance.mailbox import Errand
from rebalance.snapshot import Assignment, GroupSnapshot
from rebalance.subscription import consumer_threads, subscribed_topics
from zk_layout.codecs import decode_broker, decode_partition_state
from zk_layout.errors import LegacyConsumerError, MalformedZnodeError, NodeExistsError
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.paths import BrokerIdPath, BrokerIdsPath, PartitionStatePath
from zk_layout.store import WatchEvent, WatchKind, ZkStore, Znode

logger = logging.getLogger(__name__)

LED = "leader"
"""The word in a registration, and in group.coordination."""
_SOON_MS = 100
"""After another leader's write was in the way."""
_AGAIN_MS = 1000
"""After an error of ZooKeeper's the member looks again."""


@dataclass(frozen=True, slots=True)
class Standing:
    """How the member stands in its group, for people.

    state: classic (a member of the group follows no leader), joining, or member, once it has its share. generation: the
    last one that it knows; 0 if there is none yet. group: as its coordinator sees it, if this member leads; else None.
    """

    state: str = "joining"
    generation: int = 0
    group: str | None = None


class LedMember:
    """One member. assign() is called by the reconciler; everything runs on the coordinator's thread.

    classic: the rule for groups with members that follow no leader. owned: what the member owns now. post, later: put
    into the coordinator's mailbox. tell_...: a user's listener hears of each generation, also if nothing comes or goes.
    """

    def __init__(
        self,
        store: ZkStore,
        group: str,
        consumer_id: str,
        assignors: Sequence[Assignor],
        *,
        classic: Callable[[GroupSnapshot], Assignment],
        session_id: Callable[[], int],
        owned: Callable[[], Mapping[TopicPartition, ConsumerThreadId]],
        post: Callable[[Errand | Event], None],
        later: Callable[[Errand, int], None],
        clock: Clock,
        rebalance_timeout_ms: int,
        initial_delay_ms: int = 0,
        tell_nothing_revoked: Callable[[], None] = lambda: None,
        tell_nothing_assigned: Callable[[], None] = lambda: None,
    ) -> None:
        self._store = store
        self._group = group
        self._consumer_id = consumer_id
        self._assignors = tuple(assignors)
        self._is_eager = common_protocol(self._assignors) is RebalanceProtocol.EAGER
        self._classic = classic
        self._session_id_now = session_id
        self._owned = owned
        self._post = post
        self._later = later
        self._clock = clock
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._initial_delay_ms = initial_delay_ms
        self._tell_nothing_revoked = tell_nothing_revoked
        self._tell_nothing_assigned = tell_nothing_assigned
        self._paths = (
            round_path(group), generation_path(group), leader_path(group), member_path(group, consumer_id),
        )  # fmt: skip
        self._snapshot: GroupSnapshot | None = None
        self._session_id = 0
        self._round = Round()
        self._generation = NO_GENERATION
        self._joined: Joining | None = None
        self._told = Subscription(())
        self._leadership: Leadership | None = None
        self._given_up_for: int | None = None
        """The round before which this member gives up all that it owns."""
        self._due: tuple[int, frozenset[TopicPartition]] = (0, frozenset())
        """The generation that was carried out last, and what it gives to this member."""
        self._is_classic = False

    @property
    def standing(self) -> Standing:
        """Any thread may look."""
        leadership = self._leadership
        generation, due = self._due
        has_it = generation == self._generation.number and due <= self._owned().keys()
        state = "classic" if self._is_classic else "member" if has_it and not self._is_joining else "joining"
        return Standing(state, self._generation.number, leadership.state.value if leadership is not None else None)

    # For the reconciler.

    def assign(self, snapshot: GroupSnapshot) -> Assignment:
        """Who is to have what, as the last generation says. Raises: RebalanceError if this member is refused."""
        self._snapshot = snapshot
        self._post(Errand(self.look))
        others = sorted(name for name, told in snapshot.members.items() if told.coordination != LED)
        if bool(others) != self._is_classic:
            self._is_classic = bool(others)
            if others:
                logger.warning(
                    "%s: group %s goes by the classic rule: %s follows no leader",
                    self._consumer_id, self._group, ", ".join(others[:3]),
                )  # fmt: skip
            else:
                logger.warning("%s: group %s is led again", self._consumer_id, self._group)
        if others:
            return self._classic(snapshot)
        if self._consumer_id in self._round.refused:
            raise RebalanceError(
                f"{self._consumer_id} is refused by the leader of group {self._group}: "
                f"{self._round.refused[self._consumer_id]}; set partition.assignment.strategy"
            )
        given = self._generation
        shares = {member_id: share for member_id, share in given.shares.items() if self._counts(member_id, share)}
        assignment = threads_of(shares, snapshot)
        mine = frozenset(tp for tp, thread in assignment.items() if thread.consumer_id == self._consumer_id)
        self._due = (given.number, mine)
        return assignment

    def _counts(self, member_id: str, share: Share) -> bool:
        """Not what another life of this member was given, nor what an eager one gives up before it joins."""
        if share.consumer_id != self._consumer_id:
            return True
        return member_id == self._member_id and not (self._is_eager and self._is_joining)

    # Events, on threads of the store.

    def _on_change(self, event: WatchEvent) -> None:
        if event.kind is not WatchKind.LOST:
            self._post(Errand(self.look))

    # What is done about them, on the coordinator's thread.

    def look(self) -> None:
        """Do what is next for this member. Errors are logged, and it looks again."""
        try:
            self._look()
        except DeposedError as error:
            logger.info("%s: does not lead group %s: %s", self._consumer_id, self._group, error)
            self._leadership = None
            self._later(Errand(self.look), _SOON_MS)
        except LegacyConsumerError as error:
            logger.info("%s: cannot see what the leader of group %s says: %s", self._consumer_id, self._group, error)
            self._leadership = None
            self._later(Errand(self.look), _AGAIN_MS)
        except Exception:
            # what a leader knows half is worse than what it reads anew
            self._leadership = None
            self._later(Errand(self.look), _AGAIN_MS)
            raise

    def leave(self) -> bool:
        """Take back what this member has told, and lead no longer; the session may go on. Whether that went well."""
        self._snapshot = self._leadership = None
        try:
            for path in self._paths[2:]:
                stat = self._store.exists(path)
                if stat is not None and stat.ephemeral_owner == self._session_id:
                    self._store.delete(path, stat.version)
        except LegacyConsumerError as error:
            logger.warning("%s: its znodes in the led group go with its session: %s", self._consumer_id, error)
            return False
        return True

    def _look(self) -> None:
        session_id = self._session_id_now()
        if self._snapshot is None or not session_id or self._store.session_id != session_id:
            return
        if session_id != self._session_id:
            self._session_id = session_id
            self._joined = self._leadership = self._given_up_for = None
        asked, given, leader, own = self._store.get_data_many(self._paths, self._on_change)
        if self._is_classic:
            self._stop_leading(leader)
            return
        try:
            self._read_round(asked)
            self._read_generation(given)
        except MalformedZnodeError as error:
            if self._leadership is not None:
                raise DeposedError(f"somebody else writes: {error}") from error
            # who leads next writes it anew
            logger.warning("%s: goes by what stood there before: %s", self._consumer_id, error)
        if own is None or own.stat.ephemeral_owner != session_id:
            self._joined = None
        if self._must_join():
            if self._is_eager and self._owned():
                # the reconciler gives all up, and comes back here when it has
                if self._given_up_for != self._round.number:
                    self._given_up_for = self._round.number
                    self._post(Triggered(f"round {self._round.number}"))
            else:
                self._join(own)
        self._lead(leader)

    def _read_round(self, znode: Znode | None) -> None:
        before = self._round.refused.get(self._consumer_id)
        self._round = Round() if znode is None else decode_round(self._paths[0], znode.data)
        if self._round.refused.get(self._consumer_id) != before:
            self._post(Triggered("the leader refuses me, or not any more"))
        if self._joined is not None and self._consumer_id in self._round.joined:
            self._joined = replace(self._joined, round=max(self._joined.round, self._round.number))

    def _read_generation(self, znode: Znode | None) -> None:
        given = NO_GENERATION if znode is None else decode_generation(self._paths[1], znode.data)
        if given == self._generation:
            return
        self._generation = given
        share = given.shares.get(self._member_id)
        if share is not None:
            for assignor in self._assignors:
                if assignor.name == given.protocol:
                    assignor.on_assignment(MemberAssignment(share.partitions, share.user_data), given.number)
            if not set(share.partitions) - self._owned().keys():
                self._tell_nothing_assigned()
        self._post(Triggered(f"generation {given.number}"))

    @property
    def _member_id(self) -> str:
        return f"{self._consumer_id}-{self._session_id:x}"

    @property
    def _is_joining(self) -> bool:
        """Whether this member has to join, or has joined a round that no generation has ended yet."""
        joined = self._joined
        return (
            joined is None
            or self._round.number != joined.round
            or self._generation.round < joined.round
            or self._member_id not in self._generation.shares
        )

    def _must_join(self) -> bool:
        joined = self._joined
        if joined is None or self._round.number != joined.round or self._told.topics != self._topics():
            return True
        if self._is_eager or self._is_joining:
            return False
        # a cooperative member that has given up what a generation took from it
        share = set(self._generation.shares[self._member_id].partitions)
        return bool(set(self._told.owned) - share) and self._owned().keys() <= share

    def _topics(self) -> tuple[str, ...]:
        assert self._snapshot is not None
        told = self._snapshot.members.get(self._consumer_id)
        if told is None:
            return ()
        excludes = self._snapshot.exclude_internal_topics
        return tuple(sorted(subscribed_topics(told, self._snapshot.partitions, exclude_internal_topics=excludes)))

    def _join(self, own: Znode | None) -> None:
        topics = self._topics()
        if not topics and self._snapshot is not None and self._consumer_id not in self._snapshot.members:
            return
        told = Subscription(
            topics,
            owned=() if self._is_eager else tuple(sorted(self._owned())),
            generation=self._generation.number if self._member_id in self._generation.shares else None,
        )
        joining = Joining(
            self._consumer_id,
            self._session_id,
            self._round.number,
            self._rebalance_timeout_ms,
            tuple(
                Protocol(
                    assignor.name,
                    encode_subscription(replace(told, user_data=assignor.subscription_user_data(topics))),
                )
                for assignor in self._assignors
            ),
        )
        if self._is_eager and self._given_up_for != self._round.number:
            self._tell_nothing_revoked()
            self._given_up_for = self._round.number
        path, data = self._paths[3], encode_joining(joining)
        if own is None:
            self._store.ensure_path(members_path(self._group))
            try:
                self._store.create(path, data, ephemeral=True)
            except NodeExistsError:
                self._later(Errand(self.look), _AGAIN_MS)
                return
        elif own.stat.ephemeral_owner != self._session_id:
            # of my former session, or of another member of my name: it goes with its session
            self._later(Errand(self.look), _AGAIN_MS)
            return
        else:
            self._store.set_data(path, data, own.stat.version)
        self._joined, self._told = joining, told

    def _lead(self, leader: Znode | None) -> None:
        if leader is None:
            self._store.ensure_path(coordination_path(self._group))
            self._leadership = Leadership(
                self._store,
                self._group,
                self._consumer_id,
                {assignor.name: assignor for assignor in self._assignors},
                self._session_id,
                initial_delay_ms=self._initial_delay_ms,
                on_members=self._on_change,
            )
            self._leadership.begin(self._now_ms())
        elif leader.stat.ephemeral_owner != self._session_id:
            self._leadership = None
        elif self._leadership is None:
            # elected in a request whose reply was lost: nobody knows what it wrote
            self._store.delete(self._paths[2], leader.stat.version)
            self._post(Errand(self.look))
        if self._leadership is None:
            return
        before = self._now_ms()
        self._leadership.look(self._subscribed(), self._cluster, before)
        deadline = self._leadership.next_deadline()
        if deadline is not None and deadline < before + _FAR_MS:
            self._later(Errand(self.look), max(1, deadline - before))

    def _stop_leading(self, leader: Znode | None) -> None:
        self._leadership = None
        if leader is not None and leader.stat.ephemeral_owner == self._session_id:
            self._store.delete(self._paths[2], leader.stat.version)

    def _now_ms(self) -> int:
        return round(self._clock.monotonic() * 1000)

    def _subscribed(self) -> dict[str, int]:
        """{topic: partitions} of what the group's members subscribe to, of those that exist."""
        assert self._snapshot is not None
        snapshot = self._snapshot
        topics = {
            topic
            for told in snapshot.members.values()
            for topic in subscribed_topics(
                told, snapshot.partitions, exclude_internal_topics=snapshot.exclude_internal_topics
            )
        }
        return {topic: len(snapshot.partitions[topic]) for topic in sorted(topics) if snapshot.partitions.get(topic)}

    def _cluster(self) -> Cluster:
        """With leaders and racks, for assignors that look at them."""
        topics = self._subscribed()
        tps = [TopicPartition(topic, number) for topic, count in topics.items() for number in range(count)]
        places: dict[str, list[PartitionPlace]] = {topic: [] for topic in topics}
        paths = [PartitionStatePath(*tp).path for tp in tps]
        for tp, path, znode in zip(tps, paths, self._store.get_data_many(paths), strict=True):
            leader = None
            if znode is not None:
                try:
                    state = decode_partition_state(path, znode.data)
                    leader = state.leader if state.leader >= 0 else None
                except MalformedZnodeError:
                    pass
            places[tp.topic].append(PartitionPlace(leader))
        brokers: dict[int, Broker] = {}
        there = self._store.get_children_many([BrokerIdsPath().path])[0] or ()
        ids = [int(name) for name in there if name.isdigit()]
        for number, znode in zip(ids, self._store.get_data_many([BrokerIdPath(n).path for n in ids]), strict=True):
            if znode is not None:
                try:
                    brokers[number] = Broker(number, decode_broker(BrokerIdPath(number).path, znode.data).rack)
                except MalformedZnodeError:
                    brokers[number] = Broker(number)
        return Cluster({topic: tuple(found) for topic, found in places.items()}, brokers)


def threads_of(shares: Mapping[str, Share], snapshot: GroupSnapshot) -> Assignment:
    """Which thread of its member each partition goes to: a member's partitions of a topic in ranges over its streams.

    Members that are not there and partitions that do not exist are left out.
    """
    found: dict[TopicPartition, ConsumerThreadId] = {}
    for share in shares.values():
        told = snapshot.members.get(share.consumer_id)
        if told is None:
            continue
        streams = subscribed_topics(told, snapshot.partitions, exclude_internal_topics=snapshot.exclude_internal_topics)
        by_topic: dict[str, list[TopicPartition]] = {}
        for tp in sorted(share.partitions):
            if tp.topic in streams and tp.partition in snapshot.partitions.get(tp.topic, ()):
                by_topic.setdefault(tp.topic, []).append(tp)
        for topic, partitions in by_topic.items():
            threads = consumer_threads(share.consumer_id, streams[topic], len(partitions))
            found.update((tp, threads[n * len(threads) // len(partitions)]) for n, tp in enumerate(partitions))
    return dict(sorted(found.items()))


_FAR_MS = 1 << 40
"""A deadline behind this is none."""
