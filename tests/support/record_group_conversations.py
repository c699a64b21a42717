"""Plays the conversations of group_conversations.py against real brokers and records their answers.

`python -m tests.support.record_group_conversations [--only CONVERSATION]... [VERSION ...]` for 1.1.1, 2.8.2 and
4.1.0. Needs Java 17, and a quiet machine: a request without an answer within 0.4 s counts as waiting.
"""

from __future__ import annotations

import argparse
import select
import socket
import time
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.columnar.protocol.framing import HEAD_BYTES, Api, check_head, frame_request
from legacy_consumer.fetching.columnar.protocol.group_messages import GROUP_EXCHANGES, read_message, write_message
from rebalance.coordination import Code
from tests.support.group_conversations import (
    CONVERSATIONS,
    MIN_SESSION_MS,
    NEW,
    Player,
    read_recording,
    write_recording,
)
from tests.support.kraft_broker import KRAFT_VERSION, kraft_broker
from tests.support.scripted_broker import read_exactly
from tests.support.waiting import eventually

WITHOUT_NEW = ("1.1.1",)
VERSIONS = ("1.1.1", "2.8.2", KRAFT_VERSION)
_PROPERTIES = {
    "group.min.session.timeout.ms": str(MIN_SESSION_MS),
    "offsets.topic.num.partitions": "1",
}
_QUIET_S = 0.4
"""Seconds after which an unanswered request counts as waiting.

The player waits after each request, so that the broker handles requests of two connections in order.
"""
_AT_ONCE = 8
_PATIENCE_S = 30
_NOT_YET = (Code.COORDINATOR_LOAD_IN_PROGRESS, Code.COORDINATOR_NOT_AVAILABLE, Code.NOT_COORDINATOR)


class BrokerPlayer(Player):
    """Plays against a broker, with a connection for each member."""

    def __init__(self, family, group, address):
        super().__init__(family, group)
        self.address = address
        self.sockets = {}

    def await_coordinator(self):
        def is_ready():
            self.send("-", Api.FIND_COORDINATOR, {"key": self.group, "key_type": 0})
            found = self._receive("-", Api.FIND_COORDINATOR)["error"]
            self.send("-", Api.HEARTBEAT, {"member_id": "x", "generation": 1})
            return found == Code.NONE and self._receive("-", Api.HEARTBEAT)["error"] not in _NOT_YET

        eventually(is_ready)

    def _send(self, who, api, row):
        if who not in self.sockets:
            self.sockets[who] = socket.create_connection(self.address, _PATIENCE_S)
        body = write_message(GROUP_EXCHANGES[api].request, self.family[api], row)
        self.sockets[who].sendall(frame_request(api, self.family[api], 1, who, body))
        self._is_waiting(who)

    def _receive(self, who, api):
        sock = self.sockets[who]
        size = check_head(read_exactly(sock, HEAD_BYTES), 1, 1 << 20, api)
        return read_message(GROUP_EXCHANGES[api].response, self.family[api], read_exactly(sock, size), api.name)

    def _is_waiting(self, who):
        return not select.select([self.sockets[who]], [], [], _QUIET_S)[0]

    @staticmethod
    def pass_ms(ms):
        time.sleep(ms / 1000)

    def close(self):
        for sock in self.sockets.values():
            sock.close()


@contextmanager
def broker(version):
    """Run a broker of this version. Yields: (host, port)."""
    if version == KRAFT_VERSION:
        with kraft_broker(_PROPERTIES) as address:
            yield address
        return
    with EmbeddedKafka(version, properties=_PROPERTIES) as kafka:
        kafka.create_topic("t", 2)
        host, port = kafka.bootstrap_servers.split(":")
        yield host, int(port)


def play(address, conversation, family):
    player = BrokerPlayer(family, f"g-{uuid.uuid4().hex[:8]}", address)
    try:
        player.await_coordinator()
        conversation(player)
    except (OSError, EOFError) as error:
        player.log.append(["-", "-", f"{type(error).__name__} where an answer was awaited"])
    finally:
        player.close()
    return player.told()


def record(version, only):
    with broker(version) as address, ThreadPoolExecutor(_AT_ONCE) as threads:
        told = {
            name: threads.submit(play, address, conversation, family)
            for name, (conversation, family) in CONVERSATIONS.items()
            if (family is not NEW or version not in WITHOUT_NEW)
            and conversation.__name__ in (only or [conversation.__name__])
        }
        return {name: future.result() for name, future in told.items()}


def main():
    options = argparse.ArgumentParser()
    options.add_argument("versions", nargs="*", default=VERSIONS)
    options.add_argument("--only", action="append", help="a conversation; the recordings of the others stay")
    asked = options.parse_args()
    for version in asked.versions:
        kept = read_recording(version) if asked.only else {}
        write_recording(version, {**kept, **record(version, asked.only)})


if __name__ == "__main__":
    main()
