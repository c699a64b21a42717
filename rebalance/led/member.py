"""A member of a led group: it joins each round, reads each generation, and leads if there is no leader.

For each change a member writes its own znode once and reads `round` and `generation` once each, whatever the size of
the group: it reads a watched znode only after the watch has fired. It claims the partitions that a generation adds
under /owners, as in every group, and releases the partitions that it takes away there: an owner znode is the barrier
between the old owner and the new one, and all tools see the group like a classic one.

With an eager strategy a member releases everything before it joins. With a cooperative one it keeps its partitions; it
releases the partitions that the generation takes away and joins again, and then the next generation gives these to
their new owners.

While a member of the group follows no leader (of the JVM, or with group.coordination=classic) all go by the classic
rule, in which each member computes the same assignment for itself.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial

from rebalance.assignors.seam import Assignor, MemberAssignment, RebalanceProtocol, Subscription
from rebalance.assignors.strategies import common_protocol
from rebalance.clock import Clock
from rebalance.errors import DeposedError, RebalanceError
from rebalance.events import Event, Triggered
from rebalance.led.attendance import Attendance
from rebalance.led.cluster import threads_of, topics_of
from rebalance.led.election import Election
from rebalance.led.own_assignors import OwnAssignors
from rebalance.led.own_znode import OwnZnode
from rebalance.led.records import (
    NO_GENERATION,
    Joining,
    Round,
    Share,
    decode_generation,
    decode_round,
    encode_joining,
    ephemeral_paths,
    generation_path,
    members_path,
    round_path,
)
from rebalance.led.standing import LedState, Standing
from rebalance.led.watched import WatchedZnodes
from rebalance.machine import Phase
from rebalance.mailbox import Errand
from rebalance.snapshot import Assignment, GroupSnapshot, remember_last
from rebalance.status import level_of
from zk_layout.errors import (
    BadVersionError,
    LegacyConsumerError,
    MalformedZnodeError,
    NoNodeError,
    NotPermittedError,
)
from zk_layout.loggers import safe_logger
from zk_layout.model import ConsumerThreadId, TopicPartition
from zk_layout.store import ZkStore, Znode

logger = safe_logger(__name__)

LED = "leader"
"""The word in a registration, and in group.coordination."""
_SOON_MS = 100
"""The pause before the next look after another leader's write was in the way."""
_AGAIN_MS = 1000
"""The pause before the next look after an error of ZooKeeper or of the user's assignor."""
_UNHEARD_MS = 5000
"""A member that waits this long for its share checks whether its znode still holds its offer."""
_ROOM_BYTES = 4096
"""The space for the path and the header of the request that writes a znode."""


class LedMember:
    """One member. assign() is called by the reconciler; everything runs on the coordinator's thread.

    classic: the rule for groups with members that follow no leader. owned: what the member owns now. post, later: put
    into the coordinator's mailbox. tell_...: call the user's listener for a generation that revokes, or assigns,
    nothing.
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
        self._own = OwnAssignors(consumer_id, assignors)
        self._is_eager = common_protocol(self._assignors) is RebalanceProtocol.EAGER
        self._classic = classic
        self._session_id_now = session_id
        self._owned = owned
        self._post = post
        self._later = later
        self._rebalance_timeout_ms = rebalance_timeout_ms
        self._tell_nothing_revoked = tell_nothing_revoked
        self._tell_nothing_assigned = tell_nothing_assigned
        # in this order, because a store may read them one by one: the round is then never older than the generation
        self._paths = (generation_path(group), round_path(group), *ephemeral_paths(group, consumer_id))
        self._watched = WatchedZnodes(store, self._post_look)
        self._own_znode = OwnZnode(store, self._watched, group, consumer_id)
        self._election = Election(
            store,
            self._watched,
            group,
            consumer_id,
            {assignor.name: assignor for assignor in assignors},
            clock,
            initial_delay_ms=initial_delay_ms,
            look_in=self._look_in,
        )
        self._topics_in = remember_last(partial(topics_of, consumer_id))
        self._snapshot: GroupSnapshot | None = None
        self._mine = Attendance(consumer_id, is_eager=self._is_eager)
        self.holds_off: Callable[[], bool] = lambda: False
        """Returns whether a step of the reconciler waits for an answer.

        The member may still own partitions that it is about to give up, so it must not join.
        """
        self._given: Znode | None = None
        """The znode of the generation, as it was decoded last."""
        self._due: tuple[int, frozenset[TopicPartition]] = (0, frozenset())
        """The last generation that assign() returned, and the partitions that it gives to this member."""
        self._untold = False
        """Whether the listener must still be called for a generation that assigns nothing, after its revocations."""
        self._is_classic = False
        self._sees = False
        """Whether the last look could read what the leader wrote."""
        self._will_doubt = False
        self._failure: RebalanceError | None = None
        """The error that keeps this member from making its offer."""
        self._obstacle: LegacyConsumerError | None = None
        """The error that ended the last look, if an ACL or this member caused it."""
        self._unreadable: MalformedZnodeError | None = None
        """The error of the last look, if this member could not decode the round or the generation."""
        self._told_out: bool | None = None
        """While this member takes no part: whether it owned partitions when it last triggered the reconciler."""

    def standing(self, phase: Phase, *, connected: bool) -> Standing:
        """Return the member's state now; any thread may ask. phase, connected: as the coordinator has them."""
        given, leader, group = self._mine.generation, self._election.leader, self._election.state
        state = self._state(phase, connected=connected)
        if state is LedState.DOWN:
            # a member without a session does not lead, and cannot see who leads
            leader = group = None
        return Standing(
            state,
            "classic" if self._is_classic else LED,
            given.number,
            given.protocol,
            leader,
            None if group is None else group.value,
            self._why_out() or self._own.complaint or self._obstacle,
        )

    def _state(self, phase: Phase, *, connected: bool) -> LedState:
        if phase in (Phase.CREATED, Phase.EXPIRED, Phase.CLOSED):
            return LedState.DOWN
        if phase is Phase.LEAVING:
            return LedState.STOPPED
        owned = self._owned()
        generation, due = self._due
        has_it = generation == self._mine.generation.number and due <= owned.keys() and not self._mine.is_joining
        if connected and (phase is Phase.STABLE if self._is_classic else has_it and self._sees):
            return LedState.MEMBER
        if owned:
            return LedState.REDISCOVERING
        return LedState.STOPPED if generation else LedState.DISCOVERING

    # For the reconciler.

    def reads(self) -> int:
        """Return how often this member has read znodes of the led group."""
        return self._watched.reads

    def assign(self, snapshot: GroupSnapshot) -> Assignment:
        """Return the assignment of the last generation.

        A member that takes no part any more gets nothing. Once it owns nothing, it gets the reason.
        Raises: RebalanceError if this member is refused, AssignorFailedError if an assignor of its own fails.
        """
        self._snapshot = snapshot
        self._post_look()
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
        why_out = self._why_out()
        if why_out is not None and not self._owned():
            raise why_out
        given = self._mine.generation
        shares = {member_id: share for member_id, share in given.shares.items() if self._counts(member_id, share)}
        assignment = threads_of(shares, snapshot)
        mine = frozenset(tp for tp, thread in assignment.items() if thread.consumer_id == self._consumer_id)
        self._due = (given.number, mine)
        return assignment

    def _why_out(self) -> RebalanceError | None:
        """Return why this member takes no part in the group; None if it does, or is to join."""
        why = self._mine.round.refused.get(self._consumer_id)
        if why is None:
            return self._failure
        return RebalanceError(
            f"{self._consumer_id} is refused by the leader of group {self._group}: {why}; "
            "set partition.assignment.strategy"
        )

    def _counts(self, member_id: str, share: Share) -> bool:
        if share.consumer_id != self._consumer_id:
            return True
        if self._why_out() is not None:
            return False
        # not before the member has joined in a new session
        return self._mine.session_id == self._session_id_now() and self._mine.counts(member_id)

    def _post_look(self) -> None:
        """Enqueue a look; any thread may call this, as watches do."""
        self._post(Errand(self.look))

    def _look_in(self, delay_ms: int) -> None:
        self._later(Errand(self.look), delay_ms)

    # On the coordinator's thread.

    def look(self) -> None:
        """Take this member's next step. After an error, log it and look again later."""
        try:
            self._look()
            self._obstacle = None
        except DeposedError as error:
            logger.info("%s: does not lead group %s: %s", self._consumer_id, self._group, error)
            self._look_anew(_SOON_MS)
        except LegacyConsumerError as error:
            refused = isinstance(error, (RebalanceError, NotPermittedError))
            level = level_of(error, self._obstacle, logging.WARNING if refused else logging.INFO)
            logger.log(level, "%s: does not get on in led group %s: %s", self._consumer_id, self._group, error)
            self._obstacle = error if refused else None
            led = self._election.leads
            # before the requests below, which may fail in any way
            self._look_anew(_AGAIN_MS)
            if refused and not led:
                # the first error made it forget that it leads; a second comes before it reads the leader's znode again
                with contextlib.suppress(LegacyConsumerError):
                    self._election.leave(self._mine.session_id)
        except BaseException:
            self._look_anew(_AGAIN_MS)
            raise

    def rest(self) -> None:
        """Do nothing until assign() is called: the member leaves, or another session holds its registration."""
        self._snapshot = None
        self._election.forget()
        self._own_znode.doubt()

    def _look_anew(self, delay_ms: int) -> None:
        """Forget all that was read, and look again after the delay: something is not as this member believed."""
        self._election.forget(rest_ms=delay_ms)
        self._sees = False
        self._watched.forget()
        self._own_znode.doubt()
        self._look_in(delay_ms)

    def _look(self) -> None:
        session_id = self._session_id_now()
        if self._snapshot is None or not session_id or self._store.session_id != session_id:
            return
        if self.holds_off():
            self._look_in(_SOON_MS)
            return
        if session_id != self._mine.session_id:
            self._mine.begin_session(session_id)
            self._election.forget()
            self._own_znode.doubt()
            self._due = (0, frozenset())
        # in doubt, the member reads its own znode together with the others
        given, asked, leader, *_ = self._watched.read(self._paths[: 4 if self._own_znode.is_doubted else 3])
        if self._is_classic:
            self._election.step_down(leader, session_id)
            return
        if self._election.restore(leader, session_id, asked, given):
            self._look_in(0)
            return
        was_joining, known = self._mine.is_joining, self._mine.generation
        try:
            self._read_round(asked)
            self._read_generation(given)
            self._unreadable = None
        except MalformedZnodeError as error:
            if self._election.leads:
                raise DeposedError(f"somebody else writes: {error}") from error
            # the next leader writes the record anew
            level = level_of(error, self._unreadable, logging.WARNING)
            logger.log(level, "%s: continues with the records that it read before: %s", self._consumer_id, error)
            self._unreadable = error
        topics = self._topics()
        if not self._own_znode.stands(session_id) or self._mine.is_outdated(topics):
            self._mine.join_anew()
        if self._mine.must_join(topics, self._owned().keys()):
            if self._is_eager and self._owned():
                # the reconciler releases everything, and then its call of assign() leads back here
                if self._mine.given_up_for != self._mine.round.number:
                    self._mine.given_up_for = self._mine.round.number
                    self._post(Triggered(f"round {self._mine.round.number}"))
            else:
                self._join()
        if was_joining and not self._mine.is_joining and known is self._mine.generation:
            # another client had deleted the round, or written the same offer in this member's place, and the leader has
            # answered that; an eager member has released everything meanwhile
            self._post(Triggered(f"generation {known.number} counts again"))
        out = None if self._why_out() is None else bool(self._owned())
        if out != self._told_out:
            # the reconciler releases everything; once this member owns nothing, assign() raises the reason
            self._told_out = out
            self._post(Triggered("it takes no part in the group, or does so again"))
        if self._may_lead(leader):
            self._election.stand(leader, session_id, self._snapshot)
            if self._mine.joined is not None and self._election.misses(self._mine.member_id):
                # another client overwrote this member's znode; no generation shows that to the only member of a group
                self._own_znode.doubt()
                self._look_in(_SOON_MS)
        else:
            self._election.step_down(leader, session_id)
        self._sees = True
        self._doubt_while_waiting()

    def _doubt_while_waiting(self) -> None:
        """Doubt the own znode after a long wait: another client may have deleted it before the leader read it.

        No generation names the member then.
        """
        if self._mine.waits and not self._will_doubt:
            self._will_doubt = True
            self._later(Errand(self._doubt), _UNHEARD_MS)

    def _doubt(self) -> None:
        self._will_doubt = False
        if self._mine.waits:
            self._own_znode.doubt()
            self.look()

    def _read_round(self, znode: Znode | None) -> None:
        before = self._mine.round.refused.get(self._consumer_id)
        self._mine.round = Round() if znode is None else decode_round(self._paths[1], znode.data)
        if self._mine.round.refused.get(self._consumer_id) != before:
            # perhaps the leader refused an offer that another client wrote in my place
            self._own_znode.doubt()
        if self._consumer_id in self._mine.round.joined:
            self._mine.count_for(self._mine.round.number)

    def _read_generation(self, znode: Znode | None) -> None:
        if znode == self._given:
            return
        given = NO_GENERATION if znode is None else decode_generation(self._paths[0], znode.data)
        self._given = znode
        if given == self._mine.generation:
            return
        self._mine.generation = given
        self._post(Triggered(f"generation {given.number}"))
        share = self._mine.share
        if self._mine.is_left_out():
            # the leader could not find or read this member's offer, or asked for a round of this number before
            self._own_znode.doubt()
            self._mine.join_anew()
        if share is not None:
            if self._own_znode.compare(share.joined):
                # a new member that joined before it saw the leader's new round need not join that round again
                self._mine.count_for(given.round)
            self._own.hear(given.protocol, MemberAssignment(share.partitions, share.user_data), given.number)
            owned, is_given = self._owned().keys(), set(share.partitions)
            self._untold = is_given <= owned
            if owned <= is_given:
                self._tell_if_untold()

    def _tell_if_untold(self) -> None:
        if self._untold:
            self._untold = False
            self._tell_nothing_assigned()

    def _topics(self) -> tuple[str, ...]:
        assert self._snapshot is not None
        return self._topics_in(self._snapshot)

    def _join(self) -> None:
        topics = self._topics()
        if not topics and self._snapshot is not None and self._consumer_id not in self._snapshot.members:
            return
        told = Subscription(
            topics,
            owned=() if self._is_eager else tuple(sorted(self._owned())),
            generation=None if self._mine.share is None else self._mine.generation.number,
        )
        try:
            offered = self._own.offer(told)
            data = encode_joining(
                Joining(
                    self._consumer_id,
                    self._mine.session_id,
                    self._mine.round.number,
                    self._rebalance_timeout_ms,
                    offered,
                )
            )
            if len(data) > (most := self._store.max_multi_bytes - _ROOM_BYTES):
                raise RebalanceError(
                    f"{self._consumer_id} cannot join group {self._group}: topics, partitions and user data of "
                    f"its strategies are {len(data)} bytes, and a znode may have {most}"
                )
        except RebalanceError as error:
            self._stay_out(error)
            return
        if self._failure is not None:
            logger.warning("%s: joins group %s again: its assignors work", self._consumer_id, self._group)
            self._failure = None
        self._tell_if_untold()
        if self._is_eager and self._mine.given_up_for != self._mine.round.number:
            self._tell_nothing_revoked()
            self._mine.given_up_for = self._mine.round.number
        try:
            if not self._own_znode.write(data, self._mine.session_id):
                self._look_in(_AGAIN_MS)
                return
        except (NoNodeError, BadVersionError) as error:
            logger.warning(
                "%s: another client changed its record in group %s: %s", self._consumer_id, self._group, error
            )
            self._own_znode.doubt()
            self._post_look()
            return
        self._mine.join(topics, told.owned)

    def _stay_out(self, error: RebalanceError) -> None:
        """Take no part: delete the own znode, log the reason once, and try again later."""
        if self._failure is None:
            logger.error("%s: takes no part in group %s: %s", self._consumer_id, self._group, error)
        self._failure = error
        self._mine.joined = None
        self._own_znode.delete(self._mine.session_id)
        self._look_in(_AGAIN_MS)

    def _may_lead(self, leader: Znode | None) -> bool:
        """Return whether this member may lead. A member that takes no part leaves the lead to members that take part.

        If none of them takes the lead in time, this member takes it. It may be refused only because another client
        wrote an offer in its place, and an ACL may keep the other members from leading.
        """
        if self._why_out() is None or self._election.is_vacant(leader, _UNHEARD_MS):
            return True
        try:
            names = self._watched.children(members_path(self._group))
        except NoNodeError:
            return True
        return self._mine.round.refused.keys() >= set(names)
