"""Brokers, ZooKeeper, the network and the clock of a columnar fetcher, in one thread and without real time.

The fetcher is real, down to the bytes that it sends and receives. The sockets, the brokers' answers, the opening of
connections and the clock are fakes; time passes only while the fetcher waits. So a schedule of minutes takes
milliseconds, a seed always gives the same schedule, and tests can count requests per second.
"""

from __future__ import annotations

import itertools
import json
import select
import socket
import struct
from collections import Counter
from dataclasses import replace
from types import SimpleNamespace

import pytest

from legacy_consumer.config import ConsumerConfig
from legacy_consumer.errors import BrokerRefusedError, BrokersUnavailableError, FetchError
from legacy_consumer.fetching.columnar import connection, fetcher, leader_finder, sockets
from legacy_consumer.fetching.columnar.connection import Connection
from legacy_consumer.fetching.columnar.core.address import BrokerAddress
from legacy_consumer.fetching.columnar.fetcher import ColumnarFetcher
from legacy_consumer.fetching.columnar.leader_finder import LeaderFinder
from legacy_consumer.fetching.columnar.leaders import LeaderReader
from legacy_consumer.fetching.columnar.opening import open_connection
from legacy_consumer.fetching.columnar.protocol.api_versions import Versions
from legacy_consumer.fetching.columnar.protocol.framing import Api
from legacy_consumer.fetching.columnar.protocol.primitives import Reader, Writer
from legacy_consumer.fetching.columnar.security import Security
from legacy_consumer.fetching.columnar.settings import FetchSettings
from legacy_consumer.fetching.fetcher import EARLIEST
from legacy_consumer.fetching.positions import PositionFinder
from tests.support.record_encoder import Written, batch
from zk_layout.errors import ConnectionLostError, NoNodeError
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicPartition

LATENCY_S = 0.001
BACKOFF_S = 0.2
MAX_WAIT_MS = 100
TIMEOUT_S = 4.0
NONSENSE_HOSTS = ("kafka..lan", "a" * 64 + ".lan", ".", "xn--a.lan.")
"""Host names that cannot be encoded, or that no resolver would look up."""
_HEAD_BYTES = 8


class Pipe:
    """The client's socket of a connection to a fake broker."""

    _numbers = itertools.count(1_000_000)

    def __init__(self, world, broker):
        self._world = world
        self._broker = broker
        self._number = next(self._numbers)
        self._sent = b""
        self.incoming: list[tuple[float, bytes]] = []
        """[(arrival time, bytes)]; empty bytes = the broker closes the connection."""
        self.is_closed = False
        self._least = 1

    def fileno(self):
        return self._number

    def setblocking(self, _):
        pass

    def setsockopt(self, level, option, value):
        assert (level, option) == (socket.SOL_SOCKET, socket.SO_RCVLOWAT)
        self._least = value

    def send(self, data):
        if self.is_closed:
            raise BrokenPipeError
        self._sent += bytes(data)
        while len(self._sent) >= 4 and len(self._sent) >= 4 + (size := int.from_bytes(self._sent[:4], "big")):
            request, self._sent = self._sent[4 : 4 + size], self._sent[4 + size :]
            self._broker.take(self, request)
        return len(data)

    def comes(self, data, after_s):
        last = max((at for at, _ in self.incoming), default=0.0)
        self.incoming.append((max(self._world.now + after_s, last), data))

    @property
    def readable_at(self):
        """Return when a waiting client can read: all wanted bytes have come, or the broker has hung up."""
        count = 0
        for at, data in self.incoming:
            count += len(data)
            if count >= self._least or not data:
                return at
        return float("inf")

    def recv_into(self, into, size):
        if self.is_closed:
            raise ConnectionResetError
        if not self.incoming or self.incoming[0][0] > self._world.now:
            raise BlockingIOError
        at, data = self.incoming[0]
        if not data:
            return 0
        taken = data[: min(size, len(into))]
        self._world.received_bytes += len(taken)
        into[: len(taken)] = taken
        if len(taken) < len(data):
            self.incoming[0] = (at, data[len(taken) :])
        else:
            del self.incoming[0]
        return len(taken)

    def shutdown(self, _):
        self.close()

    def close(self):
        self.is_closed = True

    def detach(self):
        pass


class Broker:
    """A broker that answers fetches of version 10 without sessions. For faults see World."""

    def __init__(self, world, broker_id, host="broker"):
        self.world = world
        self.address = BrokerAddress(broker_id, host, 9000 + broker_id, 4)
        self.calls = Counter()
        """The number of connections to it ("connect"), and of its fetch requests ("fetch")."""

    def take(self, pipe, request):
        key, _, correlation_id, name_size = struct.unpack_from(">hhih", request)
        assert key == Api.FETCH.value
        self.calls["fetch"] += 1
        asked = self._asked(Reader(request[10 + name_size :], "request"))
        fault = self.world.fault(self, "fetch")
        answers = {tp: self._answer(tp, offset, fault) for tp, (offset, _) in asked.items()}
        wait_s = LATENCY_S if any(error or records for error, records in answers.values()) else MAX_WAIT_MS / 1000
        top_level = int(fault.partition(" ")[2]) if fault.startswith("response-error") else 0
        body = self._encoded({} if top_level else answers, top_level)
        frame = struct.pack(">ii", len(body) + 4, correlation_id) + body
        half = frame[: max(1, len(frame) * 2 // 3)]
        match fault:
            case "hang-up":
                sent = (b"",)
            case "answer-and-hang-up":
                sent = (frame, b"")
            case "torn":
                sent = (half, b"")
            case "torn-and-silent":
                sent = (half,)
            case "silent":
                sent = ()
            case "slow":
                pieces = range(0, len(frame), max(1, len(frame) // 20))
                for number, at in enumerate(pieces):
                    pipe.comes(frame[at : at + max(1, len(frame) // 20)], number * self.world.slow_s)
                sent = ()
            case "late":
                sent, wait_s = (frame,), self.world.late_s
            case "other-request":
                sent = (frame[:4] + struct.pack(">i", correlation_id ^ 5) + frame[8:],)
            case "two-gigabytes":
                sent = (struct.pack(">i", 2**31 - 1) + frame[4:],)
            case "negative-size":
                sent = (struct.pack(">i", -5) + frame[4:],)
            case "no-size":
                sent = (struct.pack(">i", 0) + frame[4:],)
            case "impossible-count":
                bad = body[:10] + struct.pack(">i", 2**30) + body[14:]
                sent = (frame[:_HEAD_BYTES] + bad,)
            case "more-than-its-end":
                sent = (struct.pack(">ii", len(body) + 7, correlation_id) + body + b"xyz",)
            case "garbage":
                sent = (frame[:_HEAD_BYTES] + bytes(self.world.random.randrange(256) for _ in body),)
            case _:
                sent = (frame,)
        for part in sent:
            pipe.comes(part, wait_s)

    def _answer(self, tp, offset, fault):
        world = self.world
        if world.leaders[tp] is not self:
            return 6, b""
        log = world.logs[tp]
        if fault.startswith("partition-error"):
            return int(fault.partition(" ")[2]), b""
        if not 0 <= offset <= len(log):
            return 1, b""
        batches = [(first, data) for first, count, data in world.batches[tp] if first + count > offset]
        records = b"".join(data for _, data in batches[: world.random.randrange(1, 4)])
        match fault:
            case "cut-records" if records:
                records = records[: world.random.randrange(1, len(records))]
            case "damaged-records" if records:
                # not in the offset: no checksum covers it, so no reader can notice a wrong one
                at = world.random.randrange(8, len(batches[0][1]))
                records = records[:at] + bytes([records[at] ^ 1 << world.random.randrange(8)]) + records[at + 1 :]
            case "too-large" if records:
                records = records[:8] + struct.pack(">i", 2**31 - 100) + records[12:]
            case "old-records":
                records = world.batches[tp][0][2]
            case "no-records":
                records = b""
        return 0, records

    @staticmethod
    def _asked(reader):
        for _ in range(4):
            reader.int32()
        reader.int8()
        reader.int32(), reader.int32()
        asked = {}
        for _ in range(reader.count(6)):
            topic = reader.string()
            for _ in range(reader.count(16)):
                number, _, offset, _, size = (
                    reader.int32(), reader.int32(), reader.int64(), reader.int64(), reader.int32()
                )  # fmt: skip
                asked[TopicPartition(topic, number)] = (offset, size)
        return asked

    def _encoded(self, answers, error):
        writer = Writer()
        writer.int32(0)
        writer.int16(error)
        writer.int32(0)
        writer.int32(len(answers))
        for tp, (code, records) in answers.items():
            writer.string(tp.topic)
            writer.int32(1)
            writer.int32(tp.partition)
            writer.int16(code)
            end = len(self.world.logs[tp])
            for number in (end, self.world.stable(tp), 0):
                writer.int64(number)
            writer.int32(0)
            writer.byte_array(records)
        return writer.done()


class Opening:
    """A connection that is being opened. For faults see World."""

    def __init__(self, world, broker, on_done):
        del on_done  # the fetcher waits on the fake clock instead
        self._world = world
        self._broker = broker
        broker.calls["connect"] += 1
        self._fault = world.fault(broker, "connect")
        self.due = world.now + (TIMEOUT_S if self._fault == "unreachable" else LATENCY_S)
        world.openings.append(self)

    @property
    def is_done(self):
        return self.due <= self._world.now

    def result(self):
        self._world.openings.remove(self)
        address = self._broker.address
        match self._fault:
            case "refused" | "unreachable":
                raise BrokersUnavailableError(f"{address.in_words} cannot be reached")
            case "lets-nobody-in":
                raise BrokerRefusedError(str(address), "SASL authentication failed")
            case "nonsense-host":
                host = self._world.random.choice(NONSENSE_HOSTS[:2])
                return open_connection(
                    BrokerAddress(address.broker_id, host, 9092, 4),
                    Security("PLAINTEXT"),
                    client_id="c",
                    timeout_s=1.0,
                    receive_buffer_bytes=0,
                )
        pipe = Pipe(self._world, self._broker)
        made = Connection(address, pipe, "c")
        made.versions = Versions({Api.FETCH: 10})
        if self._fault == "takes-and-ends":
            pipe.comes(b"", 0.0)
        return made

    def close(self, wait_s):
        del wait_s
        if self in self._world.openings:
            self._world.openings.remove(self)


class Poll:
    """Replaces select.poll: a wait moves the world's clock."""

    def __init__(self, world):
        self._world = world
        self._polled = []

    def register(self, one, _):
        self._polled.append(one)

    def unregister(self, one):
        self._polled.remove(one)

    def poll(self, timeout_ms):
        self._world.waits += 1
        found = self._ready()
        if not found and timeout_ms > 0:
            pipes = [one._socket for one in self._polled if isinstance(one, Connection)]
            self._world.wait(timeout_ms / 1000, [pipe.readable_at for pipe in pipes])
            found = self._ready()
        return found

    def _ready(self):
        found = []
        for one in self._polled:
            if isinstance(one, Connection):
                is_ready = one._socket.readable_at <= self._world.now
            else:
                is_ready = bool(select.select([one], [], [], 0)[0])
            if is_ready:
                found.append((one.fileno(), select.POLLIN))
        return found


class NoThread:
    """Replaces a running thread; the world does its work."""

    def is_alive(self):
        return True

    def join(self, _):
        pass


class SteppedLeaderFinder(LeaderFinder):
    """A leader finder without a thread: it looks for leaders when the fetcher asks for news and a look is due."""

    def __init__(self, world, reader):
        super().__init__(reader, backoff_s=BACKOFF_S, on_news=lambda: None)
        self._world = world
        self._thread = NoThread()

    def due(self):
        return min(self._open.values(), default=float("inf"))

    @property
    def has_news(self):
        due = [tp for tp, at in self._open.items() if at <= self._world.now]
        if due:
            self._look(due)
        return super().has_news


class SteppedPositionFinder(PositionFinder):
    """A position finder without a thread: it looks when the fetcher takes results and a look is due."""

    def __init__(self, world, reset_to):
        super().__init__(lambda: world.log_offsets, reset_to=reset_to, backoff_s=BACKOFF_S)
        self._world = world
        self._thread = NoThread()
        self.next_look = 0.0

    def due(self):
        return self.next_look if self._open else float("inf")

    def _go_on(self):
        pass

    def take(self):
        if self._open and self._world.now >= self.next_look:
            if self._look(list(self._open.values())):
                self.next_look = self._world.now + BACKOFF_S
            self._thread = NoThread()
        return super().take()


class LogOffsets:
    """The log ends that leaders report. Faults: of the call "offsets" of a leader."""

    def __init__(self, world):
        self._world = world

    def earliest(self, partitions):
        return self._asked(partitions, lambda _: 0)

    def latest(self, partitions):
        # "log-end-behind": a new leader that does not know yet what its followers have
        return self._asked(partitions, lambda tp: len(self._world.logs[tp]))

    def at_time(self, partition, time_ms):
        del time_ms
        return self._asked([partition], lambda _: 0).get(partition)

    def _asked(self, partitions, end):
        found = {}
        for tp in partitions:
            fault = self._world.fault(self._world.leaders[tp], "offsets")
            if fault == "nobody-answers":
                raise BrokersUnavailableError("no answer from the brokers")
            if fault == "refused":
                raise FetchError(tp, "TOPIC_AUTHORIZATION_FAILED")
            if fault == "unexpected":
                raise UnicodeError("label empty or too long")
            if fault != "missing":
                found[tp] = end(tp) // 2 if fault == "log-end-behind" else end(tp)
        return found


class Store:
    """The store from which the leader finder reads. Faults: of the call "zookeeper", with broker None."""

    def __init__(self, world, store):
        self._world = world
        self._store = store

    def __getattr__(self, name):
        call = getattr(self._store, name)
        if not name.startswith("get_"):
            return call

        def counted(*arguments, **options):
            self._world.zookeeper_reads += 1
            match self._world.fault(None, "zookeeper"):
                case "connection-lost":
                    raise ConnectionLostError("connection lost")
                case "unexpected":
                    raise RuntimeError("a defect")
                case "no-node":
                    raise NoNodeError("/brokers/ids")
            return call(*arguments, **options)

        return counted


class World:
    """Brokers lead the partitions in turn. fault(broker, call): returns the name of the call's fault, or ""."""

    def __init__(
        self, random, *, brokers=2, partitions=4, messages=30, read_committed=False, reset_to=EARLIEST, **settings
    ):
        self.random = random
        self.now = 1000.0
        self.fault = lambda broker, call: ""
        # from version 2.3 on, brokers read the last stable offset before the log, so it may be lower than the data
        self.stable = lambda tp: random.randrange(len(self.logs[tp]) + 1)
        self._reset_to = reset_to
        self.openings = []
        self.zookeeper_reads = 0
        self.received_bytes = 0
        self.waits = 0
        """The number of waits for sockets."""
        self.late_s = 2 * TIMEOUT_S
        self.slow_s = 0.5
        self.brokers = [Broker(self, number) for number in range(brokers)]
        self.partitions = [TopicPartition("t", number) for number in range(partitions)]
        self.leaders = {tp: self.brokers[tp.partition % brokers] for tp in self.partitions}
        self.logs = {tp: [b"%d/%d" % (tp.partition, n) for n in range(messages)] for tp in self.partitions}
        self.batches = {tp: list(self._written(log, 0)) for tp, log in self.logs.items()}
        self.zookeeper = MemoryStore(MemoryZooKeeper())
        self.zookeeper.start()
        for broker in self.brokers:
            self.register(broker)
        for tp in self.partitions:
            self.lead(tp, self.leaders[tp])
        self.log_offsets = LogOffsets(self)
        self.settings = FetchSettings.of(
            ConsumerConfig.load(
                zookeeper_connect="nowhere:1",
                group_id="g",
                refresh_leader_backoff_ms=int(BACKOFF_S * 1000),
                fetch_wait_max_ms=MAX_WAIT_MS,
                socket_timeout_ms=int(TIMEOUT_S * 1000),
                isolation_level="read_committed" if read_committed else "read_uncommitted",
            )
        )
        self.settings = replace(self.settings, **settings)

    def __enter__(self):
        self._patch = pytest.MonkeyPatch()
        clock = SimpleNamespace(monotonic=lambda: self.now)
        for module in (connection, fetcher, leader_finder):
            self._patch.setattr(module, "time", clock)
        self._patch.setattr("legacy_consumer.fetching.positions.time", clock)
        waiting = SimpleNamespace(poll=lambda: Poll(self), POLLIN=select.POLLIN)
        self._patch.setattr(sockets, "select", waiting)
        reader = LeaderReader(Store(self, self.zookeeper), "PLAINTEXT", self._no_connection, timeout_s=1.0)
        self._leader_finder = SteppedLeaderFinder(self, reader)
        self._finder = SteppedPositionFinder(self, self._reset_to)
        by_address = {broker.address: broker for broker in self.brokers}
        self.fetcher = ColumnarFetcher(
            self.settings,
            begin_opening=lambda address, on_done: Opening(self, by_address[address], on_done),
            make_leader_finder=lambda on_news: self._leader_finder,
            finder=self._finder,
        )
        return self

    def __exit__(self, *_):
        self.fetcher.close()
        self.zookeeper.close()
        self._patch.undo()

    @staticmethod
    def _no_connection(address):
        raise BrokersUnavailableError(f"{address} is not asked for metadata here")

    def append(self, tp, values):
        """Append values to the log."""
        begun_at = len(self.logs[tp])
        self.logs[tp] += values
        self.batches[tp] += self._written(self.logs[tp], begun_at)

    def _written(self, log, at):
        while at < len(log):
            count = min(self.random.randrange(1, 5), len(log) - at)
            records = [Written(at + n, None, log[at + n], 7) for n in range(count)]
            codec = self.random.choice(["none", "none", "gzip", "lz4"])
            yield at, count, batch(records, codec)
            at += count

    def register(self, broker):
        address = broker.address
        registered = {"version": 4, "host": address.host, "port": address.port, "jmx_port": -1, "timestamp": "1"}
        registered["endpoints"] = [f"PLAINTEXT://{address}"]
        registered["listener_security_protocol_map"] = {"PLAINTEXT": "PLAINTEXT"}
        self.zookeeper.create(f"/brokers/ids/{address.broker_id}", json.dumps(registered).encode(), make_parents=True)

    def lead(self, tp, broker):
        self.leaders[tp] = broker
        path = f"/brokers/topics/{tp.topic}/partitions/{tp.partition}/state"
        state = {"leader": broker.address.broker_id, "leader_epoch": 0, "isr": [0], "controller_epoch": 1, "version": 1}
        self.zookeeper.ensure_path(path)
        self.zookeeper.set_data(path, json.dumps(state).encode())

    def wait(self, longest_s, arrivals=()):
        """Move the clock to the next event, at most by longest_s."""
        # only openings that are not due: the fetcher has taken a due one, or an interrupted poll has forgotten it
        events = [*arrivals, *(opening.due for opening in self.openings if opening.due > self.now)]
        events += [self._leader_finder.due(), self._finder.due()]
        self.now = min(self.now + longest_s, max(self.now + 1e-6, min(events)))
