"""The offsets that a member has written to ZooKeeper, so that it does not take them for another client's."""

from __future__ import annotations

import math
from collections.abc import Mapping

from legacy_consumer.offsets.progress import Commit, Committed
from zk_layout.model import TopicPartition

_NOTHING: Mapping[TopicPartition, Commit] = {}


class OwnWrites:
    """Keeps the unanswered writes of one ZooKeeperOffsetStore, and the last answered write of each partition.

    One thread commits at a time, and other threads may call holds and may_have_changed meanwhile. An answered write
    moves from the first group to the second. So note adds it to the second before it leaves the first, and the other
    threads look in the first before the second: they always find it.
    """

    def __init__(self) -> None:
        self._asked = _NOTHING
        """The commits of the last request; empty once ZooKeeper has answered it."""
        self._doubtful: dict[TopicPartition, set[tuple[int, int]]] = {}
        """{partition: the offsets and versions that earlier requests without an answer may have written}"""
        self._before: dict[TopicPartition, int] = {}
        """{partition: a transaction before which its doubtful writes were carried out, or never}

        ZooKeeper carries out the requests of a session in their order, so an answer settles when all earlier ones were.
        """
        self._session_id = 0
        """The session in which the member last tried to commit."""
        self._written: dict[TopicPartition, Committed] = {}
        """{partition: the last answered commit}. An exception may interrupt its caller before it notes the answer.

        Its transaction tells it from another client's write of the same offset and version.
        """

    def begin(self, commits: Mapping[TopicPartition, Commit], session_id: int | None) -> None:
        """Note what a request is about to write, so that a later read does not take it for another client's commit.

        Call it before the request: an exception may interrupt the thread at any moment after that.
        """
        if session_id is not None and session_id != self._session_id:
            # ZooKeeper carries out nothing of an ended session, and a member reads its offsets in the new one
            self._asked = _NOTHING
            self._doubtful.clear()
            self._before.clear()
            self._session_id = session_id
        for tp, commit in self._asked.items():
            self._before.pop(tp, None)
            self._doubtful.setdefault(tp, set()).add(_result_of(commit))
        self._asked = commits

    def take_back(self) -> None:
        """Undo the last begin: ZooKeeper has answered that it wrote none of these.

        An earlier request for the same, which had no answer, stays in doubt.
        """
        self._asked = _NOTHING

    def note(self, committed: Mapping[TopicPartition, Committed]) -> None:
        """Note writes that ZooKeeper has answered, or that a read found; forget earlier ones of these partitions."""
        is_answer = bool(self._asked)
        self._written.update(committed)
        self._asked = {tp: commit for tp, commit in self._asked.items() if tp not in committed}
        for tp in self._doubtful.keys() & committed.keys():
            del self._doubtful[tp]
        if is_answer and committed and self._doubtful:
            answered_by = max(one.transaction for one in committed.values())
            for tp in self._doubtful:
                self._before.setdefault(tp, answered_by)

    def holds(self, tp: TopicPartition, stored: Committed) -> bool:
        """Return whether this store wrote it: by the transaction if an answer named it, else by offset and version."""
        asked = self._asked.get(tp)
        if asked is not None and (stored.offset, stored.version) == _result_of(asked):
            return True
        before = self._before.get(tp, math.inf)
        if stored.transaction < before and (stored.offset, stored.version) in self._doubtful.get(tp, ()):
            return True
        written = self._written.get(tp)
        return written is not None and (stored.version, stored.transaction) == (written.version, written.transaction)

    def may_have_changed(self, tp: TopicPartition, seen: Committed) -> bool:
        """Return whether the last write got no answer, or its answer was not noted."""
        if tp in self._asked or tp in self._doubtful:
            return True
        written = self._written.get(tp)
        return written is not None and _version(written) > _version(seen)


def version_after(commit: Commit) -> int:
    """Return the version of the znode that this commit writes: a number of 32 bits, as ZooKeeper counts."""
    seen = commit.seen.version
    return 0 if seen is None else (seen + 1 + 2**31) % 2**32 - 2**31


def _result_of(commit: Commit) -> tuple[int, int]:
    return commit.offset, version_after(commit)


def _version(seen: Committed) -> int:
    return -1 if seen.version is None else seen.version
