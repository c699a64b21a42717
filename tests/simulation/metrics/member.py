"""A member of a scene: a real connector without its thread, the user of its streams, and the truth about both."""

from __future__ import annotations

from itertools import count

from legacy_consumer import ConsumerConnector
from legacy_consumer.member.membership import Membership
from legacy_consumer.metrics import MemberCollector
from rebalance.coordinator import Coordinator
from rebalance.counters import Vitals
from rebalance.machine import Phase
from tests.simulation.metrics.brokers import Client
from zk_layout.errors import LegacyConsumerError
from zk_layout.store import SessionKind

MAX_TURNS = 10_000
_lives = count(1)


class MemberClock:
    """The scene's clock as a member sees it: a wait ends at once and moves only the member's own time."""

    def __init__(self, clock, client):
        self._clock = clock
        self._client = client
        self._waited = 0.0

    def monotonic(self):
        return self._clock.now + self._waited

    def wall_ms(self):
        return self._clock.wall_ms()

    def wait(self, event, timeout_s):
        if self._client.waits:
            # a scrape gives up brokers that do not answer
            return event.is_set()
        self._waited += timeout_s
        return event.wait(0)


class ScrapeClock(MemberClock):
    """The scene's clock as a scrape sees it: brokers answer at once, or not during the scrape."""

    def wait(self, event, timeout_s):
        return event.is_set() if self._client.is_waited_for else event.wait(60)


class TurnedCoordinator(Coordinator):
    """A coordinator without a thread: the scene takes its turns. stuck_since: the time since which one step hangs."""

    stuck_since = None

    def start(self):
        self.open()

    def wait_until(self, reached, timeout_s):
        return True

    @property
    def vitals(self):
        busy_s = 0.0 if self.stuck_since is None else self._clock.monotonic() - self.stuck_since
        return Vitals(not self.is_closed, busy_s, self._state.connected)

    def come_to_rest(self):
        """Take all turns that are due. Returns: the time of the next turn."""
        for _ in range(MAX_TURNS):
            if self.is_closed:
                return float("inf")
            wait_s = self.turn()
            if wait_s > 0:
                return self._clock.monotonic() + wait_s
        raise AssertionError("a coordinator never comes to rest")

    def close(self, timeout_s):
        super().close(timeout_s)
        self.come_to_rest()


class SceneMembership(Membership):
    def make_coordinator(self, registration):
        made = super().make_coordinator(registration)
        made.__class__ = TurnedCoordinator
        return made


class SceneConnector(ConsumerConnector):
    def _new_membership(self, past):
        made = super()._new_membership(past)
        made.__class__ = SceneMembership
        return made


class Member:
    """One member's process. name: also the instance label of its scrapes.

    rate: messages a second that its user handles. is_stuck: the user never finishes the messages in hand.
    """

    def __init__(self, scene, name, topics, *, rate=1000, **properties):
        self.scene = scene
        self.name = name
        self.topics = topics
        self.rate = rate
        self.is_stuck = self.is_frozen = False
        self.client = Client(scene.brokers)
        self.store = scene.zookeeper.connect(name)
        scene.note_session(self)
        self.clock = MemberClock(scene.clock, self.client)
        self.connector = SceneConnector(
            store=self.store,
            fetchers=self.client,
            clock=self.clock,
            # an address of its own, as if each member were its own process
            zookeeper_connect=f"{name}:2181",
            group_id="g",
            consumer_id=name,
            **{"auto_offset_reset": "smallest", "consumer_timeout_ms": 0, "drain_timeout_ms": 3000, **properties},
        )
        self.collector = MemberCollector([self.connector], clock=ScrapeClock(scene.clock, self.client))
        self.consumed = {}
        """{partition: the true position}; None while no position is known."""
        self.hand = {}
        self.hand_since = None
        self.asked_at = scene.clock.now
        self.lives = {}
        """{partition: the number of its life}: a new one for each claim, seek and new topic."""
        self.counted_from = {}
        """{partition: the offset from which the next commit counts messages}."""
        self.counted = {"consumed": {}, "committed": {}}
        self.events = {"suspended": 0, "expired": 0, "connected": 0}
        self.moves = 0
        self.foreign = 0
        self.troubles = 0
        """The number of events that may make commits and rebalances fail: cuts, freezes, and forbidden znodes."""
        self.cut_at = None
        self.joined_at = scene.clock.now
        self.store.add_session_listener(self._told)
        streams = self.connector.create_message_streams(dict.fromkeys(topics, 1))
        self._iterators = {topic: self._batches(stream) for topic, [stream] in streams.items()}

    @property
    def id(self):
        return self.connector.consumer_id

    @property
    def coordinator(self):
        return self.connector._membership._coordinator

    @property
    def is_settled(self):
        return self.connector.status.phase is Phase.STABLE

    def _told(self, event):
        self.events[event.kind.name.lower()] += 1
        if event.kind is SessionKind.EXPIRED:
            # the member drops its partitions, and messages in hand do not count
            self.lives.clear()
            self.consumed.clear()
            self.hand.clear()

    def note_claimed(self, tp, committed):
        """Note that the member created an owner znode. committed: the offset that counted then, or None."""
        self.lives[tp] = next(_lives)
        self.consumed[tp] = self.counted_from[tp] = committed
        for counts in self.counted.values():
            counts.setdefault(tp.topic, 0)
        self.moves += 1

    def note_topic_made_anew(self, topic):
        """Note that a topic was created again before the member knew of its deletion: owned partitions begin again."""
        for tp in [tp for tp in self.lives if tp.topic == topic]:
            self.lives[tp] = next(_lives)
            self.consumed[tp] = self.counted_from[tp] = None

    def seek(self, tp, position):
        """Seek, as the user does; messages of the partition in hand then do not count. Raises: NotAssignedError."""
        self.connector.seek(tp, position)
        self.lives[tp] = next(_lives)
        self.consumed[tp] = self.counted_from[tp] = position if position >= 0 else None

    def note_released(self, tp):
        """Note that the member has deleted an owner znode."""
        self.lives.pop(tp, None)
        self.consumed.pop(tp, None)
        self.moves += 1

    def note_committed(self, tp, after):
        """Note that the member has written an offset."""
        self._advance("committed", tp, self.counted_from.get(tp), after)
        self.counted_from[tp] = after

    # The steps that the scene takes.

    def turn(self):
        if not self.is_frozen and self.coordinator.stuck_since is None:
            self.clock._waited = 0.0
            self.coordinator.come_to_rest()

    def use(self, seconds):
        """Finish the messages in hand, and take the messages that the user handles in the next seconds."""
        if self.is_frozen or self.is_stuck:
            return
        self.clock._waited = 0.0
        self.count_in_hand()
        share = max(1, int(self.rate * seconds / len(self.topics)))
        for batches in self._iterators.values():
            messages = batches(share)
            self.hand.update({m.tp: (self.lives[m.tp], m.number + 1) for m in messages})
        self.clock._waited = 0.0
        self.asked_at = self.scene.clock.now
        self.hand_since = self.asked_at if self.hand else None
        self._note_placed()

    def _batches(self, stream):
        made = {}

        def take(size):
            if made.get("size") != size:
                made.update(size=size, iterator=stream.batches(size, timeout=0))
            try:
                return next(made["iterator"], [])
            except LegacyConsumerError:
                made.clear()
                return []

        return take

    def count_in_hand(self):
        """Count the messages in hand as done."""
        for tp, (life, offset) in self.hand.items():
            if self.lives.get(tp) == life:
                self._advance("consumed", tp, self.consumed.get(tp), offset)
                self.consumed[tp] = offset
        self.hand = {}

    def _note_placed(self):
        """Take over positions that the fetcher moved into the log; this consumes nothing.

        Messages consumed before and not committed yet count with the next commit.
        """
        for tp, at in self.client.placed.items():
            if tp in self.lives:
                before, counted = self.consumed.get(tp), self.counted_from.get(tp)
                is_counted = before is not None and counted is not None
                self.counted_from[tp] = at - (before - counted) if is_counted else at
                self.consumed[tp] = at
        self.client.placed.clear()

    def _advance(self, what, tp, before, after):
        if before is not None and after > before:
            self.counted[what][tp.topic] = self.counted[what].get(tp.topic, 0) + after - before

    def leave(self):
        self.connector.shutdown()
