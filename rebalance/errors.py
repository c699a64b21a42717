"""The rebalance branch of the error tree.

LegacyConsumerError (zk_layout.errors)
  RebalanceError
    MissingTopicError               a subscribed topic has no partition list in the snapshot
    AssignmentRefusedError          the dialect's own precondition fails, as it fails in the JVM member
    AssignorFailedError             an assignor raised, or returned an invalid assignment
    DeposedError                    another member leads the led group
    UnknownAssignorError            no assignor of this name, or the import path names no assignor
    UnreadableUserDataError         a member's user data do not have this assignor's layout
    StrategyMismatchError           the group's owner znodes show another strategy than this member's
    UnsupportedRegexError           a Java regular expression that Python cannot express faithfully
    UnexpectedError                 retriable; a defect, after which the member continues
    PartlyBegunError                retriable; some claimed partitions cannot be begun yet, the others flow
    PartitionOwnedError             retriable; another member holds an owner znode that the plan claims
    RegistrationConflictError       an id znode of the same name does not go away: another session holds it, or none
    ConsumerRebalanceFailedError    retriable; rebalance.max.retries tries failed, the member keeps trying
"""

from __future__ import annotations

from typing import ClassVar

from zk_layout.errors import LegacyConsumerError
from zk_layout.model import TopicPartition


class RebalanceError(LegacyConsumerError):
    """The group's partitions could not be assigned or claimed."""


class MissingTopicError(RebalanceError):
    """A subscribed topic has no partition list in the snapshot."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self.topic = topic

    def _text(self) -> str:
        return f"topic {self.topic} is subscribed but its partitions are not in the snapshot"


class AssignmentRefusedError(RebalanceError):
    """The strategy's precondition fails; members of the JVM refuse the same group."""

    def __init__(self, strategy: str, dialect: str, reason: str) -> None:
        super().__init__(strategy, dialect, reason)
        self.strategy = strategy
        self.dialect = dialect
        self.reason = reason

    def _text(self) -> str:
        return f"{self.strategy} as of {self.dialect} refuses this group: {self.reason}"


class AssignorFailedError(RebalanceError):
    """An assignor raised, or its result misses a partition, repeats one, or names an unknown partition or member."""

    def __init__(self, assignor: str, reason: str) -> None:
        super().__init__(assignor, reason)
        self.assignor = assignor
        self.reason = reason

    def _text(self) -> str:
        # in one line: the reason may show what the assignor returned
        return " ".join(f"assignor {self.assignor} failed: {self.reason}".split())


class DeposedError(RebalanceError):
    """Another member leads the led group, or has led it meanwhile, so this member's decision was not written."""


class UnknownAssignorError(RebalanceError):
    """partition.assignment.strategy names something that is no assignor, or the assignor's own property is wrong."""

    def __init__(self, name: str, reason: str) -> None:
        super().__init__(name, reason)
        self.name = name
        self.reason = reason

    def _text(self) -> str:
        return f"assignor {self.name!r}: {self.reason}"


class UnreadableUserDataError(RebalanceError):
    """The bytes are no user data of this assignor; the text says why."""


class StrategyMismatchError(RebalanceError):
    """The group uses another assignment strategy than this member.

    ours, shown: strategies in words; shown are all strategies that explain the owners. settings: the settings to join.
    """

    def __init__(self, group: str, ours: str, shown: tuple[str, ...], settings: str) -> None:
        super().__init__(group, ours, shown, settings)
        self.group = group
        self.ours = ours
        self.shown = shown
        self.settings = settings

    def _text(self) -> str:
        return (
            f"group {self.group!r} divides its partitions by {' or '.join(self.shown)} and this member by {self.ours}: "
            f"set {self.settings}, or stop all members and start them alike; group.mismatch=warn joins all the same"
        )


class UnsupportedRegexError(RebalanceError):
    """A topic filter that no Python regular expression can stand for, or that Java does not compile either."""

    def __init__(self, regex: str, reason: str) -> None:
        super().__init__(regex, reason)
        self.regex = regex
        self.reason = reason

    def _text(self) -> str:
        return f"topic filter {self.regex[:200]!r}: {self.reason}"


class UnexpectedError(RebalanceError):
    """An unforeseen error: a defect. The member continues, and retries the failed step."""

    retriable: ClassVar[bool] = True


class PartlyBegunError(RebalanceError):
    """Some claimed partitions cannot be begun: {partition: why}. The others of the claim are begun."""

    retriable: ClassVar[bool] = True

    def __init__(self, held: dict[TopicPartition, str]) -> None:
        super().__init__(held)
        self.held = held

    def _text(self) -> str:
        tp, reason = min(self.held.items())
        return f"{len(self.held)} partitions are not read, for where to begin is not known: {tp}: {reason}"


class PartitionOwnedError(RebalanceError):
    """Owner znodes in the way of a claim: {partition: text of the owner znode}."""

    retriable: ClassVar[bool] = True

    def __init__(self, owners: dict[TopicPartition, str]) -> None:
        super().__init__(owners)
        self.owners = owners

    def _text(self) -> str:
        some = ", ".join(f"{tp} by {owner}" for tp, owner in sorted(self.owners.items())[:3])
        more = f" and {len(self.owners) - 3} more" if len(self.owners) > 3 else ""
        return f"owned by others: {some}{more}"


class RegistrationConflictError(RebalanceError):
    """The id znode exists under another session, or is_permanent: under none, and did not go away."""

    def __init__(self, path: str, waited_ms: int, is_permanent: bool = False) -> None:
        super().__init__(path, waited_ms, is_permanent)
        self.path = path
        self.waited_ms = waited_ms
        self.is_permanent = is_permanent

    def _text(self) -> str:
        if self.is_permanent:
            return f"{self.path} is not ephemeral and is still there after {self.waited_ms} ms: delete it"
        return (
            f"{self.path} is still held by another session after {self.waited_ms} ms: "
            "is a second consumer running with the same consumer.id?"
        )


class ConsumerRebalanceFailedError(RebalanceError):
    """All tries are used up; the member stays registered and goes on trying in the background."""

    retriable: ClassVar[bool] = True

    def __init__(self, consumer_id: str, tries: int, last: str) -> None:
        super().__init__(consumer_id, tries, last)
        self.consumer_id = consumer_id
        self.tries = tries
        self.last = last

    def _text(self) -> str:
        return f"{self.consumer_id} can't rebalance after {self.tries} retries: {self.last}"
