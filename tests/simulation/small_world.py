"""A small group whose every step is a choice: real coordinators over the in-memory ZooKeeper, no randomness.

A Scope says which group it is and what may happen in it; tests.simulation.exhaustive walks all choices of a scope.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from functools import partial
from weakref import WeakMethod

from rebalance.events import Answered, CloseRequested, Drained
from rebalance.machine import Phase
from tests.simulation.checker import Violation
from tests.simulation.member import CLOSE_S
from tests.support.group_members import GROUP, FakeClock, Member
from zk_layout.codecs import encode_topic
from zk_layout.errors import MultiFailedError, NoNodeError, SessionExpiredError
from zk_layout.memory_store import Delivery, Fault, MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition
from zk_layout.store import CheckOp, SessionEvent, SessionKind

IDS, OWNERS, TOPIC = f"/consumers/{GROUP}/ids", f"/consumers/{GROUP}/owners/t", "/brokers/topics/t"
_FIRST_SESSION, _FIRST_ZXID = 0x1000000, 2**40
"""The first session id and zxid: larger than any other number, so that fingerprint() replaces both by their order."""
_SETTLE_S = 60.0
_SUSPICION_S = 1.5
_LISTENER_S = 1.0
"""How long a member waits for its listener."""
_MOST_TURNS = 1000
_MOST_REQUESTS = 1000
_NOT_STATE = frozenset(
    {"_server", "_clock", "lists_read", "_warned", "_report", "_thread", "_lock", "_bell", "_changed"}
)
REQUESTS, SESSIONS, CONNECTIONS, CREDENTIALS = "requests", "sessions", "connections", "credentials"
"""Kinds of faults."""


@dataclass(frozen=True, slots=True)
class Scope:
    """A group, and what may happen in it, for a number of events: depth; small in the small walk of `make test`.

    settled: the members have settled before the walk begins. after: the events that have happened then, too.
    coarse: a member hears all, or hears all and takes all its turns, in one event; else a delivery or a turn is one.
    acts: the acts of the operator to choose from; most_acts of them happen; they concern the member number target, and
    the partition of that number, which it owns once the members have settled.
    faults: at most so many, of these kinds; a session that ends while its connection is away counts no more.
    users: the user's code has messages in hand of each partition from its begin until it finishes them.
    listens: a listener of the user is called at each begin and end, and answers some time later.
    """

    name: str
    depth: int
    small: int
    members: int = 2
    settled: bool = True
    after: tuple[str, ...] = ()
    coarse: bool = False
    acts: tuple[str, ...] = ("adds a partition", "stops a member", "deletes an owner", "deletes an id")
    most_acts: int = 1
    target: int = 0
    faults: int = 1
    kinds: tuple[str, ...] = (REQUESTS, SESSIONS)
    users: bool = False
    listens: bool = False
    gather_ms: int = 0
    absence_ms: int = 0


@dataclass(slots=True)
class Asked:
    """A call of a member's listener. deadline: the time until which the member waits for it."""

    ends: bool
    partitions: frozenset
    deadline: float
    is_answered: bool = False


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
        self._world.requests += 1
        if self._world.requests > _MOST_REQUESTS:
            raise Violation("never rests", f"{_MOST_REQUESTS} requests in one turn")
        if self._world.operator in (None, store) or self._world.is_over:
            self.fault = None
            return super().request(store, kind, carry_out)
        fate = self._world.fate_of_request(store)
        self.fault = lambda *_: fate if isinstance(fate, Fault) else None

        def carried_out():
            before = self._world.claims()
            result = carry_out()
            self._world.look_for_theft(before, store.server_session_id)
            self._world.look_for_haste(before, store)
            if fate == "late":
                self._world.others_go_on(store)
            return result

        return super().request(store, kind, carried_out)

    def is_alive(self, session_id):
        """Return whether the session has not ended."""
        return session_id in self._sessions


class SmallWorld:
    """Members, one operator, and faults; the choices decide what happens next."""

    def __init__(self, scope, choices):
        self.scope, self.choices = scope, choices
        self.clock = FakeClock()
        self.is_over = True
        """Whether no fault happens: before the walk, and after it."""
        self.events_left = self.faults_left = self.acts_left = 100
        """begin() sets them as the scope says."""
        self.close_by = 0.0
        """The time until which the member that the operator stops may leave in order."""
        self.away = {}
        """{member without a connection: since when it has known that, None if it does not know it yet}"""
        self.refused = set()
        """The members whose credentials ZooKeeper refuses."""
        self.is_resting = True
        """Whether members come to rest: then each listener answers at once."""
        self.asked = {}
        """{member: the call of its listener that it waits for}"""
        self.deleted = None
        self.requests = 0
        """The requests since the last turn began."""
        self.history = []
        self.operator = None
        self.server = Server(self)
        self.operator = MemoryStore(self.server)
        self.operator.start()
        self._write_topic(2, self.operator.create)
        self.operator.ensure_path(OWNERS)
        self.busy = []
        self.members = [self._make_member(name) for name in "abc"[: scope.members]]

    def _make_member(self, name):
        waits = {"gather_ms": self.scope.gather_ms, "absence_ms": self.scope.absence_ms}
        member = Member(self.server, name, {"t": 1}, self.clock, **waits)
        # no periodic commits here: other simulations check commits
        member.coordinator._upkeep._periods_ms = {
            chore: 10_000 if chore.value == "audit" else 0 for chore in member.coordinator._upkeep._periods_ms
        }
        delivery = member.delivery
        begin, end, drop = delivery.begin, delivery.end, delivery.drop

        def begins(claimed, assignment):
            yield from self._ask(member, claimed, ends=False)
            yield from begin(claimed, assignment)
            if self.scope.users:
                delivery.in_hand |= set(claimed)

        def ends(partitions):
            if self.scope.users and partitions:
                self._commit_last(member)
            self._check_end(member, partitions)
            yield from self._ask(member, partitions, ends=True)
            self._check_end(member, partitions)
            delivery.in_hand -= set(partitions)
            yield from end(partitions)

        def drops(partitions):
            self.asked.pop(member, None)
            delivery.in_hand -= set(partitions)
            drop(partitions)

        delivery.begin, delivery.end, delivery.drop = begins, ends, drops
        delivery.await_answer = lambda _: self.answer(member)
        return member.join()

    def _ask(self, member, partitions, *, ends):
        """Call the member's listener, and wait until it has answered, or for its time at most."""
        if not self.scope.listens or not partitions:
            return
        if member in self.asked:
            raise Violation("asked twice", f"{member.consumer_id} asks its listener before it has answered")
        asked = self.asked[member] = Asked(ends, frozenset(partitions), self.clock.now + _LISTENER_S)
        while not (asked.is_answered or self.is_resting or self.clock.now >= asked.deadline):
            yield asked.deadline - self.clock.now
        if self.asked.pop(member, None) is not asked:
            raise Violation("goes on", f"{member.consumer_id} goes on with a step after its partitions are lost")

    def answer(self, member):
        """Let the member's listener return."""
        self.asked[member].is_answered = True
        member.coordinator.post(Answered())

    def _commit_last(self, member):
        """Send what stands for the last commit: it needs the registration, as each commit does."""
        try:
            member.store.multi([CheckOp(f"{IDS}/{member.consumer_id}")], session_id=member.coordinator.session_id)
        except MultiFailedError as error:
            raise SessionExpiredError("the registration is gone") from error

    def begin(self):
        """Begin the walk: from now on the choices decide."""
        if self.scope.settled:
            self.come_to_rest()
        self.is_resting = False
        for name in self.scope.after:
            events = dict(self.events())
            if name not in events:
                raise Violation("another start", f"{name}: possible are {', '.join(events)}")
            events[name]()
        self.events_left, self.faults_left, self.acts_left = self.scope.depth, self.scope.faults, self.scope.most_acts
        self.is_over = False

    def _write_topic(self, partitions, write):
        data = encode_topic(TopicAssignment(dict.fromkeys(range(partitions), (0,))))
        write(TOPIC, data, **({"make_parents": True} if write == self.operator.create else {}))

    # Events.

    def events(self):
        """Return [(name, function)] of all events possible now; a member in the middle of a turn takes no other."""
        found = []
        there = [member for member in self.members if not member.coordinator.is_closed]
        free = [member for member in there if member not in self.busy]
        coarse = self.scope.coarse
        for m in free:
            if m.store.queue:
                found.append((f"{m.consumer_id} hears", partial(m.store.deliver, None if coarse else 1)))
            if self._has_work(m) or (coarse and m.store.queue):
                found.append((f"{m.consumer_id} goes on", partial(self.go_on if coarse else self.turn, m)))
        if (alarm_in_s := min((self._alarm_in_s(member) for member in free), default=0.0)) > 0:
            found.append(("time passes", partial(self.pass_time, alarm_in_s)))
        asking = [m for m in there if m in self.asked and not self.asked[m].is_answered]
        found += [(f"listener of {m.consumer_id} answers", partial(self.answer, m)) for m in asking]
        found += [(f"user of {m.consumer_id} finishes", partial(self.finish, m)) for m in there if m.delivery.in_hand]
        if self.acts_left:
            acts = self._acts()
            found += [(f"operator {name}", partial(self.operate, acts[name])) for name in self.scope.acts if acts[name]]
        for m in [m for m in there if m in self.away and m not in self.refused]:
            found.append((f"connection of {m.consumer_id} is back", partial(self.reconnect, m)))
            if self._has_session(m):
                found.append((f"session of {m.consumer_id} ends without it", partial(self.expire, m)))
        if self.faults_left:
            faults = {
                SESSIONS: ("session of {} ends", self.expire),
                CONNECTIONS: ("connection of {} is lost", self.cut),
            }
            faults[CREDENTIALS] = ("credentials of {} are refused", self.refuse)
            linked = [m for m in there if m.store.linked]
            for text, strike in [faults[kind] for kind in self.scope.kinds if kind in faults]:
                found += [(text.format(m.consumer_id), partial(self.strike, strike, m)) for m in linked]
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
        self.requests = 0
        self.busy.append(member)
        try:
            member.coordinator.turn()
        finally:
            self.busy.remove(member)
        if member.coordinator.is_closed:
            self._check_left(member)
            # as at the end of its process: znodes that it could not delete end with its session
            member.store.close()

    def go_on(self, member):
        """Let a member hear all, and take turns until it has nothing to do."""
        for _ in range(_MOST_TURNS):
            member.store.deliver()
            if member.coordinator.is_closed or not self._has_work(member):
                self._check_heard(member)
                return
            self.turn(member)
            self.check()
        raise Violation("never rests", f"{member.consumer_id} is as busy after {_MOST_TURNS} turns as before")

    def _check_heard(self, member):
        """Check that a member that has taken all its turns has taken note of its listener's answer."""
        asked = self.asked.get(member)
        if asked is not None and asked.is_answered and member not in self.away and self._knows_its_session(member):
            raise Violation("unheard", f"{member.consumer_id} waits on though its listener has answered")

    def pass_time(self, seconds):
        self.clock.now += seconds

    def finish(self, member):
        """Let the user's code finish all messages that it has in hand."""
        was_stopped = member.delivery.in_hand - member.delivery.flowing
        member.delivery.in_hand.clear()
        if was_stopped:
            member.coordinator.post(Drained())

    def strike(self, fault, member):
        self.faults_left -= 1
        fault(member)

    def expire(self, member):
        self.server.expire(member.store.server_session_id)

    def cut(self, member):
        self.away[member] = None
        self.server.suspend(member.store)

    def reconnect(self, member):
        del self.away[member]
        self.server.resume(member.store)

    def refuse(self, member):
        self.refused.add(member)
        self.cut(member)
        self.expire(member)
        member.store.queue.append(Delivery(SessionEvent(SessionKind.AUTH_FAILED, 0)))

    def operate(self, act):
        self.acts_left -= 1
        act()

    def _acts(self):
        """Return {act of the operator: its function, None if it is impossible now}."""
        member = self.members[self.scope.target]
        id_path, owned = f"{IDS}/{member.consumer_id}", TopicPartition("t", self.scope.target)
        owner = f"{OWNERS}/{owned.partition}"
        is_registered, is_owned = self._holder(id_path) is not None, self._holder(owner) is not None
        data = member.coordinator._registrar.data

        def deletes(path, then=None):
            if path == owner:
                self.deleted = owned
            if self._holder(path) is not None:
                self.operator.delete(path)
            if then is not None:
                self.operator.create(path, then, ephemeral=True)

        def stops_a_member():
            until = self.clock.now + CLOSE_S
            self.close_by = min(self.close_by or until, until)
            member.coordinator.post(CloseRequested(round(CLOSE_S * 1000)))

        return {
            "adds a partition": None if self._has_three() else lambda: self._write_topic(3, self.operator.set_data),
            "stops a member": None if member.coordinator.is_closed else stops_a_member,
            "deletes an owner": (lambda: deletes(owner)) if is_owned else None,
            "deletes an id": (lambda: deletes(id_path)) if is_registered else None,
            # no check of ZooKeeper's notices a znode that is replaced between a look at it and its deletion by path
            "takes a partition": (lambda: deletes(owner, b"jvm-0")) if is_owned and member not in self.busy else None,
            "takes an id": (lambda: deletes(id_path, data)) if self._holder(IDS) is not None else None,
            "gives all back": self._give_back if self.server.tree.ephemerals(self.operator.session_id) else None,
            "writes over an owner": (lambda: self.operator.set_data(owner, b"jvm-0")) if is_owned else None,
            "writes over an id": (lambda: self.operator.set_data(id_path, b"{}")) if is_registered else None,
        }

    def _give_back(self):
        for path in self.server.tree.ephemerals(self.operator.session_id):
            self.operator.delete(path)

    def fate_of_request(self, store):
        """Return None if the request succeeds, a Fault, or "late"."""
        if not self.faults_left or REQUESTS not in self.scope.kinds or not store.linked or store.is_cut_in_queue():
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

    def _has_session(self, member):
        return self.server.is_alive(member.store.server_session_id)

    # Promises.

    def _holder(self, path):
        """Return the session of an ephemeral znode; None if there is no znode."""
        try:
            return self.server.tree.read(path).stat.ephemeral_owner
        except NoNodeError:
            return None

    def claims(self):
        """Return {partition: the session of its owner znode}."""
        held = {TopicPartition("t", number): self._holder(f"{OWNERS}/{number}") for number in range(3)}
        return {tp: session for tp, session in held.items() if session is not None}

    def look_for_theft(self, before, actor):
        now = self.claims()
        for tp, session in before.items():
            if now.get(tp) != session != actor and self.server.is_alive(session):
                raise Violation("theft", f"{tp}: session 0x{actor:x} deletes the owner znode of 0x{session:x}")

    def look_for_haste(self, before, store):
        """Check that a member releases no partition before its listener has answered."""
        now = self.claims()
        for member, asked in self.asked.items():
            if member.store is not store or asked.is_answered or not asked.ends or self.clock.now >= asked.deadline:
                continue
            gone = [tp for tp in asked.partitions if before.get(tp) == store.server_session_id != now.get(tp)]
            if gone:
                raise Violation("released unheard", f"{member.consumer_id} releases {gone} while its listener runs")

    def _knows_its_session(self, member):
        """Return whether the session that a member knows lives on; if not, its lease is over, see other tests."""
        return member.store.server_session_id == member.coordinator.session_id and self._has_session(member)

    def check(self):
        """Check that each living member owns every partition that it hands out, so no other member owns it."""
        claims = self.claims()
        for member in self.members:
            name, delivery = member.consumer_id, member.delivery
            if member.coordinator.is_closed:
                continue
            if member in self.away and not (member.store.queue or member in self.busy or self._has_work(member)):
                since = self.away[member] = self.away[member] or self.clock.now
                if self.clock.now - since >= _SUSPICION_S and delivery.flowing and not delivery.paused:
                    raise Violation("not paused", f"{name} hands out messages though ZooKeeper is out of sight")
            if not self._knows_its_session(member):
                continue
            for tp in delivery.flowing:
                if claims.get(tp) != member.coordinator.session_id and tp != self.deleted:
                    raise Violation("two owners", f"{name} hands out {tp}, which {claims.get(tp)} owns")

    def _check_end(self, member, partitions):
        """Check that a member owns a partition that it ends, and that its user has finished or is out of time."""
        state, claims = member.coordinator._state, self.claims()
        if not self._knows_its_session(member):
            return
        for tp in partitions:
            if claims.get(tp) != state.session_id and tp != self.deleted:
                raise Violation("commit too late", f"{member.consumer_id} ends {tp} after its release")
        if member.delivery.in_hand & set(partitions) and not state.overdue and state.phase is not Phase.CLOSED:
            raise Violation("ended in hand", f"{member.consumer_id} does not wait until its user has finished")

    def _check_left(self, member):
        """Check that a member that had time to leave in order has released all, unless its session has ended."""
        session = member.coordinator.session_id
        if self.clock.now < self.close_by and session in self.claims().values():
            raise Violation("left too early", f"{member.consumer_id} has left, its owner znodes have not")

    def come_to_rest(self):
        """Without faults, let all members settle, with their share. Raises: Violation if they do not."""
        self.is_over = self.is_resting = True
        self._give_back()
        for member in [member for member in self.away if member not in self.refused]:
            self.reconnect(member)
        for member in [member for member in self.members if not self._open(member)]:
            self.expire(member)
        end = self.clock.now + _SETTLE_S
        while True:
            for _ in range(_MOST_TURNS):
                self.server.deliver_all()
                busy = [member for member in self.members if self._open(member) and self._has_work(member)]
                if not busy:
                    break
                for member in busy:
                    self.turn(member)
                    self.check()
            else:
                raise Violation("never rests", f"as busy after {_MOST_TURNS} turns as before")
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
        there = [member for member in self.members if self._open(member)]
        members = [member for member in there if member not in self.refused]
        for member in [member for member in there if member in self.refused]:
            if member.phase is not Phase.EXPIRED or member.delivery.flowing or member.coordinator.refusal is None:
                return False
        partitions = [TopicPartition("t", n) for n in range(3)][: 3 if self._has_three() else 2]
        claims = self.claims()
        share, more = divmod(len(partitions), len(members)) if members else (0, 0)
        for at, member in enumerate(members):
            begin = at * share + min(at, more)
            due = partitions[begin : begin + share + (at < more)]
            theirs = [tp for tp, session in claims.items() if session == member.store.server_session_id]
            if member.phase is not Phase.STABLE or member.delivery.paused:
                return False
            if not due == member.owned == sorted(member.delivery.flowing) == theirs:
                return False
            if not all(self._text(tp).startswith(member.consumer_id.encode()) for tp in due):
                return False
        return bool(members) or not claims

    def _text(self, tp):
        return self.server.tree.read(f"{OWNERS}/{tp.partition}").data

    def _has_three(self):
        return b'"2"' in self.server.tree.read(TOPIC).data

    def fingerprint(self):
        """Return a hash of all that the code under test can look at, and of what may still happen.

        The count of a coordinator's turns, by which every 50th takes an alarm first, is left out.
        """
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

        parts = [self.faults_left, self.acts_left, self.close_by, self.deleted]
        parts += [self.server.tree._nodes, self.server._sessions]
        for member in self.members:
            store, coordinator = member.store, member.coordinator
            parts += [self.away.get(member), member in self.refused]
            parts += [store._session_id, store.server_session_id, store.linked, store.queue, store.watches]
            parts += [coordinator._state, coordinator._mailbox, coordinator._reader, coordinator._ownership]
            parts += memory_of(coordinator._runner._reconciler)
            parts += [member.delivery.flowing, member.delivery.paused, member.delivery.in_hand, self.asked.get(member)]
        return hashlib.blake2b(repr([frozen(part) for part in parts]).encode(), digest_size=12).digest()


def memory_of(reconciler):
    """Return what a reconciler remembers from one step to the next."""
    names = ("_begun", "_stopped", "_created", "_ended", "_missing", "_announced", "_released", "_claimed")
    has_asked = reconciler._reads() > reconciler._reads_before
    underway = reconciler._underway
    # what a step has done so far shows in the other parts: the walk's listener is its only wait
    step = None if underway is None else (underway.run.gi_code.co_name, underway.begins)
    return [has_asked, step, *(vars(reconciler)[name] for name in names)]
