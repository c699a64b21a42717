"""A producer that numbers its messages in each partition, and records which of them the brokers have.

It writes the first of each three partitions without compression, the second with compression, and the third with
compression and perhaps in transactions, some of which it aborts.
"""

from __future__ import annotations

import threading
import time
from collections import defaultdict
from random import Random

from confluent_kafka import KafkaException, Producer

FILLER = b"." * 80
_TRANSACTION_S = 0.3
_ABORTED = 0.2
"""The share of transactions that are aborted."""
_PLAIN, _COMPRESSED, _THIRD = range(3)


def value_of(number):
    """Return the value of a message."""
    return b"%020d" % number + FILLER


def number_of(value):
    """Return the number in a message's value; None if it is not, byte for byte, a produced value."""
    digits = value[:20]
    return int(digits) if digits.isdigit() and value_of(int(digits)) == value else None


class NumberingProducer:
    """Writes to every partition of a topic at a steady rate, with acks=all, and retries for 600 s."""

    def __init__(self, bootstrap_servers, topic, partitions, history, rate, codec="lz4", *, transactions=False):
        """rate: messages a second for each partition. codec: for the compressed messages."""
        self.partitions = partitions
        self.numbers = defaultdict(int)
        self.topic = topic
        self.pause_s = 1 / rate
        self.ended = threading.Event()
        self._history = history
        self._lock = threading.Lock()
        self._acked = defaultdict(list)
        self._bursts = []
        common = {
            "bootstrap.servers": bootstrap_servers,
            "acks": "all",
            "linger.ms": 0,
            "message.timeout.ms": 600_000,
            "retry.backoff.ms": 50,
            "reconnect.backoff.max.ms": 500,
            "topic.metadata.refresh.interval.ms": 1000,
            # one request at a time, so that a retried message does not come after its successor
            "max.in.flight": 1,
            "log_level": 0,
        }
        several = {"compression.type": codec, "linger.ms": 50}
        in_transactions = {"transactional.id": topic, "transaction.timeout.ms": 600_000}
        self._lanes = [
            _Lane(self, _PLAIN, common),
            _Lane(self, _COMPRESSED, {**common, **several}),
            _TransactionalLane(self, _THIRD, {**common, **several, **in_transactions})
            if transactions
            else _Lane(self, _THIRD, {**common, **several}),
        ]

    def start(self):
        for lane in self._lanes:
            lane.start()

    def end(self, timeout_s=60.0):
        """Stop producing, and wait until the brokers have all messages. Returns: how many they do not have."""
        self.ended.set()
        return sum(lane.end(timeout_s) for lane in self._lanes)

    def burst(self, partitions, count):
        """Ask for `count` more messages to each of these partitions, as fast as possible; do not wait."""
        with self._lock:
            self._bursts += [partition for partition in partitions for _ in range(count)]

    def take_bursts(self, kind):
        """Remove and return the requested messages of a lane, as a list of partitions."""
        with self._lock:
            own = [partition for partition in self._bursts if partition % 3 == kind]
            self._bursts = [partition for partition in self._bursts if partition % 3 != kind]
        return own

    def first_acked_after(self, since):
        """Return {partition: the first offset acknowledged after that moment, None if there is none yet}."""
        with self._lock:
            return {
                partition: next((offset for at, offset in self._acked[partition] if at > since), None)
                for partition in range(self.partitions)
            }

    def log_end(self, partition):
        """Return the offset after the last acknowledged one."""
        with self._lock:
            return max((offset + 1 for _, offset in self._acked[partition]), default=0)

    def note_acked(self, partition, offset, number):
        """Record that the brokers have acknowledged a message, or committed its transaction."""
        at = time.monotonic()
        with self._lock:
            recent = self._acked[partition]
            recent.append((at, offset))
            del recent[:-4000]
        self._history.write("acked", at, partition=partition, offset=offset, seq=number)

    def note_aborted(self, partition, offset, number):
        """Record a message of an aborted transaction: it is in the log, and no read_committed member may get it."""
        self._history.write("aborted", partition=partition, offset=offset, seq=number)

    def note_failed(self, partition, number, error):
        """Record that the brokers do not have a message."""
        self._history.write("not acked", partition=partition, seq=number, error=str(error))


class _Lane:
    """One thread that writes a third of the partitions."""

    def __init__(self, all_, kind, settings):
        self._all = all_
        self._kind = kind
        self._producer = Producer(settings)
        self._thread = threading.Thread(target=self._run, name=f"producer-{kind}", daemon=True)

    def start(self):
        self._thread.start()

    def end(self, timeout_s):
        self._thread.join(timeout_s)
        return self._producer.flush(timeout_s)

    def _run(self):
        while not self._all.ended.wait(self._all.pause_s):
            self._produce_round()
            self._producer.poll(0)

    def _produce_round(self):
        for partition in (*range(self._kind, self._all.partitions, 3), *self._all.take_bursts(self._kind)):
            self._produce(partition)

    def _produce(self, partition):
        number = self._all.numbers[partition]
        try:
            self._producer.produce(
                self._all.topic,
                value_of(number),
                partition=partition,
                on_delivery=lambda error, message: self._note(error, message, number),
            )
        except (BufferError, KafkaException):
            # the producer's queue is full, or it does not know a new partition yet
            return
        self._all.numbers[partition] += 1

    def _note(self, error, message, number):
        if error is not None:
            self._all.note_failed(message.partition(), number, error)
        else:
            self._all.note_acked(message.partition(), message.offset(), number)


class _TransactionalLane(_Lane):
    """A lane whose messages count when their transaction is committed."""

    def __init__(self, all_, kind, settings):
        super().__init__(all_, kind, settings)
        self._written = []
        self._random = Random(kind)

    def _run(self):
        self._insist(self._producer.init_transactions)
        while not self._all.ended.is_set():
            self._producer.begin_transaction()
            until = time.monotonic() + _TRANSACTION_S
            while time.monotonic() < until and not self._all.ended.wait(self._all.pause_s):
                self._produce_round()
                self._producer.poll(0)
            while self._producer.flush(10):
                pass
            is_committed = self._random.random() >= _ABORTED and self._insist(self._producer.commit_transaction)
            if not is_committed:
                self._insist(self._producer.abort_transaction)
            note = self._all.note_acked if is_committed else self._all.note_aborted
            for written in self._written:
                note(*written)
            self._written.clear()

    @staticmethod
    def _insist(step):
        """Repeat a step until it succeeds, and return True; False if the transaction must be aborted."""
        while True:
            try:
                step(10)
            except KafkaException as error:
                if error.args[0].txn_requires_abort():
                    return False
                if not error.args[0].retriable():
                    raise
            else:
                return True

    def _note(self, error, message, number):
        if error is not None:
            self._all.note_failed(message.partition(), number, error)  # aborted before it was sent
        else:
            self._written.append((message.partition(), message.offset(), number))
