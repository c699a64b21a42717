"""A Python member of a group as a process that writes its events to the history.

Arguments: FOLDER NAME TOPIC each|batches|arrow main|thread PROPERTY=VALUE...
It prints `ready` and `closed`. It ends at `shutdown` on standard input, or at the end of that input. Other lines are
commands for its user, such as `seek 40`: see user.py.
"""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import threading
import time
from io import FileIO
from pathlib import Path

from legacy_consumer import ConsumerConfig, ConsumerConnector, Phase
from tests.chaos.history import HistoryFile
from tests.chaos.telling import Telling
from tests.chaos.user import User
from zk_layout.kazoo_store import KazooStore


class RecordingOffsets:
    """An offset store that records the reads and commits of another one."""

    def __init__(self, inner, history):
        self._inner = inner
        self._history = history

    def wants_unchanged(self, tp, seen):
        return self._inner.wants_unchanged(tp, seen)

    def read(self, partitions):
        found = self._inner.read(partitions)
        self._history.write("read", offsets=_pairs(found))
        return found

    def wrote(self, tp, stored):
        return self._inner.wrote(tp, stored)

    def commit(self, commits, *, consumer_id, session_id, timeout_s=None, unfenced=False):
        asked = {tp.partition: [commit.offset, commit.seen.version] for tp, commit in commits.items()}
        told = {"began": time.monotonic(), "session": session_id, "offsets": asked}
        result = self._inner.commit(
            commits, consumer_id=consumer_id, session_id=session_id, timeout_s=timeout_s, unfenced=unfenced
        )
        if result.failure is not None:
            told["error"] = type(result.failure).__name__
        self._history.write(
            "commit",
            **told,
            committed=_pairs(result.committed),
            foreign=_pairs(result.foreign),
            unowned=sorted(tp.partition for tp in result.unowned),
        )
        return result

    def close(self):
        self._inner.close()


class Listener:
    """Records assigned partitions, released or dropped partitions, and the offsets of live resets."""

    def __init__(self, history, delivery):
        self._history = history
        self._how = "released"
        self._drop = delivery.drop
        self._follow = delivery.follow
        delivery.drop = self.drop
        delivery.follow = self.follow

    def drop(self, partitions):
        self._how = "dropped"
        try:
            self._drop(partitions)
        finally:
            self._how = "released"

    def follow(self, find):
        followed = self._follow(find)
        self._history.write("followed", offsets=_pairs(followed))
        return followed

    def before_releasing_partitions(self, partitions):
        self._history.write("revoked", partitions=sorted(tp.partition for tp in partitions), how=self._how)

    def before_starting_fetchers(self, partitions, assignment):
        self._history.write("assigned", partitions=sorted(tp.partition for tp in partitions))


def _pairs(offsets):
    return {tp.partition: [committed.offset, committed.version] for tp, committed in offsets.items()}


def watch_status(connector, history):
    """Record each change of phase, until the member has left."""
    told = None
    while told is not Phase.CLOSED:
        connector.wait_until(lambda status, told=told: status.phase is not told, 1.0)
        status = connector.status
        if status.phase is not told:
            told = status.phase
            history.write("status", phase=told.value, owned=len(status.owned))


def main(folder, name, topic, how, on, *properties):
    faulthandler.register(signal.SIGUSR1)  # for World.logs(), which writes the stacks of a group that does not flow
    history = HistoryFile(Path(folder), name)
    config = ConsumerConfig.load(overrides=dict(pair.split("=", 1) for pair in properties))
    Telling.wrong = lambda text: history.write("failed", error=text)
    store = KazooStore(config.zk_settings())
    store.add_session_listener(lambda event: history.write("session", kind=event.kind.value, session=event.session_id))
    connector = ConsumerConnector(config, store=store)
    delivery = connector._membership.delivery
    delivery._offsets = delivery.committer.offsets = RecordingOffsets(connector._offsets, history)
    connector.set_rebalance_listener(Listener(history, delivery))
    user = User(connector, how, on, history)
    user.hear_signals()
    history.write("joining", id=connector.consumer_id)
    with connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        fetcher = connector.fetcher_choice.fetcher
        history.write("joined", id=connector.consumer_id, session=store.session_id, fetcher=fetcher)
        threading.Thread(target=watch_status, args=(connector, history), daemon=True).start()
        # unbuffered: the reading thread may still read when the interpreter ends, and would hold a buffer's lock
        lines = FileIO(sys.stdin.fileno(), closefd=False)
        threading.Thread(target=user.obey, args=(lines,), daemon=True).start()
        print("ready", flush=True)
        user.consume(stream)
    history.write("closed")
    print("closed", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    main(*sys.argv[1:])
