"""Reads a group's znodes all the time, and records each change."""

from __future__ import annotations

import threading
import time

from zk_layout.codecs import decode_offset
from zk_layout.errors import NoNodeError, ZooKeeperError
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath, OffsetPath, OwnerPath
from zk_layout.settings import ZkSettings

LOOK_EVERY_S = 0.05


class Observer:
    """owners, ids: the last state, {partition: text of the owner znode} and {consumer id: session}."""

    def __init__(self, connect, group, topic, partitions, history):
        self.partitions = partitions
        self.owners = {}
        self.ids = {}
        self.offsets = {}
        self.store = KazooStore(ZkSettings(connect, session_timeout_ms=30_000, connection_timeout_ms=30_000))
        self._group = group
        self._topic = topic
        self._history = history
        self._sessions = {}
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="observer", daemon=True)

    def start(self):
        self.store.start()
        self._thread.start()

    def close(self):
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join()
        self.store.close()

    def _run(self):
        while not self._ended.wait(LOOK_EVERY_S):
            try:
                self.look()
            except ZooKeeperError:
                # without a quorum, ZooKeeper answers no reads
                continue

    def look(self):
        """Read all znodes once. An event's time is the time of the answer: the change came before it."""
        group, topic = self._group, self._topic
        try:
            names = self.store.get_children(ConsumerIdsPath(group).path)
        except NoNodeError:
            names = ()
        partitions = range(self.partitions)
        paths = [ConsumerIdPath(group, name).path for name in names]
        paths += [OwnerPath(group, topic, p).path for p in partitions]
        paths += [OffsetPath(group, topic, p).path for p in partitions]
        znodes = self.store.get_data_many(paths)
        at = time.monotonic()
        members = zip(names, znodes, strict=False)
        self._note_ids({name: znode.stat.ephemeral_owner for name, znode in members if znode is not None}, at)
        rest = znodes[len(names) :]
        for p, owner, offset in zip(partitions, rest, rest[len(partitions) :], strict=False):
            self._note_owner(p, owner, at)
            if offset is not None:
                self._note_offset(p, offset, at)

    def _note_ids(self, ids, at):
        for name in ids.keys() | self.ids.keys():
            if ids.get(name) != self.ids.get(name):
                self._history.write("id", at, id=name, session=ids.get(name))
        self.ids = ids

    def _note_owner(self, partition, znode, at):
        text = None if znode is None else znode.data.decode()
        session = None if znode is None else znode.stat.ephemeral_owner
        if (text, session) != (self.owners.get(partition), self._sessions.get(partition)):
            self._history.write("owner", at, partition=partition, owner=text, session=session)
        self._sessions[partition] = session
        if text is None:
            self.owners.pop(partition, None)
        else:
            self.owners[partition] = text

    def _note_offset(self, partition, znode, at):
        seen = (decode_offset("", znode.data), znode.stat.version)
        if seen != self.offsets.get(partition):
            self.offsets[partition] = seen
            self._history.write("offset", at, partition=partition, offset=seen[0], version=seen[1])
