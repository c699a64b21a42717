"""Measures for how long the partitions of a killed member stop: python -m benchmarks.kill [--rounds N]

Members are processes of their own on one real broker and one ZooKeeper; a producer writes to every partition all the
time. The benchmark kills one member after another (SIGKILL) and starts a new one each time. Times of each kill:

- expired: from the kill until the server has expired the member's session and deleted its id znode. The server counts
the session timeout from the last heartbeat, up to a third of the timeout before the kill, and rounds up to its next
tick (250 ms here, 2 s by default). That is ZooKeeper's part; no client can shorten it.
- claimed: from then until the last of its partitions has a new owner znode.
- flowing: from then until the first message of the last of its partitions is in another member's hands.
- in all: from the kill until then.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.processes import own_program
from benchmarks.report import commit_measured, today
from legacy_consumer.embedded import EmbeddedKafka, EmbeddedZooKeeper
from legacy_consumer.fetching.librdkafka.producer import Record, produce_all
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from legacy_consumer.sandbox.servers.waiting import wait_for
from zk_layout.errors import LegacyConsumerError, NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import ConsumerIdPath, OwnerPath, TopicOwnersPath
from zk_layout.settings import ZkSettings

RESULTS = Path(__file__).resolve().parent / "results" / "kill.json"

_TOPIC, _GROUP = "benchmark", "killed"
_MEMBERS, _PARTITIONS = 4, 40
_DURABLE = {"forceSync": "yes", "preAllocSize": "65536"}
_PRODUCE_EVERY_S = 0.02
_STILL_FOR_S = 2.0
_TIMEOUT_S = 60.0


class NeverSettledError(LegacyConsumerError):
    """The group did not come to rest, or a partition did not flow again."""


@dataclass(frozen=True, slots=True)
class Kill:
    """Seconds; see the module."""

    expired_s: float
    claimed_s: float
    flowing_s: float
    in_all_s: float


class DeliveryLog:
    """The messages that a member reports, read while it writes them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._read_up_to = 0

    def skip(self) -> None:
        """Ignore all messages reported before."""
        self._read_up_to = self._path.stat().st_size

    def news(self) -> list[tuple[float, int]]:
        """Return (when, partition) of the messages reported since the last call."""
        with self._path.open("rb") as log:
            log.seek(self._read_up_to)
            # the last line may be half written
            lines, end, _ = log.read().rpartition(b"\n")
        self._read_up_to += len(lines) + len(end)
        words = [line.split() for line in lines.decode().splitlines()]
        # other lines may be warnings
        return [(float(pair[0]), int(pair[1])) for pair in words if len(pair) == 2 and pair[1].isdigit()]


class Member:
    """A member as a process."""

    def __init__(self, consumer_id: str, command: list[str], workspace: Workspace) -> None:
        self.id = f"{_GROUP}_{consumer_id}"
        path = workspace.folder / f"{consumer_id}.log"
        self.process = ServerProcess(consumer_id, command, workspace, path)
        self.log = DeliveryLog(path)


class Stage:
    """The group with its servers."""

    def __init__(self, kafka: EmbeddedKafka, store: KazooStore, workspace: Workspace, session_timeout_ms: int) -> None:
        self._kafka = kafka
        self._store = store
        self._workspace = workspace
        self._session_timeout_ms = session_timeout_ms
        self._numbers = itertools.count()
        self.members: list[Member] = []

    def add_member(self) -> None:
        """Start one more member."""
        name = f"m-{next(self._numbers):03}"
        command = own_program(
            "deliver", self._kafka.zookeeper_connect, _TOPIC, _GROUP, name, str(self._session_timeout_ms)
        )
        self.members.append(Member(name, command, self._workspace))

    def close(self) -> None:
        """End all processes."""
        for member in self.members:
            member.process.kill()

    def owners(self) -> dict[int, str]:
        """Return {partition: consumer id} of the present owner znodes."""
        try:
            names = self._store.get_children(TopicOwnersPath(_GROUP, _TOPIC).path)
        except NoNodeError:
            return {}
        paths = [OwnerPath(_GROUP, _TOPIC, int(name)).path for name in names]
        znodes = self._store.get_data_many(paths)
        return {
            int(name): (znode.data or b"").decode().rpartition("-")[0]
            for name, znode in zip(names, znodes, strict=True)
            if znode is not None
        }

    def wait_until_settled(self) -> None:
        """Wait until every partition has an owner, every member owns some, and nothing has changed for a while."""
        since, before = time.monotonic(), self.owners()

        def is_settled() -> bool:
            nonlocal since, before
            now = self.owners()
            if now != before or len(now) != _PARTITIONS or set(now.values()) != {m.id for m in self.members}:
                since, before = time.monotonic(), now
            return time.monotonic() - since > _STILL_FOR_S

        wait_for(is_settled, _TIMEOUT_S, lambda: NeverSettledError("the group did not settle"))

    def kill(self) -> Kill:
        """Kill the oldest member. Returns: the times until its partitions flow again. Raises: NeverSettledError."""
        victim = self.members.pop(0)
        lost = sorted(partition for partition, owner in self.owners().items() if owner == victim.id)
        gone = threading.Event()
        gone_at = 0.0

        def note(_: object) -> None:
            nonlocal gone_at
            gone_at = time.monotonic()
            gone.set()

        self._store.exists(ConsumerIdPath(_GROUP, victim.id).path, note)
        for member in self.members:
            member.log.skip()
        killed_at = time.monotonic()
        victim.process.kill()
        if not gone.wait(_TIMEOUT_S):
            raise NeverSettledError(f"{victim.id} is registered {_TIMEOUT_S:g} s after it was killed")
        first: dict[int, float] = {}

        def all_flow() -> bool:
            for member in self.members:
                for at, partition in member.log.news():
                    if partition in lost:
                        first[partition] = min(at, first.get(partition, at))
            return len(first) == len(lost)

        wait_for(all_flow, _TIMEOUT_S, lambda: NeverSettledError(f"of {len(lost)} partitions {len(first)} flow"))
        stats = self._store.exists_many([OwnerPath(_GROUP, _TOPIC, partition).path for partition in lost])
        since_epoch = time.time() - time.monotonic()
        claimed_at = max(stat.ctime_ms for stat in stats if stat is not None) / 1000 - since_epoch
        flowing_at = max(first.values())
        return Kill(
            expired_s=round(gone_at - killed_at, 3),
            claimed_s=round(claimed_at - gone_at, 3),
            flowing_s=round(flowing_at - gone_at, 3),
            in_all_s=round(flowing_at - killed_at, 3),
        )


def _records(ended: threading.Event) -> Iterator[Record]:
    """Yield a record for each partition, again and again."""
    while not ended.wait(_PRODUCE_EVERY_S):
        for partition in range(_PARTITIONS):
            yield Record(None, b"x" * 100, partition)


def measure(rounds: int, session_timeout_ms: int, say: Callable[[str], None]) -> list[Kill]:
    """Kill this number of members, one after another."""
    with ExitStack() as stack:
        zookeeper = stack.enter_context(EmbeddedZooKeeper(properties=_DURABLE))
        kafka = stack.enter_context(EmbeddedKafka(zookeeper=zookeeper))
        kafka.create_topic(_TOPIC, partitions=_PARTITIONS)
        workspace = stack.enter_context(Workspace("benchmark"))
        store = KazooStore(ZkSettings(kafka.zookeeper_connect))
        stack.callback(store.close)
        store.start()
        ended = threading.Event()
        producer = threading.Thread(
            target=produce_all,
            args=(_TOPIC, _records(ended), {"bootstrap.servers": kafka.bootstrap_servers, "linger.ms": 5}),
        )
        producer.start()
        stack.callback(producer.join)
        stack.callback(ended.set)
        stage = Stage(kafka, store, workspace, session_timeout_ms)
        stack.callback(stage.close)
        for _ in range(_MEMBERS):
            stage.add_member()
        kills = []
        for number in range(rounds):
            stage.wait_until_settled()
            kills.append(stage.kill())
            say(f"kill {number + 1}: {asdict(kills[-1])}")
            stage.add_member()
        return kills


def main() -> int:
    """Measure, print, and write results/kill.json."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.kill", description=__doc__.partition("\n")[0])
    parser.add_argument("--rounds", type=int, default=8, metavar="N", help="kills (default %(default)s)")
    parser.add_argument("--session-timeout-ms", type=int, default=6000, metavar="MS", help="default %(default)s")
    options = parser.parse_args()
    commit = commit_measured()
    try:
        kills = measure(options.rounds, options.session_timeout_ms, lambda line: print(line, file=sys.stderr))
    except LegacyConsumerError as error:
        print(error, file=sys.stderr)
        return 1
    print("| | least | median | most |\n| --- | ---: | ---: | ---: |")
    for name in Kill.__slots__:
        values = [getattr(kill, name) for kill in kills]
        print(f"| {name} | {min(values):.3f} | {statistics.median(values):.3f} | {max(values):.3f} |")
    told = {
        "commit": commit,
        "date": today(),
        "session_timeout_ms": options.session_timeout_ms,
        "kills": [asdict(kill) for kill in kills],
    }
    RESULTS.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
