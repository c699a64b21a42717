"""Reads of many znodes in as few requests as the server allows, over any store's single requests."""

from __future__ import annotations

import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence

from zk_layout.errors import NotPermittedError, UnimplementedRequestError, ZooKeeperError
from zk_layout.loggers import safe_logger
from zk_layout.multi_read import (
    NO_AUTH,
    NO_NODE,
    ChunkSize,
    ReadFailure,
    ReadKind,
    ReadResult,
    decode_multi_read,
    next_chunk,
)
from zk_layout.store import Stat, Watcher, Znode

logger = safe_logger(__name__)

WORTH_A_PROBE = 8
"""Fewer reads than this are not worth a connection and three requests to find out about opcode 22."""
PROBE_AGAIN_S = 60.0
"""The pause after a probe without a result: a probe blocks the reading thread, for seconds if no server answers."""


class ReadsMany(ABC):
    """get_data_many, get_children_many and exists_many over the single requests of a store.

    hosts: the ensemble. monotonic: seconds, for the time between probes.
    """

    def __init__(self, hosts: str, monotonic: Callable[[], float] = time.monotonic) -> None:
        self.hosts = hosts
        self._monotonic = monotonic
        self._serves_multi_read: bool | None = None
        """Whether the server knows opcode 22; None as long as that is not known."""
        self._finding_out = threading.Lock()
        self._probe_from = -math.inf
        """The earliest time of the next probe; finite once a probe had no result."""

    @abstractmethod
    def pipeline_data(self, paths: Iterable[str], watcher: Watcher | None) -> list[Znode | None]:
        """One request each; None and no watch where there is no znode."""

    @abstractmethod
    def pipeline_children(self, paths: Iterable[str]) -> list[tuple[str, ...] | None]:
        """One request each, sorted; None where there is no znode."""

    @abstractmethod
    def pipeline_stats(self, paths: Iterable[str], watcher: Watcher | None) -> list[Stat | None]:
        """One request each; None where there is no znode, watched either way."""

    @abstractmethod
    def multi_read(self, kind: ReadKind, paths: Sequence[str]) -> bytes:
        """Read all in one request; return the undecoded reply.

        Raises: UnimplementedRequestError, once the server has closed the connection, as it does after such a request,
        or 2 s later.
        """

    @abstractmethod
    def probe_multi_read(self) -> bool | None:
        """Return whether the server knows multi_read, tried on a connection of its own; None if that failed."""

    def get_data_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Znode | None]:
        """Read many znodes; None where there is no znode, which is watched too."""
        results = self._read_many(ReadKind.DATA, paths) if watcher is None else None
        if results is not None:
            return [_znode(result, path) for result, path in zip(results, paths, strict=True)]
        znodes = self.pipeline_data(paths, watcher)
        missing = [i for i, znode in enumerate(znodes) if znode is None]
        if watcher is None or not missing:
            return znodes
        found = self.pipeline_stats((paths[i] for i in missing), watcher)
        appeared = [i for i, stat in zip(missing, found, strict=True) if stat is not None]
        # a znode that vanishes again before this read fires the watch just set, so the caller learns of it
        again = self.pipeline_data((paths[i] for i in appeared), watcher)
        for i, znode in zip(appeared, again, strict=True):
            znodes[i] = znode
        return znodes

    def get_children_many(self, paths: Sequence[str]) -> list[tuple[str, ...] | None]:
        """The children of many znodes, sorted; None = no such znode."""
        results = self._read_many(ReadKind.CHILDREN, paths)
        if results is None:
            return self.pipeline_children(paths)
        return [_children(result, path) for result, path in zip(results, paths, strict=True)]

    def exists_many(self, paths: Sequence[str], watcher: Watcher | None = None) -> list[Stat | None]:
        """As exists, for many paths."""
        results = self._read_many(ReadKind.DATA, paths) if watcher is None else None
        # older servers want permission to read a znode, but none to see that it exists
        if results is None or ReadFailure(NO_AUTH) in results:
            return self.pipeline_stats(paths, watcher)
        znodes = [_znode(result, path) for result, path in zip(results, paths, strict=True)]
        return [None if znode is None else znode.stat for znode in znodes]

    def _read_many(self, kind: ReadKind, paths: Sequence[str]) -> list[ReadResult] | None:
        """Read all by opcode 22; return None if the server lacks it, or for too few reads to find out."""
        if len(paths) < 2 or not self._finds_multi_read(len(paths)):
            return None
        results: list[ReadResult] = []
        size = ChunkSize()
        while len(results) < len(paths):
            chunk = next_chunk(paths, len(results), size)
            try:
                reply = self.multi_read(kind, chunk)
            except UnimplementedRequestError:
                # another server of the ensemble, an older one than the one that was probed
                self._serves_multi_read = False
                return None
            size.learn(len(chunk), len(reply))
            results += decode_multi_read(reply)
        return results

    def _finds_multi_read(self, reads: int) -> bool:
        # a thread reads one by one while another thread finds out, which may take seconds
        if self._serves_multi_read is None and reads >= WORTH_A_PROBE and not self._finding_out.locked():
            with self._finding_out:
                self._find_out()
        return bool(self._serves_multi_read)

    def _find_out(self) -> None:
        if self._serves_multi_read is not None or self._monotonic() < self._probe_from:
            return
        self._serves_multi_read = self.probe_multi_read()
        if self._serves_multi_read is None:
            if self._probe_from == -math.inf:
                logger.info(
                    "%s did not answer on a second connection: znodes are read one by one, and it is asked every %d s",
                    self.hosts,
                    PROBE_AGAIN_S,
                )
            self._probe_from = self._monotonic() + PROBE_AGAIN_S


def _present(result: ReadResult, path: str) -> Znode | tuple[str, ...] | None:
    if not isinstance(result, ReadFailure):
        return result
    if result.code == NO_NODE:
        return None
    if result.code == NO_AUTH:
        raise NotPermittedError(path)
    raise ZooKeeperError(f"{path} cannot be read: ZooKeeper's error {result.code}")


def _znode(result: ReadResult, path: str) -> Znode | None:
    found = _present(result, path)
    assert found is None or isinstance(found, Znode)
    return found


def _children(result: ReadResult, path: str) -> tuple[str, ...] | None:
    found = _present(result, path)
    assert not isinstance(found, Znode)
    return found
