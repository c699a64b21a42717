"""Delivery and commits of one member around a hand-over: messages in hand, consumed messages, committed offsets."""

import contextlib
import threading
from dataclasses import replace
from functools import partial

from legacy_consumer.fetching.fetcher import EARLIEST, LATEST
from legacy_consumer.member.gate import Pause
from legacy_consumer.member.resets import Request, RequestState, ResetFollower, encode_request, request_path
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.member.stream_delivery import DeliverySettings, StreamDelivery
from legacy_consumer.offsets.progress import Progress
from legacy_consumer.offsets.zookeeper import ZooKeeperOffsetStore
from rebalance.clock import SystemClock
from tests.support.fake_kafka import FakeFetcher, FakeFetchers, FakeKafka
from tests.support.group_members import Group
from tests.support.steps import finish
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper
from zk_layout.model import ConsumerThreadId, TopicPartition

TP = TopicPartition("t", 0)


class Setup:
    """One member that owns one partition of ten messages."""

    def __init__(self, adopt=False):
        self.server = MemoryZooKeeper()
        self.store, self.admin = MemoryStore(self.server), MemoryStore(self.server)
        self.store.start()
        self.admin.start()
        self.store.create("/consumers/g/ids/g_a", b"", ephemeral=True, make_parents=True)
        self.store.create("/consumers/g/owners/t/0", b"g_a-0", ephemeral=True, make_parents=True)
        self.kafka = FakeKafka()
        self.kafka.produce(TP, 10)
        self.progress = Progress()
        self.stream = GatedStream(
            fetcher=FakeFetcher(self.kafka),
            progress=self.progress,
            clock=SystemClock(),
            consumer_timeout_ms=50,
            at_next=False,
            on_drained=lambda: None,
        )
        self.offsets = ZooKeeperOffsetStore(self.store, "g")
        self.delivery = StreamDelivery(
            DeliverySettings("g_a", True, False, EARLIEST, adopt),
            offsets=self.offsets,
            progress=self.progress,
            log_offsets=lambda: FakeFetchers(self.kafka),
            streams=self,
            session_id=lambda: self.store.session_id,
        )
        finish(self.delivery.begin({TP: ConsumerThreadId("g_a", 0)}, {}))

    def all(self):
        return [self.stream]

    def stream_of(self, tp, thread):
        return self.stream

    def take(self, count=2):
        return [message.offset() for message in next(self.stream.batches(count, 0.2))]


def test_messages_in_hand_count_when_their_partition_stays_after_all():
    s = Setup()
    assert s.take() == [0, 1]
    s.delivery.stop([TP])
    s.delivery.go_on([TP])
    s.kafka.ends[TP] = 2
    assert s.take() == []
    s.delivery.commit()
    assert s.admin.get_data("/consumers/g/offsets/t/0").data == b"2"


def test_messages_in_hand_of_a_lost_session_do_not_count_after_a_new_claim():
    """An earlier version moved the committed offset back, over an operator's reset or another owner's commits."""
    s = Setup()
    assert s.take() == [0, 1]
    s.delivery.drop([TP])
    s.admin.create("/consumers/g/offsets/t/0", b"7", make_parents=True)
    finish(s.delivery.begin({TP: ConsumerThreadId("g_a", 0)}, {}))
    s.delivery.stop([TP])
    s.delivery.go_on([TP])
    assert s.take() == [7, 8]
    s.delivery.commit()
    assert s.admin.get_data("/consumers/g/offsets/t/0").data == b"7"
    assert s.take() == [9]
    s.delivery.commit()
    assert s.admin.get_data("/consumers/g/offsets/t/0").data == b"9"


def test_a_partition_that_is_being_given_up_does_not_flow_again_when_a_foreign_commit_is_adopted():
    s = Setup(adopt=True)
    assert s.take() == [0, 1]
    s.delivery.stop([TP])
    s.stream.come_back()
    s.admin.create("/consumers/g/offsets/t/0", b"5", make_parents=True)
    finish(s.delivery.end([TP]))
    assert s.take() == []


def test_an_earlier_commit_whose_reply_was_lost_is_not_taken_for_somebody_elses():
    s = Setup(adopt=True)
    assert s.take() == [0, 1]
    s.stream.come_back()
    s.admin.ensure_path("/consumers/g/offsets/t")
    s.server.fault = lambda session, kind: Fault.LOSE_REPLY if kind == "multi" else None
    with contextlib.suppress(ConnectionLostError):
        s.delivery.commit()
    s.server.fault = None
    assert s.take() == [2, 3]
    s.stream.come_back()
    s.delivery.commit()
    assert s.delivery.committer.foreign_commits == 0
    assert s.admin.get_data("/consumers/g/offsets/t/0").data == b"4"
    assert s.take() == [4, 5]


def test_a_member_robbed_of_its_owner_znode_does_not_overwrite_the_new_owners_commit():
    s = Setup()
    assert s.take() == [0, 1]
    s.stream.come_back()
    s.admin.delete("/consumers/g/owners/t/0")
    s.admin.create("/consumers/g/owners/t/0", b"g_b-0", ephemeral=True)
    s.admin.create("/consumers/g/offsets/t/0", b"7", make_parents=True)
    s.delivery.commit()
    assert s.admin.get_data("/consumers/g/offsets/t/0").data == b"7"


class TellingLock:
    """A lock that sets an event when another thread than the first asks for it."""

    def __init__(self, lock, asked):
        self._lock, self._asked, self._first = lock, asked, None

    def __enter__(self):
        if self._first is None:
            self._first = threading.current_thread()
        elif self._first is not threading.current_thread():
            self._asked.set()
        self._lock.acquire()

    def __exit__(self, *_):
        self._lock.release()


def test_a_partition_claimed_anew_begins_behind_a_commit_of_its_last_life_that_is_under_way(monkeypatch):
    """Between a commit's read of the progress and its write, another client deletes the owner znode.

    The member claims the partition again. In an earlier version it began at the offset before the commit, and its next
    commit moved the group back.
    """
    s = Setup()
    assert s.take() == [0, 1]
    s.stream.come_back()
    s.admin.ensure_path("/consumers/g/offsets/t")
    sending, may_go_on, write = threading.Event(), threading.Event(), s.store.multi

    def hold(ops, **how):
        sending.set()
        assert may_go_on.wait(30)
        return write(ops, **how)

    def begin():
        finish(s.delivery.begin({TP: ConsumerThreadId("g_a", 0)}, {}))
        may_go_on.set()

    monkeypatch.setattr(s.delivery.committer, "lock", TellingLock(s.delivery.committer.lock, may_go_on))
    monkeypatch.setattr(s.store, "multi", hold)
    committing = threading.Thread(target=s.delivery.commit)
    committing.start()
    assert sending.wait(30)
    s.delivery.drop([TP])
    beginning = threading.Thread(target=begin)
    beginning.start()
    for thread in (committing, beginning):
        thread.join(30)
    assert s.take() == [2, 3]
    finish(s.delivery.end([TP]))
    assert s.admin.get_data("/consumers/g/offsets/t/0").data == b"2"


def test_a_commit_does_not_wait_for_brokers_that_are_asked_where_a_claimed_partition_begins():
    s = Setup()
    assert s.take() == [0, 1]
    s.stream.come_back()
    s.admin.ensure_path("/consumers/g/offsets/t")
    s.delivery._settings = replace(s.delivery._settings, reset_to=LATEST, last_commit_timeout_s=60)
    asked, may_answer = threading.Event(), threading.Event()

    def ask():
        asked.set()
        assert may_answer.wait(60)
        return FakeFetchers(s.kafka)

    s.delivery._log_offsets = ask
    new = TopicPartition("t", 1)
    s.kafka.produce(new, 7)

    step = s.delivery.begin({new: ConsumerThreadId("g_a", 0)}, {})
    beginning = threading.Thread(target=finish, args=(step, s.delivery))
    committing = threading.Thread(target=s.delivery.commit)
    beginning.start()
    assert asked.wait(30)
    committing.start()
    committing.join(10)
    has_committed = not committing.is_alive()
    may_answer.set()
    beginning.join(30)
    committing.join(30)
    assert has_committed
    assert s.admin.get_data("/consumers/g/offsets/t/0").data == b"2"
    assert s.progress.get(new).consumed == 7


def test_a_reset_that_is_called_off_goes_on_behind_a_commit_of_the_users_code_made_meanwhile(monkeypatch):
    """In an earlier version, the follower compared a stored offset that it had read before that commit.

    The member then delivered 0 and 1 again, and its next commit moved the group back.
    """
    s = Setup()
    follower = ResetFollower(
        s.store,
        "g",
        "g_a",
        s.delivery,
        offsets=s.offsets,
        progress=s.progress,
        post=lambda errand: None,
        later=lambda errand, delay_ms: None,
    )
    s.delivery.drop([TP])
    s.admin.create("/consumers/g/offsets/t/0", b"0", make_parents=True)
    finish(follower.begin({TP: ConsumerThreadId("g_a", 0)}, {}))
    assert s.take() == [0, 1]
    s.stream.come_back()
    s.admin.ensure_path("/consumers/g/requests/answers")
    request = encode_request(Request("r", RequestState.PREPARE, frozenset([TP])))
    s.admin.create(request_path("g"), request, ephemeral=True)
    follower.look()
    s.admin.delete(request_path("g"))
    commits_or_waits, read = threading.Event(), s.offsets.read

    def commit():
        s.delivery.committer.commit_consumed(object())
        commits_or_waits.set()

    committing = threading.Thread(target=commit)

    def read_before_a_commit(partitions):
        found = read(partitions)
        monkeypatch.undo()
        committing.start()
        assert commits_or_waits.wait(30)
        return found

    lock = TellingLock(s.delivery.committer.lock, commits_or_waits)
    monkeypatch.setattr(s.offsets, "read", read_before_a_commit)
    s.delivery.committer.lock = lock
    follower.look()
    committing.join(30)
    assert s.take() == [2, 3]
    s.delivery.commit()
    assert s.admin.get_data("/consumers/g/offsets/t/0").data == b"2"


def test_a_smaller_hand_loses_nothing_of_what_a_bigger_poll_brought():
    s = Setup()
    s.kafka.produce(TP, 2990)
    s.stream._fetcher.before_poll_returns = partial(s.stream.pause, Pause.SUSPENDED)
    assert list(next(s.stream.batches(3000, 0.0))) == []
    s.stream._fetcher.before_poll_returns = lambda: None
    s.stream.resume(Pause.SUSPENDED)
    assert next(s.stream).offset() == 0
    s.stream.come_back()
    assert next(s.stream).offset() == 1
    rest = next(s.stream.batches(5000, 0.2))
    assert rest[0].offset() == 2
    assert [m.offset() for m in rest] == list(range(2, 3000))


def test_the_time_until_delivery_is_paused_runs_from_the_loss_not_from_when_it_is_heard_of():
    group = Group({"t": 1})
    a = group.join("a", {"t": 1})
    group.settle()
    group.server.suspend(a.store)
    group.clock.now += 1.4  # meanwhile the coordinator is busy; policy.suspicion_ms is 1500
    a.coordinator.turn()
    group.clock.now += 0.1
    group.settle()
    assert a.delivery.paused
