import socket
from pathlib import Path

import pytest

from legacy_consumer.errors import PortInUseError
from legacy_consumer.sandbox.servers.ports import claim_port, free_port, is_free
from zk_layout.errors import ConfigError


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", free_port())) as server:
        yield server.getsockname()[1]


def test_a_port_that_something_listens_on_is_refused(listener):
    assert not is_free(listener)
    with pytest.raises(PortInUseError, match=f"the server cannot have port {listener}"):
        claim_port("the server", listener)


def test_a_port_that_a_wildcard_listener_holds_is_refused():
    port = free_port()
    with socket.create_server(("", port)), pytest.raises(PortInUseError):
        claim_port("the server", port)


def test_a_port_whose_connections_linger_after_the_close_is_free():
    with socket.create_server(("127.0.0.1", free_port())) as server:
        port = server.getsockname()[1]
        client = socket.create_connection(("127.0.0.1", port))
        accepted, _ = server.accept()
    accepted.close()  # the server closes first, so its side of the connection stays in TIME_WAIT
    assert client.recv(1) == b""
    client.close()
    assert claim_port("the server", port) == port


def test_chosen_ports_are_not_those_of_outgoing_connections():
    lowest = int(Path("/proc/sys/net/ipv4/ip_local_port_range").read_text().split()[0])
    assert all(free_port() < lowest for _ in range(50))


def test_ports_are_given_out_once():
    taken: set[int] = set()
    ports = [claim_port("a server", 0, taken) for _ in range(200)]
    assert len(set(ports)) == 200
    assert taken == set(ports)


@pytest.mark.parametrize("port", [-1, 65_536, 99_999])
def test_a_number_that_is_no_port_is_refused(port):
    with pytest.raises(ConfigError, match="must be 1 to 65535"):
        claim_port("a server", port)
