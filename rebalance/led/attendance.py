"""A led member's last join, and which of the leader's answers apply to it. No I/O."""

from __future__ import annotations

from collections.abc import Collection, KeysView
from dataclasses import dataclass, replace

from rebalance.led.records import NO_GENERATION, Generation, Round, Share
from zk_layout.model import TopicPartition


@dataclass(frozen=True, slots=True)
class Joined:
    """A member's last join. round: the latest round for which the join counts."""

    round: int
    topics: tuple[str, ...]
    owned: frozenset[TopicPartition]


class Attendance:
    """The state of one member's joining. round, generation: as read last. is_eager: it releases all before it joins."""

    def __init__(self, consumer_id: str, *, is_eager: bool) -> None:
        self._consumer_id = consumer_id
        self._is_eager = is_eager
        self.session_id = 0
        self.round = Round()
        self.generation: Generation = NO_GENERATION
        self.joined: Joined | None = None
        self.given_up_for: int | None = None
        """The round before which this member releases all that it owns."""

    def begin_session(self, session_id: int) -> None:
        """Note a new session, in which the member has not joined yet, and is another member of the same name."""
        self.session_id = session_id
        self.joined = self.given_up_for = None

    @property
    def member_id(self) -> str:
        """The id of the member in this session; another session makes it another member."""
        return f"{self._consumer_id}-{self.session_id:x}"

    @property
    def share(self) -> Share | None:
        """The share in the last generation; None if the generation does not name this member in this session."""
        return self.generation.shares.get(self.member_id)

    @property
    def is_joining(self) -> bool:
        """Whether this member has to join, or has joined a round that no generation has ended yet."""
        joined = self.joined
        return (
            joined is None
            or self.round.number != joined.round
            or self.generation.round < joined.round
            or self.share is None
        )

    @property
    def waits(self) -> bool:
        """Whether this member has written its offer, and no generation has answered."""
        return self.joined is not None and self.is_joining

    def must_join(self, topics: tuple[str, ...], owned: KeysView[TopicPartition]) -> bool:
        """Return whether the member must join, or join again. topics, owned: the member's, as they are now."""
        joined, share = self.joined, self.share
        if joined is None or self.round.number != joined.round or joined.topics != topics:
            return True
        if self._is_eager or self.is_joining or share is None:
            return False
        # a cooperative member joins again after it has released the partitions that a generation took from it
        return bool(joined.owned - set(share.partitions)) and owned <= set(share.partitions)

    def is_outdated(self, topics: tuple[str, ...]) -> bool:
        """Return whether the last generation is based on an offer of this eager member with other topics than now."""
        return self._is_eager and not self.is_joining and self.joined is not None and self.joined.topics != topics

    def join(self, topics: tuple[str, ...], owned: Collection[TopicPartition]) -> None:
        """Note that the member has written its offer for the present round."""
        self.joined = Joined(self.round.number, topics, frozenset(owned))

    def join_anew(self) -> None:
        """Discard this member's offer: an eager member releases everything once more before it joins."""
        if self.joined is not None:
            self.joined = self.given_up_for = None

    def count_for(self, number: int) -> None:
        """Note that the leader has read this member's offer, and does not ask the member to join this round again."""
        if self.joined is not None:
            self.joined = replace(self.joined, round=max(self.joined.round, number))

    def is_left_out(self) -> bool:
        """Whether the last generation ends the round that this member joined, and does not name it."""
        return self.share is None and self.joined is not None and self.joined.round <= self.generation.round

    def counts(self, member_id: str) -> bool:
        """Return whether a share under this member's name counts.

        A share of another session does not, nor a share that an eager member gives up before it joins.
        """
        return member_id == self.member_id and not (self._is_eager and self.is_joining)
