"""A member of a group, in Python, that writes down all that happens to it.

Arguments: FOLDER NAME TOPIC each|batches|arrow PROPERTY=VALUE...
It says `ready` and `closed` on standard output; `shutdown` on standard input, or the end of it, ends it.
"""

from __future__ import annotations

import faulthandler
import logging
import signal
import sys
import threading
import time
from pathlib import Path

from legacy_consumer import ConsumerConfig, ConsumerConnector, Phase
from tests.chaos.history import HistoryFile, runs_of
from tests.chaos.producing import number_of
from tests.chaos.telling import Telling
from zk_layout.kazoo_store import KazooStore

COMMIT_EVERY_S = 0.7
BATCH_WAIT_S = 0.5
BATCH_MESSAGES = 50
WORK_S = 0.001
"""The time that a user spends on a message: so a burst of messages is in hands and buffers for a while."""


class RecordingOffsets:
    """An offset store that writes down what the one behind it reads and commits."""

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

    def find_unowned(self, partitions, **options):
        return self._inner.find_unowned(partitions, **options)

    def close(self):
        self._inner.close()


class Listener:
    """Writes down which partitions come and go, whether they were given up in order, and where a reset moved them."""

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


class Looks:
    """A stream's lease, and the last look at it that found it to hold: when that began."""

    def __init__(self, holds):
        self._holds = holds
        self.at = float("-inf")

    def __call__(self):
        at = time.monotonic()
        if not self._holds():
            return False
        self.at = at
        return True


def _facts(message):
    return message.partition(), message.offset(), number_of(message.value())


def _rows(batch):
    columns = (batch.column(name).to_pylist() for name in ("partition", "offset", "value"))
    return [(partition, offset, number_of(value)) for partition, offset, value in zip(*columns, strict=True)]


def consume(stream, how, history, connector):
    """Write down each message before the next one is asked for: what is not written down is not consumed."""
    gated = stream._stream
    looks = gated._may_hand_out = Looks(gated._may_hand_out)
    asked = time.monotonic()
    committed = asked
    working = threading.Event()

    def write(at, messages):
        for partition, first, last, number in runs_of(messages):
            history.write(
                "delivered", at, partition=partition, first=first, last=last, seq=number, asked=asked, looked=looks.at
            )

    try:
        if how == "each":
            for message in stream:
                write(time.monotonic(), [_facts(message)])
                working.wait(WORK_S)
                asked = time.monotonic()
            return
        taken = stream.batches if how == "batches" else stream.arrow_batches
        facts_of = (lambda batch: map(_facts, batch)) if how == "batches" else _rows
        for batch in taken(BATCH_MESSAGES, timeout=BATCH_WAIT_S):
            at = time.monotonic()
            write(at, facts_of(batch))
            working.wait(WORK_S * len(batch))
            if at - committed > COMMIT_EVERY_S:
                committed = at
                commit(connector, history)
            asked = time.monotonic()
    except Exception as error:
        history.write("failed", error=f"{type(error).__name__}: {error}")
        raise


def commit(connector, history):
    """As a careful user does, beside the auto commit; what becomes of it is in the history already."""
    try:
        connector.commit_offsets()
    except Exception as error:
        history.write("commit refused", error=type(error).__name__)


def watch_status(connector, history):
    """Write down each change of phase, until the member has left."""
    told = None
    while told is not Phase.CLOSED:
        connector.wait_until(lambda status, told=told: status.phase is not told, 1.0)
        status = connector.status
        if status.phase is not told:
            told = status.phase
            history.write("status", phase=told.value, owned=len(status.owned))


def main(folder, name, topic, how, *properties):
    faulthandler.register(signal.SIGUSR1)  # the runner asks a group that stands still where its threads are
    history = HistoryFile(Path(folder), name)
    config = ConsumerConfig.load(overrides=dict(pair.split("=", 1) for pair in properties))
    Telling.wrong = lambda text: history.write("failed", error=text)
    store = KazooStore(config.zk_settings())
    store.add_session_listener(lambda event: history.write("session", kind=event.kind.value, session=event.session_id))
    connector = ConsumerConnector(config, store=store)
    delivery = connector._membership.delivery
    delivery._offsets = delivery.committer.offsets = RecordingOffsets(connector._offsets, history)
    connector.set_rebalance_listener(Listener(history, delivery))
    history.write("joining", id=connector.consumer_id)
    with connector:
        (stream,) = connector.create_message_streams({topic: 1})[topic]
        fetcher = connector.fetcher_choice.fetcher
        history.write("joined", id=connector.consumer_id, session=store.session_id, fetcher=fetcher)
        threading.Thread(target=watch_status, args=(connector, history), daemon=True).start()
        consuming = threading.Thread(target=consume, args=(stream, how, history, connector), daemon=True)
        consuming.start()
        print("ready", flush=True)
        for command in sys.stdin:
            if command.strip() == "shutdown":
                break
        connector.end_streams()
        consuming.join(20)
    history.write("closed")
    print("closed", flush=True)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(asctime)s %(levelname)s %(name)s %(message)s")
    main(*sys.argv[1:])
