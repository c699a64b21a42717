"""The loop that receives on another processor: what it takes, what it leaves, and that it lets go when it is told."""

import select
import socket
import struct
import threading

import pytest

from legacy_consumer.wire import receiving
from legacy_consumer.wire.receiving import MOST_CONNECTIONS, Receiver
from tests.support.waiting import eventually

ANSWER = bytes(range(256)) * 4
FRAME = struct.pack(">ii", len(ANSWER) + 4, 77) + ANSWER


class Pair:
    """A broker's end and ours."""

    def __init__(self):
        self.broker, self.ours = socket.socketpair()
        self.ours.setblocking(False)

    def close(self):
        self.broker.close()
        self.ours.close()


class Rig:
    def __init__(self):
        self.bell, self._rings = socket.socketpair()
        self.receiver = Receiver(self._rings)
        self.pairs = []

    def pair(self):
        self.pairs.append(Pair())
        return self.pairs[-1]

    def ring(self):
        assert select.select([self.bell], [], [], 30)[0]

    def close(self):
        self.receiver.close()
        for pair in self.pairs:
            pair.close()
        self.bell.close()
        self._rings.close()


@pytest.fixture
def rig():
    made = Rig()
    yield made
    made.close()


def test_a_response_that_comes_byte_by_byte_is_whole(rig):
    pair, room = rig.pair(), bytearray(2000)
    reception = rig.receiver.begin(pair.ours, memoryview(room))
    frame = struct.pack(">ii", 4 + 20, 77) + ANSWER[:20]
    for at, byte in enumerate(frame):
        eventually(lambda at=at: reception.received == at)
        assert reception.is_under_way
        pair.broker.sendall(bytes([byte]))
    rig.ring()
    assert not reception.is_under_way
    assert rig.receiver.news == 1
    assert reception.end() == (frame[:8], 20)
    assert room[:20] == ANSWER[:20]


def test_what_follows_a_response_stays_in_the_socket(rig):
    pair = rig.pair()
    pair.broker.sendall(FRAME + b"next")
    reception = rig.receiver.begin(pair.ours, memoryview(bytearray(2000)))
    eventually(lambda: not reception.is_under_way)
    reception.end()
    assert pair.ours.recv(100) == b"next"


def test_each_of_several_connections_fills_its_own_buffer(rig):
    pairs = [rig.pair() for _ in range(5)]
    rooms = [bytearray(2000) for _ in pairs]
    receptions = [rig.receiver.begin(p.ours, memoryview(room)) for p, room in zip(pairs, rooms, strict=True)]
    for part in range(0, len(FRAME), 300):
        for number, pair in enumerate(pairs):
            pair.broker.sendall(FRAME[part : part + 300].replace(b"\x10", bytes([number])))
    eventually(lambda: not any(reception.is_under_way for reception in receptions))
    assert [reception.end()[1] for reception in receptions] == [len(ANSWER)] * 5
    assert [bytes(room[: len(ANSWER)]) for room in rooms] == [ANSWER.replace(b"\x10", bytes([n])) for n in range(5)]


@pytest.mark.parametrize("size", [2005, 2**31 - 1, 4, 3, -1])
def test_a_body_that_has_no_room_or_cannot_be_is_left_in_the_socket(rig, size):
    pair, room = rig.pair(), bytearray(2000)
    head = struct.pack(">ii", size, 77)
    reception = rig.receiver.begin(pair.ours, memoryview(room))
    pair.broker.sendall(head + b"body")
    rig.ring()
    assert not reception.is_under_way
    assert reception.end() == (head, 0)
    assert pair.ours.recv(100) == b"body"
    assert room == bytes(len(room))


def test_a_body_is_received_behind_a_head_that_is_known(rig):
    pair, room = rig.pair(), bytearray(len(ANSWER))
    reception = rig.receiver.begin(pair.ours, memoryview(room), FRAME[:8])
    pair.broker.sendall(ANSWER)
    eventually(lambda: not reception.is_under_way)
    assert reception.end() == (FRAME[:8], len(ANSWER))
    assert room == ANSWER


def test_a_buffer_that_was_taken_back_is_not_written_any_more(rig):
    pair, room = rig.pair(), bytearray(2000)
    reception = rig.receiver.begin(pair.ours, memoryview(room))
    pair.broker.sendall(FRAME[:100])
    eventually(lambda: reception.received == 100)
    assert reception.end() == (FRAME[:8], 92)
    other = rig.pair()
    other.broker.sendall(FRAME)
    turn = rig.receiver.begin(other.ours, memoryview(bytearray(2000)))
    pair.broker.sendall(FRAME[100:])
    eventually(lambda: not turn.is_under_way)
    assert room[92:] == bytes(2000 - 92)
    assert pair.ours.recv(5000) == FRAME[100:]


@pytest.mark.parametrize("sent", [0, 5, 8, 500])
def test_a_broker_that_hangs_up_ends_it_with_what_has_come(rig, sent):
    pair = rig.pair()
    reception = rig.receiver.begin(pair.ours, memoryview(bytearray(2000)))
    pair.broker.sendall(FRAME[:sent])
    pair.broker.close()
    rig.ring()
    assert not reception.is_under_way
    assert reception.end() == (FRAME[: min(sent, 8)], max(0, sent - 8))


def test_there_is_room_for_so_many_connections_and_again_when_one_has_ended(rig):
    pair = rig.pair()
    receptions = [rig.receiver.begin(pair.ours, memoryview(bytearray(10))) for _ in range(MOST_CONNECTIONS)]
    assert rig.receiver.under_way_bytes == 10 * MOST_CONNECTIONS
    assert rig.receiver.begin(pair.ours, memoryview(bytearray(10))) is None
    receptions[3].end()
    assert rig.receiver.begin(pair.ours, memoryview(bytearray(10))) is not None


def test_closing_ends_the_thread_also_in_the_middle_of_a_response(rig):
    pair = rig.pair()
    before = set(threading.enumerate())
    reception = rig.receiver.begin(pair.ours, memoryview(bytearray(2000)))
    pair.broker.sendall(FRAME[:500])
    eventually(lambda: reception.received == 500)
    (started,) = set(threading.enumerate()) - before
    rig.receiver.close()
    rig.receiver.close()
    started.join(60)
    assert not started.is_alive()
    assert reception.end() == (FRAME[:8], 492)
    assert rig.receiver.begin(pair.ours, memoryview(bytearray(2000))) is None


def test_what_a_loop_uses_that_does_not_end_is_not_closed_under_it(rig, monkeypatch, caplog):
    ends = threading.Event()
    monkeypatch.setattr(Receiver, "_run", lambda *_: ends.wait(60))
    monkeypatch.setattr(receiving, "_END_WAIT_S", 0.01)
    assert rig.receiver.begin(rig.pair().ours, memoryview(bytearray(2000))) is not None
    assert not rig.receiver.close()
    assert "does not come to an end" in caplog.text
    assert rig.receiver._wake_in.fileno() >= 0
    ends.set()
    eventually(rig.receiver.close)
    assert rig.receiver._wake_in.fileno() == -1
    assert rig.receiver.close()
