"""Plays conversations against our coordinator, through the bytes of Kafka's protocol and with a fake clock."""

from __future__ import annotations

import itertools

from legacy_consumer.fetching.columnar.protocol.group_messages import GROUP_EXCHANGES, read_message, write_message
from legacy_consumer.sandbox.servers.coordinator.translation import Node, read_request, write_answer
from rebalance.coordination import Coordinator, Settings
from rebalance.coordination.effects import Reply
from tests.support.group_conversations import MIN_SESSION_MS, Player

_TICK_MS = 20


class CoordinatorPlayer(Player):
    def __init__(self, family, group):
        super().__init__(family, group)
        ids = itertools.count(1)
        settings = Settings(group_min_session_timeout_ms=MIN_SESSION_MS)
        self.coordinator = Coordinator(lambda: f"id-{next(ids)}", settings)
        self.coordinator.elect()
        self.coordinator.load((), {}, 0)
        self.now = 0
        self.handles = itertools.count(1)
        self.handle_of = {}
        self.answers = {}

    def _send(self, who, api, row):
        version = self.family[api]
        body = write_message(GROUP_EXCHANGES[api].request, version, row)
        handle = self.handle_of[who] = next(self.handles)
        self._take(self.coordinator.handle(read_request(api, version, body, handle, who), self.now))

    def _receive(self, who, api):
        assert not self._is_waiting(who), f"{who} would wait for ever: {api.name}"
        version = self.family[api]
        body = write_answer(api, version, self.answers.pop(self.handle_of[who]), Node(0, "127.0.0.1", 9092))
        return read_message(GROUP_EXCHANGES[api].response, version, body, api.name)

    def _is_waiting(self, who):
        return self.handle_of[who] not in self.answers

    def pass_ms(self, ms):
        for _ in range(0, ms, _TICK_MS):
            self.now += _TICK_MS
            self._take(self.coordinator.tick(self.now))

    def _take(self, effects):
        self.answers.update({effect.to: effect.answer for effect in effects if isinstance(effect, Reply)})
