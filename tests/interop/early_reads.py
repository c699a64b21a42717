"""Why a message is handed out twice beside a JVM member, though nobody was killed: two reasons, each to be proven.

It reads an offset before it claims the partition, and hands out again what was committed meanwhile. A rebalance reads
the offsets of all partitions that are to be its own, then creates their owner znodes one by one. If the owner before it
commits and releases in between, the claim succeeds and what was read is old. Measured, times in ms:

    380 j1 computes its share, and reads offset 0 of partition 2
    389 j2, whose share shrinks, commits 10
    392 j2 deletes its owner znode
    393 j1 creates its own
    411 j1 fetches from 0; 0 to 9 are handed out again

And it hands out messages while it takes the positions that it commits before a rebalance: its iterator notes a message
as consumed when next() returns it, beside the thread that commits. How many of them lie between its last commit and its
release depends on the machine. Measured: d hands out 1000 at 742, commits 1000 (the next to read) at 759 and releases
at 762; c claims at 776, rightly reads 1000, and hands it out again. On a busy machine there were two such messages.

A redelivery is held against that, from ZooKeeper's transaction log and the member's own.
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
# [topic-0, initOffset 5 to ...]; before 0.10 [[topic,0], initOffset 5 to ...]
_START = re.compile(r"\[([a-zA-Z0-9._-]+)[-,](\d+)\]?, initOffset (-?\d+) to")
NO_OFFSET = -1
"""As initOffset: none was committed when the member looked."""


@dataclass(frozen=True, slots=True)
class Start:
    """A JVM member begins to fetch a partition at the offset it had read."""

    at: float
    tp: TopicPartition
    offset: int


def starts_in(log: str) -> list[Start]:
    """Every start that a JVM member's log tells of, in order."""
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
    """Who owned what in a group, and what was committed, from the first znode on."""

    def __init__(self, history: ZkHistory, chroot: str, group: str) -> None:
        self._chroot = chroot
        self._group = group
        self._znodes = history.below(f"{chroot}/consumers/{group}")

    def owner_changes(self, tp: TopicPartition) -> list[Change]:
        return self._znodes.get(f"{self._chroot}{OwnerPath(self._group, tp.topic, tp.partition).path}", [])

    def commits(self, tp: TopicPartition, before_zxid: int) -> list[int]:
        """The offsets committed up to then, in order."""
        path = OffsetPath(self._group, tp.topic, tp.partition).path
        changes = self._znodes.get(f"{self._chroot}{path}", [])
        return [decode_offset(path, c.data) for c in changes if c.zxid < before_zxid and c.data is not None]

    def why_not_early(self, consumer_id: str, starts: list[Start], tp: TopicPartition, offset: int, at: float) -> str:
        """Return why a read before the claim does not explain that a JVM member handed this out then; empty if it does.

        at: when. starts: of that member.
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
        """Return whether the owner before had not committed this message when the next one claimed the partition.

        How many messages a JVM member hands out after its last commit has no bound: the next owner begins rightly at
        what was committed, and hands all of them out again.

        next_id: who handed it out again, and at: when.
        """
        claims = [
            change
            for change in self.owner_changes(tp)
            if change.data is not None and change.at <= at and _consumer_of(change.data) == next_id
        ]
        return bool(claims) and max(self.commits(tp, claims[-1].zxid)[-1:], default=0) <= offset

    def story(self, tp: TopicPartition) -> str:
        """All that happened to a partition, for whoever has to find out why."""
        offsets = f"{self._chroot}{OffsetPath(self._group, tp.topic, tp.partition).path}"
        changes = sorted([*self.owner_changes(tp), *self._znodes.get(offsets, [])], key=lambda change: change.zxid)
        return "\n".join(
            f"{change.at:.3f} zxid {change.zxid:x} session {change.session:x} {change.path}: {change.data!r}"
            for change in changes
        )


def _consumer_of(owner: bytes) -> str:
    return owner.decode().rpartition("-")[0]
