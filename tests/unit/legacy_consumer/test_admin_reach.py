"""Whether something listens at the servers that zookeeper.connect names."""

from __future__ import annotations

import socket

from legacy_consumer.admin.reach import try_servers


def test_each_server_is_tried_and_what_is_wrong_with_it_said():
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))  # and nobody listens
        there, away = (f"127.0.0.1:{one.getsockname()[1]}" for one in (listening, closed))
        found = try_servers(f"{there}, {away},no-such-host.invalid/kafka", 5)
    assert list(found) == [there, away, "no-such-host.invalid"]
    assert (found[there], found[away]) == (None, "Connection refused")
    assert found["no-such-host.invalid"].startswith("the name is not known")
