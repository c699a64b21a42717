"""A world: one ZooKeeper, logs, members of ours and of the JVM, users, an operator, faults, and one seed.

Everything that happens is one choice of the seeded generator after another, and time is a number that only a choice
moves. After `steps` choices the faults stop, and the world must settle within SETTLE_S; then everything must have been
delivered, and everybody leaves in order.
"""

from __future__ import annotations

import contextlib
import random
from bisect import bisect
from collections import Counter
from copy import copy
from dataclasses import replace
from itertools import accumulate

from rebalance.assignors import ASSIGNORS
from rebalance.led.cluster import threads_of
from rebalance.led.records import NO_GENERATION, decode_generation, generation_path
from rebalance.snapshot import GroupSnapshot
from tests.simulation.by_hand import Placing
from tests.simulation.checker import Checker, Violation
from tests.simulation.history import History
from tests.simulation.jvm import JvmMember
from tests.simulation.member import Crash, OurMember
from tests.simulation.others import Others
from tests.simulation.settings import draw_settings
from tests.simulation.zookeeper import (
    GROUP,
    IDS,
    OFFSETS,
    OWNERS,
    SESSION_TIMEOUT_MS,
    InjectedError,
    SimulatedZooKeeper,
)
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.group_members import FakeClock
from zk_layout.codecs import decode_registration, encode_offset, encode_topic
from zk_layout.errors import ConnectionLostError, MalformedZnodeError, NoNodeError, NotPermittedError, ZooKeeperError
from zk_layout.memory_store import Fault, Refusal
from zk_layout.model import ConsumerThreadId, TopicAssignment, TopicPartition
from zk_layout.store import SessionEvent, SessionKind

TIMEOUT_S = SESSION_TIMEOUT_MS / 1000
NETWORK_S = 1.0
"""The longest that an event is under way."""
NOTICE_S = TIMEOUT_S * 2 / 3
"""A client has noticed by then that its connection is dead."""
SETTLE_S = 40.0
"""Sessions end (9 s), conflicts are tried (4 x 2 s), users are waited for (3 s), audits come round (10 s)."""
MOST_FAULTS = 8
"""Of one member at one moment: what needs many requests would else never get through."""
LED_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "cooperative-sticky", "failover")
"""By which a led world divides."""
DEPTH = 2
"""How many actors may be interrupted between two of their operations at one time."""

# how long a process stands still, in seconds: from less than a session lasts at the server to longer than any
_FREEZES = (1.0, 5.0, 7.0, 9.5, 12.0)
# what a request may end in, while the connection stands
_REFUSALS = (
    Refusal(NotPermittedError("/injected")),
    Refusal(ZooKeeperError("injected: quota exceeded")),
    Refusal(InjectedError("unforeseen")),
    Refusal(InjectedError("unforeseen"), carried_out=True),
    Refusal(ConnectionLostError("injected: no answer in time")),
    Refusal(ConnectionLostError("injected: no answer in time"), carried_out=True),
)
# how long a choice of time lasts, from the wink between two requests to longer than a session
_PAUSES = (0.01, 0.05, 0.2, 0.5, 0.5, 1.0, 1.6, 3.1, 4.5)


def led_strategy(seed):
    """By which strategy the world of a seed is led; None if it is not."""
    # drawn by itself, so that worlds without it are what they were
    drawn = random.Random(f"led {seed}")
    return drawn.choice(LED_STRATEGIES) if drawn.random() < 0.25 else None


class World:
    """seed: everything follows from it."""

    def __init__(self, seed):
        self.seed = seed
        self.rng = rng = random.Random(seed)
        self.settings = settings = draw_settings(rng)
        self._settle_s = SETTLE_S + settings.absence_ms / 1000
        self.clock = FakeClock()
        self.history = History(self.clock)
        self.record = self.history.record
        self.checker = Checker(self.history, settings)
        # of its own, so that worlds without it are what they were
        self._forbidding = random.Random(f"offsets {seed}")
        self._forbids = not settings.jvm_members and self._forbidding.random() < 0.4
        self.server = SimulatedZooKeeper(
            clock=self.clock,
            record=self.record,
            before_request=self._before_request,
            fault=self._fault,
            max_multi_bytes=self._forbidding.choice((1_000_000, 1000, 1500)) if self._forbids else 1_000_000,
        )
        owners = self.checker.owner_of_session
        self.server.tree.is_member = lambda session: owners.get(session) in self.checker.actors
        self.kafka = FakeKafka()
        self.fetchers = FakeFetchers(self.kafka)
        self.admin = self.server.connect("operator")
        self.partitions = dict(settings.topics)
        self.led = led_strategy(seed)
        self._unsubscribing = random.Random(f"unsubscribing {seed}")
        self._unsubscribes = self._unsubscribing.random() < 0.3
        self.acknowledging = random.Random(f"acknowledging {seed}")
        self.acknowledges = not settings.at_next and self.acknowledging.random() < 0.15
        self.checker.acknowledges = self.acknowledges
        self.placing = self.checker.placing = Placing(
            seed,
            settings.topics,
            has_jvm_members=settings.jvm_members > 0,
            is_acknowledging=self.acknowledges,
        )
        self._steering = random.Random(f"steering {seed}")
        self._steers = self._steering.random() < 0.4
        self.members = []
        self.jvms = []
        self.by_store = {}
        self.faults = False
        self._faults_now = Counter()
        """{(member, moment): requests that were lost}."""
        self.failed_requests = Counter()
        """{member: all that were lost or refused so far}."""
        self._depth = 0
        self._cut = {}
        self._frozen = {}
        """{member: when it goes on}; its session ends when the server has heard nothing of it for long enough."""
        self._unheard = {}
        """{store: when the session of a member that stands still ends}."""
        self._orphans = {}
        self._due = {}
        self._incarnations = 0
        self._crashed_ids = []
        self.others = Others(self)
        if self.others.rng.random() < 0.15:
            # a user who wants no pause between two tries
            self.settings = settings = replace(settings, backoff_ms=0)
        is_narrow = self.others.rng.random() < 0.3
        if self.led is not None:
            # a generation is one write
            self.server.max_multi_bytes = 1_000_000
        elif is_narrow:
            # so that a claim takes several requests
            self.server.max_multi_bytes = 600
        for topic in self.partitions:
            self._write_topic(topic)
        self._actions = [
            *self.others.actions(),
            (22, self._turn),
            (16, self._deliver),
            (24, self._use),
            (9, self._pass_time),
            (7, self._produce),
            (1, self._join),
            (1, self._leave),
            (2, self._cut_connection),
            (3, self._heal_connection),
            (1, self._forget_session),
            (1, self._crash),
            (2, self._freeze),
            (1, self._add_partitions),
            (1, self._reset),
            (1, self._steal),
            (1, self._deregister),
            (18 if settings.jvm_members else 0, self._resume_jvm),
        ]
        self._weights = list(accumulate(weight for weight, _ in self._actions))

    # The story.

    def run(self):
        """Raises Violation."""
        for _ in range(self.settings.members):
            self._join(always=True)
            if self.rng.random() < 0.5:
                self._calm_down(20.0, must=False)
        for _ in range(self.settings.jvm_members):
            self._join_jvm()
        self.faults = True
        for _ in range(self.settings.steps):
            self._step()
        self.faults = False
        self.record("faults end")
        self.others.leave()
        self._heal_everything()
        for member in self.members:
            member.resume_all()
        self._calm_down(self._settle_s, must=True)
        self._jvms_leave()
        self._deliver_everything()
        self._everybody_leaves()

    def _step(self):
        if self._forbids and self._forbidding.random() < 0.03:
            self._forbid()
        chosen = bisect(self._weights, self.rng.random() * self._weights[-1])
        self._actions[chosen][1]()

    # What others are asked in between.

    def _before_request(self, store):
        if self.faults and self.others.before_request(store):
            self.go_on_meanwhile(0.0)
        member = self.by_store.get(store)
        if member is None or not self.faults or self._depth >= DEPTH:
            return
        rng = self.rng
        if rng.random() < self.settings.crash:
            raise Crash
        if rng.random() < self.settings.interleave:
            self.interlude(member)

    def interlude(self, member):
        """Others act while this member is in the middle of something."""
        if not self.faults or self._depth >= DEPTH:
            return
        if not self._depth and self.rng.random() < self.settings.freeze:
            self._stand_still(member)
            return
        self._depth += 1
        for _ in range(self.rng.choice((1, 1, 2, 4))):
            self._step()
        self._depth -= 1
        if not member.alive:
            raise Crash

    def go_on_meanwhile(self, seconds):
        """Others act while an operator's command waits, or between two of its requests."""
        if self._depth >= DEPTH:
            self.advance(seconds)
            return
        self._depth += 1
        for _ in range(self.rng.choice((0, 0, 1, 2)) if not seconds else self.rng.choice((1, 2, 4, 8))):
            self._step()
        self.advance(seconds * self.rng.choice((1, 1, 4)))
        self._depth -= 1

    def end_of(self, store):
        """An operator's command is over, in order or killed."""
        if store.linked:
            store.close()
            return
        self.server._stores.remove(store)
        store.linked = False
        self._forget_store(store)

    def _stand_still(self, member):
        """The whole process stops in the middle of something, and goes on as if nothing had been."""
        self._stop(member)
        end, self._frozen[member] = self._frozen[member], 1e12
        self._depth += 1
        while self.clock.now < end and member.alive:
            self._step()
            self.advance(self.rng.choice(_PAUSES))
        self._depth -= 1
        self._go_on(member)
        if not member.alive:
            raise Crash

    def _stop(self, member):
        self.record("freezes", member.name)
        self.server.stall(member.store)
        self._frozen[member] = self.clock.now + self.rng.choice(_FREEZES)
        if member.store.linked:
            self._unheard[member.store] = self.clock.now + TIMEOUT_S * (1 + self.rng.random() / 2)

    def _go_on(self, member):
        if self._frozen.pop(member, None) is not None:
            self.record("thaws", member.name)
            self._unheard.pop(member.store, None)
            self.server.wake(member.store)

    def _fault(self, session_id, kind):
        if not self.faults:
            return None
        name = self.checker.owner_of_session.get(session_id, "")
        if name in self.checker.actors and self.others.rng.random() < self.others.refuse:
            refusal = self.others.rng.choice(_REFUSALS)
            self.failed_requests[name] += 1
            self.record("refused", name, kind, refusal.error, "done all the same" if refusal.carried_out else "")
            # an error of its own: one that is raised keeps its world, with all that happened in it
            return replace(refusal, error=copy(refusal.error))
        if self.rng.random() >= self.settings.lose or name.startswith(("operator", "stranger")):
            return None
        self._faults_now[name, self.clock.now] += 1
        if self._faults_now[name, self.clock.now] > MOST_FAULTS:
            return None
        self.failed_requests[name] += 1
        fault = self.rng.choice((Fault.LOSE_REQUEST, Fault.LOSE_REPLY))
        self.record("fault", name, fault.value, kind)
        return fault

    # Members.

    def join_as_a_twin(self):
        """A member is started under the consumer.id of one that lives, and ended some time later."""
        other = self._one_of(self.members)
        if other is not None and not other.closing and len(self.members) < 5 and self.rng.random() < 0.3:
            self._join(always=True, consumer_id=other.consumer_id)

    def _join(self, *, always=False, everything=False, consumer_id=None):
        if not always and (len(self.members) > 4 or self.rng.random() < 0.5):
            return
        self._incarnations += 1
        name = f"m{self._incarnations}"
        is_twin = consumer_id is not None
        consumer_id = consumer_id or f"{GROUP}_{name}"
        if not is_twin and self.settings.same_ids and self._crashed_ids and self.rng.random() < 0.8:
            free = self._crashed_ids.pop()
            # a twin may have it by now
            if all(member.consumer_id != free for member in self.members):
                consumer_id = free
        topics = sorted(self.partitions)
        if self.rng.random() < 0.2 and len(topics) > 1 and not everything:
            topics = topics[1:]
        subscription = {topic: self.rng.randint(1, self.settings.streams) for topic in topics}
        self._start_member(name, consumer_id, subscription)

    def _start_member(self, name, consumer_id, subscription, store=None):
        self.record("joins", name, consumer_id, subscription)
        member = OurMember(self, name, consumer_id, subscription, store)
        self.members.append(member)
        self.by_store[member.store] = member

    def join_again(self, member):
        """After unsubscribe(), with another subscription; an id that was not configured is another one, too."""
        self._incarnations += 1
        same = self.settings.same_ids
        consumer_id = member.consumer_id if same else f"{GROUP}_{member.name}x{self._incarnations}"
        topics = [topic for topic in sorted(self.partitions) if self._unsubscribing.random() < 0.7]
        threads = self.settings.streams
        subscription = {topic: self._unsubscribing.randint(1, threads) for topic in topics or sorted(self.partitions)}
        self._start_member(member.name, consumer_id, subscription, member.store)

    def _join_jvm(self):
        self._incarnations += 1
        jvm = JvmMember(self, f"jvm{self._incarnations}", dict.fromkeys(sorted(self.partitions), 1))
        self.record("joins", jvm.name, jvm.consumer_id, jvm.subscription)
        self.jvms.append(jvm)

    def gone(self, member):
        """A member is about to close its store."""
        if member in self.members:
            self.members.remove(member)
        self.by_store.pop(member.store, None)
        self._forget_store(member.store)

    def _forget_store(self, store):
        self._due.pop(store, None)
        self._cut.pop(store, None)
        self._unheard.pop(store, None)
        if not store.linked and self.server.is_alive(store.server_session_id):
            self._orphans[store.server_session_id] = self.clock.now + TIMEOUT_S

    def bury(self, member):
        """A member has died; its session lives on for a while."""
        self.record("dies", member.name)
        member.alive = False
        self._frozen.pop(member, None)
        self.members.remove(member)
        self.by_store.pop(member.store)
        self.server._stores.remove(member.store)
        member.store.linked = False
        self._forget_store(member.store)
        self._crashed_ids.append(member.consumer_id)

    # Choices.

    def _one_of(self, candidates):
        return candidates[int(self.rng.random() * len(candidates))] if candidates else None

    def _turn(self):
        member = self._one_of(self.members)
        if member is None or member.turning or member.committing or member in self._frozen:
            return
        for _ in range(self.rng.choice((1, 1, 3, 10))):
            if not member.turn():
                return

    def _deliver(self):
        waiting = list(self.server.pending())
        store = self._one_of(waiting)
        if store is not None:
            self.server.deliver_next(store)

    def _use(self):
        if self.jvms and self.rng.random() < 0.2:
            self._one_of(self.jvms).take()
            return
        member = self._one_of(self.members)
        if member is None or member.using or member in self._frozen:
            return
        self._let_use(member, self._one_of(member.users))

    def _let_use(self, member, user):
        if user.away_until > self.clock.now:
            return
        if self._steers and self.faults and self._steering.random() < 0.2:
            user.steer(self._steering)
        chance = self.rng.random()
        try:
            if chance < 0.1 and not member.turning and not member.closing:
                user.commit()
            elif chance < 0.1 + self.settings.slow_users * 0.3:
                user.away_until = self.clock.now + self.rng.choice((0.5, 2.0, 5.0, 60.0))
            elif not member.closing or user.hand:
                user.take(self.rng.randint(1, 4))
        except Crash:
            if member.alive:
                self.bury(member)

    def _produce(self):
        topic = self._one_of(sorted(self.partitions))
        tp = TopicPartition(topic, int(self.rng.random() * self.partitions[topic]))
        self.kafka.ends[tp] += self.rng.randint(1, 3)
        self.record("produced", tp, self.kafka.ends[tp])

    def _leave(self):
        member = self._one_of(self.members)
        if member is None or member.closing or member.turning or member.using or member in self._frozen:
            return
        if self._unsubscribes and self._unsubscribing.random() < 0.6:
            member.unsubscribing = True
        elif len(self.members) < 2 or self.rng.random() < 0.4:
            return
        member.ask_to_close()

    def _cut_connection(self):
        store = self._one_of([*self.by_store, *(jvm.store for jvm in self.jvms)])
        if store is not None and store.linked and not store.is_stalled and self.rng.random() < 0.5:
            self.record("cut", self.server.actors[store])
            self.server.suspend(store)
            # the server's own ticks make a session last somewhat longer than its timeout
            self._cut[store] = self.clock.now + TIMEOUT_S * (1 + self.rng.random() / 2)

    def _heal_connection(self):
        store = self._one_of([store for store in self._cut if not store.is_stalled])
        if store is not None:
            self._heal(store)

    def _heal(self, store):
        self.record("healed", self.server.actors[store])
        del self._cut[store]
        self.server.resume(store)

    def _forget_session(self):
        store = self._one_of([*self.by_store, *(jvm.store for jvm in self.jvms)])
        if store is not None and store.linked and self.rng.random() < 0.4:
            self._end_session(store.server_session_id, "forgotten")

    def _end_session(self, session_id, reason):
        self.server.reason = reason
        self.server.expire(session_id)
        self.server.reason = "closed"

    def _crash(self):
        member = self._one_of(self.members)
        if member is None or member.turning or member.using or self.rng.random() < 0.5:
            return
        self.bury(member)

    def _freeze(self):
        member = self._one_of(self.members)
        if member is None or member.turning or member.using or member in self._frozen:
            return
        if self.rng.random() < self.settings.freeze * 20:
            self._stop(member)

    def _add_partitions(self):
        topic = self._one_of(sorted(self.partitions))
        if self.partitions[topic] < 6:
            self.partitions[topic] += 1
            self.record("partitions", topic, self.partitions[topic])
            self._write_topic(topic)

    def _write_topic(self, topic):
        path = f"/brokers/topics/{topic}"
        data = encode_topic(TopicAssignment(dict.fromkeys(range(self.partitions[topic]), (0,))))
        if self.admin.exists(path) is None:
            self.admin.create(path, data, make_parents=True)
        else:
            self.admin.set_data(path, data)

    def _reset(self):
        tp = self._one_of(sorted(self.kafka.ends))
        if tp is None or self.rng.random() < 0.5:
            return
        offset = self.rng.randint(0, self.kafka.ends[tp])
        before = self.checker.offsets.get(tp, (0, ""))[0]
        self.record("operator", "skips to" if offset > before else "goes back to", tp, offset)
        path = f"{OFFSETS}/{tp.topic}/{tp.partition}"
        if self.admin.exists(path) is None:
            self.admin.create(path, encode_offset(offset), make_parents=True)
        else:
            self.admin.set_data(path, encode_offset(offset))

    def _forbid(self):
        """An ACL keeps members from writing an offset znode, for a while."""
        tp = self._forbidding.choice(
            [TopicPartition(t, n) for t, count in self.partitions.items() for n in range(count)]
        )
        path, forbidden = f"{OFFSETS}/{tp.topic}/{tp.partition}", self.server.tree.forbidden
        if path in forbidden:
            forbidden.discard(path)
        else:
            self.record("forbidden", tp)
            forbidden.add(path)

    def _steal(self):
        tp = self._one_of(sorted(self.checker.owners))
        if tp is not None and self.rng.random() < 0.4:
            self.record("operator", "deletes the owner of", tp)
            self.admin.delete(f"{OWNERS}/{tp.topic}/{tp.partition}")

    def _deregister(self):
        """An operator deletes an id znode; a member of the JVM would never notice that it was its own."""
        ids = [life for life in self.checker.registered if not life.startswith(f"{GROUP}_jvm")]
        name = self._one_of(sorted(ids))
        if name is not None and self.rng.random() < 0.3:
            self.record("operator", "deletes the id of", name)
            self.admin.delete(f"{IDS}/{name}")

    def _resume_jvm(self):
        jvm = self._one_of(self.jvms)
        for _ in range(self.rng.choice((1, 3, 10))):
            jvm.resume()

    # Time.

    def _pass_time(self):
        if self._depth:
            self.advance(self.rng.choice(_PAUSES[:3]))
        else:
            self.advance(self.rng.choice(_PAUSES))

    def advance(self, seconds):
        """Move the clock; what cannot wait any longer happens on the way."""
        end = self.clock.now + seconds
        while True:
            for store in self.server._stores:
                if not store.queue or store.is_stalled:
                    self._due.pop(store, None)
                elif store not in self._due:
                    first = store.queue[0].event
                    lost = isinstance(first, SessionEvent) and first.kind is SessionKind.SUSPENDED
                    self._due[store] = self.clock.now + (NOTICE_S if lost else NETWORK_S)
            due = (self._due, self._cut, self._orphans, self._frozen, self._unheard)
            now = min(end, self._next_alarm(), *(at for waiting in due for at in waiting.values()))
            self.clock.now = max(now, self.clock.now)
            self._let_happen(self.clock.now)
            if self.clock.now >= end:
                return

    def _next_alarm(self):
        at = [
            member.wake_at
            for member in self.members
            if not (member.turning or member.committing or member in self._frozen)
        ]
        return max(min(at, default=1e12), self.clock.now + 0.001)

    def _let_happen(self, now):
        for store, due in list(self._due.items()):
            if due <= now and self._due.pop(store, None) is not None and store in self.server._stores:
                store.deliver()
        for session_id, due in list(self._orphans.items()):
            if due <= now:
                del self._orphans[session_id]
                self._end_session(session_id, "expired")
        for store, due in list(self._cut.items()):
            if due <= now and store in self._cut:
                # it stays cut, and its client does not know
                self._cut[store] = 1e12
                self._end_session(store.server_session_id, "expired")
        for store, due in list(self._unheard.items()):
            if due <= now and self._unheard.pop(store, None) is not None:
                self._end_session(store.server_session_id, "expired")
        for member, due in list(self._frozen.items()):
            if due <= now:
                self._go_on(member)
                if self.faults and self.rng.random() < 0.5:
                    # all its threads wake up together, and its users' may be the first
                    self._let_use(member, self._one_of(member.users))
        for member in list(self.members):
            if member.wake_at > now or not member.alive or member.turning or member.committing:
                continue
            if member in self._frozen:
                continue
            if self.settings.punctual or not self.faults or self.rng.random() < 0.5:
                member.come_to_rest()

    # The end.

    def _heal_everything(self):
        self.server.tree.forbidden.clear()
        for member in list(self._frozen):
            self._go_on(member)
        for store in list(self._cut):
            self._heal(store)
        self._end_twins()

    def _end_twins(self):
        """Of the members that share an id the one that is registered stays."""
        for member in list(self.members):
            alike = [one for one in self.members if one.consumer_id == member.consumer_id and not one.closing]
            if len(alike) > 1 and not (member.closing or member.is_registered):
                member.ask_to_close()

    def _calm_down(self, limit_s, *, must):
        """Everybody gets his turns until the group has settled."""
        end = self.clock.now + limit_s
        while not self._is_settled():
            if self.clock.now > end:
                if must and not self._is_held_up_by_a_jvm():
                    raise Violation("not settled", self._describe())
                return
            self._let_everybody_act()
            self._end_twins()
            self.advance(0.5)

    def _is_held_up_by_a_jvm(self):
        """A JVM member that found its own claim, whose reply was lost, does not undo it: it stays with the session."""
        expected = self._expected()
        ids = {jvm.name: jvm.consumer_id for jvm in self.jvms}
        return any(
            life.actor in ids and (tp not in expected or expected[tp].consumer_id != ids[life.actor])
            for tp, life in self.checker.owners.items()
        )

    def _let_everybody_act(self):
        for store in list(self.server._stores):
            store.deliver()
        for member in list(self.members):
            if member.alive:
                member.come_to_rest()
        for jvm in self.jvms:
            for _ in range(200):
                if self.clock.now < jvm.sleeping_until or not jvm.has_work:
                    break
                jvm.resume()
        for member in list(self.members):
            for user in member.users:
                if user.away_until <= self.clock.now and self.rng.random() < 0.7:
                    user.take(3)

    def _is_settled(self):
        if self._orphans or self._cut or any(member.closing or not member.is_settled for member in self.members):
            return False
        if any(member.wake_at <= self.clock.now or member.is_overwritten for member in self.members):
            return False
        if any(member.follower.held for member in self.members):
            # no request stands any more, and each looks again until it has seen that
            return False
        if any(self.checker.actors[member.name].suspended_at is not None for member in self.members):
            return False
        if any(jvm.has_work for jvm in self.jvms) or any(store.queue for store in self.server._stores):
            return False
        expected = self._expected()
        # a member of the JVM gives up after its tries, and never looks whether its owner znodes are still there
        helpless = {jvm.consumer_id for jvm in self.jvms}
        for tp, thread in expected.items():
            owner = self.checker.owners.get(tp)
            if thread.consumer_id in helpless:
                if owner is not None and owner.actor in self.checker.actors:
                    return False
            elif owner is None or self._id_of(owner.actor) != thread.consumer_id:
                return False
        for member in self.members:
            mine = {tp: thread for tp, thread in expected.items() if thread.consumer_id == member.consumer_id}
            if dict(member.owned) != mine:
                return False
        return True

    def _id_of(self, name):
        for member in (*self.members, *self.jvms):
            if member.name == name:
                return member.consumer_id
        return None

    def _expected(self):
        """The assignors' answer to what ZooKeeper says now."""
        tree = self.server.tree
        members = {}
        try:
            for name in tree.children(IDS).names:
                path = f"{IDS}/{name}"
                with contextlib.suppress(MalformedZnodeError):
                    members[name] = decode_registration(path, tree.read(path).data)
        except NoNodeError:
            return {}
        partitions = {topic: tuple(range(count)) for topic, count in self.partitions.items()}
        if members and all(told.coordination == "leader" for told in members.values()):
            return self._expected_of_led(GroupSnapshot(GROUP, members, partitions))
        return ASSIGNORS[self.settings.strategy](GroupSnapshot(GROUP, members, partitions), "1.0")

    def _expected_of_led(self, snapshot):
        """What the last generation says, if it is of those that are there and of all that they subscribe to."""
        given = self.generation()
        lives = {f"{member.consumer_id}-{member.store.server_session_id:x}" for member in self.members}
        topics = {topic for told in snapshot.members.values() for topic, _ in told.subscription}
        due = {TopicPartition(topic, n) for topic in topics for n in snapshot.partitions[topic]}
        found = threads_of(given.shares, snapshot)
        nobody = ConsumerThreadId("nobody", 0)
        if lives != given.shares.keys():
            return dict.fromkeys(due, nobody)
        return {**dict.fromkeys(due, nobody), **found}

    def generation(self):
        """Of a led group, as ZooKeeper has it."""
        path = generation_path(GROUP)
        try:
            return decode_generation(path, self.server.tree.read(path).data)
        except NoNodeError:
            return NO_GENERATION

    def _describe(self):
        phases = ", ".join(
            f"{member.name} {member.coordinator.status.phase.value} {sorted(map(str, member.owned))}"
            f" {member.coordinator.status.error or ''}"
            for member in self.members
        )
        owners = {str(tp): life.actor for tp, life in sorted(self.checker.owners.items())}
        expected = {str(tp): str(thread) for tp, thread in self._expected().items()}
        return f"{phases}; owners {owners}; expected {expected}; members of the JVM {[j.gave_up for j in self.jvms]}"

    def _jvms_leave(self):
        if not self.jvms:
            return
        for jvm in list(self.jvms):
            self.jvms.remove(jvm)
            self.record("leaves", jvm.name)
            jvm.stop()
        self._calm_down(self._settle_s, must=True)

    def _deliver_everything(self):
        if {topic for member in self.members for topic in member.subscription} < self.partitions.keys():
            self._join(always=True, everything=True)
            self._calm_down(self._settle_s, must=True)
        for member in self.members:
            for user in member.users:
                user.away_until = 0.0
                # of two polls one may only say that an offset is missing
                while user.take(4) or user.take(4):
                    pass
        self.checker.check_everything_was_delivered()

    def _everybody_leaves(self):
        for member in list(self.members):
            member.ask_to_close()
        end = self.clock.now + 10.0
        while self.members:
            if self.clock.now > end:
                raise Violation("never leaves", self._describe())
            self._let_everybody_act()
            self.advance(0.2)
        self.checker.check_everything_was_left_in_order()


def run_world(seed):
    """The world of a seed, at its end; and the Violation that ended it, or None."""
    world = World(seed)
    try:
        world.run()
    except Violation as violation:
        return world, violation
    return world, None
