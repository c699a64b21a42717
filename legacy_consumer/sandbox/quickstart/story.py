"""The run: one member, four, one of them killed, one; then the proof. Last, one topic and two groups.

Each step waits for a state in ZooKeeper or in the members' output, never for a fixed time.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack

from legacy_consumer.config import ClusterConfig
from legacy_consumer.embedded import EmbeddedKafka
from legacy_consumer.fetching.librdkafka import open_log_offsets, produce_all
from legacy_consumer.sandbox.quickstart.errors import QuickstartError
from legacy_consumer.sandbox.quickstart.flights import PARTITIONS, TOPIC, find_flights, read_flights
from legacy_consumer.sandbox.quickstart.group import GROUP, SESSION_TIMEOUT_MS
from legacy_consumer.sandbox.quickstart.members import Member, MemberState
from legacy_consumer.sandbox.quickstart.observer import Sight, expected_owners, look
from legacy_consumer.sandbox.quickstart.proof import Verdict, check_deliveries
from legacy_consumer.sandbox.quickstart.report import Happening, Report, Settling, Takeover
from legacy_consumer.sandbox.quickstart.screen import PartitionView, Screen, View, spell_settling
from legacy_consumer.sandbox.quickstart.spark import read_offsets
from legacy_consumer.sandbox.quickstart.two_groups import KEYS, TwoGroups, read_twice
from legacy_consumer.sandbox.servers.jars import jar_root
from legacy_consumer.sandbox.servers.process import Workspace
from zk_layout.kazoo_store import KazooStore
from zk_layout.loggers import safe_logger
from zk_layout.model import TopicPartition
from zk_layout.settings import ZkSettings
from zk_layout.store import ZkStore

logger = safe_logger(__name__)

KAFKA_VERSION = "1.1.1"
MEMBERS = 4
BRAKED_RATE = 3500.0
"""Flights a second and member while the group changes, so that there is something left to hand over."""

_FLOW_FLIGHTS = 7000
"""Flights that every owner processes before the group changes again: two seconds' worth."""
_POLL_S = 0.01
_PATIENCE_S = 60.0
_COUNT_EVERY = 10_000


def run_story(screen: Screen, before_cleanup: Callable[[], None] = lambda: None) -> Report:
    """Run it all; afterwards no server, no process and no folder is left.

    before_cleanup is called when the end has come, one way or the other, before anything is taken down.
    Raises: LegacyConsumerError when something is not available or does not happen in time.
    """
    flights = find_flights()
    with ExitStack() as stack:
        try:
            return _Story(screen, stack).run(lambda: read_flights(flights))
        finally:
            before_cleanup()


class _Story:
    def __init__(self, screen: Screen, stack: ExitStack) -> None:
        self._screen = screen
        self._stack = stack
        self._began = time.monotonic()
        self._pause = threading.Event()
        self._doing = ""
        self._members: dict[str, Member] = {}
        self._timeline: list[Happening] = []
        self._rebalances: list[Settling] = []
        self._log: dict[int, tuple[int, int]] = {}
        self._sight = Sight(self._began)

    def run(self, read: Callable[[], Iterator[tuple[bytes, bytes]]]) -> Report:
        kafka = self._start_servers()
        self._zookeeper = kafka.zookeeper_connect
        produced = self._produce(kafka, read())
        self._store: ZkStore = KazooStore(ZkSettings(self._zookeeper))
        self._stack.callback(self._store.close)
        self._store.start()
        self._log = self._read_log()
        self._workspace = self._stack.enter_context(Workspace("quickstart"))

        self._say(f"the group {GROUP} grows to {MEMBERS} members, each a process of its own")
        for number in range(1, MEMBERS + 1):
            self._join(f"member-{number}")
        idle = tuple(name for name in self._sight.members if name not in self._owners())
        takeover = self._kill(self._choose_victim())
        for name in [name for name, member in reversed(self._members.items()) if member.is_running][:-1]:
            self._leave(name)
        self._finish()
        offsets = self._ask_spark()
        last = next(member for member in self._members.values() if member.is_running)
        self._say_goodbye(last)
        verdict = self._prove(produced, takeover.member)
        two_groups = self._read_twice(kafka)
        return Report(
            verdict=verdict,
            members_most=MEMBERS,
            idle=idle,
            timeline=tuple(self._timeline),
            rebalances=tuple(self._rebalances),
            kill=takeover,
            two_groups=two_groups,
            offsets=tuple(offsets),
            log_ends={number: end for number, (_, end) in self._log.items()},
            seconds=round(self._elapsed(), 1),
        )

    # The stage.

    def _start_servers(self) -> EmbeddedKafka:
        fetching = "" if (jar_root() / KAFKA_VERSION).is_dir() else ", whose jars are fetched this first time"
        self._begin(f"starting ZooKeeper and Kafka {KAFKA_VERSION}{fetching}")
        self._say(self._doing)
        kafka = EmbeddedKafka(KAFKA_VERSION)
        self._stack.callback(kafka.close)
        kafka.start()
        kafka.create_topic(TOPIC, partitions=PARTITIONS)
        self._say(f"ZooKeeper at {kafka.zookeeper_connect}, Kafka at {kafka.bootstrap_servers}")
        return kafka

    def _produce(self, kafka: EmbeddedKafka, flights: Iterator[tuple[bytes, bytes]]) -> int:
        self._begin(f"producing flights into the topic {TOPIC}")
        produced = produce_all(TOPIC, self._counted(flights), {"bootstrap.servers": kafka.bootstrap_servers})
        self._say(f"{produced:,} flights produced into the topic {TOPIC}, {PARTITIONS} partitions, keyed by carrier")
        return produced

    def _counted(self, flights: Iterator[tuple[bytes, bytes]]) -> Iterator[tuple[bytes, bytes]]:
        for count, flight in enumerate(flights):
            if count % _COUNT_EVERY == 0:
                self._show(f"{self._doing}: {count:,}")
            yield flight

    def _read_log(self) -> dict[int, tuple[int, int]]:
        partitions = [TopicPartition(TOPIC, number) for number in range(PARTITIONS)]
        log_offsets = open_log_offsets(ClusterConfig.load(zookeeper_connect=self._zookeeper), self._store)
        try:
            earliest, latest = log_offsets.earliest(partitions), log_offsets.latest(partitions)
        finally:
            log_offsets.close()
        if earliest.keys() != latest.keys() or len(latest) != PARTITIONS:
            raise QuickstartError("the broker did not report the ends of all logs")
        return {tp.partition: (earliest[tp], latest[tp]) for tp in partitions}

    # What happens to the group.

    def _join(self, name: str) -> None:
        self._begin(f"{name} joins")
        member = Member(name, self._zookeeper, BRAKED_RATE, self._workspace)
        self._stack.callback(member.close)
        self._members[name] = member
        self._await_settled(f"{name} joined")
        self._note("joined", name)
        idles = "" if name in self._owners() else f", {name} idles"
        self._say(f"{name} joined, process {member.pid}: {self._owners_words()}{idles}; {self._settled_words()}")
        self._await_flow()

    def _choose_victim(self) -> str:
        """The owner with the most flights ahead, so that there is a flow to take over."""
        ahead = {number: end - self._position(number) for number, (_, end) in self._log.items()}
        return self._sight.owners[max(ahead, key=lambda number: ahead[number])]

    def _kill(self, name: str) -> Takeover:
        self._begin(f"{name} was killed with -9: ZooKeeper waits for the end of its session")
        orphaned = self._owned_by(name)
        killed_at = time.monotonic()
        self._members[name].kill()
        self._say(f"{name} killed with -9: it leaves {_listed(orphaned)} without an owner")
        expired_at, owned_at = self._await_settled(f"{name} killed with -9")
        self._note("killed", name)
        successors = {number: self._sight.owners[number] for number in orphaned}

        def flows_again(_: Sight) -> bool:
            return all(self._has_moved(number, owner, killed_at) for number, owner in successors.items())

        self._await(flows_again, f"{_listed(orphaned)}: no flights again")
        # when the last of them began: a member says so at once
        flowed_at = max(self._members[owner].told_at.get(number, owned_at) for number, owner in successors.items())
        takeover = Takeover(
            member=name,
            partitions=orphaned,
            successors=successors,
            session_timeout_seconds=SESSION_TIMEOUT_MS / 1000,
            expired_seconds=round(expired_at - killed_at, 3),
            owned_seconds=round(owned_at - killed_at, 3),
            takeover_seconds=round(max(flowed_at, owned_at) - killed_at, 3),
        )
        taken = ", ".join(f"{owner} took over partition {number}" for number, owner in successors.items())
        self._say(f"{taken}, which flows again {takeover.takeover_seconds:.1f} s after the kill")
        self._await_flow()
        return takeover

    def _leave(self, name: str) -> None:
        self._begin(f"{name} leaves")
        self._members[name].leave()
        self._await_settled(f"{name} left")
        self._members[name].await_end()
        self._note("left", name)
        self._say(f"{name} left on SIGTERM: {self._owners_words()}; {self._settled_words()}")
        self._await_flow()

    def _finish(self) -> None:
        [name] = self._sight.members
        self._begin(f"{name} alone, without its brake")
        self._members[name].set_rate(0)
        ends = {number: end for number, (_, end) in self._log.items()}
        self._await(lambda sight: dict(sight.committed) == ends, "the last flights are not committed")
        self._say(f"{name} alone has consumed and committed the rest")

    def _ask_spark(self) -> list[dict[str, object]]:
        self._begin("Spark reads the group's offsets and lag")

        def wait(seconds: float) -> None:
            self._pause.wait(seconds)
            self._show()

        rows = read_offsets(self._zookeeper, GROUP, self._workspace, wait)
        lags = ", ".join(f"partition {row['partition']} lag {row.get('lag')}" for row in rows)
        self._say(f"Spark read {len(rows)} rows of zk_offsets: {lags}")
        return rows

    def _say_goodbye(self, member: Member) -> None:
        self._begin(f"{member.name} leaves")
        member.leave()
        member.await_end()
        self._await(lambda sight: not sight.members and not sight.owners, f"{member.name} is still in the group")
        self._note("left", member.name)

    def _prove(self, produced: int, killed: str) -> Verdict:
        self._begin("comparing the members' records with the log")
        records = {name: member.read_record() for name, member in self._members.items()}
        verdict = check_deliveries(records, produced, self._log, killed)
        self._say(f"{verdict.deliveries:,} deliveries recorded by {len(records)} members, of {produced:,} flights")
        return verdict

    def _read_twice(self, kafka: EmbeddedKafka) -> TwoGroups:
        self._begin("two groups read one topic")
        seen = read_twice(kafka)
        words = "; ".join(
            f"{group}: " + ", ".join(f"{name} got {' '.join(keys)}" for name, keys in members.items())
            for group, members in seen.received.items()
        )
        self._say(f"two groups read the keys {' '.join(KEYS)}, one in each of {len(KEYS)} partitions: {words}")
        return seen

    # Waiting.

    def _await(self, is_so: Callable[[Sight], bool], otherwise: str) -> Sight:
        """Look at the group until it is as wanted. Raises: QuickstartError if a member dies or patience ends."""
        deadline = time.monotonic() + _PATIENCE_S
        while True:
            sight = self._sight = look(self._store)
            for member in self._members.values():
                member.check()
            self._show()
            if is_so(sight):
                return sight
            if time.monotonic() > deadline:
                raise QuickstartError(
                    f"{otherwise} after {_PATIENCE_S:g} s: the machine may be too busy; owners are {dict(sight.owners)}"
                )
            self._pause.wait(_POLL_S)

    def _await_settled(self, cause: str) -> tuple[float, float]:
        """Wait until the running members are the group and own what is due.

        Returns: when a change was first seen, and when all was settled.
        """
        before = self._sight
        members = tuple(sorted(name for name, member in self._members.items() if member.is_running))
        due = expected_owners(members)
        changed_at: list[float] = []

        def is_settled(sight: Sight) -> bool:
            if (sight.members, sight.owners) != (before.members, before.owners):
                changed_at.append(sight.at)
            return sight.members == members and sight.owners == due

        settled_at = self._await(is_settled, f"{cause}, but the group has not settled").at
        moved = sum(1 for number, owner in due.items() if before.owners.get(number) != owner)
        self._rebalances.append(Settling(cause, len(members), moved, round(1000 * (settled_at - changed_at[0]), 1)))
        return changed_at[0], settled_at

    def _await_flow(self) -> None:
        """Wait until every owner has processed some more flights, or has none left."""
        owners = len(self._owners())
        self._begin(f"{owners} member{'s' if owners > 1 else ''} of {len(self._sight.members)} at work")
        partitions = {owner: self._owned_by(owner) for owner in self._owners()}
        enough = {owner: self._members[owner].processed + _FLOW_FLIGHTS for owner in partitions}

        def flows(_: Sight) -> bool:
            return all(
                self._members[owner].processed >= enough[owner] or all(map(self._is_at_end, numbers))
                for owner, numbers in partitions.items()
            )

        self._await(flows, "not every owner receives flights")

    def _owners(self) -> set[str]:
        return set(self._sight.owners.values())

    def _is_at_end(self, number: int) -> bool:
        return self._position(number) >= self._log[number][1]

    def _has_moved(self, number: int, owner: str, since: float) -> bool:
        return self._is_at_end(number) or self._members[owner].told_at.get(number, 0.0) > since

    # Telling.

    def _begin(self, doing: str) -> None:
        self._doing = doing
        logger.debug("%s", doing)
        self._show()

    def _say(self, text: str) -> None:
        self._screen.say(self._elapsed(), text)

    def _settled_words(self) -> str:
        last = self._rebalances[-1]
        if not last.moved:
            return "nothing moves"
        return f"settled in {spell_settling(last.settle_ms)}"

    def _owners_words(self) -> str:
        owned = ((owner, self._owned_by(owner)) for owner in sorted(self._owners()))
        return ", ".join(f"{owner} owns {' '.join(map(str, numbers))}" for owner, numbers in owned)

    def _owned_by(self, name: str) -> tuple[int, ...]:
        return tuple(number for number, owner in self._sight.owners.items() if owner == name)

    def _note(self, event: str, name: str) -> None:
        sight = self._sight
        self._timeline.append(Happening(round(self._elapsed(), 2), event, name, len(sight.members), dict(sight.owners)))

    def _show(self, doing: str | None = None) -> None:
        self._screen.show(
            View(
                seconds=self._elapsed(),
                doing=doing or self._doing,
                partitions=tuple(
                    PartitionView(
                        number,
                        self._sight.owners.get(number),
                        self._position(number),
                        self._sight.committed.get(number, 0),
                        end,
                    )
                    for number, (_, end) in self._log.items()
                ),
                members={name: self._describe(member) for name, member in self._members.items()},
            )
        )

    def _describe(self, member: Member) -> str:
        if member.state is not MemberState.RUNNING:
            return f"{member.state.value}, {member.processed:,} flights"
        if member.name not in self._sight.members:
            return "starting"
        if member.name not in self._owners():
            return "idle: three partitions have three owners"
        return f"process {member.pid}, {member.processed:,} flights"

    def _position(self, number: int) -> int:
        """Return how far any member has come in a partition."""
        return max((member.positions.get(number, 0) for member in self._members.values()), default=0)

    def _elapsed(self) -> float:
        return time.monotonic() - self._began


def _listed(numbers: Sequence[int]) -> str:
    return f"partition{'s' if len(numbers) > 1 else ''} {' '.join(map(str, numbers))}"
