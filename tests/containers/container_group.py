"""A group whose members are containers, and the history of their output and of the partitions' owners.

A member runs `legacy-consumer consume --format json`. Before each batch it prints the time at which it got the batch,
because the engine may read a line seconds later. A thread of the tests reads the owners in ZooKeeper all the time.
"""

from __future__ import annotations

import json
import threading
import time
from dataclasses import dataclass, field
from datetime import datetime, timezone

from docker.errors import NotFound

from tests.containers.container_cluster import CONNECT, ContainerCluster
from tests.support.waiting import eventually
from zk_layout.codecs import decode_offset, decode_owner
from zk_layout.errors import NoNodeError
from zk_layout.kazoo_store import KazooStore
from zk_layout.paths import ConsumerIdsPath, OffsetPath, OwnerPath

SESSION_MS = 4000
_LOOK_S = 0.05
_BLUR_S = 1.0
"""The most seconds between two reads of the owners on a busy machine."""
_CONSUME = """
import time
from legacy_consumer.operations.cli.console_consumer import Printer
from legacy_consumer.__main__ import program
print_only = Printer.print
def print_with_time(printer, messages):
    if messages:
        printer.out.write(b'{"at": %.6f}\\n' % time.time())
    print_only(printer, messages)
Printer.print = print_with_time
program()
"""
"""The `consume` command, which here also prints the time at which it got each batch."""


@dataclass
class Member:
    """A member in a container. deliveries: (time, partition, offset) of each message that it printed.

    newest: {partition: time at which the newest printed message was produced}.
    """

    name: str
    container: object
    deliveries: list[tuple[float, int, int]] = field(default_factory=list)
    said: list[str] = field(default_factory=list)
    newest: dict[int, float] = field(default_factory=dict)

    def follow(self) -> None:
        """Start to read the container's output, until the container ends."""
        self._readers = [
            threading.Thread(target=self._read, args=(stream,), daemon=True, name=f"{self.name}-{stream}")
            for stream in ("stdout", "stderr")
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, stream: str) -> None:
        other = {"stdout": "stderr", "stderr": "stdout"}[stream]
        pending, at = b"", 0.0
        for chunk in self.container.logs(stream=True, follow=True, **{stream: True, other: False}):
            *lines, pending = (pending + chunk).split(b"\n")
            for line in lines:
                if stream == "stderr":
                    self.said.append(line.decode("utf-8", "replace"))
                    continue
                message = json.loads(line)
                if "at" in message:
                    at = message["at"]
                    continue
                self.deliveries.append((at, message["partition"], message["offset"]))
                self.newest[message["partition"]] = message["timestamp"] / 1000

    def await_end_of_output(self) -> None:
        """Wait until all output of the ended container has been read."""
        for reader in self._readers:
            reader.join(60)

    def close(self) -> None:
        try:
            self.container.remove(force=True, v=True)
        except NotFound:
            return
        self.await_end_of_output()


class ContainerGroup:
    def __init__(self, cluster: ContainerCluster, topic: str, partitions: int) -> None:
        self.cluster = cluster
        self.topic = self.name = topic
        self.partitions = range(partitions)
        self.members: dict[str, Member] = {}
        self.living: set[str] = set()
        self.settle_s: list[tuple[str, float, float]] = []
        """(event, seconds until every partition had an owner, seconds until members printed new messages of each)."""
        self.owners: list[tuple[float, dict[int, str]]] = []
        self._producer = None
        self._stop = threading.Event()
        code, said = cluster.run(
            "node", "topic", topic, "--partitions", str(partitions), "--replication-factor", "3",
            "--zookeeper", CONNECT, "--wait", "60",
        )  # fmt: skip
        assert code == 0, said
        self._watcher = threading.Thread(target=self._watch, daemon=True, name=f"owners-of-{topic}")
        self._watcher.start()

    # Events.

    def produce(self, rate: float) -> None:
        """Start a producer that writes flights at this rate (a second) until the end."""
        self._producer = self.cluster.command(
            "node", "flights", "--topic", self.topic, "--rate", str(rate), "--limit", "10000000",
            "--zookeeper", CONNECT, "--wait", "60",
        ).start()  # fmt: skip

    def join(self, name: str, **properties: object) -> Member:
        given = [
            word for key, value in properties.items() for word in ("--property", f"{key.replace('_', '.')}={value}")
        ]
        started = self.cluster.command(
            "consume", "--zookeeper", CONNECT, "--group", self.name, "--topic", self.topic, "--format", "json",
            "--property", "auto.offset.reset=smallest", "--property", "auto.commit.interval.ms=500",
            "--property", f"zookeeper.session.timeout.ms={SESSION_MS}", "--property", f"consumer.id={name}",
            "--wait", "60", "-v", *given, entrypoint=["tini", "--", "python", "-c", _CONSUME],
        ).start()  # fmt: skip
        member = Member(name, started.get_wrapped_container())
        member.follow()
        self.members[name] = member
        self.living.add(name)
        return member

    def leave(self, name: str) -> int:
        """Stop a member by SIGTERM, like `docker stop`. Returns: its exit code."""
        member = self.members[name]
        self.living.discard(name)
        member.container.stop(timeout=120)
        return member.container.wait()["StatusCode"]

    def restart(self, name: str, **properties: object) -> int:
        """Stop a member by SIGTERM, and start another container with the same id. Returns: the exit code."""
        code = self.leave(name)
        before = self.members[name]
        before.await_end_of_output()
        before.close()
        after = self.join(name, **properties)
        after.deliveries[:0] = before.deliveries
        after.said[:0] = before.said
        return code

    def kill(self, name: str) -> None:
        self.living.discard(name)
        self.members[name].container.kill()

    # State.

    def _watch(self) -> None:
        store: KazooStore | None = None
        while not self._stop.wait(_LOOK_S):
            try:
                if store is None:
                    store = self.cluster.connected().thing
                self.owners.append((time.time(), self._look(store)))
            except Exception:
                if store is not None:
                    store.close()
                store = None
        if store is not None:
            store.close()

    def _look(self, store: KazooStore) -> dict[int, str]:
        paths = [OwnerPath(self.name, self.topic, number).path for number in self.partitions]
        return {
            number: decode_owner(path, znode.data).consumer_id.removeprefix(f"{self.name}_")
            for number, path, znode in zip(self.partitions, paths, store.get_data_many(paths), strict=True)
            if znode is not None
        }

    def registered(self) -> set[str]:
        with self.cluster.connected() as store:
            try:
                return {
                    name.removeprefix(f"{self.name}_") for name in store.get_children(ConsumerIdsPath(self.name).path)
                }
            except NoNodeError:
                return set()

    def committed(self) -> dict[int, int]:
        paths = [OffsetPath(self.name, self.topic, number).path for number in self.partitions]
        with self.cluster.connected() as store:
            znodes = store.get_data_many(paths)
        return {
            number: decode_offset(path, znode.data)
            for number, path, znode in zip(self.partitions, paths, znodes, strict=True)
            if znode is not None
        }

    def await_settled(self, cause: str, timeout_s: float = 90) -> dict[int, str]:
        """Wait until the living members own all partitions and every partition flows again; record how long it took."""
        began = time.time()

        def is_settled() -> dict[int, str] | None:
            if not self.owners:
                return None
            at, owners = self.owners[-1]
            if at < began or set(owners) != set(self.partitions) or not set(owners.values()) <= self.living:
                return None
            share = [list(owners.values()).count(name) for name in self.living]
            if max(share) - min(share) > 1 or self.registered() != self.living:
                return None
            return owners

        owners = eventually(is_settled, timeout_s)
        settled = time.time()
        for number, name in owners.items():
            eventually(lambda number=number, name=name: self._flows(number, name, settled), timeout_s)
        self.settle_s.append((cause, round(settled - began, 1), round(time.time() - began, 1)))
        return owners

    def _flows(self, number: int, name: str, since: float) -> bool:
        """Return whether the owner printed a message produced since then, not only messages that it fetched before."""
        return self.members[name].newest.get(number, 0.0) > since

    # Checks at the end.

    def await_all_delivered(self, timeout_s: float = 120) -> dict[int, int]:
        """End the producer, and wait until the group has committed everything. Returns: {partition: end of the log}."""
        wrapped = self._producer.get_wrapped_container()
        wrapped.stop(timeout=60)
        assert wrapped.wait()["StatusCode"] == 0, wrapped.logs()[-2000:]
        ends = self.log_ends()
        eventually(lambda: self.committed() == {number: end for number, end in ends.items() if end}, timeout_s)
        return ends

    def log_ends(self) -> dict[int, int]:
        code, said = self.cluster.run(
            "groups", "describe", self.name, "--zookeeper", CONNECT, "--json",
        )  # fmt: skip
        assert code == 0, said
        document = json.loads(said[said.index("{") :])
        return {row["partition"]: row["log_end"] for row in document["partitions"]}

    def lost(self, ends: dict[int, int]) -> list[tuple[int, int]]:
        """Return (partition, offset) of each message that no member printed."""
        printed = {(number, offset) for member in self.members.values() for _, number, offset in member.deliveries}
        return [
            (number, offset) for number, end in ends.items() for offset in range(end) if (number, offset) not in printed
        ]

    def strangers(self) -> list[str]:
        """Return deliveries by a member that did not own the partition around that time, beside the owner's."""
        found = []
        for member in self.members.values():
            for at, number, offset in member.deliveries:
                near = {owners.get(number) for when, owners in self.owners if abs(when - at) <= _BLUR_S}
                if near and member.name not in near:
                    found.append(f"{member.name} handed out {number}@{offset}, owned by {near} then")
        return found

    def owners_in_turn(self, number: int, since: float) -> list[str]:
        """Return the owners of a partition, one after another."""
        names = [owners[number] for at, owners in self.owners if at >= since and number in owners]
        return [name for index, name in enumerate(names) if index == 0 or name != names[index - 1]]

    def story(self, since: float) -> str:
        """Return each change of the owners, and the members' log lines, for the text of an error."""
        pictures = [(at, owners) for at, owners in self.owners if at >= since]
        changes = [
            f"{datetime.fromtimestamp(at, timezone.utc):%H:%M:%S.%f} {owners}"
            for index, (at, owners) in enumerate(pictures)
            if index == 0 or owners != pictures[index - 1][1]
        ]
        said = [f"{member.name}: {line}" for member in self.members.values() for line in member.said]
        return "\n".join([str(self.settle_s), *changes, *said])

    def repeated(self) -> int:
        """Return how many deliveries were not the first of their message."""
        all_of_them = [(n, o) for member in self.members.values() for _, n, o in member.deliveries]
        return len(all_of_them) - len(set(all_of_them))

    def close(self) -> None:
        self._stop.set()
        self._watcher.join(30)
        for member in self.members.values():
            member.close()
        if self._producer is not None:
            self._producer.stop(force=True)
