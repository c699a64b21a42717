"""One stream and its commits, used in every order by users, the coordinator and other clients, against a model.

The offsets are in an in-memory ZooKeeper; a member that claims a partition continues from the committed offset there.
"""

import contextlib

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from legacy_consumer import ConsumerTimeoutError, FetchError, NotAssignedError, OffsetsNotCommittedError
from legacy_consumer.member import stream as stream_module
from legacy_consumer.member.committer import CommitSettings, Committer
from legacy_consumer.member.gate import Pause
from legacy_consumer.member.hand_source import this_thread
from legacy_consumer.member.stream import GatedStream
from legacy_consumer.offsets import ZooKeeperOffsetStore
from legacy_consumer.offsets.progress import Progress
from tests.support.at_line import AtLine, interrupt
from tests.support.column_fetcher import ColumnFetcher
from tests.support.fake_kafka import FakeFetcher, FakeKafka
from tests.support.group_members import FakeClock
from zk_layout.codecs import encode_topic
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition

TPS = [TopicPartition("t", 0), TopicPartition("t", 1), TopicPartition("u", 0)]
partitions = st.sampled_from(TPS)
sizes = st.integers(1, 4)


class QuickClock(FakeClock):
    """A clock that advances by 1 us a look, so that a loop's runs grow long."""

    def monotonic(self):
        self.now += 1e-6
        return self.now


class Model:
    """The rules that a user and a coordinator may rely on."""

    def __init__(self):
        self.ends = dict.fromkeys(TPS, 0)
        self.next = dict.fromkeys(TPS, 0)  # the next offset to hand out
        self.consumed = dict.fromkeys(TPS, 0)
        self.done = {}  # the offsets that users committed by name
        self.committed = dict.fromkeys(TPS)
        self.epochs = {}  # owned partitions
        self.live = set()
        self.hand = []
        self.flows = True
        self.paused = set()
        self.is_paused = False

    def come_back(self):
        for tp, offset, epoch in self.hand:
            if self.epochs.get(tp) == epoch:
                self.consumed[tp] = offset + 1
        self.hand = []

    def hand_out(self, messages):
        for tp, offset in messages:
            assert self.flows, "nothing is handed out"
            assert tp in self.live, f"{tp}: the gate is shut"
            assert not self.is_paused, "the stream is paused"
            assert tp not in self.paused, f"{tp} is paused"
            assert offset == self.next[tp], f"{tp}: {self.next[tp]} is next"
            self.next[tp] += 1
        self.hand = [(tp, offset, self.epochs[tp]) for tp, offset in messages]

    def let_go(self):
        for tp, _, epoch in self.hand:
            if self.epochs.get(tp) == epoch:
                self.next[tp] = self.consumed[tp]
        self.hand = []

    def in_hand(self):
        return {tp for tp, _, _ in self.hand}

    def waits(self):
        flows = self.flows and not self.is_paused
        return flows and any(self.next[tp] < self.ends[tp] for tp in self.live - self.paused)

    def go_from(self, tp, offset, epoch):
        self.epochs[tp] = epoch
        self.next[tp] = self.consumed[tp] = offset
        self.done.pop(tp, None)

    def lose_the_log(self, tp):
        """Begin the log anew, when nothing of it is in hand."""
        self.ends[tp] = 0
        self.go_from(tp, 0, self.epochs[tp])

    def commit(self, some):
        for tp in self.epochs.keys() & some:
            self.committed[tp] = max(self.consumed[tp], self.done.get(tp, 0))


class AcknowledgedModel(Model):
    """Messages count up to the first without an acknowledgement; messages without one, and no others, are in hand."""

    def __init__(self):
        super().__init__()
        self.waiting = set()

    def come_back(self):
        pass

    let_go = come_back

    def hand_out(self, messages):
        super().hand_out(messages)
        self.waiting.update(self.hand)
        self.count()

    def acknowledge(self, tp, offset):
        waited = (tp, offset, self.epochs.get(tp)) in self.waiting
        self.waiting.discard((tp, offset, self.epochs.get(tp)))
        self.count()
        return waited

    def lose_the_log(self, tp):
        super().lose_the_log(tp)
        self.waiting = {waiting for waiting in self.waiting if waiting[::2] != (tp, self.epochs[tp])}

    def count(self):
        for tp, epoch in self.epochs.items():
            waiting = [offset for of, offset, during in self.waiting if (of, during) == (tp, epoch)]
            self.consumed[tp] = min(waiting, default=self.next[tp])

    def in_hand(self):
        return {tp for tp, at, epoch in self.waiting if self.epochs.get(tp) == epoch and at >= self.done.get(tp, 0)}


class StreamMachine(RuleBasedStateMachine):
    """The rules are steps of users, of coordinators and of brokers."""

    fetcher_class = FakeFetcher
    acknowledged = False

    def __init__(self):
        super().__init__()
        self.model = AcknowledgedModel() if self.acknowledged else Model()
        self.kafka = FakeKafka()
        self.progress = Progress()
        self.leased = True
        self.drained = False
        self.store = MemoryStore(MemoryZooKeeper())
        self.store.start()
        for topic in ("t", "u"):
            znode = encode_topic(TopicAssignment({0: (0,), 1: (0,)}))
            self.store.create(f"/brokers/topics/{topic}", znode, make_parents=True)
        self.store.create("/consumers/g/ids/m", b"", make_parents=True)
        self.offsets = ZooKeeperOffsetStore(self.store, "g")
        self.committer = Committer(
            CommitSettings("g", "m", False),
            offsets=self.offsets,
            progress=self.progress,
            streams=lambda: [self.stream],
            session_id=lambda: self.store.session_id,
            adopt=lambda _: None,
            resetting=frozenset,
            on_unowned=lambda: None,
        )
        self.open_stream()
        for tp in TPS:
            self.produce(tp, 9)
            self.claim(tp)

    def open_stream(self):
        self.fetcher = self.fetcher_class(self.kafka)
        poll = self.fetcher.poll
        self.fetcher.poll = lambda most, _: poll(most, 0)
        self.stream = GatedStream(
            fetcher=self.fetcher,
            progress=self.progress,
            clock=QuickClock(),
            consumer_timeout_ms=0,
            at_next=False,
            on_drained=lambda: setattr(self, "drained", True),
            may_hand_out=lambda: self.leased,
            acknowledged=self.acknowledged,
        )
        if self.acknowledged:
            # the user's code cannot acknowledge the messages of Arrow batches
            self.stream.arrow_batches = self.stream.batches
        self.loops = {}

    # The user

    def ask(self, ask):
        """Make one call that asks for more; with it, the user's code has come back. Returns: whether messages came."""
        try:
            given = ask()
        except ConsumerTimeoutError:
            given = None
        self.model.come_back()
        if given is None or len(given) == 0:
            assert not self.model.waits()
            return False
        if isinstance(given, pa.RecordBatch):
            rows = zip(*(given.column(name).to_pylist() for name in ("topic", "partition", "offset")), strict=True)
        else:
            rows = [(message.topic(), message.partition(), message.offset()) for message in given]
        self.model.hand_out([(TopicPartition(topic, partition), offset) for topic, partition, offset in rows])
        return True

    @rule(count=sizes)
    def for_and_break(self, count):
        loop = iter(self.stream)
        for _ in range(count):
            if not self.ask(lambda: [next(loop)]):
                break

    @rule()
    def next(self):
        self.ask(lambda: [next(self.stream)])

    @rule(most=sizes)
    def batch(self, most):
        self.ask(lambda: next(self.stream.batches(most, timeout=0)))

    @rule(most=sizes)
    def arrow_batch(self, most):
        self.ask(lambda: next(self.stream.arrow_batches(most, timeout=0)))

    @rule(most=sizes)
    def batch_that_is_changed(self, most):
        def take():
            batch = next(self.stream.batches(most, timeout=0))
            kept = list(batch)
            batch.clear()
            return kept

        self.ask(take)

    @rule(way=st.sampled_from(["batches", "arrow_batches"]), most=sizes)
    def loop_that_goes_on(self, way, most):
        loop = self.loops.setdefault(way, getattr(self.stream, way)(most, timeout=0))
        self.ask(lambda: next(loop))

    @rule(
        name=st.sampled_from(["one", "another"]),
        count=sizes,
        body=st.sampled_from(["nothing", "next", "for_and_break", "batch", "arrow_batch"]),
        shut=st.sampled_from(["nothing", "pause_some", "stop", "pause_all", "pause"]),
        tp=partitions,
    )
    def loop_whose_body_asks_for_more(self, name, count, body, shut, tp):
        """Take messages in a loop, ask for more in its body, and perhaps shut the gate before the loop continues."""
        loop = self.loops.setdefault(name, iter(self.stream))
        for _ in range(count):
            if not self.ask(lambda: [next(loop)]):
                # the loop has ended with ConsumerTimeoutError
                del self.loops[name]
                return
        if body != "nothing":
            getattr(self, body)(**({} if body == "next" else {"count" if body == "for_and_break" else "most": 1}))
        if shut != "nothing":
            getattr(self, shut)(**({"some": {tp}} if shut in ("pause_some", "stop") else {}))

    @rule(way=st.sampled_from(["batches", "arrow_batches"]))
    def close_the_loop(self, way):
        if way in self.loops:
            self.loops.pop(way).close()

    @rule(way=st.sampled_from(["batches", "arrow_batches"]))
    def throw_into_the_loop(self, way):
        if way in self.loops:
            with contextlib.suppress(KeyError):
                self.loops.pop(way).throw(KeyError("the user's own"))

    @rule(error=st.sampled_from([FetchError(None, "refused"), MemoryError()]), taken=st.booleans())
    def a_poll_that_raises(self, error, taken):
        poll = self.fetcher.poll

        def fail(most, timeout_s):
            if taken and isinstance(error, MemoryError):
                poll(most, timeout_s)
            raise error

        self.fetcher.poll = fail
        loop = iter(self.stream)
        try:
            self.ask(lambda: [next(loop)])
        except (FetchError, MemoryError):
            self.model.come_back()
        finally:
            self.fetcher.poll = poll

    @rule(way=st.sampled_from(["batches", "arrow_batches"]), most=sizes)
    def a_batch_that_cannot_be_made(self, way, most):
        def fail(*_):
            raise MemoryError

        made = stream_module._own_messages, stream_module.record_batch
        stream_module._own_messages = stream_module.record_batch = fail
        try:
            next(getattr(self.stream, way)(most, timeout=0))
        except MemoryError:
            self.model.come_back()
        finally:
            stream_module._own_messages, stream_module.record_batch = made

    @rule(line=st.integers(0, 120), way=st.sampled_from(["next", "iter", "batches", "arrow_batches"]))
    def an_interruption(self, line, way):
        def ask():
            if way == "next":
                return [next(self.stream)]
            if way == "iter":
                return [next(iter(self.stream))]
            return next(getattr(self.stream, way)(3, timeout=0))

        def ask_interrupted():
            with AtLine(line, interrupt):
                return ask()

        try:
            self.ask(ask_interrupted)
        except KeyboardInterrupt:
            self.commit()

    @rule()
    def commit(self):
        """Commit on the consuming thread, which so finishes the messages in hand."""
        self.committer.commit_consumed(this_thread())
        self.model.come_back()
        self.model.commit(TPS)

    @rule(automatic=st.booleans())
    def commit_from_another_thread(self, automatic):
        if automatic:
            self.committer.commit()
        else:
            self.committer.commit_consumed(object())
        self.model.commit(TPS)

    @rule(tp=partitions, unfenced=st.booleans(), data=st.data())
    def commit_by_name(self, tp, unfenced, data):
        offset = data.draw(st.integers(0, self.model.ends[tp]))
        is_mine = tp in self.model.epochs
        if is_mine or unfenced or offset >= (self.model.committed[tp] or 0):
            with self.coordinator_is_told_what_it_waits_for():
                self.committer.commit_offsets({tp: offset}, unfenced=unfenced)
                self.model.committed[tp] = offset
                if is_mine:
                    self.model.done[tp] = offset
        else:
            with pytest.raises(OffsetsNotCommittedError, match="is moved back"):
                self.committer.commit_offsets({tp: offset})

    @rule()
    def let_go(self):
        self.stream.let_go()
        self.model.let_go()

    @rule(tp=partitions, data=st.data())
    def seek(self, tp, data):
        offset = data.draw(st.integers(0, self.model.ends[tp]))
        if tp in self.model.epochs:
            with self.coordinator_is_told_what_it_waits_for():
                self.stream.seek(tp, offset)
                self.model.go_from(tp, offset, self.progress.get(tp).epoch)
        else:
            with pytest.raises(NotAssignedError):
                self.stream.seek(tp, offset)

    @rule(some=st.sets(partitions, min_size=1))
    def pause_some(self, some):
        self.change_pauses(some, self.stream.pause_partitions, self.model.paused | some)

    @rule(some=st.sets(partitions, min_size=1))
    def resume_some(self, some):
        self.change_pauses(some, self.stream.resume_partitions, self.model.paused - some)

    def change_pauses(self, some, change, after):
        if some <= self.model.epochs.keys():
            self.stream.check_assigned(some)
            change(some)
            self.model.paused = after
        else:
            with pytest.raises(NotAssignedError):
                self.stream.check_assigned(some)

    @rule()
    def pause_all(self):
        self.stream.pause(Pause.USER)
        self.model.is_paused = True

    @precondition(lambda self: self.model.is_paused)
    @rule()
    def resume_all(self):
        self.stream.resume(Pause.USER)
        self.model.is_paused = False

    @precondition(lambda self: self.acknowledged)
    @rule(tp=partitions, offset=st.integers(0, 30), data=st.data())
    def acknowledge(self, tp, offset, data):
        """Acknowledge a message: half of the time one that waits, in any order."""
        waiting = sorted((of, offset) for of, offset, _ in self.model.waiting)
        if waiting and data.draw(st.booleans()):
            tp, offset = data.draw(st.sampled_from(waiting))
        with self.coordinator_is_told_what_it_waits_for():
            assert self.stream.acknowledge(tp, offset) == self.model.acknowledge(tp, offset)

    @contextlib.contextmanager
    def coordinator_is_told_what_it_waits_for(self):
        """Check that the coordinator learns when no message of a stopped partition is in hand any more.

        Only if messages are acknowledged: with another delivery.rule, the consuming thread must come back first.
        """
        self.drained = False
        was_in_hand = self.model.in_hand()
        yield
        stopped = self.model.epochs.keys() - self.model.live
        if self.acknowledged and stopped & was_in_hand - self.model.in_hand():
            assert self.drained, "the coordinator waits for it"

    # The brokers, the coordinator

    @staticmethod
    def owner_path(tp):
        return f"/consumers/g/owners/{tp.topic}/{tp.partition}"

    @rule(tp=partitions, count=sizes)
    def produce(self, tp, count):
        self.kafka.produce(tp, count)
        self.model.ends[tp] += count

    @rule(tp=partitions, count=sizes)
    def lose_the_log(self, tp, count):
        """Begin the log anew, which the fetcher notices at once: auto.offset.reset=smallest."""
        model = self.model
        if tp in model.live - model.paused and model.flows and not model.is_paused:
            while self.ask(lambda: next(self.stream.batches(100, timeout=0))):
                pass
            if model.next[tp]:
                self.kafka.truncate(tp, 0)
                model.lose_the_log(tp)
                self.batch(100)
            self.produce(tp, count)

    def begin(self, tp, *, shut):
        """Claim the partition: create the owner znode first, then read the offset."""
        self.store.create(self.owner_path(tp), b"m-0", make_parents=True)
        committed = self.offsets.read([tp])[tp]
        position = committed.offset or 0
        epoch = self.progress.begin(tp, position, committed)
        self.model.go_from(tp, self.model.committed[tp] or 0, epoch)
        self.model.paused.discard(tp)
        self.stream.begin({tp: position}, {tp: epoch}, shut=shut)

    @rule(tp=partitions)
    def claim(self, tp):
        if tp not in self.model.epochs:
            self.begin(tp, shut=False)
            self.model.live.add(tp)

    @rule(tp=partitions, paused=st.booleans(), data=st.data())
    def claim_with_a_listener(self, tp, paused, data):
        """Claim the partition; a listener's hook seeks, and perhaps pauses, before delivery begins."""
        if tp not in self.model.epochs:
            self.begin(tp, shut=True)
            self.seek(tp, data)
            if paused:
                self.pause_some({tp})
            self.stream.go_on([tp])
            self.model.live.add(tp)

    @rule(some=st.sets(partitions, min_size=1))
    def stop(self, some):
        self.model.live -= some
        self.stream.stop(some)

    @rule()
    def take_the_stop_back(self):
        stopped = self.model.epochs.keys() - self.model.live
        self.model.live |= stopped
        self.stream.go_on(stopped)

    @rule(tp=partitions, lost=st.booleans())
    def release(self, tp, lost):
        """Release a partition, as when drain.timeout.ms is over, or lose it: messages in hand come again."""
        if tp in self.model.epochs:
            self.give_up({tp}, lost=lost)

    def give_up(self, some, *, lost):
        self.model.live -= some
        self.stream.stop(some)
        if not lost:
            self.committer.commit_last(some, 5.0)
            self.model.commit(some)
        self.progress.forget(some)
        for tp in some:
            self.store.delete(self.owner_path(tp))
            del self.model.epochs[tp]

    @rule(by=st.sampled_from(["its own thread", "another thread, in time", "another thread, too late"]))
    def shut_down_and_join_again(self, by):
        if by == "its own thread":
            self.let_go()
        owned = set(self.model.epochs)
        self.model.live = set()
        self.stream.stop(owned)
        if by == "another thread, in time":
            self.ask(lambda: next(self.stream.batches(1, timeout=0)))
            assert self.acknowledged or not self.stream.undrained(owned)
        self.give_up(owned, lost=False)
        self.stream.end()
        assert [*self.stream, *self.stream.batches()] == []
        assert [message for loop in self.loops.values() for message in loop] == []
        self.model.hand, self.model.paused = [], set()
        self.model.is_paused, self.leased, self.model.flows = False, True, True
        self.open_stream()

    @rule(tp=partitions, data=st.data())
    def adopt(self, tp, data):
        """Adopt another client's commit, as with commit.conflict=adopt."""
        if tp in self.model.epochs:
            offset = data.draw(st.integers(0, self.model.ends[tp]))
            path = f"/consumers/g/offsets/{tp.topic}/{tp.partition}"
            if self.store.exists(path):
                self.store.set_data(path, b"%d" % offset)
            else:
                self.store.create(path, b"%d" % offset, make_parents=True)
            self.stream.restart({tp: offset}, self.offsets.read([tp]))
            self.model.committed[tp] = offset
            self.model.go_from(tp, offset, self.progress.get(tp).epoch)

    @rule()
    def pause(self):
        self.stream.pause(Pause.SUSPENDED)
        self.model.flows = False

    @rule()
    def lose_the_lease(self):
        self.leased = False
        self.model.flows = False

    @precondition(lambda self: not self.model.flows)
    @rule()
    def go_on(self):
        self.stream.resume(Pause.SUSPENDED)
        self.leased = self.model.flows = True

    @invariant()
    def what_counts_is_what_the_user_came_back_from(self):
        self.stream.note_progress()
        for tp, known in self.progress.snapshot().items():
            assert known.consumed == self.model.consumed[tp]

    @invariant()
    def the_group_stands_where_its_user_and_its_coordinator_put_it(self):
        """The member moves the committed offset back only after a seek, or by a commit by name."""
        assert {tp: seen.offset for tp, seen in self.offsets.read(TPS).items()} == self.model.committed

    @invariant()
    def the_position_is_what_comes_next(self):
        for tp in TPS:
            if tp in self.model.epochs:
                assert self.stream.position(tp) == self.model.next[tp]
            else:
                with pytest.raises(NotAssignedError):
                    self.stream.position(tp)

    @invariant()
    def what_is_paused_is_told(self):
        owned = self.model.epochs.keys()
        assert self.stream.paused() == (owned if self.model.is_paused else self.model.paused & owned)

    @invariant()
    def what_is_in_hand_is_known_by_partition(self):
        stopped = self.model.epochs.keys() - self.model.live
        undrained = self.stream.undrained(stopped)
        assert undrained == self.model.in_hand() & stopped

    def teardown(self):
        self.stream.end()
        assert list(self.stream) == []
        self.model.come_back()
        self.what_counts_is_what_the_user_came_back_from()


class ColumnStreamMachine(StreamMachine):
    """The fetcher's batches are columns."""

    fetcher_class = ColumnFetcher


class AcknowledgedStreamMachine(StreamMachine):
    """Messages count when they are acknowledged."""

    acknowledged = True


class AcknowledgedColumnsMachine(ColumnStreamMachine):
    """Messages count when they are acknowledged, and the fetcher's batches are columns."""

    acknowledged = True


SETTINGS = settings(max_examples=40, stateful_step_count=40, deadline=None)
# an exception may be raised as Python closes a batch's loop to which nothing refers any more: Python only reports it
pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <generator object GatedStream:pytest.PytestUnraisableExceptionWarning"
)
TestStreamOfObjects = StreamMachine.TestCase
TestStreamOfObjects.settings = SETTINGS
TestStreamOfColumns = ColumnStreamMachine.TestCase
TestStreamOfColumns.settings = SETTINGS
TestAcknowledgements = AcknowledgedStreamMachine.TestCase
TestAcknowledgements.settings = SETTINGS
TestAcknowledgementsOfColumns = AcknowledgedColumnsMachine.TestCase
TestAcknowledgementsOfColumns.settings = SETTINGS
