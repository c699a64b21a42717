"""Whether a server listens at each address of zookeeper.connect."""

from __future__ import annotations

import socket
import threading

import pytest

from legacy_consumer.operations.admin.reach import tell_zookeeper, try_addresses, try_servers


def test_each_server_is_tried_and_its_fault_is_named():
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # bound, but not listening
        there, away = (f"127.0.0.1:{one.getsockname()[1]}" for one in (listening, closed))
        found = try_servers(f"{there}, {away},no-such-host.invalid/kafka", 5)
    assert list(found) == [there, away, "no-such-host.invalid"]
    assert (found[there], found[away]) == (None, "Connection refused")
    assert found["no-such-host.invalid"].startswith("the name is not known")


@pytest.mark.parametrize("host", ["a\u202eb", "x" * 300, "a..b", "\ud800", "h\x00", ""])
@pytest.mark.parametrize("port", [1, -1, 2**40])
def test_an_address_that_no_host_can_have_is_unreachable(host, port):
    """Any client may register a broker at such an address."""
    assert try_addresses([(host, port)], 5)[host, port]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (b"This ZooKeeper instance is not currently serving requests\n", "too few servers of its ensemble"),
        (b"Zookeeper version: 3.4.10-39d3a4f\nMode: follower\n", "it is ZooKeeper and serves"),
        (b"HTTP/1.1 400 Bad Request\r\n\r\n", "does not answer as ZooKeeper does"),
        (b"", "does not answer as ZooKeeper does"),
    ],
)
def test_a_zookeeper_without_its_quorum_is_distinguished_from_another_server(answer, said):
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def serve():
            # the first connection only tries whether a server listens
            for _ in range(2):
                link, _ = listening.accept()
                with link:
                    if link.recv(10) == b"srvr":
                        link.sendall(answer)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        server = f"127.0.0.1:{listening.getsockname()[1]}"
        assert said in tell_zookeeper(f"{server}/kafka", 5)[server]
        thread.join(60)
