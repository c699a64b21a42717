"""Two reasons why a message is handed out twice beside a JVM member although no member was killed; each needs a proof.

First, a JVM member reads an offset before it claims the partition, and hands out again what the former owner commits
meanwhile. In a rebalance it reads the offsets of its whole share, then creates the owner znodes one by one. If the
former owner commits and releases in between, the claim succeeds, and the offset is out of date. Measured, times in ms:

    380 j1 computes its share, and reads offset 0 of partition 2
    389 j2, whose share shrinks, commits 10
    392 j2 deletes its owner znode
    393 j1 creates its own
    411 j1 fetches from 0; 0 to 9 are handed out again

Second, a JVM member hands out messages while it takes the positions that it commits before a rebalance: next() notes a
message as consumed on the consuming thread, while another thread commits. How many messages come between the last
commit and the release depends on the machine. Measured: d hands out 1000 at 742, commits 1000 (the next to read) at 759
and releases at 762; c claims at 776, rightly reads 1000, and hands it out again. On a busy machine there were two such
messages.

The functions here check a redelivery against both, by ZooKeeper's transaction log and the member's own log.
"""

from __future__ import annotations

import datetime as dt
import re
from dataclasses import dataclass

from tests.support.zk_history import Change, ZkHistory
from zk_layout.codecs import decode_offset
from zk_layout.model import TopicPartition
from zk_layout.paths import OffsetPath, OwnerPath

_LINE = re.compile(r"^(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}) INFO .* Added fetcher for partitions (.*)$", re.MULTILINE)
# the log has [topic-0, initOffset 5 to ...], and before 0.10 [[topic,0], initOffset 5 to ...]
_START = re.compile(r"\[([a-zA-Z0-9._-]+)[-,](\d+)\]?, initOffset (-?\d+) to")
NO_OFFSET = -1
"""The initOffset if no offset was committed when the member read it."""


@dataclass(frozen=True, slots=True)
class Start:
    """One start of a JVM member's fetcher at the offset that the member has read. at: seconds since the epoch."""

    at: float
    tp: TopicPartition
    offset: int


def starts_in(log: str) -> list[Start]:
    """Return every start in a JVM member's log, in order."""
    return [
        Start(
            dt.datetime.strptime(time, "%Y-%m-%d %H:%M:%S,%f").astimezone().timestamp(),
            TopicPartition(topic, int(number)),
            int(offset),
        )
        for time, partitions in _LINE.findall(log)
        for topic, number, offset in _START.findall(partitions)
    ]


class GroupHistory:
    """The owners and the commits of a group, from its first znode on."""

    def __init__(self, history: ZkHistory, chroot: str, group: str) -> None:
        self._chroot = chroot
        self._group = group
        self._znodes = history.below(f"{chroot}/consumers/{group}")

    def owner_changes(self, tp: TopicPartition) -> list[Change]:
        return self._znodes.get(f"{self._chroot}{OwnerPath(self._group, tp.topic, tp.partition).path}", [])

    def commits(self, tp: TopicPartition, before_zxid: int) -> list[int]:
        """Return the offsets committed before this transaction, in order."""
        path = OffsetPath(self._group, tp.topic, tp.partition).path
        changes = self._znodes.get(f"{self._chroot}{path}", [])
        return [decode_offset(path, c.data) for c in changes if c.zxid < before_zxid and c.data is not None]

    def why_not_early(self, consumer_id: str, starts: list[Start], tp: TopicPartition, offset: int, at: float) -> str:
        """Return why a read before the claim cannot explain that a JVM member handed out this message; empty if it can.

        at: when the member handed it out. starts: the starts in the member's log.
        """
        began = [start for start in starts if start.tp == tp and start.at <= at]
        if not began:
            return f"{consumer_id} never began to fetch {tp}"
        start = began[-1]
        claims = [
            change
            for change in self.owner_changes(tp)
            if change.data is not None and change.at <= start.at and _consumer_of(change.data) == consumer_id
        ]
        if not claims:
            return f"{consumer_id} never claimed {tp}"
        committed = self.commits(tp, claims[-1].zxid)
        if start.offset > offset:
            return f"{consumer_id} began at {start.offset}, behind {offset}"
        if not committed or committed[-1] <= offset:
            return f"{offset} was not committed when {consumer_id} claimed {tp}: {committed}"
        if start.offset not in (NO_OFFSET, *committed[:-1]):
            return f"{consumer_id} began {tp} at {start.offset}, which was never committed before: {committed}"
        return ""

    def is_handed_out_late(self, next_id: str, tp: TopicPartition, offset: int, at: float) -> bool:
        """Return whether the former owner had not committed this message when the next owner claimed the partition.

        A JVM member may hand out any number of messages after its last commit. The next owner rightly begins at the
        committed offset, and hands out all of them again.

        next_id: the member that handed it out again. at: when it did.
        """
        claims = [
            change
            for change in self.owner_changes(tp)
            if change.data is not None and change.at <= at and _consumer_of(change.data) == next_id
        ]
        return bool(claims) and max(self.commits(tp, claims[-1].zxid)[-1:], default=0) <= offset

    def story(self, tp: TopicPartition) -> str:
        """Return all changes of a partition's owner and offset, one a line, for the text of an error."""
        offsets = f"{self._chroot}{OffsetPath(self._group, tp.topic, tp.partition).path}"
        changes = sorted([*self.owner_changes(tp), *self._znodes.get(offsets, [])], key=lambda change: change.zxid)
        return "\n".join(
            f"{change.at:.3f} zxid {change.zxid:x} session {change.session:x} {change.path}: {change.data!r}"
            for change in changes
        )


def _consumer_of(owner: bytes) -> str:
    return owner.decode().rpartition("-")[0]
