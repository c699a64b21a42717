"""The shortest possible time of a commit of 500 offsets: python -m benchmarks.commit_floor [--rounds N]

It sends one prepared request over a socket repeatedly: the same checks and writes as in our commit, without encoding,
decoding or threads. The result is ZooKeeper's own time, including the disk. Its rounds alternate with commits of ours
and of a JVM member, on the same server as `commit_vs_jvm`.
"""

from __future__ import annotations

import argparse
import socket
import statistics
import struct
import time

from benchmarks.comparison import Effort
from benchmarks.grouping import COMMITS_PER_S, Commits, GroupScene, GroupStage
from zk_layout.kazoo_store import KazooStore
from zk_layout.multi_write import MULTI_WRITE, encode_multi
from zk_layout.paths import ConsumerIdPath, OffsetPath, OwnerPath, TopicOffsetsPath, TopicOwnersPath
from zk_layout.settings import ZkSettings
from zk_layout.store import CheckOp, Op, SetOp

_PARTITIONS = 500
_GROUP, _TOPIC = "floor", "benchmark"
_WARM_UP, _COMMITS = 20, 60


class PreparedCommits:
    """A commit as bytes, and the address to send it to."""

    def __init__(self, zookeeper: str) -> None:
        store = KazooStore(ZkSettings(zookeeper))
        store.start()
        owners = [OwnerPath(_GROUP, _TOPIC, number).path for number in range(_PARTITIONS)]
        offsets = [OffsetPath(_GROUP, _TOPIC, number).path for number in range(_PARTITIONS)]
        registration = ConsumerIdPath(_GROUP, "m").path
        store.create(registration, b"{}", make_parents=True)
        store.ensure_path(TopicOwnersPath(_GROUP, _TOPIC).path)
        store.ensure_path(TopicOffsetsPath(_GROUP, _TOPIC).path)
        for path in (*owners, *offsets):
            store.create(path, b"1234567")
        store.close()
        ops: list[Op] = [CheckOp(registration), *map(CheckOp, owners), *(SetOp(path, b"1234567") for path in offsets)]
        body = encode_multi(ops, "", {})
        self._request = struct.pack("!iii", 8 + len(body), 1, MULTI_WRITE) + body
        host, _, port = zookeeper.partition(",")[0].rpartition(":")
        self._address = host, int(port)

    def measure(self) -> float:
        """Return commits a second, in a new session: without heartbeats, an older one would have expired."""
        hello = struct.pack("!iqiqi16s?", 0, 0, 30_000, 0, 16, bytes(16), False)
        with socket.create_connection(self._address) as connection:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            _exchange(connection, struct.pack("!i", len(hello)) + hello)
            for _ in range(_WARM_UP):
                reply = _exchange(connection, self._request)
                if (error := struct.unpack_from("!i", reply, 12)[0]) != 0:
                    raise ValueError(f"the commit was refused with error {error}")
            began = time.perf_counter()
            for _ in range(_COMMITS):
                _exchange(connection, self._request)
            return _COMMITS / (time.perf_counter() - began)


def _exchange(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    (size,) = struct.unpack("!i", connection.recv(4, socket.MSG_WAITALL))
    return connection.recv(size, socket.MSG_WAITALL)


def _measure(stage: GroupStage, zookeeper: str, rounds: int) -> dict[str, list[float]]:
    prepared = PreparedCommits(zookeeper)
    figures: dict[str, list[float]] = {"prepared": [], "ours": [], "jvm": []}
    for number in range(rounds):
        figures["prepared"].append(prepared.measure())
        figures["ours"].append(Commits("ours").measure(stage)[COMMITS_PER_S])
        figures["jvm"].append(Commits("jvm").measure(stage)[COMMITS_PER_S])
        shown = ", ".join(f"{name} {values[-1]:.1f}" for name, values in figures.items())
        print(f"round {number + 1}: {shown} commits of {_PARTITIONS} offsets/s", flush=True)
    return figures


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=5)
    rounds = parser.parse_args().rounds
    with GroupScene(_PARTITIONS).open(Effort(rounds, quick=False)) as stage:
        figures = _measure(stage, stage.zookeeper, rounds)
    jvm = statistics.median(figures["jvm"])
    for name, values in figures.items():
        median = statistics.median(values)
        print(f"{name}: {median:.1f} commits/s, {1000 / median:.1f} ms each, {median / jvm:.1f} times the JVM's")


if __name__ == "__main__":
    main()
