"""A cluster in memory in which events happen between, and inside, an operator's commands.

Groups g and h read topics t (two partitions) and u. Beside the commands, a member or a newer consumer joins, commits,
follows a reset and leaves; an experiment with a newer consumer leaves an offset in Kafka; a topic is deleted, for good
or to be created again; retention deletes the beginnings of logs; brokers forget offsets. The commands do not know
`consumed` and `consumed_by_newer`: how far each group's own consumers of either kind have come in the present topic.
"""

from __future__ import annotations

import contextlib

from legacy_consumer.member.resets import (
    Answer,
    AnswerState,
    RequestState,
    answer_path,
    decode_request,
    encode_answer,
    request_path,
)
from legacy_consumer.offsets import KafkaOffset
from legacy_consumer.offsets.judgement import judge, written_in_kafka, written_in_zookeeper
from legacy_consumer.offsets.topic_lives import read_topic_origins
from legacy_consumer.operations.cli import groups_describe, kafka_offsets
from legacy_consumer.operations.cli.helpers import migrate_options
from legacy_consumer.operations.cli.helpers import options as cli_options
from tests.support.fake_group_offsets import FakeGroupOffsets
from tests.support.memory_cluster import GuardedStore, MemoryCluster
from zk_layout.errors import MalformedZnodeError
from zk_layout.model import TopicPartition
from zk_layout.paths import OffsetPath, OwnerPath

GROUPS = ("g", "h")
PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0))
BROKER = '{"version":4,"host":"h","port":9092,"jmx_port":-1,"timestamp":"1","endpoints":["PLAINTEXT://h:9092"]}'


A_RESET = '{"version":1,"id":"r","state":"prepare","partitions":{"t":[0]}}'
OF_NOBODY = f"{A_RESET} "
ASKED = (None, None, None, A_RESET, OF_NOBODY, "nonsense")
"""The data from which an event draws a request for a reset; None = no request."""


class KilledError(BaseException):
    """The command's process is killed."""


class WatchedWrites:
    """A mixin before a store's class: calls the world before and after each write of a command."""

    def multi(self, ops, **options):
        return self._around(lambda: super(WatchedWrites, self).multi(ops, **options))

    def create(self, *arguments, **options):
        return self._around(lambda: super(WatchedWrites, self).create(*arguments, **options))

    def set_data(self, *arguments):
        return self._around(lambda: super(WatchedWrites, self).set_data(*arguments))

    def _around(self, write):
        self._world.before_write()
        done = write()
        self._world.after_write()
        return done


class _WatchedStore(WatchedWrites, GuardedStore):
    def __init__(self, world):
        super().__init__(world.server, world.forbidden)
        self._world = world

    def _request(self, kind, carry_out):
        self._world.before_request()
        return super()._request(kind, carry_out)


class OperatorsWorld(MemoryCluster):
    """before_write, after_write, before_request: called around each write of a command, and before each request.

    forgets: whether brokers may forget a group's committed offsets.
    """

    forgets = True

    def __init__(self, monkeypatch, folder):
        super().__init__(monkeypatch)
        self.folder = folder
        self.ago_ms = 3_600_000
        self.before_write = self.after_write = self.before_request = lambda: None
        self.kafka = {group: FakeGroupOffsets() for group in GROUPS}
        self.newer = dict.fromkeys(GROUPS, ())
        self.members = {}
        self.ghosts = []
        self.other_operator = self.new_store()
        self.consumed, self.consumed_by_newer = {}, {}
        self.store.set_data("/brokers/ids/0", BROKER.encode())
        self.put("/brokers/topics/__consumer_offsets", '{"version":1,"partitions":{"0":[0]}}')
        self.topic("t", (0, 100), (0, 100))
        self.topic("u", (0, 100))
        monkeypatch.setattr(cli_options, "KazooStore", lambda _: _WatchedStore(self))
        for module in (migrate_options, kafka_offsets, groups_describe):
            monkeypatch.setattr(module, "open_group_offsets", lambda config, _: self._kafka_of(config.group_id))
        monkeypatch.setattr(migrate_options, "read_kafka_members", lambda _, __, group, ___: self.newer[group])
        for group in GROUPS:
            for number, tp in enumerate(PARTITIONS):
                self.commit_in_zookeeper(group, tp, 10 + 10 * number)

    def _kafka_of(self, group):
        offsets = self.kafka[group]
        offsets.before_write = self.before_write
        return offsets

    def let_time_pass(self):
        """Let two seconds pass: a group without members then counts as unused for a second."""
        self.ago_ms -= 2000

    # the state

    def in_zookeeper(self, group, tp):
        """Return the offset in the znode, even if it is of an earlier topic."""
        path = OffsetPath(group, *tp).path
        return None if self.store.exists(path) is None else int(self.store.get_data(path).data)

    def in_kafka(self, group, tp):
        kept = self.kafka[group].kept.get(tp)
        return None if kept is None else kept.offset

    def position_in_zookeeper(self, group, tp):
        """Return the offset from which a member continues; None if no committed offset counts."""
        path = OffsetPath(group, *tp).path
        znode = None if self.store.exists(path) is None else self.store.get_data(path)
        return judge(written_in_zookeeper(path, znode), self._origin(tp)).position

    def position_in_kafka(self, group, tp):
        kept = self.kafka[group].kept.get(tp, KafkaOffset(None))
        return judge(written_in_kafka(kept.offset, kept.metadata), self._origin(tp)).position

    def _origin(self, tp):
        return read_topic_origins(self.store, [tp.topic]).get(tp.topic)

    def numbers(self):
        """Return {(side, group, partition): the stored offset or None}."""
        read = {"zookeeper": self.in_zookeeper, "kafka": self.in_kafka}
        return {(side, g, tp): read[side](g, tp) for side in read for g in GROUPS for tp in PARTITIONS}

    # events

    def commit_in_zookeeper(self, group, tp, offset):
        path = OffsetPath(group, *tp).path
        if self.store.exists(path) is None:
            self.put(path, str(offset))
        else:
            self.store.set_data(path, b"%d" % offset)
        self.consumed[group, tp] = max(offset, self.consumed.get((group, tp), 0))

    def commit_in_kafka(self, group, tp, offset, *, is_own=True):
        """Commit to Kafka without our mark, as a newer consumer does. is_own: it is the group's, no experiment."""
        self.kafka[group].kept[tp] = KafkaOffset(offset)
        if is_own:
            self.consumed_by_newer[group, tp] = offset

    def frontier(self, group, tp):
        """Return the first offset not consumed and not deleted: no member may begin after it."""
        begin = self.logs[tp][0] if tp in self.logs else 0
        return max(self.consumed[group, tp], self.consumed_by_newer.get((group, tp), 0), begin)

    def ghost_owns(self, group, tp):
        """Create a persistent owner znode; it is deleted before a member joins."""
        path = OwnerPath(group, *tp).path
        if group not in self.members and self.store.exists(path) is None:
            self.put(path, f"{group}_ghost-0")
            self.ghosts.append(path)

    def member_comes(self, group):
        for path in self.ghosts:
            is_left = group not in self.members and self.store.exists(path) is not None
            if is_left and path.startswith(f"/consumers/{group}/"):
                self.store.delete(path)
        if group not in self.members and not self.newer[group]:
            self.members[group] = self.join(group, f"{group}_m", '{"t":1,"u":1}')
            self._divide()

    def _divide(self):
        """Let each group's member own all existing partitions, and no other."""
        for group, store in self.members.items():
            for tp in PARTITIONS:
                path = OwnerPath(group, *tp).path
                is_owned = store.exists(path) is not None
                if is_owned and tp not in self.logs:
                    store.delete(path)
                elif not is_owned and tp in self.logs:
                    self.put(path, f"{group}_m-0", store=store, ephemeral=True)

    def _request_of(self, group):
        """Return the group's request for a reset; None if there is none, or if it is unreadable."""
        path = request_path(group)
        if self.store.exists(path) is None:
            return None
        with contextlib.suppress(MalformedZnodeError):
            return decode_request(path, self.store.get_data(path).data)

    def state_of_request(self, group):
        request = self._request_of(group)
        return None if request is None else request.state

    def answer_request(self, group):
        """Let the group's member answer the present state of a reset. Returns: the partitions that it holds."""
        store, request = self.members.get(group), self._request_of(group)
        if store is None or request is None:
            return set()
        mine = {tp for tp in request.partitions if tp in self.logs}
        state = AnswerState.READY if request.state is RequestState.PREPARE else AnswerState.DONE
        answer = encode_answer(Answer(request.request_id, state, frozenset(mine)))
        own = answer_path(group, f"{group}_m")
        if store.exists(own) is None:
            self.put(own, answer, store=store, ephemeral=True)
        else:
            store.set_data(own, answer)
        return mine

    def forget_requests(self):
        """Let members delete the answers to a request that is gone."""
        for group, store in self.members.items():
            own = answer_path(group, f"{group}_m")
            if store.exists(own) is not None and store.exists(request_path(group)) is None:
                store.delete(own)

    def member_goes(self, group):
        if group in self.members:
            self.members.pop(group).close()

    def ask_for_reset(self, group, data):
        """Write a request for a live reset: another operator's, or a persistent one; None deletes it."""
        path = f"/consumers/{group}/requests/reset"
        if self.store.exists(path) is not None:
            self.store.delete(path)
        if data is not None and self.store.exists(f"/consumers/{group}") is not None:
            self.put(path, data, store=self.other_operator, ephemeral=data != OF_NOBODY)

    def drop_topic(self, topic):
        """Delete a topic; it stays deleted until make_anew()."""
        self.drop(topic)
        for tp in [tp for tp in PARTITIONS if tp.topic == topic]:
            self.logs.pop(tp, None)
            for group in GROUPS:
                # brokers delete the offsets of a deleted topic; in a race, offsets with our mark may come back
                self.kafka[group].kept.pop(tp, None)
                self.consumed[group, tp] = self.consumed_by_newer[group, tp] = 0
        self._divide()

    def make_anew(self, topic):
        partitions = [tp for tp in PARTITIONS if tp.topic == topic]
        if partitions[0] in self.logs:
            self.drop_topic(topic)
        self.topic(topic, *[(0, 100)] * len(partitions))
        self._divide()

    def truncate(self, tp, begin):
        first, end = self.logs[tp]
        self.logs[tp] = (max(first, min(begin, end)), end)
