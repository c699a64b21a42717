"""Every order of events in a small group, to a depth: real coordinators over the in-memory ZooKeeper, no randomness.

A world is replayed from its choices. At each point where more than one thing could happen it asks which; the walk
answers with every sequence of numbers there is, and turns back where it comes upon a state that it has seen before
with as many events to go. States are compared by a hash of all that the code can look at: znodes, sessions, watches,
what is on its way, and the memory of each member.

    python -m tests.simulation.exhaustive --depth 3

An event is: something reaches a member (in its order), a member takes a turn, time passes to the next alarm, the
operator acts (once), a session ends. A request may be lost, or carried out and not answered, or answered late: then
others go on before the answer is there. Sessions that end and these are faults, of which there is a given number.
"""

from __future__ import annotations

import argparse
import hashlib
import logging
import multiprocessing
import sys
import time
from dataclasses import dataclass, field, fields, is_dataclass
from enum import Enum
from weakref import WeakMethod

from rebalance.events import CloseRequested
from rebalance.machine import Phase
from tests.simulation.checker import Violation
from tests.simulation.member import CLOSE_S
from tests.support.group_members import GROUP, FakeClock, Member, RecordingDelivery
from zk_layout.codecs import encode_topic
from zk_layout.errors import NoNodeError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

OWNERS, TOPIC = f"/consumers/{GROUP}/owners/t", "/brokers/topics/t"
_FIRST_SESSION, _FIRST_ZXID = 0x1000000, 2**40
"""The first session id and zxid: larger than any other number, so that fingerprint() replaces both by their order."""
_SETTLE_S = 60.0
_NOT_STATE = frozenset(
    {"_server", "_clock", "lists_read", "_warned", "_report", "_thread", "_lock", "_bell", "_changed"}
)


@dataclass(frozen=True, slots=True)
class Group:
    """The group of a walk. settled: the members have settled before the walk begins."""

    members: int = 2
    settled: bool = True
    faults: int = 2
    depth: int = 3


@dataclass(slots=True)
class Walk:
    """The result of a walk. failures: {choices: the broken rule}."""

    group: Group
    states: int = 0
    worlds: int = 0
    seconds: float = 0.0
    failures: dict[tuple[int, ...], str] = field(default_factory=dict)

    def __str__(self):
        kind = "settled" if self.group.settled else "forming"
        return (
            f"{self.group.members} members, {kind}, {self.group.faults} faults, {self.group.depth} events: "
            f"{self.states} states in {self.worlds} worlds, {self.seconds:.1f} s, {len(self.failures)} failures"
        )


class Choices:
    """Answers from a list, then always 0; records each answer, and how many options it had."""

    def __init__(self, given=()):
        self._given = given
        self.taken = []

    def among(self, options):
        """Return the next chosen option."""
        if len(options) == 1:
            return options[0]
        at = len(self.taken)
        chosen = self._given[at] if at < len(self._given) else 0
        self.taken.append((chosen, len(options)))
        return options[chosen]

    @property
    def is_beyond(self):
        """Whether the given list is used up: the walk has not been in the states that follow."""
        return len(self.taken) >= len(self._given)


class Server(MemoryZooKeeper):
    """A server that asks the world for the fate of each request."""

    def __init__(self, world):
        super().__init__(wall_ms=lambda: 0, auto_deliver=False, monotonic=world.clock.monotonic)
        self.tree.zxid = _FIRST_ZXID
        self._world = world

    def request(self, store, kind, carry_out):
        if self._world.operator in (None, store) or self._world.is_over:
            self.fault = None
            return super().request(store, kind, carry_out)
        fate = self._world.fate_of_request(store)
        self.fault = lambda *_: fate if isinstance(fate, Fault) else None

        def carried_out():
            before = self._world.claims()
            result = carry_out()
            self._world.look_for_theft(before, store.server_session_id)
            if fate == "late":
                self._world.others_go_on(store)
            return result

        return super().request(store, kind, carried_out)


class SmallWorld:
    """Members, one operator, and faults; the choices decide what happens next."""

    def __init__(self, group, choices):
        self.choices = choices
        self.clock = FakeClock()
        self.is_over = True
        """Whether no fault happens: before the walk, and after it."""
        self.events_left, self.faults_left = group.depth, group.faults
        self.operator_acts = True
        self.close_by = 0.0
        """The time until which the member that the operator stops may leave in order."""
        self.deleted = None
        self.history = []
        self.operator = None
        self.server = Server(self)
        self.operator = MemoryStore(self.server)
        self.operator.start()
        self._write_topic(2, self.operator.create)
        self.operator.ensure_path(OWNERS)
        self.busy = []
        self.members = [Member(self.server, name, {"t": 1}, self.clock) for name in "abc"[: group.members]]
        for member in self.members:
            # no periodic commits here: other simulations check commits
            member.coordinator._upkeep._periods_ms = dict.fromkeys(member.coordinator._upkeep._periods_ms, 0) | {
                chore: 10_000 for chore in member.coordinator._upkeep._periods_ms if chore.value == "audit"
            }
            member.join()

    def begin(self, group):
        """Begin the walk: from now on the choices decide. The members settle first if the group is to be settled."""
        if group.settled:
            self.come_to_rest()
        self.is_over = False

    def _write_topic(self, partitions, write):
        data = encode_topic(TopicAssignment(dict.fromkeys(range(partitions), (0,))))
        write(TOPIC, data, **({"make_parents": True} if write == self.operator.create else {}))

    # Events.

    def events(self):
        """Return [(name, function)] of all events possible now; a member in the middle of a turn has none."""
        found = []
        free = [member for member in self.members if member not in self.busy and not member.coordinator.is_closed]
        for member in free:
            if member.store.queue:
                found.append((f"{member.consumer_id} hears", lambda m=member: self.server.deliver_next(m.store)))
            if self._has_work(member):
                found.append((f"{member.consumer_id} turns", lambda m=member: self.turn(m)))
        if (alarm_in_s := min((self._alarm_in_s(member) for member in free), default=0.0)) > 0:
            found.append(("time passes", lambda: self.pass_time(alarm_in_s)))
        if self.operator_acts:
            found += [(f"operator {act.__name__}", lambda act=act: self.operate(act)) for act in self._acts()]
        if self.faults_left:
            found += [(f"session of {m.consumer_id} ends", lambda m=m: self.expire(m)) for m in free]
        return found

    def happen(self):
        """Let one event happen; False if none can happen any more."""
        events = self.events() if self.events_left else []
        if not events:
            return False
        name, what = self.choices.among(events)
        self.history.append(name)
        self.events_left -= 1
        what()
        self.check()
        return True

    def turn(self, member):
        self.busy.append(member)
        try:
            member.coordinator.turn()
        finally:
            self.busy.remove(member)
        if member.coordinator.is_closed:
            self._check_left(member)
            # as at the end of its process: znodes that it could not delete end with its session
            member.store.close()

    def pass_time(self, seconds):
        self.clock.now += seconds

    def expire(self, member):
        self.faults_left -= 1
        self.server.expire(member.store.server_session_id)

    def operate(self, act):
        self.operator_acts = False
        act()

    def _acts(self):
        first, last = self.members[0], self.members[-1]

        def adds_a_partition():
            self._write_topic(3, self.operator.set_data)

        def deletes_an_owner():
            self.deleted = TopicPartition("t", 0)
            self.operator.delete(f"{OWNERS}/0")

        def deletes_an_id():
            self.operator.delete(f"/consumers/{GROUP}/ids/{first.consumer_id}")

        def stops_a_member():
            self.close_by = self.clock.now + CLOSE_S
            last.coordinator.post(CloseRequested(round(CLOSE_S * 1000)))

        acts = [adds_a_partition, stops_a_member]
        if self.operator.exists(f"{OWNERS}/0") is not None:
            acts.append(deletes_an_owner)
        if self.operator.exists(f"/consumers/{GROUP}/ids/{first.consumer_id}") is not None:
            acts.append(deletes_an_id)
        return acts

    def fate_of_request(self, store):
        """Return None if the request succeeds, a Fault, or "late"."""
        if not self.faults_left or not store.linked or store.is_cut_in_queue():
            return None
        fate = self.choices.among([None, Fault.LOSE_REQUEST, Fault.LOSE_REPLY, "late"])
        if fate is not None:
            self.faults_left -= 1
            self.history.append(f"  a request of it is {getattr(fate, 'value', fate)}")
        return fate

    def others_go_on(self, store):
        """Let one event or more happen, before the answer reaches the store."""
        while self.happen():
            if self.choices.among([True, False]):
                return

    def _alarm_in_s(self, member):
        return min(member.coordinator._mailbox._alarms.values(), default=float("inf")) - self.clock.now

    def _has_work(self, member):
        return bool(member.coordinator._mailbox._inbox) or self._alarm_in_s(member) <= 0

    # Promises.

    def claims(self):
        """Return {partition: the session of its owner znode}."""
        found = {}
        for number in range(3):
            try:
                session = self.server.tree.read(f"{OWNERS}/{number}").stat.ephemeral_owner
            except NoNodeError:
                continue
            found[TopicPartition("t", number)] = session
        return found

    def look_for_theft(self, before, actor):
        now = self.claims()
        for tp, session in before.items():
            if now.get(tp) != session != actor and session in self.server._sessions:
                raise Violation("theft", f"{tp}: session 0x{actor:x} deletes the owner znode of 0x{session:x}")

    def check(self):
        """Check that each living member owns every partition that it hands out, so no other member owns it."""
        claims = self.claims()
        for member in self.members:
            session = member.store.server_session_id
            if member.coordinator.is_closed or session != member.coordinator.session_id:
                continue  # it does not know yet that its session ended; its lease, which other tests check, is over
            for tp in member.delivery.flowing:
                if claims.get(tp) != session and tp != self.deleted:
                    raise Violation("two owners", f"{member.consumer_id} hands out {tp}, which {claims.get(tp)} owns")

    def _check_left(self, member):
        """Check that a member that had time to leave in order has released all, unless its session has ended."""
        session = member.coordinator.session_id
        if self.clock.now < self.close_by and session in self.claims().values():
            raise Violation("left too early", f"{member.consumer_id} has left, its owner znodes have not")

    def come_to_rest(self):
        """Without faults, let all members settle, with their share. Raises: Violation if they do not."""
        self.is_over = True
        end = self.clock.now + _SETTLE_S
        while True:
            for _ in range(1000):
                self.server.deliver_all()
                busy = [member for member in self.members if self._open(member) and self._has_work(member)]
                if not busy:
                    break
                for member in busy:
                    self.turn(member)
                    self.check()
            else:
                raise Violation("never rests", "as busy after 1000 turns as before")
            if self.clock.now >= end:
                break
            waits_s = min((self._alarm_in_s(member) for member in self.members if self._open(member)), default=60.0)
            self.clock.now += max(0.001, min(waits_s, end - self.clock.now))
            if self.is_settled():
                return
        if not self.is_settled():
            raise Violation(
                "not settled", "; ".join(f"{m.consumer_id} {m.phase.value} {m.owned}" for m in self.members)
            )

    def _open(self, member):
        return not member.coordinator.is_closed

    def is_settled(self):
        members = [member for member in self.members if self._open(member)]
        partitions = [TopicPartition("t", n) for n in range(3)][: 3 if self._has_three() else 2]
        claims = self.claims()
        share, more = divmod(len(partitions), len(members)) if members else (0, 0)
        for at, member in enumerate(members):
            begin = at * share + min(at, more)
            due = partitions[begin : begin + share + (at < more)]
            theirs = [tp for tp, session in claims.items() if session == member.store.server_session_id]
            if member.phase is not Phase.STABLE or not due == member.owned == sorted(member.delivery.flowing) == theirs:
                return False
        return bool(members) or not claims

    def _has_three(self):
        return b'"2"' in self.server.tree.read(TOPIC).data

    def fingerprint(self):
        """Return a hash of all that the code under test can look at, and of what may still happen."""
        numbers = {}

        def frozen(value):
            match value:
                case bool() | None | str() | bytes():
                    return value
                case Enum():
                    return value.name
                case WeakMethod():
                    return frozen(value())
                case float():
                    return round(value - self.clock.now, 6)
                case int():
                    return value if value < _FIRST_SESSION else ("n", numbers.setdefault(value, len(numbers)))
                case BaseException():
                    return (type(value).__name__, frozen(value.args))
                case dict():
                    return tuple((frozen(key), frozen(item)) for key, item in value.items())
                case set() | frozenset():
                    return tuple(frozen(item) for item in sorted(value, key=repr))
                case MemoryStore():
                    return "store"
            if type(value) is object:
                return "the key of a mail"
            if callable(value):
                return getattr(value, "__qualname__", type(value).__name__)
            if is_dataclass(value):
                return (type(value).__name__, *(frozen(getattr(value, one.name)) for one in fields(value)))
            if hasattr(value, "__iter__"):
                return tuple(map(frozen, value))
            return (type(value).__name__, frozen({k: v for k, v in vars(value).items() if k not in _NOT_STATE}))

        parts = [self.faults_left, self.operator_acts, self.deleted, self.server.tree._nodes, self.server._sessions]
        for member in self.members:
            store, coordinator = member.store, member.coordinator
            parts += [store._session_id, store.server_session_id, store.linked, store.queue, store.watches]
            parts += [coordinator._state, coordinator._mailbox, coordinator._reader, coordinator._ownership]
            parts += [coordinator._runner._reconciler._patience]
            reconciler = vars(coordinator._runner._reconciler)
            parts += [reconciler[name] for name in ("_begun", "_stopped", "_created", "_announced")]
            parts += [coordinator._runner._reconciler._released, coordinator._runner._reconciler._claimed]
            delivery: RecordingDelivery = member.delivery
            parts += [delivery.flowing, delivery.paused]
        return hashlib.blake2b(repr([frozen(part) for part in parts]).encode(), digest_size=12).digest()


def run(group, given, seen):
    """Run one world. seen: {fingerprint: the most events that were left there}; a state seen before ends it.

    Returns: the world, the choices, and a Violation or None.
    """
    choices = Choices(given)
    world = SmallWorld(group, choices)
    try:
        world.begin(group)
        while True:
            if choices.is_beyond:
                mark = world.fingerprint()
                if seen.get(mark, -1) >= world.events_left:
                    return world, choices, None
                seen[mark] = world.events_left
            if not world.happen():
                break
        world.come_to_rest()
    except Violation as violation:
        return world, choices, violation
    return world, choices, None


def walk(group, stop_after=1):
    """Walk every order of events in such a group, until stop_after worlds have failed."""
    began = time.process_time()
    seen, waiting, told = {}, [()], Walk(group)
    while waiting:
        given = waiting.pop()
        _, choices, violation = run(group, given, seen)
        told.worlds += 1
        taken = tuple(chosen for chosen, _ in choices.taken)
        if violation is not None:
            told.failures[taken] = str(violation)
            if len(told.failures) >= stop_after:
                break
        for at in range(len(given), len(choices.taken)):
            waiting += [(*taken[:at], other) for other in range(1, choices.taken[at][1])]
    told.states, told.seconds = len(seen), time.process_time() - began
    return told


def _walk_quietly(group):
    logging.disable(logging.CRITICAL)
    return walk(group)


def main(arguments=None):
    """Run the command line. Returns: the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulation.exhaustive", description=__doc__)
    parser.add_argument("--depth", type=int, default=3, help="events (default %(default)s); three members one less")
    parser.add_argument("--faults", type=int, default=2, help="at most so many (default %(default)s)")
    parser.add_argument("--processes", type=int, default=2)
    chosen = parser.parse_args(arguments)
    groups = [
        Group(members, settled, chosen.faults, chosen.depth - (members == 3))
        for members in (2, 3)
        for settled in (True, False)
    ]
    failed = False
    with multiprocessing.get_context("fork").Pool(chosen.processes) as pool:
        for told in pool.imap(_walk_quietly, groups):
            print(told, flush=True)
            for choices, text in told.failures.items():
                failed = True
                world, _, _ = run(told.group, choices, {})
                print("\n".join([*world.history, f"broken: {text}"]), flush=True)
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
