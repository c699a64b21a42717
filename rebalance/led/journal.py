"""The leader's two znodes, `round` and `generation`.

Each write names the versions seen last, and a new leader writes `round` first. So if two members believe that they
lead, only one succeeds.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TypeVar

from rebalance.errors import DeposedError, RebalanceError
from rebalance.led.permanent import delete_below, is_permanent
from rebalance.led.records import (
    NO_GENERATION,
    Generation,
    Round,
    decode_generation,
    decode_round,
    encode_generation,
    encode_round,
    generation_path,
    leader_path,
    round_path,
)
from zk_layout.errors import BadVersionError, MalformedZnodeError, MultiFailedError, NodeExistsError, NoNodeError
from zk_layout.loggers import safe_logger
from zk_layout.store import CheckOp, CreateOp, DeleteOp, Op, SetOp, ZkStore, Znode, multi_size

logger = safe_logger(__name__)

_T = TypeVar("_T")
_ANOTHER_WROTE = (BadVersionError, NoNodeError, NodeExistsError)
_MOST = 1 << 30
"""No group counts up to this number, so another client wrote a higher one. The numbers must stay Java ints."""


class Journal:
    """The znodes of one leader. round, generation: as stored, unless another client has written meanwhile."""

    def __init__(self, store: ZkStore, group: str, consumer_id: str, session_id: int) -> None:
        self._store = store
        self._group = group
        self._name = consumer_id
        self._session_id = session_id
        self._round_version = self._generation_version = 0
        self._round_zxid = self._generation_zxid = 0
        """The transactions that wrote the two. If a stranger deletes and creates a znode, its version is 0 again."""
        self.round = Round()
        self.generation = NO_GENERATION

    def take_over(self) -> None:
        """Read the last leader's round and generation, and take the lead, so that it can write neither any more.

        Raises: DeposedError if another one leads; ZooKeeper's errors.
        """
        paths = [round_path(self._group), generation_path(self._group), leader_path(self._group)]
        # the leader's znode last: a leader elected after this read changes the versions of the other two
        asked, given, leader = self._store.get_data_many(paths)
        stored = None if given is None else readable(self._name, partial(decode_generation, paths[1], given.data))
        self.generation = stored or NO_GENERATION
        self.round = Round(max(0, self.generation.round))
        if asked is not None:
            self.round = readable(self._name, partial(decode_round, paths[0], asked.data)) or self.round
        numbers = (self.round.number, self.generation.round, self.generation.number)
        if not all(-1 <= number < _MOST for number in numbers):
            logger.warning(
                "%s: group %s starts its count again, because no leader wrote these: %s",
                self._name,
                self._group,
                numbers,
            )
            self.round, self.generation = Round(), NO_GENERATION
        # another version of the round: each write of the former leader names the old one, and is refused
        self._round_version = 0 if asked is None else asked.stat.version + 1
        ops: list[Op] = []
        if leader is not None and is_permanent(leader):
            if not delete_below(self._store, paths[2]):
                raise DeposedError(f"there is more below {paths[2]}, which I delete first")
            ops.append(DeleteOp(paths[2], leader.stat.version))
        ops.append(CreateOp(paths[2], self._name.encode(), ephemeral=True))
        ops.append(_put(paths[0], encode_round(self.round), asked))
        if given is not None and self.generation is stored:
            # the generation is not written again, because each member would have to read it again
            ops.append(CheckOp(paths[1], given.stat.version))
            self._generation_version = given.stat.version
            self._round_zxid, self._generation_zxid = self._write(ops), given.stat.mzxid
        else:
            ops.append(_put(paths[1], encode_generation(self.generation), given))
            self._generation_version = 0 if given is None else given.stat.version + 1
            self._round_zxid = self._generation_zxid = self._write(ops)
        if is_permanent(leader):
            logger.warning("%s: %s was not ephemeral, so no leader wrote it: I have deleted it", self._name, paths[2])

    def restore(self, asked: Znode | None, given: Znode | None) -> bool:
        """Write both znodes again if another client has changed or deleted one while this member leads.

        asked, given: the two znodes as read. Returns: whether another client had. Raises: DeposedError; ZooKeeper's
        errors.
        """
        zxids = (self._round_zxid, self._generation_zxid)
        there = (asked, given)
        # a znode of an earlier transaction was read before this leader's last write
        if all(znode and znode.stat.mzxid <= ours for znode, ours in zip(there, zxids, strict=True)):
            return False
        logger.warning("%s: another client wrote the round or the generation of group %s", self._name, self._group)
        paths = (round_path(self._group), generation_path(self._group))
        texts = (encode_round(self.round), encode_generation(self.generation))
        self._round_zxid = self._generation_zxid = self._write(
            [_put(path, text, znode) for path, text, znode in zip(paths, texts, there, strict=True)]
        )
        self._round_version, self._generation_version = (
            0 if znode is None else znode.stat.version + 1 for znode in there
        )
        return True

    def write_round(self, asked: Round) -> None:
        """Write the round. Raises: DeposedError; RebalanceError if it is too large; ZooKeeper's errors."""
        self._round_zxid = self._write([SetOp(round_path(self._group), encode_round(asked), self._round_version)])
        self._round_version += 1
        self.round = asked

    def write_generation(self, generation: Generation) -> None:
        """Write the generation if the round is still this leader's, so that a replaced leader writes neither.

        Raises: DeposedError; RebalanceError if it is too large; ZooKeeper's errors.
        """
        self._generation_zxid = self._write(
            [
                CheckOp(round_path(self._group), self._round_version),
                SetOp(generation_path(self._group), encode_generation(generation), self._generation_version),
            ]
        )
        self._generation_version += 1
        self.generation = generation

    def _write(self, ops: list[Op]) -> int:
        """Return the zxid of the transaction."""
        size, most = sum(map(multi_size, ops)), self._store.max_multi_bytes
        if size > most:
            raise RebalanceError(
                f"what its leader writes for group {self._group} takes {size} bytes, and a request of ZooKeeper may "
                f"have {most}: use fewer members or topics in one group"
            )
        try:
            return self._store.multi(ops, session_id=self._session_id)
        except MultiFailedError as error:
            if isinstance(error.cause, _ANOTHER_WROTE):
                raise DeposedError(str(error)) from error
            raise error.cause from error


def _put(path: str, data: bytes, znode: Znode | None) -> Op:
    """Return the operation that writes the data over the znode as it was read; None: it did not exist."""
    return CreateOp(path, data) if znode is None else SetOp(path, data, znode.stat.version)


def readable(name: str, decode: Callable[[], _T]) -> _T | None:
    """Return the decoded record; None, after a warning, if the data is unreadable."""
    try:
        return decode()
    except MalformedZnodeError as error:
        logger.warning("%s: leaves out %s", name, error)
        return None
