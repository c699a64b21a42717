"""A producer that numbers its messages in each partition, and writes down which of them the brokers have."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

from confluent_kafka import KafkaException, Producer

FILLER = b"." * 80


class NumberingProducer:
    """Writes to every partition of a topic at a steady rate, acks=all, and tries again for as long as it takes."""

    def __init__(self, bootstrap_servers, topic, partitions, history, rate):
        """rate: messages a second for each partition."""
        self.partitions = partitions
        self.numbers = defaultdict(int)
        self.failed = 0
        self._topic = topic
        self._history = history
        self._pause_s = 1 / rate
        self._lock = threading.Lock()
        self._acked = defaultdict(list)
        self._bursts = []
        self._ended = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "acks": "all",
                "linger.ms": 0,
                "message.timeout.ms": 600_000,
                "retry.backoff.ms": 50,
                "reconnect.backoff.max.ms": 500,
                "topic.metadata.refresh.interval.ms": 1000,
                # one after the other, so that a message that is tried again does not come behind its successor
                "max.in.flight": 1,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._run, name="producer", daemon=True)

    def start(self):
        self._thread.start()

    def end(self, timeout_s=60.0):
        """Produce no more, and wait until the brokers have all of it. Returns: how many they have not."""
        self._ended.set()
        self._thread.join()
        return self._producer.flush(timeout_s)

    def burst(self, partitions, count):
        """Give these so many messages more, as fast as may be; do not wait."""
        with self._lock:
            self._bursts += [partition for partition in partitions for _ in range(count)]

    def first_acked_after(self, since):
        """{partition: the first offset that was acknowledged after that moment, None if there is none yet}."""
        with self._lock:
            return {
                partition: next((offset for at, offset in self._acked[partition] if at > since), None)
                for partition in range(self.partitions)
            }

    def log_end(self, partition):
        """The offset after the last one that was acknowledged."""
        with self._lock:
            return max((offset + 1 for _, offset in self._acked[partition]), default=0)

    def _run(self):
        while not self._ended.wait(self._pause_s):
            for partition in range(self.partitions):
                self._produce(partition)
            with self._lock:
                bursts, self._bursts = self._bursts, []
            for partition in bursts:
                self._produce(partition)
            self._producer.poll(0)

    def _produce(self, partition):
        number = self.numbers[partition]
        try:
            self._producer.produce(
                self._topic,
                b"%020d" % number + FILLER,
                partition=partition,
                on_delivery=lambda error, message, number=number: self._note(error, message, number),
            )
        except (BufferError, KafkaException):
            # it has more than enough to do, or has not heard of a new partition yet
            return
        self.numbers[partition] += 1

    def _note(self, error, message, number):
        if error is not None:
            self.failed += 1
            self._history.write("not acked", partition=message.partition(), seq=number, error=str(error))
            return
        at = time.monotonic()
        with self._lock:
            recent = self._acked[message.partition()]
            recent.append((at, message.offset()))
            del recent[:-4000]
        self._history.write("acked", at, partition=message.partition(), offset=message.offset(), seq=number)
