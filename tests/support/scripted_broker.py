"""A broker with faults that no real broker can be made to have: wrong, long, short or missing answers.

It speaks Kafka 0.8's protocol (Fetch, ListOffsets and Metadata 0, message format 0), to clients that read its
registration of version 1 or 2. Without faults it answers correctly: its logs are lists of values, and it cuts a
response at the requested size, as a real broker does. misbehave() sets faults for the next responses to fetches.
"""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
import zlib
from collections import deque
from collections.abc import Callable

from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer
from zk_layout.model import TopicPartition

FETCH, LIST_OFFSETS, METADATA, FIND_COORDINATOR = 1, 2, 3, 10
_UNKNOWN_TOPIC, _NO_COORDINATOR = 3, 15
HANG_UP = object()
"""In place of bytes to send: close the connection."""
_PATIENCE_S = 30


def message(offset, value):
    """Return a message of format 0."""
    body = struct.pack(">bbi", 0, 0, -1) + struct.pack(">i", len(value)) + value
    return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body


def framed(correlation_id, body):
    return struct.pack(">ii", len(body) + 4, correlation_id) + body


def read_exactly(sock, count):
    """Read this number of bytes. Raises: EOFError when the other side hangs up first."""
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError(f"{len(data)} of {count} bytes came")
        data += more
    return data


class ScriptedBroker:
    """A broker on a loopback port.

    logs: {partition: its values, from offset 0}. errors: {partition: error codes for its next fetches}.
    recordings: {partition: (record set of any format, the offset after it)}; a fetch gets it from its beginning.
    """

    def __init__(self, broker_id=0, *, registration_version=1, throttle_ms=0):
        self.broker_id = broker_id
        self.registration_version = registration_version
        self.throttle_ms = throttle_ms
        self.logs: dict[TopicPartition, list[bytes]] = {}
        self.recordings: dict[TopicPartition, tuple[bytes, int]] = {}
        self.leaders: dict[TopicPartition, int] = {}
        self.fetches: list[dict[TopicPartition, tuple[int, int]]] = []
        """{partition: (offset, size)} of each fetch so far."""
        self.errors: dict[TopicPartition, deque[int]] = {}
        self._faults: deque[Callable[[bytes], object]] = deque()
        self._is_forgetful = False
        self._answers = {
            FETCH: self._fetch,
            LIST_OFFSETS: self._list_offsets,
            METADATA: self._metadata,
            FIND_COORDINATOR: self._find_coordinator,
        }
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self._open: set[socket.socket] = set()
        self._closed = threading.Event()
        self._threads = [threading.Thread(target=self._accept, daemon=True)]
        self._threads[0].start()

    def misbehave(self, *faults):
        """Add faults for the next responses to fetches.

        Each is called with the bytes of the correct response, and returns what to send instead: bytes, HANG_UP, an
        Event to wait for, or a tuple of these.
        """
        self._faults.extend(faults)

    def forget_topics(self):
        """Close all connections, and know no topic from now on."""
        self._is_forgetful = True
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def remember_topics(self):
        self._is_forgetful = False

    @property
    def has_faults_left(self):
        return bool(self._faults)

    def registration(self):
        fields = {"version": self.registration_version, "host": "127.0.0.1", "port": self.port, "jmx_port": -1}
        if self.registration_version > 1:
            fields["endpoints"] = [f"PLAINTEXT://127.0.0.1:{self.port}"]
        return json.dumps({**fields, "timestamp": "1"}).encode()

    def close(self):
        self._closed.set()
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for sock in list(self._open):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(10)

    def _accept(self):
        while not self._closed.is_set():
            try:
                sock, _ = self._listener.accept()
            except OSError:
                return
            self._open.add(sock)
            thread = threading.Thread(target=self._serve, args=(sock,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _serve(self, sock):
        with contextlib.suppress(OSError, EOFError), sock:
            while not self._closed.is_set():
                request = read_exactly(sock, int.from_bytes(read_exactly(sock, 4), "big"))
                key, _, correlation_id, size = struct.unpack_from(">hhih", request)
                if key not in self._answers:
                    # unknown request: close the connection, as brokers before 0.10 do
                    return
                reader = Reader(request[10 + max(size, 0) :], "request")
                sent = framed(correlation_id, self._answers[key](reader))
                if key == FETCH and (fault := self._next_fault()):
                    sent = fault(sent)
                for part in sent if isinstance(sent, tuple) else (sent,):
                    if part is HANG_UP:
                        return
                    if isinstance(part, threading.Event):
                        part.wait(_PATIENCE_S)
                    else:
                        sock.sendall(part)
        self._open.discard(sock)

    def _next_fault(self):
        try:
            return self._faults.popleft()
        except IndexError:  # none are left, or another connection was quicker
            return None

    def _fetch(self, reader):
        reader.int32()
        wait_ms, _ = reader.int32(), reader.int32()
        asked = {}
        for _ in range(reader.count(6)):
            topic = reader.string()
            for _ in range(reader.count(16)):
                tp = TopicPartition(topic, reader.int32())
                asked[tp] = (reader.int64(), reader.int32())
        self.fetches.append(asked)
        answers = {tp: self._records(tp, *wanted) for tp, wanted in asked.items()}
        if not any(records or error for error, records in answers.values()):
            self._closed.wait(wait_ms / 1000)
            answers = {tp: self._records(tp, *wanted) for tp, wanted in asked.items()}
        writer = Writer()
        if self.registration_version > 1:
            writer.int32(self.throttle_ms)
        writer.int32(len(answers))
        for tp, (error, records) in answers.items():
            writer.string(tp.topic)
            writer.int32(1)
            writer.int32(tp.partition)
            writer.int16(error)
            writer.int64(self._end(tp))
            writer.byte_array(records)
        return writer.done()

    def _records(self, tp, offset, size):
        if self.errors.get(tp):
            return self.errors[tp].popleft(), b""
        if tp not in self.logs and tp not in self.recordings:
            return 3, b""
        if not 0 <= offset <= self._end(tp):
            return 1, b""
        if tp in self.recordings:
            return 0, self.recordings[tp][0][:size] if offset < self._end(tp) else b""
        log = self.logs[tp]
        records = b""
        for number in range(offset, len(log)):
            records += message(number, log[number])
            if len(records) > size:
                break
        return 0, records[:size]

    def _end(self, tp):
        return self.recordings[tp][1] if tp in self.recordings else len(self.logs.get(tp, ()))

    def _list_offsets(self, reader):
        reader.int32()
        writer = Writer()
        topics = reader.count(6)
        writer.int32(topics)
        for _ in range(topics):
            topic = reader.string()
            writer.string(topic)
            partitions = reader.count(16)
            writer.int32(partitions)
            for _ in range(partitions):
                number, time, _ = reader.int32(), reader.int64(), reader.int32()
                writer.int32(number)
                writer.int16(0)
                writer.int32(1)
                writer.int64(0 if time == -2 else self._end(TopicPartition(topic, number)))
        return writer.done()

    @staticmethod
    def _find_coordinator(reader):
        """Answer that there is no coordinator; librdkafka asks for one in any use."""
        writer = Writer()
        writer.int16(_NO_COORDINATOR)
        writer.int32(-1)
        writer.string("")
        writer.int32(-1)
        return writer.done()

    def _metadata(self, reader):
        topics = {reader.string() for _ in range(reader.count(2))}
        is_forgetful = self._is_forgetful
        writer = Writer()
        writer.int32(1)
        writer.int32(self.broker_id)
        writer.string("127.0.0.1")
        writer.int32(self.port)
        known = [*self.logs, *self.recordings]
        if not topics:
            topics = {tp.topic for tp in known}
        if is_forgetful:
            # librdkafka does not parse a short response of version 0 without partitions
            known = [TopicPartition("another", number) for number in range(20)]
            topics.add("another")
        writer.int32(len(topics))
        for topic in topics:
            numbers = [tp.partition for tp in known if tp.topic == topic]
            writer.int16(0 if numbers or not is_forgetful else _UNKNOWN_TOPIC)
            writer.string(topic)
            writer.int32(len(numbers))
            for number in numbers:
                writer.int16(0)
                writer.int32(number)
                writer.int32(self.broker_id)
                for _ in ("replicas", "in sync"):
                    writer.int32(1)
                    writer.int32(self.broker_id)
        return writer.done()
