"""The offsets that a member has written to ZooKeeper, so that it does not take them for another client's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from legacy_consumer.offsets.progress import Commit, Committed
from zk_layout.model import TopicPartition

_Write: TypeAlias = "tuple[TopicPartition, tuple[int, int]]"


class OwnWrites:
    """Of one ZooKeeperOffsetStore: the writes without an answer, and the last one of each partition with an answer."""

    def __init__(self) -> None:
        self._unanswered: dict[TopicPartition, set[tuple[int, int]]] = {}
        """{partition: offset and version of each}"""
        self._session_id = 0
        """The session in which the member last tried to commit."""
        self._written: dict[TopicPartition, tuple[int, int]] = {}
        """{partition: version and transaction} of the last commit that was answered.

        Its caller may be interrupted before it has noted that. Others may have written the same offset at that version.
        """

    def begin(self, commits: Mapping[TopicPartition, Commit], session_id: int | None) -> list[_Write]:
        """Note what a request is about to write, so that a later read does not take it for another client's commit.

        Before the request: the thread may be interrupted at any moment after it. Returns: what was not noted before.
        """
        if session_id is not None and session_id != self._session_id:
            # ZooKeeper carries out nothing of an ended session, and a member reads its offsets in the new one
            self._unanswered.clear()
            self._session_id = session_id
        fresh: list[_Write] = []
        for tp, commit in commits.items():
            written = commit.offset, version_after(commit)
            noted = self._unanswered.setdefault(tp, set())
            if written not in noted:
                noted.add(written)
                fresh.append((tp, written))
        return fresh

    def take_back(self, writes: Sequence[_Write]) -> None:
        """Undo begin: ZooKeeper has answered that it wrote none of these."""
        for tp, written in writes:
            self._unanswered[tp].discard(written)
            if not self._unanswered[tp]:
                del self._unanswered[tp]

    def note(self, tp: TopicPartition, version: int, transaction: int) -> None:
        """Note a write that ZooKeeper has answered, or that was found."""
        self._written[tp] = version, transaction
        self._unanswered.pop(tp, None)

    def holds(self, tp: TopicPartition, stored: Committed) -> bool:
        """Compare the transaction, or offset and version if no reply named it."""
        is_unanswered = (stored.offset, stored.version) in self._unanswered.get(tp, ())
        return is_unanswered or (stored.version, stored.transaction) == self._written.get(tp)

    def may_have_changed(self, tp: TopicPartition, seen: Committed) -> bool:
        """Whether the last write got no answer, or its answer was not noted."""
        written, _ = self._written.get(tp, (-1, 0))
        return tp in self._unanswered or written > (-1 if seen.version is None else seen.version)


def version_after(commit: Commit) -> int:
    """Return the version of the znode that this commit writes: a number of 32 bits, as ZooKeeper counts."""
    return 0 if commit.seen.version is None else (commit.seen.version + 1 + 2**31) % 2**32 - 2**31
