"""A world: one ZooKeeper, logs, members of ours and of the JVM, users, an operator, faults, and one seed.

The seeded generator chooses each event, and time is a number that only a choice moves. After `steps` choices the faults
stop, and the group must settle (ending.py). Then users must have got all messages, and all members leave in order.
"""

from __future__ import annotations

import random
from bisect import bisect
from collections import Counter
from copy import copy
from dataclasses import replace
from itertools import accumulate

from rebalance.led.records import generation_path, round_path
from tests.simulation.brokers import Brokers
from tests.simulation.by_hand import Placing
from tests.simulation.checker import Checker, Violation
from tests.simulation.commands import Commands
from tests.simulation.denials import Denials
from tests.simulation.ending import Ending
from tests.simulation.history import History
from tests.simulation.hooks import Hooks
from tests.simulation.jvm import JvmMember
from tests.simulation.led_stranger import LedStranger
from tests.simulation.member import Crash, OurMember
from tests.simulation.offsets_in_kafka import GroupCoordinator, use_kafka
from tests.simulation.others import Others
from tests.simulation.settings import draw_settings
from tests.simulation.timing import TIMEOUT_S, Timing
from tests.simulation.topics import Topics
from tests.simulation.users import Trouble, nobody_struck
from tests.simulation.zookeeper import (
    GROUP,
    IDS,
    OFFSETS,
    OWNERS,
    InjectedError,
    SimulatedZooKeeper,
)
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.group_members import FakeClock
from zk_layout.codecs import encode_offset, encode_topic
from zk_layout.errors import ConnectionLostError, NotPermittedError, ZooKeeperError
from zk_layout.memory_store import Fault, Refusal
from zk_layout.model import TopicAssignment, TopicPartition

MOST_FAULTS = 8
"""The most faults of one member at one moment; with more, a step of many requests would never succeed."""
LED_STRATEGIES = ("range", "roundrobin", "sticky", "cooperative-sticky", "cooperative-sticky", "failover")
"""The strategies from which a led world draws one; a strategy that is named twice is drawn more often."""
DEPTH = 2
"""The most actors that may be interrupted between two of their operations at one time."""

_COMMIT_STRIKES = 6
"""The factor by which an exception is more likely at a request of a commit than at a look at the clock.

Requests of commits are rare.
"""

# how ZooKeeper may refuse a request, or leave it without an answer, while the connection stands
_REFUSALS = (
    Refusal(NotPermittedError("/injected")),
    Refusal(ZooKeeperError("injected: quota exceeded")),
    Refusal(InjectedError("unforeseen")),
    Refusal(InjectedError("unforeseen"), carried_out=True),
    Refusal(ConnectionLostError("injected: no answer in time")),
    Refusal(ConnectionLostError("injected: no answer in time"), carried_out=True),
)
# seconds that one choice of time lasts, from a moment between two requests to longer than NOTICE_S
_PAUSES = (0.01, 0.05, 0.2, 0.5, 0.5, 1.0, 1.6, 3.1, 4.5)


def led_strategy(seed):
    """Return the strategy of a seed's led world; None for a classic group."""
    # a generator of its own: the other choices of a seed do not depend on it
    drawn = random.Random(f"led {seed}")
    return drawn.choice(LED_STRATEGIES) if drawn.random() < 0.25 else None


class World:
    """One simulated world. seed: it decides everything that happens."""

    def __init__(self, seed):
        self.seed = seed
        self.rng = rng = random.Random(seed)
        drawn = draw_settings(rng)
        in_kafka = use_kafka(seed, drawn)
        self.settings = settings = in_kafka or drawn
        self.clock = FakeClock()
        self.history = History(self.clock)
        self.record = self.history.record
        self.checker = Checker(self.history, settings)
        # it draws from its own generator: the other choices of a seed do not depend on it
        self.group_offsets = GroupCoordinator(self, is_used=in_kafka is not None)
        self.checker.is_in_kafka = self.group_offsets.is_alone
        self.checker.is_dual = self.group_offsets.is_dual
        self._forbidding = random.Random(f"offsets {seed}")
        may_forbid = not (settings.jvm_members or self.group_offsets.is_alone)
        self._forbids = may_forbid and self._forbidding.random() < 0.4
        self.server = SimulatedZooKeeper(
            clock=self.clock,
            record=self.record,
            before_request=self.before_request,
            after_request=self._after_request,
            fault=self._fault,
            max_multi_bytes=self._forbidding.choice((1_000_000, 1000, 1500)) if self._forbids else 1_000_000,
        )
        owners = self.checker.owner_of_session
        self.server.tree.is_member = lambda session: owners.get(session) in self.checker.actors
        self.server.tree.forbids = self._forbids_to_lead
        self.kafka = FakeKafka()
        self.fetchers = FakeFetchers(self.kafka)
        self.admin = self.server.connect("operator")
        self.partitions = dict(settings.topics)
        self.denials = Denials(self, may_be=not settings.jvm_members)
        self.server.note_lost = self.denials.note_lost
        self.led = led_strategy(seed)
        self._may_not_lead = "m1" if random.Random(f"may not lead {seed}").random() < 0.2 else None
        """The name of a member that no ACL ever lets write the leader's znodes; None if there is none."""
        self._unsubscribing = random.Random(f"unsubscribing {seed}")
        self._unsubscribes = self._unsubscribing.random() < 0.3
        self.acknowledging = random.Random(f"acknowledging {seed}")
        self.acknowledges = not settings.at_next and self.acknowledging.random() < 0.25
        self.checker.acknowledges = self.acknowledges
        self.placing = self.checker.placing = Placing(
            seed,
            settings.topics,
            has_jvm_members=settings.jvm_members > 0,
            is_acknowledging=self.acknowledges,
        )
        may_begin_at_end = not (settings.jvm_members or self.group_offsets.is_used or self.placing.waits_for_users)
        self.brokers = Brokers(self, may_begin_at_end=may_begin_at_end)
        self.checker.begins_at_end = self.brokers.begins_at_end
        may_have_others = settings.jvm_members or self.group_offsets.is_used or self.placing.topics
        # a member cannot tell whether a topic that an ACL hides was created again
        may_hide = self.denials.are_possible or self.placing.waits_for_users or self.brokers.begins_at_end
        self.topics = Topics(self, may_be=not (may_have_others or may_hide))
        self.hooks = Hooks(seed)
        self._steering = random.Random(f"steering {seed}")
        self._steers = self._steering.random() < 0.4
        self.trouble = Trouble(self, acknowledges=self.acknowledges)
        self._before_polls = random.Random(f"polls begin {seed}")
        self._acts_before_polls = self._before_polls.random() < 0.15
        self.members = []
        self.jvms = []
        self.by_store = {}
        self.faults = False
        self._faults_now = Counter()
        """{(member, moment): number of lost requests}."""
        self.failed_requests = Counter()
        """{member: number of requests lost or refused so far}."""
        self._depth = 0
        self.time = Timing(self)
        self.ending = Ending(self)
        self._incarnations = 0
        self._crashed_ids = []
        self.others = Others(self)
        self.commands = Commands(self)
        self.led_stranger = LedStranger(self)
        if self.others.rng.random() < 0.15:
            # the user configures no pause between two tries
            self.settings = settings = replace(settings, backoff_ms=0)
        is_narrow = self.others.rng.random() < 0.3
        if self.led is not None:
            # the leader writes a generation in one request, which must fit
            self.server.max_multi_bytes = 1_000_000
        elif is_narrow:
            # a claim must take several requests
            self.server.max_multi_bytes = 800
        for topic in self.partitions:
            self.write_topic(topic)
        self.group_offsets.have_read_before()
        self._actions = [
            *self.others.actions(),
            (22, self._turn),
            (16, self._deliver),
            (24, self._use),
            (9, self._pass_time),
            (7, self._produce),
            (1, self.join),
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
        """Live through the whole history. Raises: Violation."""
        for _ in range(self.settings.members):
            self.join(always=True)
            if self.rng.random() < 0.5:
                self.ending.calm_down(20.0)
        for _ in range(self.settings.jvm_members):
            self._join_jvm()
        self.faults = True
        for _ in range(self.settings.steps):
            self._step()
        self.led_stranger.act_last()
        self.faults = False
        self.record("faults end")
        self.group_offsets.carry_out_late(all_of_them=True)
        self.others.leave()
        self.topics.create_all()
        self.ending.heal_everything()
        for member in self.members:
            member.resume_all()
        self.ending.calm_down(must=True)
        self.ending.let_jvms_leave()
        self.ending.deliver_everything()
        self.ending.let_everybody_leave()

    def _step(self):
        if self._forbids and self._forbidding.random() < 0.03:
            self._forbid()
        self.denials.act()
        self.commands.act()
        self.led_stranger.act()
        self.topics.act()
        self.group_offsets.carry_out_late()
        chosen = bisect(self._weights, self.rng.random() * self._weights[-1])
        self._actions[chosen][1]()

    # Interruptions: other actors act between two operations of one actor.

    def before_request(self, store):
        """Before a store's request, let other actors act, let the member die, or raise Interrupted, now and then."""
        if self.faults and (self.others.before_request(store) or self.commands.is_giving(store)):
            self.go_on_meanwhile(0.0)
        member = self.by_store.get(store)
        if member is None or not self.faults or self._depth >= DEPTH:
            return
        rng = self.rng
        if rng.random() < self.settings.crash:
            raise Crash
        if rng.random() < self.settings.interleave:
            self.interlude(member)
        self.strike_commit(store)

    def _after_request(self, store, kind):
        self.checker.note_answer(self.server.actors[store], kind)
        self.strike_commit(store)

    def strike_commit(self, store):
        """Raise Interrupted now and then, before or after a request of a commit that a user asked for.

        After the request, ZooKeeper has carried it out, and the member never gets the answer.
        """
        member = self.by_store.get(store)
        if member is not None and member.committing and not member.turning:
            self.trouble.strike(_COMMIT_STRIKES)

    def before_poll(self, member):
        """Let other actors act after a stream has looked at its partitions for a poll, before its fetcher begins."""
        if self.faults and self._acts_before_polls and self._before_polls.random() < 0.3:
            self.interlude(member)

    def interlude(self, member):
        """Let other actors act while this member is in the middle of a call."""
        if not self.faults or self._depth >= DEPTH:
            return
        with nobody_struck():
            self._let_others_act(member)

    def _let_others_act(self, member):
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
        """Let other actors act while an operator's command waits, or between two of its requests."""
        if self._depth >= DEPTH:
            self.time.advance(seconds)
            return
        self._depth += 1
        for _ in range(self.rng.choice((0, 0, 1, 2)) if not seconds else self.rng.choice((1, 2, 4, 8))):
            self._step()
        self.time.advance(seconds * self.rng.choice((1, 1, 4)))
        self._depth -= 1

    def end_of(self, store):
        """End the connection of an operator's command that has ended, in order or killed."""
        if store.linked:
            store.close()
            return
        self.server._stores.remove(store)
        store.linked = False
        self.time.forget_store(store)

    def _stand_still(self, member):
        """Freeze the member's process in the middle of a call, and let it continue later."""
        self.time.stop(member)
        end, self.time.frozen[member] = self.time.frozen[member], 1e12
        self._depth += 1
        while self.clock.now < end and member.alive:
            self._step()
            self.time.advance(self.rng.choice(_PAUSES))
        self._depth -= 1
        self.time.go_on(member)
        if not member.alive:
            raise Crash

    def _fault(self, session_id, kind):
        if not self.faults:
            return None
        name = self.checker.owner_of_session.get(session_id, "")
        if name in self.checker.actors and (denied := self.denials.refusal(kind)) is not None:
            self.failed_requests[name] += 1
            self.record("refused", name, kind, denied.error, "")
            return denied
        if name in self.checker.actors and self.others.rng.random() < self.others.refuse:
            refusal = self.others.rng.choice(_REFUSALS)
            self.failed_requests[name] += 1
            self.record("refused", name, kind, refusal.error, "done all the same" if refusal.carried_out else "")
            # a copy: a raised error keeps its traceback, and so the whole world, in memory
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
        """Start a member under the consumer.id of a living member, now and then; see Ending for its end."""
        other = self.one_of(self.members)
        if other is not None and not other.closing and len(self.members) < 5 and self.rng.random() < 0.3:
            self.join(always=True, consumer_id=other.consumer_id)

    def join(self, *, always=False, everything=False, consumer_id=None):
        """Start a member, or do nothing. always: start one in any case. everything: it subscribes to all topics."""
        if not always and (len(self.members) > 4 or self.rng.random() < 0.5):
            return
        self._incarnations += 1
        name = f"m{self._incarnations}"
        is_twin = consumer_id is not None
        consumer_id = consumer_id or f"{GROUP}_{name}"
        if not is_twin and self.settings.same_ids and self._crashed_ids and self.rng.random() < 0.8:
            free = self._crashed_ids.pop()
            # a twin may have taken the id
            if all(member.consumer_id != free for member in self.members):
                consumer_id = free
        topics = sorted(self.partitions)
        if self.rng.random() < 0.2 and len(topics) > 1 and not everything:
            topics = topics[1:]
        subscription = {topic: self.rng.randint(1, self.settings.streams) for topic in topics}
        self._start_member(name, consumer_id, subscription)

    def _start_member(self, name, consumer_id, subscription, earlier=None):
        self.record("joins", name, consumer_id, subscription)
        member = OurMember(self, name, consumer_id, subscription, earlier)
        self.members.append(member)
        self.by_store[member.store] = member

    def join_again(self, member):
        """Let a member join again after unsubscribe(), with another subscription, and another id unless one is set."""
        self._incarnations += 1
        same = self.settings.same_ids
        consumer_id = member.consumer_id if same else f"{GROUP}_{member.name}x{self._incarnations}"
        topics = [topic for topic in sorted(self.partitions) if self._unsubscribing.random() < 0.7]
        threads = self.settings.streams
        subscription = {topic: self._unsubscribing.randint(1, threads) for topic in topics or sorted(self.partitions)}
        self._start_member(member.name, consumer_id, subscription, member)

    def _join_jvm(self):
        self._incarnations += 1
        jvm = JvmMember(self, f"jvm{self._incarnations}", dict.fromkeys(sorted(self.partitions), 1))
        self.record("joins", jvm.name, jvm.consumer_id, jvm.subscription)
        self.jvms.append(jvm)

    def gone(self, member):
        """Forget a member that has left; then it closes its store, or joins again with it."""
        if member in self.members:
            self.members.remove(member)
        self.by_store.pop(member.store, None)
        self.time.forget_store(member.store)

    def bury(self, member):
        """Let a member die; its session lives on for a while."""
        self.record("dies", member.name)
        member.alive = False
        self.time.frozen.pop(member, None)
        self.members.remove(member)
        self.by_store.pop(member.store)
        self.server._stores.remove(member.store)
        member.store.linked = False
        self.time.forget_store(member.store)
        self._crashed_ids.append(member.consumer_id)

    # Choices.

    def one_of(self, candidates):
        """Draw one of the candidates; None if there are none."""
        return candidates[int(self.rng.random() * len(candidates))] if candidates else None

    def _turn(self):
        member = self.one_of(self.members)
        if member is None or member.turning or member.committing or member in self.time.frozen:
            return
        for _ in range(self.rng.choice((1, 1, 3, 10))):
            if not member.turn():
                return

    def _deliver(self):
        waiting = list(self.server.pending())
        store = self.one_of(waiting)
        if store is not None:
            self.server.deliver_next(store)

    def _use(self):
        if self.jvms and self.rng.random() < 0.2:
            self.one_of(self.jvms).take()
            return
        member = self.one_of(self.members)
        if member is None or member in self.time.frozen:
            return
        if member.using:
            if self._steers and self.faults and self._steering.random() < 0.5:
                # another thread of the user's code, beside the one that polls or commits
                self._steering.choice(member.users).steer(self._steering)
            return
        self.let_use(member, self.one_of(member.users))

    def let_use(self, member, user):
        """Let the user do one thing: commit, pause for a while, or take messages."""
        if user.away_until > self.clock.now:
            return
        if self._steers and self.faults and self._steering.random() < 0.3:
            user.steer(self._steering)
        chance = self.rng.random()
        try:
            if self.faults:
                self.trouble.befall(user)
            commits = self.group_offsets.user_commits
            if chance < commits and not member.turning and not member.closing:
                user.commit()
            elif chance < commits + self.settings.slow_users * 0.3:
                user.away_until = self.clock.now + self.rng.choice((0.5, 2.0, 5.0, 60.0))
            elif not member.closing or user.hand:
                user.take(self.rng.randint(1, 4))
        except Crash:
            if member.alive:
                self.bury(member)
        if member.ending and member.alive and not (member.closing or member.turning or member.using):
            # a signal handler has ended the streams, so the user's loop is over
            member.ask_to_close()

    def _produce(self):
        topic = self.one_of(sorted(self.partitions))
        tp = TopicPartition(topic, int(self.rng.random() * self.partitions[topic]))
        self.produce(tp, self.rng.randint(1, 3))

    def produce(self, tp, count):
        """Append `count` messages to the partition, if the topic exists."""
        if tp.topic not in self.topics.gone:
            self.kafka.ends[tp] += count
            self.record("produced", tp, self.kafka.ends[tp])

    def _leave(self):
        member = self.one_of(self.members)
        if member is None or member.closing or member.turning or member in self.time.frozen:
            return
        if member.using:
            if self.trouble.has_signals:
                self.trouble.signals.choice((member.end_streams, member.ask_to_close))()
            return
        if self._unsubscribes and self._unsubscribing.random() < 0.6:
            member.unsubscribing = True
        elif len(self.members) < 2 or self.rng.random() < 0.4:
            return
        member.ask_to_close()

    def _cut_connection(self):
        store = self.one_of([*self.by_store, *(jvm.store for jvm in self.jvms)])
        if store is not None and store.linked and not store.is_stalled and self.rng.random() < 0.5:
            self.record("cut", self.server.actors[store])
            self.server.suspend(store)
            # the ZooKeeper server checks sessions at its ticks, so a session lasts somewhat longer than its timeout
            self.time.cut[store] = self.clock.now + TIMEOUT_S * (1 + self.rng.random() / 2)

    def _heal_connection(self):
        store = self.one_of([store for store in self.time.cut if not store.is_stalled])
        if store is not None and self.denials.refuses_credentials(store):
            self.time.refuse(store)
        elif store is not None:
            self.time.heal(store)

    def _forget_session(self):
        store = self.one_of([*self.by_store, *(jvm.store for jvm in self.jvms)])
        if store is not None and store.linked and self.rng.random() < 0.4:
            self.time.end_session(store.server_session_id, "forgotten")

    def _crash(self):
        member = self.one_of(self.members)
        if member is None or member.turning or member.using or self.rng.random() < 0.5:
            return
        self.bury(member)

    def _freeze(self):
        member = self.one_of(self.members)
        if member is None or member.turning or member.using or member in self.time.frozen:
            return
        if member.hook_calls is not None and member.hook_calls.is_running:
            # only _stand_still freezes a process in the middle of a call
            return
        if self.rng.random() < self.settings.freeze * 20:
            self.time.stop(member)

    def _add_partitions(self):
        topic = self.one_of(sorted(self.partitions))
        if self.partitions[topic] < 6:
            self.partitions[topic] += 1
            self.record("partitions", topic, self.partitions[topic])
            self.write_topic(topic)

    def write_topic(self, topic):
        """Write the topic's znode with its present number of partitions, if the topic exists."""
        if topic in self.topics.gone:
            return
        path = f"/brokers/topics/{topic}"
        data = encode_topic(TopicAssignment(dict.fromkeys(range(self.partitions[topic]), (0,))))
        if self.admin.exists(path) is None:
            self.admin.create(path, data, make_parents=True)
        else:
            self.admin.set_data(path, data)

    def _reset(self):
        tp = self.one_of(sorted(self.kafka.ends))
        if tp is None or self.rng.random() < 0.5:
            return
        offset = self.rng.randint(0, self.kafka.ends[tp])
        before = self.checker.offsets.get(tp, (0, ""))[0]
        self.record("operator", "skips to" if offset > before else "goes back to", tp, offset)
        if self.group_offsets.is_used:
            self.group_offsets.reset(tp, offset)
        if not self.group_offsets.is_alone:
            self.write_offset(tp, offset)

    def write_offset(self, tp, offset):
        """Write an offset to ZooKeeper, as an operator does."""
        path = f"{OFFSETS}/{tp.topic}/{tp.partition}"
        if self.admin.exists(path) is None:
            self.admin.create(path, encode_offset(offset), make_parents=True)
        else:
            self.admin.set_data(path, encode_offset(offset))

    def _forbid(self):
        """Forbid members to write an offset znode, as an ACL does; or allow it again."""
        tp = self._forbidding.choice(
            [TopicPartition(t, n) for t, count in self.partitions.items() for n in range(count)]
        )
        path, forbidden = f"{OFFSETS}/{tp.topic}/{tp.partition}", self.server.tree.forbidden
        if path in forbidden:
            forbidden.discard(path)
        else:
            self.record("forbidden", tp)
            forbidden.add(path)

    def _forbids_to_lead(self, session, path):
        """Return whether an ACL forbids this session to write this znode of the leader.

        Only while another member could lead: a member that waits for the same consumer id cannot.
        """
        name = self.checker.owner_of_session.get(session)
        if name != self._may_not_lead or path not in (round_path(GROUP), generation_path(GROUP)):
            return False
        ids = {member.consumer_id for member in self.members if member.name == name}
        return any(member.consumer_id not in ids and not member.ending for member in self.members)

    def _steal(self):
        tp = self.one_of(sorted(self.checker.owners))
        if tp is not None and self.rng.random() < 0.4:
            self.record("operator", "deletes the owner of", tp)
            self.admin.delete(f"{OWNERS}/{tp.topic}/{tp.partition}")

    def _deregister(self):
        """Delete an id znode, as an operator does; not of a JVM member, which would never notice."""
        ids = [life for life in self.checker.registered if not life.startswith(f"{GROUP}_jvm")]
        name = self.one_of(sorted(ids))
        if name is not None and self.rng.random() < 0.3:
            self.record("operator", "deletes the id of", name)
            self.admin.delete(f"{IDS}/{name}")

    def _resume_jvm(self):
        jvm = self.one_of(self.jvms)
        for _ in range(self.rng.choice((1, 3, 10))):
            jvm.resume()

    def _pass_time(self):
        if self._depth:
            self.time.advance(self.rng.choice(_PAUSES[:3]))
        else:
            self.time.advance(self.rng.choice(_PAUSES))


def run_world(seed):
    """Run the world of a seed. Returns: the world at its end, and the Violation that ended it, or None."""
    world = World(seed)
    try:
        world.run()
    except Violation as violation:
        return world, violation
    return world, None
