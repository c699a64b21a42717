"""The hooks that the user's code may add to a rebalance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol, cast, runtime_checkable

from rebalance.snapshot import Assignment
from zk_layout.model import ConsumerThreadId, TopicPartition

HOOKS = ("before_releasing_partitions", "before_starting_fetchers")
HOOKS_OF_JAVA = ("on_partitions_revoked", "on_partitions_assigned")
STARTS = "starting_offsets"
LOSSES = "on_partitions_lost"


def has_hooks(listener: object, *hooks: str) -> bool:
    """Return whether a listener has these methods, also one that passes its calls on with __getattr__.

    From Python 3.12 on isinstance(listener, a Protocol) does not see the methods of such a listener.
    """
    return all(callable(getattr(listener, hook, None)) for hook in hooks)


@runtime_checkable
class RebalanceListener(Protocol):
    """Hooks of a rebalance. The member calls them on one thread of their own, and logs and counts their errors.

    The rebalance goes on when a hook returns, or after drain.timeout.ms. A hook may shut the connector down; then no
    other is called.

    Two more hooks are called if the listener has them: starting_offsets (StartListener) and on_partitions_lost
    (LossListener).

    Source: Scala consumer 0.9 to 1.1.1, ConsumerRebalanceListener. There the hooks name everything the member owns,
    because it gives up everything; here they name only the partitions that move.
    """

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Called before a release: delivery has stopped, the last commit is over, the owner znodes still exist.

        Consumed offsets are committed, unless auto.commit.enable is off or the commit was refused. Offsets can be
        committed here. If the listener has no on_partitions_lost, this hook also gets lost partitions.
        """
        ...

    def before_starting_fetchers(
        self, partitions: Mapping[TopicPartition, ConsumerThreadId], assignment: Assignment
    ) -> None:
        """Called after a claim: these partitions flow when this returns; assignment is that of the whole group.

        The connector's seek and pause may be called here, and take effect before the first message. After
        drain.timeout.ms the partitions flow although this has not returned.
        """
        ...


class StartListener(RebalanceListener, Protocol):
    """A listener that sets the start of partitions, for offsets that the user's code keeps with its results."""

    def starting_offsets(self, partitions: Mapping[TopicPartition, int | None]) -> Mapping[TopicPartition, int | None]:
        """Return the start of each newly claimed partition: the next offset to read, EARLIEST or LATEST.

        partitions: with the group's committed offsets, None if there is none. A partition that is missing in the
        result, or None, starts there or by auto.offset.reset, unless offsets.by.hand names its topic. Other partitions
        in the result are ignored. If this raises, returns an invalid offset or a dict with a key that is no partition,
        does not return within drain.timeout.ms, or leaves out a partition of offsets.by.hand, the partitions do not
        start: the member calls it again, and is DEGRADED meanwhile. The result counts for a topic that was deleted and
        created again, too, which the listener cannot know: delete a topic's offsets with the topic. In this hook
        commit_offsets({partition: offset}) commits these partitions, only forward unless unfenced=True.
        """
        ...


class LossListener(RebalanceListener, Protocol):
    """A listener that distinguishes lost partitions from released ones."""

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Called after a loss; other members may own the partitions already. Nothing was committed.

        The session ended, another client took or deleted the owner znodes, or the topic was deleted. commit_offsets()
        leaves these partitions out. If it is given offsets of them, it writes them only forward and while no member
        owns them, or with unfenced=True.
        """
        ...


class GenerationListener(Protocol):
    """Hooks with the names and the timing of Java's ConsumerRebalanceListener.

    In a led group the member calls them for each generation, with an empty set too. With an eager strategy it calls
    on_partitions_revoked before it joins, and on_partitions_assigned when it owns its share. With a cooperative one it
    calls on_partitions_revoked only for partitions that a generation takes away, and on_partitions_assigned for those
    that it adds. In a classic group the member calls them only for partitions that move. If the listener has no
    on_partitions_lost, the member reports lost partitions as revoked.
    """

    def on_partitions_revoked(self, partitions: frozenset[TopicPartition]) -> None:
        """Called before a release; as before_releasing_partitions."""
        ...

    def on_partitions_assigned(self, partitions: frozenset[TopicPartition]) -> None:
        """Called after a claim; the partitions flow when this returns; as before_starting_fetchers."""
        ...


class JavaStyle:
    """Adapts a listener with Java's hooks to ours; other hooks of it stay."""

    def __init__(self, listener: GenerationListener) -> None:
        self.adapted = listener

    def before_releasing_partitions(self, partitions: frozenset[TopicPartition]) -> None:
        """Report revoked partitions."""
        self.adapted.on_partitions_revoked(partitions)

    def before_starting_fetchers(
        self,
        partitions: Mapping[TopicPartition, ConsumerThreadId],
        assignment: Assignment,  # noqa: ARG002
    ) -> None:
        """Report assigned partitions; not a change of other members' shares alone."""
        if partitions:
            self.adapted.on_partitions_assigned(frozenset(partitions))

    def on_partitions_lost(self, partitions: frozenset[TopicPartition]) -> None:
        """Report lost partitions, as revoked if the listener has no on_partitions_lost."""
        getattr(self.adapted, "on_partitions_lost", self.adapted.on_partitions_revoked)(partitions)

    def nothing_revoked(self) -> None:
        """Report a generation for which this member releases nothing."""
        self.adapted.on_partitions_revoked(frozenset())

    def nothing_assigned(self) -> None:
        """Report a generation in which this member gains nothing."""
        self.adapted.on_partitions_assigned(frozenset())


class JavaStyleWithStarts(JavaStyle):
    """Adapts a listener with Java's hooks that also has starting_offsets."""

    def starting_offsets(self, partitions: Mapping[TopicPartition, int | None]) -> Mapping[TopicPartition, int | None]:
        """Call the listener's own hook."""
        starts: Mapping[TopicPartition, int | None] = getattr(self.adapted, "starting_offsets")(partitions)  # noqa: B009
        return starts


def in_our_words(listener: RebalanceListener | GenerationListener | None) -> RebalanceListener | None:
    """Return the listener if it has the hooks of RebalanceListener; else an adapter that calls Java's."""
    if listener is None or has_hooks(listener, *HOOKS):
        return cast("RebalanceListener | None", listener)
    listener = cast(GenerationListener, listener)
    return JavaStyleWithStarts(listener) if has_hooks(listener, STARTS) else JavaStyle(listener)


def is_same_listener(one: RebalanceListener, other: RebalanceListener) -> bool:
    """Return whether both are one listener of the user's code, each with an adapter of its own or without."""
    return _of_the_user(one) is _of_the_user(other)


def _of_the_user(listener: RebalanceListener) -> RebalanceListener | GenerationListener:
    return listener.adapted if isinstance(listener, JavaStyle) else listener
