"""A foreign client that writes and deletes in a group's folders where ACLs allow it.

Beside JVM members it leaves registrations and owners alone: Kafka's Scala consumer gives up at a registration that it
cannot read, and does not notice that its owner znode is gone.
"""

from __future__ import annotations

import time

from legacy_consumer.member.resets import (
    Answer,
    AnswerState,
    Request,
    RequestState,
    answer_path,
    encode_answer,
    encode_request,
    request_path,
)
from tests.support.hostile_bytes import hostile_json
from zk_layout.codecs import encode_registration
from zk_layout.errors import NoNodeError, ZooKeeperError
from zk_layout.kazoo_store import KazooStore
from zk_layout.model import ConsumerRegistration, SubscriptionPattern, TopicPartition
from zk_layout.paths import ConsumerIdPath, ConsumerIdsPath, GroupPath, OffsetPath, OwnerPath
from zk_layout.settings import ZkSettings

NAME = "stranger"


class Stranger:
    """A foreign client.

    deeds: {name: how many of these writes ZooKeeper carried out}. history: of deleted owner znodes.
    """

    def __init__(self, connect, group, topic, random, history, *, jvm):
        self.deeds = {}
        self._history = history
        self._store = KazooStore(ZkSettings(connect))
        self._group, self._topic, self._random = group, topic, random
        self._answered = ""
        deeds = [self.ask, self.ask_nonsense, self.answer, self.litter]
        self._deeds = deeds if jvm else [*deeds, self.register_nonsense, self.take_an_owner_away, self.join]

    def start(self):
        self._store.start()

    def act(self, partitions, ids):
        """Do one random write. partitions: their number. ids: the registered members."""
        deed = self._random.choice(self._deeds)
        try:
            deed(partitions, sorted(ids))
        except ZooKeeperError:
            return
        self.deeds[deed.__name__] = self.deeds.get(deed.__name__, 0) + 1

    def ask(self, partitions, ids):
        """Write a request for a live reset of all partitions, like an operator's, which no command ends."""
        known = frozenset(TopicPartition(self._topic, number) for number in range(partitions))
        self._answered = f"{NAME} {self._random.random()}"
        request = Request(self._answered, self._random.choice(list(RequestState)), known)
        self._put(request_path(self._group), encode_request(request), ephemeral=self._random.random() < 0.7)

    def ask_nonsense(self, partitions, ids):
        self._put(request_path(self._group), hostile_json(self._random), ephemeral=self._random.random() < 0.7)

    def answer(self, partitions, ids):
        """Answer the stranger's last request in the name of a member."""
        known = frozenset(TopicPartition(self._topic, number) for number in range(partitions))
        answer = Answer(self._answered, self._random.choice(list(AnswerState)), known, "")
        self._put(answer_path(self._group, self._random.choice(ids)), encode_answer(answer), ephemeral=True)

    def litter(self, partitions, ids):
        """Create a znode at a path that no client reads, or where clients expect another kind of znode."""
        number = self._random.randrange(1000)
        path = self._random.choice(
            (
                f"{GroupPath(self._group).path}/{NAME}-{number}",
                f"{OwnerPath(self._group, self._topic, 0).path}-{number}",
                OwnerPath(self._group, f"{NAME}-{number}", 0).path,
                OffsetPath(self._group, f"{NAME}-{number}", 0).path,
            )
        )
        self._store.create(path, hostile_json(self._random), make_parents=True)

    def register_nonsense(self, partitions, ids):
        path = ConsumerIdPath(self._group, f"{NAME}-{self._random.randrange(1000)}").path
        self._store.create(path, hostile_json(self._random), ephemeral=self._random.random() < 0.5)

    def join(self, partitions, ids):
        """Register as a member that gets a share and never claims it."""
        data = encode_registration(ConsumerRegistration(SubscriptionPattern.STATIC, ((self._topic, 1),), 0))
        path = ConsumerIdPath(self._group, f"{NAME}-{self._random.randrange(1000)}").path
        self._store.create(path, data, ephemeral=True)

    def take_an_owner_away(self, partitions, ids):
        partition, began = self._random.randrange(partitions), time.monotonic()
        try:
            self._store.delete(OwnerPath(self._group, self._topic, partition).path)
        except NoNodeError:
            raise
        except ZooKeeperError:
            # ZooKeeper may have deleted it all the same
            self._history.write("robbed", partition=partition, began=began)
            raise
        self._history.write("robbed", partition=partition, began=began)

    def _put(self, path, data, *, ephemeral):
        """Create the znode, in place of the present one."""
        if self._store.exists(path) is not None:
            self._store.delete(path)
        self._store.create(path, data, ephemeral=ephemeral, make_parents=True)

    def leave(self):
        """End the stranger's session."""
        self._store.close()


def clear_up(store, group):
    """Delete the stranger's registrations and persistent request, as an operator does by the doctor's advice.

    Raises: ZooKeeperError.
    """
    request = store.exists(request_path(group))
    if request is not None and not request.ephemeral_owner:
        store.delete(request_path(group))
    for name in store.get_children(ConsumerIdsPath(group).path):
        if name.startswith(NAME):
            try:
                store.delete(ConsumerIdPath(group, name).path)
            except NoNodeError:
                continue
