"""Reads a reset from ZooKeeper, for tools that explain why a group hands out nothing."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone

from legacy_consumer.member.resets.records import HOLD_MS, Request, RequestState, decode_request, request_path
from rebalance.clock import Clock, SystemClock
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import TopicPartition
from zk_layout.store import ZkStore, Znode

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class StandingReset:
    """The request for a reset that a group has now.

    request: None if it is unreadable. session_id: the session of the command that wrote it; 0 = the znode is not
    ephemeral. since_ms: when the znode was created, in ms since 1970, by ZooKeeper's clock. is_overdue: whether it is
    older than any member waits, by this machine's clock: only a write would show the time of ZooKeeper's clock.
    """

    path: str
    request: Request | None
    session_id: int
    since_ms: int
    is_overdue: bool = False

    @property
    def is_running(self) -> bool:
        """Whether this is a normal reset, and nothing is wrong. Any other stays until an operator ends it."""
        return self.heeded and not self.is_overdue

    @property
    def heeded(self) -> bool:
        """Whether members follow the request: it is readable, and of a session that lives."""
        return self.request is not None and self.session_id != 0

    @property
    def holds(self) -> frozenset[TopicPartition]:
        """The partitions that the members hold because of the request."""
        if self.request is None or not self.is_running or self.request.state is not RequestState.PREPARE:
            return frozenset()
        return self.request.partitions

    @property
    def text(self) -> str:
        """The session of the request, its start, its partitions, and the members' answers."""
        moment = datetime(1970, 1, 1, tzinfo=timezone.utc) + timedelta(milliseconds=self.since_ms)
        since = f"since {moment:%Y-%m-%d %H:%M:%S} UTC"
        asker = f"session 0x{self.session_id & 0xFFFFFFFFFFFFFFFF:x}" if self.session_id else "no session"
        if self.request is None:
            return f"{self.path} is no request that can be read, {since}; {asker} stands for it, and members ignore it"
        request = f"request {self.request.request_id!r}, state {self.request.state.value}"
        some = _some(self.request.partitions)
        if not self.session_id:
            asks = f"{self.path} asks {since} for a reset of {some} ({request})"
            return f"{asks}; no session stands for it: members ignore it"
        if self.request.state is RequestState.PREPARE:
            do = "hand out nothing of them" if self.holds else "have waited long enough, and go on"
            return f"{asker} asks {since} for a reset of {some} ({request}): members {do}"
        return f"{asker} has written new offsets of {some} ({request}, {since}): members go on from there"

    @property
    def advice(self) -> str:
        """The text that tells an operator how to end the reset."""
        deletion = f"with ZooKeeper's own client: delete {shlex.quote(self.path)}"
        if not self.session_id:
            return f"no other reset can begin while it is there; delete the znode {deletion}"
        return (
            "wait for the end of that command (members wait two minutes at most); if it hangs, end its process, or "
            f"delete the znode {deletion}"
        )


def standing_reset(store: ZkStore, group: str, *, clock: Clock | None = None) -> StandingReset | None:
    """Return the group's request; None if there is none. Raises: ZooKeeperError."""
    return standing_resets(store, [group], clock=clock)[0]


def standing_resets(store: ZkStore, groups: Sequence[str], *, clock: Clock | None = None) -> list[StandingReset | None]:
    """Return the request of each group, as standing_reset."""
    paths = [request_path(group) for group in groups]
    now_ms = (clock or SystemClock()).wall_ms()
    return [
        None if znode is None else _standing(path, znode, now_ms)
        for path, znode in zip(paths, store.get_data_many(paths), strict=True)
    ]


def _standing(path: str, znode: Znode, now_ms: int) -> StandingReset:
    request: Request | None
    try:
        request = decode_request(path, znode.data)
    except MalformedZnodeError:
        request = None
    since_ms = znode.stat.ctime_ms
    return StandingReset(path, request, znode.stat.ephemeral_owner, since_ms, now_ms - since_ms > HOLD_MS)


def _some(partitions: frozenset[TopicPartition]) -> str:
    names = [str(tp) for tp in sorted(partitions)]
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return (", ".join(names[:_SHOWN]) + more) or "no partition"
