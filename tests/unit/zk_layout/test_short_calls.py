"""Sending and receiving that never waits."""

import socket
import ssl

import pytest

from zk_layout.short_calls import IS_POSSIBLE, ShortCalls

pytestmark = pytest.mark.skipif(not IS_POSSIBLE, reason="sockets are asked in Python's own way here")


@pytest.fixture
def pair():
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def test_what_is_sent_arrives_and_what_has_come_is_added_to_what_was_there(pair):
    ours, theirs = pair
    calls = ShortCalls()
    assert calls.send(ours, b"question\0s") == 10
    assert theirs.recv(100) == b"question\0s"

    received = bytearray(b"before, ")
    theirs.sendall(b"answer\0s")
    assert calls.receive(ours, received)
    assert received == b"before, answer\0s"


def test_nothing_is_waited_for(pair):
    ours, _ = pair
    calls = ShortCalls()
    received = bytearray()
    assert not calls.receive(ours, received)
    assert received == b""

    message = b"x" * 10_000
    sent = 0
    while now := calls.send(ours, message):
        sent += now
    assert sent > 0


def test_what_is_long_or_encrypted_is_left_to_the_socket(pair):
    ours, _ = pair
    calls = ShortCalls()
    assert calls.send(ours, b"x" * 1_000_000) == 0

    context = ssl.create_default_context()
    with context.wrap_socket(ours, server_hostname="a", do_handshake_on_connect=False) as encrypted:
        assert calls.send(encrypted, b"question") == 0
        assert not calls.receive(encrypted, bytearray())


def test_the_end_of_a_connection_is_for_the_socket_to_tell(pair):
    ours, theirs = pair
    calls = ShortCalls()
    theirs.close()
    assert not calls.receive(ours, bytearray())
    assert calls.send(ours, b"question") == 0
    ours.close()
    assert not calls.receive(ours, bytearray())
    assert calls.send(ours, b"question") == 0
