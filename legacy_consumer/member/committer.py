"""Commits the consumed offsets of one member, and the offsets that the user's code names.

The coordinator calls it periodically and before a release; the user's code calls it, too. One bad partition never stops
the others. The CommitResult has the outcome of each partition, and a failure of one offset does not hide the offsets
that were written before.

A member never moves its own group back. An explicitly committed offset counts as done (Progress), so the next auto
commit does not undo it; one whose commit raised an error does not count. An explicit commit of a partition that another
member owns, or whose group is already further, needs unfenced=True.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from legacy_consumer.errors import OffsetError, OffsetsNotCommittedError
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets import Commit, CommitResult, OffsetStore, RetrySettings
from legacy_consumer.offsets.progress import Committed, Progress
from legacy_consumer.offsets.retries import explicit_commit, last_commit
from zk_layout.errors import LegacyConsumerError, ZooKeeperError
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.signals import Flag

logger = safe_logger(__name__)

_UNOWNED = "this member does not own it, or not any more"
_OWNED = "this member does not read it, and it has an owner; with unfenced=True it is written all the same"
_BY_HAND = "its offsets are kept by hand: offsets.by.hand names its topic"
_OVERTAKEN = "another client keeps committing it too: see the log, and commit again"
_BACKWARDS = "the group has committed {} already; with unfenced=True it is moved back"


@dataclass(frozen=True, slots=True)
class CommitSettings:
    """The part of the configuration that commits depend on."""

    group: str
    consumer_id: str
    adopt_foreign_commits: bool
    retries: RetrySettings = field(default_factory=RetrySettings)
    topics_by_hand: frozenset[str] = frozenset()
    """The topics that are never committed."""


class Committer:
    """Commits the offsets of one member. Any thread may call it.

    One commit runs at a time; a commit of an earlier membership of the connector counts too.

    streams: all streams of the member. adopt: moves partitions to offsets that another client committed. resetting: the
    partitions that an operator resets now; the end of the reset decides where they go on. on_unowned: called when a
    commit finds that a partition of the member has no owner znode.
    """

    def __init__(
        self,
        settings: CommitSettings,
        *,
        offsets: OffsetStore,
        progress: Progress,
        streams: Callable[[], Collection[GatedStream]],
        session_id: Callable[[], int],
        adopt: Callable[[Mapping[TopicPartition, Committed]], None],
        resetting: Callable[[], Collection[TopicPartition]],
        on_unowned: Callable[[], None],
    ) -> None:
        self._settings = settings
        self.offsets = offsets
        self._progress = progress
        self._streams = streams
        self._session_id = session_id
        self._adopt = adopt
        self._resetting = resetting
        self._on_unowned = on_unowned
        self.lock = progress.committing
        self.beginning: frozenset[TopicPartition] = frozenset()
        """The claimed partitions while starting_offsets runs for them: that hook may commit them by name."""
        self._held_back: frozenset[TopicPartition] = frozenset()
        self._closing = Flag()
        self._refused: frozenset[TopicPartition] = frozenset()
        self.commits = 0
        self.failed_commits = 0
        self.foreign_commits = 0

    # For the coordinator.

    def commit(self) -> None:
        """Carry out an auto commit. Raises: LegacyConsumerError if it failed."""
        held_back = self._held_back
        self._commit([tp for tp in self._progress.snapshot() if tp not in held_back] if held_back else None)

    @contextmanager
    def holding_back(self, partitions: Collection[TopicPartition]) -> Iterator[None]:
        """Let no periodic commit write these partitions in the body, in which the listener hears of them.

        If they start, the listener may still seek. If they are released, the member has made their last commit.
        """
        self._held_back = frozenset(partitions)
        try:
            yield
        finally:
            self._held_back = frozenset()

    def commit_last(self, going: Collection[TopicPartition], timeout_s: float) -> None:
        """Commit before a release, with a bound: without this commit the next owners repeat some messages.

        Raises: a retriable ZooKeeperError, after which the caller calls it again.
        """
        policy = last_commit(self._settings.retries, timeout_s)
        try:
            policy(self._commit, going, timeout_s=timeout_s)
        except LegacyConsumerError as error:
            if isinstance(error, ZooKeeperError) and error.retriable:
                raise
            logger.warning("%s: gives partitions up without a commit: %s", self._settings.consumer_id, error)
        except Exception:
            # a defect must not prevent the release of partitions
            logger.exception("%s: gives partitions up without a commit", self._settings.consumer_id)

    def disown(self, partitions: Collection[TopicPartition]) -> None:
        """Replace the member's last commit by 0 if it arrived after the topic was created again.

        Without this, the next owner would begin the new topic at the old topic's offset, and skip its first messages.
        The caller has forgotten the partitions before.
        Raises: a retriable LegacyConsumerError, after which the caller calls it again.
        """
        with self.lock:
            wrong = self._commits_for_new_topics(partitions)
            if not wrong:
                return
            result = self.offsets.commit(wrong, consumer_id=self._settings.consumer_id, session_id=self._session_id())
        # an offset that another client has written meanwhile is meant for the new topic
        failed = wrong.keys() - result.committed.keys() - result.foreign.keys() - result.unowned
        if isinstance(result.failure, LegacyConsumerError) and result.failure.retriable:
            raise result.failure
        if failed:
            why = result.failure or result.refused[min(failed)]
            logger.error(
                "%s: committed %d of %s for its earlier topic, which counts for the new one: %s",
                self._settings.consumer_id,
                wrong[min(failed)].seen.offset,
                min(failed),
                why,
            )

    def _commits_for_new_topics(self, partitions: Collection[TopicPartition]) -> dict[TopicPartition, Commit]:
        return {
            tp: Commit(0, seen)
            for tp, seen in self.offsets.read(sorted(partitions)).items()
            if seen.offset and seen.topic is not None and self.offsets.wrote(tp, seen)
        }

    def finish(self) -> None:
        """Wait for the end of a commit that is under way: it may write partitions that are lost since."""
        with self.lock:
            pass

    # For users.

    def commit_consumed(self, holder: object) -> CommitResult:
        """Commit the consumed messages, and the calling thread's messages in hand, which the call marks as done.

        An offset of another client that was adopted, or left to the end of a reset, is in the result's foreign and is
        no error.
        Raises: OffsetsNotCommittedError if any other partition was not written; ZooKeeperError; CommitFailedError if
        Kafka did not accept the commit in any of the tries.
        """
        result: CommitResult = explicit_commit(self._settings.retries, self._closing)(
            self._commit, None, with_in_hand_of=holder
        )
        reasons = {tp: str(error) for tp, error in result.refused.items()}
        reasons.update(dict.fromkeys(result.unowned, _UNOWNED))
        self._raise_for(reasons)
        return result

    def commit_offsets(self, offsets: Mapping[TopicPartition, int], *, unfenced: bool = False) -> CommitResult:
        """Commit these offsets, of partitions that this member owns or that have no owner; with unfenced, of any.

        Raises: OffsetsNotCommittedError if any of them was not written; else as commit_consumed.
        """
        result: CommitResult = explicit_commit(self._settings.retries, self._closing)(
            self._commit_given, offsets, unfenced=unfenced
        )
        return result

    def begin_closing(self) -> None:
        """Try each commit of the user's code only once from now on."""
        self._closing.set()

    # Inside.

    def _raise_for(self, reasons: Mapping[TopicPartition, str]) -> None:
        if reasons:
            raise OffsetsNotCommittedError(self._settings.group, dict(sorted(reasons.items())))

    def _commit_given(self, offsets: Mapping[TopicPartition, int], *, unfenced: bool) -> CommitResult:
        """Try once. Raises: the failure."""
        with self.lock:
            return self._write_given(offsets, unfenced=unfenced)

    def _write_given(self, offsets: Mapping[TopicPartition, int], *, unfenced: bool) -> CommitResult:
        by_hand = [tp for tp in offsets if tp.topic in self._settings.topics_by_hand]
        offsets = {tp: offset for tp, offset in offsets.items() if tp not in by_hand}
        known = {tp: of for tp, of in self._progress.snapshot().items() if tp in offsets}
        not_mine = sorted(offsets.keys() - known.keys())
        others = self.offsets.read(not_mine) if not_mine else {}
        reasons = {} if unfenced else _reasons_against(offsets, others)
        owned = {tp: Commit(offsets[tp], of.committed) for tp, of in known.items()}
        owned.update((tp, Commit(offsets[tp], others[tp])) for tp in self.beginning & others.keys() - reasons.keys())
        epochs = {tp: of.epoch for tp, of in known.items()}
        result = self._write(owned, consumer_id=self._settings.consumer_id, named_in=epochs)
        for stream in self._streams():
            stream.note_named(result.committed.keys())
        theirs = {tp: Commit(offsets[tp], seen) for tp, seen in others.items() if tp not in reasons and tp not in owned}
        more = self._write(theirs, consumer_id=None, unfenced=unfenced)
        failure = result.failure or more.failure
        if failure is not None:
            raise failure
        result.committed.update(more.committed)
        result.foreign.update(more.foreign)
        result.refused.update(more.refused)
        result.unowned |= more.unowned
        reasons.update((tp, str(error)) for tp, error in result.refused.items())
        reasons.update(dict.fromkeys(result.unowned, _UNOWNED))
        reasons.update(dict.fromkeys(more.unowned, _OWNED))
        reasons.update(dict.fromkeys(by_hand, _BY_HAND))
        reasons.update(
            (tp, f"another client {now.as_told()}, and that stands")
            for tp, now in result.foreign.items()
            if tp not in result.committed and tp not in reasons
        )
        self._raise_for(reasons)
        return result

    def _commit(
        self,
        partitions: Collection[TopicPartition] | None,
        *,
        with_in_hand_of: object | None = None,
        timeout_s: float | None = None,
    ) -> CommitResult:
        """Try once. Raises: the failure."""
        with self.lock:
            result = self._write_progress(partitions, with_in_hand_of, timeout_s)
        if result.failure is not None:
            raise result.failure
        return result

    def _write_progress(
        self, partitions: Collection[TopicPartition] | None, with_in_hand_of: object | None, timeout_s: float | None
    ) -> CommitResult:
        for stream in self._streams():
            if with_in_hand_of is not None and stream.is_held_by(with_in_hand_of):
                stream.come_back()
            else:
                stream.note_progress()
        commits = {
            tp: commit
            for tp, commit in self._progress.uncommitted(partitions, unchanged=self.offsets.wants_unchanged).items()
            if tp.topic not in self._settings.topics_by_hand
        }
        return self._write(commits, consumer_id=self._settings.consumer_id, timeout_s=timeout_s)

    def _write(
        self,
        commits: Mapping[TopicPartition, Commit],
        *,
        consumer_id: str | None,
        timeout_s: float | None = None,
        unfenced: bool = False,
        named_in: Mapping[TopicPartition, int] | None = None,
    ) -> CommitResult:
        """Write the offsets and count the try. named_in: see Progress.note_committed."""
        if not commits:
            return CommitResult()
        # without consumer_id the commit concerns no claim of this member, so any session may write it
        session_id = None if consumer_id is None else self._session_id()
        try:
            result = self.offsets.commit(
                commits, consumer_id=consumer_id, session_id=session_id, timeout_s=timeout_s, unfenced=unfenced
            )
            if result.foreign:
                self._settle_foreign(commits, result, consumer_id, session_id, unfenced=unfenced)
        except Exception:
            self.failed_commits += 1
            raise
        self._progress.note_committed(result.committed, named_in)
        if result.failure is None and not result.refused:
            self.commits += 1
        else:
            self.failed_commits += 1
        if consumer_id is not None:
            self._tell_refused(result)
        if result.unowned and consumer_id is not None:
            logger.warning(
                "%s: not committed, the owner znode is gone: %s",
                self._settings.consumer_id,
                ", ".join(map(str, sorted(result.unowned)[:5])),
            )
            self._on_unowned()
        return result

    def _tell_refused(self, result: CommitResult) -> None:
        """Log refused partitions once, not with every commit."""
        refused = frozenset(result.refused)
        if refused - self._refused:
            tp = min(refused - self._refused)
            logger.error(
                "%s: offsets of %d partitions cannot be committed, their messages will be delivered again: %s: %s",
                self._settings.consumer_id,
                len(refused),
                tp,
                result.refused[tp],
            )
        if result.failure is None:
            self._refused = (self._refused - result.committed.keys()) | refused

    def _settle_foreign(
        self,
        commits: Mapping[TopicPartition, Commit],
        result: CommitResult,
        consumer_id: str | None,
        session_id: int | None,
        *,
        unfenced: bool,
    ) -> None:
        """Handle an offset of another client: keep ours, adopt theirs, or leave it to the end of a reset.

        An unreadable offset is overwritten. consumer_id None: no member owns the partitions, and their offsets move
        only forward.
        """
        if consumer_id is not None:
            self.foreign_commits += len(result.foreign)
        greater: dict[TopicPartition, str] = {}
        if consumer_id is None and not unfenced:
            greater = _reasons_against({tp: commit.offset for tp, commit in commits.items()}, result.foreign)
        result.refused.update((tp, OffsetError(reason)) for tp, reason in greater.items())
        adopts = self._settings.adopt_foreign_commits and consumer_id is not None
        resetting = () if consumer_id is None else self._resetting()
        adopted: dict[TopicPartition, Committed] = {}
        kept: dict[TopicPartition, Commit] = {}
        for tp, theirs in sorted(result.foreign.items()):
            if tp in greater:
                continue  # the caller gets an error
            if theirs.problem is None and adopts:
                adopted[tp], rule = theirs, "commit.conflict=adopt"
            elif theirs.problem is None and tp in resetting:
                rule = "left as it is, because an operator resets the partition"
            else:
                kept[tp], rule = Commit(commits[tp].offset, theirs), "commit.conflict=keep"
            logger.warning(
                "%s: another client %s of %s, ours is %d: %s",
                self._settings.consumer_id,
                theirs.as_told(),
                tp,
                commits[tp].offset,
                rule,
            )
        if adopted:
            self._adopt(adopted)
        if not kept:
            return
        second = self.offsets.commit(kept, consumer_id=consumer_id, session_id=session_id, unfenced=unfenced)
        result.committed.update(second.committed)
        result.refused.update(second.refused)
        result.foreign.update(second.foreign)
        result.refused.update(dict.fromkeys(second.foreign, OffsetError(_OVERTAKEN)))
        result.unowned |= second.unowned
        result.failure = result.failure or second.failure


def _reasons_against(
    offsets: Mapping[TopicPartition, int], stored: Mapping[TopicPartition, Committed]
) -> dict[TopicPartition, str]:
    """Return why offsets of partitions without an owner are not written: they move only forward.

    If an ACL hides the stored offset, nothing is known of its direction.
    """
    reasons: dict[TopicPartition, str] = {}
    for tp, seen in stored.items():
        if seen.problem is not None and seen.version is None:
            reasons[tp] = seen.problem
        elif seen.offset is not None and offsets[tp] < seen.offset:
            reasons[tp] = _BACKWARDS.format(seen.offset)
    return reasons
