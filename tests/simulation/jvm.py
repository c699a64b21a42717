"""A model of Kafka's Scala consumer (0.8.2 to 1.1.1) as a generator that stops before each ZooKeeper operation.

The model has the behaviour that other members notice: it releases everything first, reads offsets before it claims,
creates one znode after another, deletes an owner znode by its path without a check of the owner, gives up after its
tries, commits without a check of the owner, and forgets its claims without deleting them when its session expires. Its
fetchers continue until its next rebalance stops them.
"""

from __future__ import annotations

import contextlib

from rebalance.assignors import ASSIGNORS
from rebalance.snapshot import GroupSnapshot
from tests.simulation.zookeeper import GROUP, IDS, OFFSETS, OWNERS
from zk_layout.codecs import decode_offset, decode_registration, decode_topic, encode_offset, encode_registration
from zk_layout.errors import ConnectionLostError, MalformedZnodeError, NodeExistsError, NoNodeError
from zk_layout.model import ConsumerRegistration, SubscriptionPattern
from zk_layout.store import SessionKind, WatchKind


class AttemptFailedError(Exception):
    """One try of a rebalance failed."""


class JvmMember:
    """A JVM member; resume() takes one step. It retries operations that lose the connection, as ZkClient does."""

    def __init__(self, world, name, subscription):
        self.world = world
        self.name = name
        self.consumer_id = f"{GROUP}_{name}"
        self.subscription = subscription
        self.store = world.server.connect(name)
        self.alive = True
        self.gave_up = False
        self.sleeping_until = 0.0
        self._triggered = False
        self._new_session = False
        self._unwatched = {IDS, *(f"/brokers/topics/{topic}" for topic in subscription)}
        self._seen = {}
        self._registry = {}
        self._fetching = {}
        """{partition: [next offset to hand out, committed offset]}; the registry shares the lists of its partitions."""
        self._commit_at = world.clock.now + 5.0
        self._main = self._live()
        self._timer = None
        self.is_idle = False
        self.store.add_session_listener(self._on_session)

    # The steps that the world takes.

    def resume(self):
        """Run up to the next operation of the commit timer or of the main thread, unless that sleeps."""
        now = self.world.clock.now
        if self._timer is None and now >= self._commit_at:
            self._commit_at = now + 5.0
            self._timer = self._commit()
        if self._timer is not None and (self.is_idle or self.world.rng.random() < 0.5):
            if next(self._timer, self) is self:
                self._timer = None
            return
        if now >= self.sleeping_until:
            next(self._main)

    @property
    def has_work(self):
        return not self.is_idle or self._triggered or self._new_session or bool(self._unwatched)

    def take(self):
        """Take a message, as the user does; next() counts it as consumed."""
        for tp in sorted(self._fetching):
            position = self._fetching[tp]
            if position[0] < self.world.kafka.ends[tp]:
                offset = position[0]
                position[0] += 1
                self.world.record("took", self.name, tp, offset, 0)
                self.world.record("acked", self.name, tp, offset, 0)
                return True
        return False

    def stop(self):
        """End the process in order: a last commit, then the end of its session."""
        for _ in self._commit():
            pass
        self.alive = False
        self.world.gone(self)
        self.store.close()

    # Its threads.

    def _on_session(self, event):
        if event.kind is SessionKind.EXPIRED:
            # ZkClient does this on its event thread, even during a rebalance
            self._registry = {}
            self._new_session = True

    def _on_change(self, event):
        self._unwatched.add(event.path)
        if event.kind is not WatchKind.LOST:
            self._triggered = True

    def _ask(self, operation, *arguments):
        while True:
            yield
            try:
                return operation(*arguments)
            except ConnectionLostError:
                continue

    def _live(self):
        yield from self._register()
        yield from self._watch()
        yield from self._rebalance()
        while True:
            if self._new_session:
                self._new_session = False
                yield from self._register()
                yield from self._watch()
                yield from self._rebalance()
            elif self._unwatched:
                yield from self._watch()
            elif self._triggered:
                self._triggered = False
                yield from self._rebalance()
            else:
                self.is_idle = True
                yield
                self.is_idle = False

    def _watch(self):
        for path in sorted(self._unwatched):
            self._unwatched.discard(path)
            try:
                if path == IDS:
                    seen = yield from self._ask(self.store.get_children, path, self._on_change)
                else:
                    seen = (yield from self._ask(self.store.exists, path, self._on_change)).mzxid
            except NoNodeError:
                self._unwatched.add(path)
            else:
                # the JVM client sets its watches again when it reconnects, and the server sends the missed events
                self._triggered |= self._seen.get(path, seen) != seen
                self._seen[path] = seen

    def _register(self):
        path = f"{IDS}/{self.consumer_id}"
        data = encode_registration(
            ConsumerRegistration(SubscriptionPattern.STATIC, tuple(self.subscription.items()), 0)
        )
        while True:
            try:
                yield from self._ask(lambda: self.store.create(path, data, ephemeral=True, make_parents=True))
            except NodeExistsError:
                stat = yield from self._ask(self.store.exists, path)
                if stat is not None and stat.ephemeral_owner == self.store.session_id:
                    return
                self.sleeping_until = self.world.clock.now + 6.0
                yield
            else:
                return

    def _rebalance(self):
        settings = self.world.settings
        for _ in range(settings.max_retries):
            self.gave_up = False
            try:
                if (yield from self._attempt()):
                    return
            except (AttemptFailedError, MalformedZnodeError, NoNodeError):
                pass
            self._fetching = {}
            yield from self._commit()
            self.sleeping_until = self.world.clock.now + settings.backoff_ms / 1000
            yield
        self.gave_up = True
        self.world.record("gave up", self.name)

    def _attempt(self):
        yield from self._ask(self.store.get_data, f"{IDS}/{self.consumer_id}")
        self._fetching = {}
        yield from self._commit()
        for tp in sorted(self._registry):
            yield from self._delete(f"{OWNERS}/{tp.topic}/{tp.partition}")
        self._registry = {}
        mine = yield from self._my_share()
        offsets = {}
        for tp in mine:
            path = f"{OFFSETS}/{tp.topic}/{tp.partition}"
            try:
                offsets[tp] = max(0, decode_offset(path, (yield from self._ask(self.store.get_data, path)).data))
            except NoNodeError:
                offsets[tp] = 0
        if not (yield from self._claim(mine)):
            return False
        self._registry = {tp: [offset, offset] for tp, offset in offsets.items()}
        self._fetching = dict(self._registry)
        return True

    def _my_share(self):
        members, partitions = {}, {}
        for name in (yield from self._ask(self.store.get_children, IDS)):
            path = f"{IDS}/{name}"
            members[name] = decode_registration(path, (yield from self._ask(self.store.get_data, path)).data)
        for topic in sorted({topic for member in members.values() for topic, _ in member.subscription}):
            path = f"/brokers/topics/{topic}"
            partitions[topic] = tuple(
                decode_topic(path, (yield from self._ask(self.store.get_data, path)).data).partitions
            )
        yield from self._ask(self.store.get_children, IDS)
        if self.consumer_id not in members:
            raise AttemptFailedError
        members = {name: members[name] for name in sorted(members)}
        assignment = ASSIGNORS[self.world.settings.strategy](GroupSnapshot(GROUP, members, partitions), "1.0")
        return {tp: thread for tp, thread in assignment.items() if thread.consumer_id == self.consumer_id}

    def _claim(self, mine):
        created = []
        succeeded = True
        for tp, thread in mine.items():
            path = f"{OWNERS}/{tp.topic}/{tp.partition}"
            data = str(thread).encode()
            try:
                yield from self._ask(self._create_owner, path, data)
                created.append(path)
            except NodeExistsError:
                try:
                    held = (yield from self._ask(self.store.get_data, path)).data
                except NoNodeError:
                    held = None
                succeeded &= held == data
        if not succeeded:
            for path in reversed(created):
                yield from self._delete(path)
        return succeeded

    def _delete(self, path):
        """Delete the znode, whichever member owns it."""
        with contextlib.suppress(NoNodeError):
            yield from self._ask(self.store.delete, path)

    def _create_owner(self, path, data):
        self.store.create(path, data, ephemeral=True, make_parents=True)

    def _create_offset(self, path, data):
        self.store.create(path, data, make_parents=True)

    def _commit(self):
        for tp, position in sorted(self._registry.items()):
            if position[0] == position[1]:
                continue
            path, offset = f"{OFFSETS}/{tp.topic}/{tp.partition}", position[0]
            try:
                yield from self._ask(self.store.set_data, path, encode_offset(offset))
            except NoNodeError:
                try:
                    yield from self._ask(self._create_offset, path, encode_offset(offset))
                except NodeExistsError:
                    continue
            position[1] = offset
