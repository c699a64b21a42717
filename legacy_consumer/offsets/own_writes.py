"""The offsets that a member has written to ZooKeeper, so that it does not take them for another client's."""

from __future__ import annotations

from collections.abc import Mapping

from legacy_consumer.offsets.progress import Commit, Committed
from zk_layout.model import TopicPartition


class OwnWrites:
    """Of one ZooKeeperOffsetStore: the requests without an answer, and the last answered write of each partition."""

    def __init__(self) -> None:
        self._unanswered: list[Mapping[TopicPartition, Commit]] = []
        """What each of them writes; replaced and never changed, since other threads read it."""
        self._session_id = 0
        """The session in which the member last tried to commit."""
        self._written: dict[TopicPartition, Committed] = {}
        """The last commit that was answered.

        Its caller may be interrupted before it has noted that. Others may have written the same offset at that version.
        """

    def begin(self, commits: Mapping[TopicPartition, Commit], session_id: int | None) -> None:
        """Note what a request is about to write, so that a later read does not take it for another client's commit.

        Before the request: the thread may be interrupted at any moment after it.
        """
        if session_id is not None and session_id != self._session_id:
            # ZooKeeper carries out nothing of an ended session, and a member reads its offsets in the new one
            self._unanswered = []
            self._session_id = session_id
        if commits not in self._unanswered:
            self._unanswered = [*self._unanswered, commits]

    def take_back(self, commits: Mapping[TopicPartition, Commit]) -> None:
        """Undo begin: ZooKeeper has answered that it wrote none of these.

        An earlier request for the same, which has no answer, stays noted.
        """
        self._unanswered = [request for request in self._unanswered if request is not commits]

    def note(self, committed: Mapping[TopicPartition, Committed]) -> None:
        """Note writes that ZooKeeper has answered, or that were found: no earlier one of these counts any more."""
        self._written.update(committed)
        rests = ({tp: commit for tp, commit in one.items() if tp not in committed} for one in self._unanswered)
        self._unanswered = [rest for rest in rests if rest]

    def holds(self, tp: TopicPartition, stored: Committed) -> bool:
        """Compare the transaction, or offset and version if no reply named it."""
        written = self._written.get(tp)
        if written is not None and (stored.version, stored.transaction) == (written.version, written.transaction):
            return True
        commits = (request[tp] for request in self._unanswered if tp in request)
        return any((stored.offset, stored.version) == (commit.offset, version_after(commit)) for commit in commits)

    def may_have_changed(self, tp: TopicPartition, seen: Committed) -> bool:
        """Whether the last write got no answer, or its answer was not noted."""
        written = self._written.get(tp)
        if written is not None and _version(written) > _version(seen):
            return True
        return any(tp in request for request in self._unanswered)


def version_after(commit: Commit) -> int:
    """Return the version of the znode that this commit writes: a number of 32 bits, as ZooKeeper counts."""
    return (_version(commit.seen) + 1 + 2**31) % 2**32 - 2**31


def _version(seen: Committed) -> int:
    return -1 if seen.version is None else seen.version
