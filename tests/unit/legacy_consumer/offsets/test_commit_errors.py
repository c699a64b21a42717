"""Every call of the offset stores that may fail, with every error that it may raise, and what must follow.

The member is a Committer over the real stores; ZooKeeper and the group's coordinator are in memory. Requests are so
small that a commit takes several of them. Once an error is over, the member commits all consumed messages; its own
writes never go backwards; and it takes none of them for another client's.
"""

import contextlib
from collections import Counter
from functools import partial

import pytest

from legacy_consumer.errors import (
    BrokersUnavailableError,
    CommitFailedError,
    GroupRefusedError,
    OffsetsNotCommittedError,
)
from legacy_consumer.member.committer import CommitSettings, Committer
from legacy_consumer.offsets import DualOffsetStore, KafkaOffsetStore, RetrySettings, ZooKeeperOffsetStore
from legacy_consumer.offsets.progress import Progress
from legacy_consumer.offsets.retries import coordinator_answer
from tests.support.at_line import AtLine, PassedLines, interrupt
from tests.support.fake_group_offsets import FakeGroupOffsets
from zk_layout.codecs import encode_topic
from zk_layout.errors import (
    ConnectionLostError,
    MultiFailedError,
    NotPermittedError,
    SessionExpiredError,
    ZooKeeperError,
)
from zk_layout.memory_store import MemoryStore, MemoryZooKeeper
from zk_layout.model import TopicAssignment, TopicPartition
from zk_layout.store import CreateOp, SetOp

TPS = [TopicPartition("t", n) for n in range(12)]
BAD = TPS[5]

# error: (whether the call is carried out all the same, the error of the call, the class of the commit's error)
ERRORS = {
    "connection lost before": (False, ConnectionLostError("lost"), ConnectionLostError),
    "connection lost after": (True, ConnectionLostError("lost"), ConnectionLostError),
    "session expired": (False, SessionExpiredError("over"), SessionExpiredError),
    "unforeseen": (False, MemoryError("no room"), MemoryError),
}
# errors of one operation of a multi; the same commit writes the other operations
REFUSALS = {
    "no auth": NotPermittedError("/x"),
    "quota exceeded": ZooKeeperError("/x: QuotaExceededError"),
}
SITUATIONS = ("plain", "no folder yet", "somebody else wrote", "an owner znode is gone", "garbage", "may not be read")
STORED = [
    *((storage, situation) for storage in ("zookeeper", "both") for situation in SITUATIONS),
    *(("kafka", situation) for situation in ("plain", "an owner znode is gone")),
]


class FaultyStore(MemoryStore):
    """fault: (call, the number of calls before the one that fails, a key of ERRORS); it comes once.

    refused: (path, the error of every write to it). unreadable: a path that the member may not read.
    """

    fault = None
    refused = None
    unreadable = None

    def __init__(self, server):
        super().__init__(server)
        self.written = []
        self.calls = Counter()

    def _meet(self, call, carry_out):
        self.calls[call] += 1
        if self.fault is None or self.fault[0] != call:
            return carry_out()
        if self.fault[1]:
            self.fault = (call, self.fault[1] - 1, self.fault[2])
            return carry_out()
        is_carried_out, error, _ = ERRORS[self.fault[2]]
        self.fault = None
        if is_carried_out:
            with contextlib.suppress(ZooKeeperError):
                carry_out()
        raise error

    def multi(self, ops, **options):
        def carry_out():
            for index, op in enumerate(ops):
                if self.refused is not None and op.path == self.refused[0] and isinstance(op, (SetOp, CreateOp)):
                    raise MultiFailedError(index, op.path, self.refused[1])
            done = super(FaultyStore, self).multi(ops, **options)
            self.written += [(op.path, int(op.data)) for op in ops if isinstance(op, (SetOp, CreateOp)) and op.data]
            return done

        return self._meet("multi", carry_out)

    def get_data_many(self, paths, watcher=None):
        if self.unreadable in paths:
            raise NotPermittedError(self.unreadable)
        return self._meet("get_data_many", lambda: super(FaultyStore, self).get_data_many(paths, watcher))

    def exists_many(self, paths, watcher=None):
        return self._meet("exists_many", lambda: super(FaultyStore, self).exists_many(paths, watcher))

    def ensure_path(self, path, **options):
        return self._meet("ensure_path", lambda: super(FaultyStore, self).ensure_path(path, **options))


class World:
    """A member that owns twelve partitions and has committed 5 in each, or nothing yet."""

    def __init__(self, storage="zookeeper", situation="plain"):
        self.server = MemoryZooKeeper(max_multi_bytes=2500)
        self.store, self.admin = FaultyStore(self.server), MemoryStore(self.server)
        self.store.start()
        self.admin.start()
        topic = encode_topic(TopicAssignment(dict.fromkeys(range(12), (0,))))
        self.admin.create("/brokers/topics/t", topic, make_parents=True)
        self.store.create("/consumers/g/ids/g_a", b"", ephemeral=True, make_parents=True)
        for tp in TPS:
            self.store.create(f"/consumers/g/owners/t/{tp.partition}", b"g_a-0", ephemeral=True, make_parents=True)
        self.channel = FakeGroupOffsets()
        in_zookeeper = ZooKeeperOffsetStore(self.store, "g")
        asking = partial(coordinator_answer, 0.001)
        in_kafka = KafkaOffsetStore(self.store, "g", self.channel, timeout_s=0.01, asking=asking)
        self.storage = storage
        self.offsets = {
            "zookeeper": in_zookeeper,
            "kafka": in_kafka,
            "both": DualOffsetStore(in_zookeeper, in_kafka),
        }[storage]
        self.progress = Progress()
        self.doubts = 0
        self.committer = Committer(
            CommitSettings("g", "g_a", False, RetrySettings(0, 0.0)),
            offsets=self.offsets,
            progress=self.progress,
            streams=lambda: (),
            session_id=lambda: self.store.session_id,
            adopt=lambda _: pytest.fail("commit.conflict is keep"),
            resetting=frozenset,
            on_unowned=self.doubt,
        )
        self.epochs = {}
        self.position = 0
        self.begin(TPS)
        self.foreign = 0
        if situation != "no folder yet":
            self.consume()
            self.committer.commit()
        self.arrange(situation)

    def path(self, tp):
        return f"/consumers/g/offsets/t/{tp.partition}"

    def begin(self, partitions):
        for tp, committed in self.offsets.read(partitions).items():
            self.epochs[tp] = self.progress.begin(tp, committed.offset or 0, committed)

    def doubt(self):
        self.doubts += 1

    def arrange(self, situation):
        match situation:
            case "somebody else wrote":
                self.admin.set_data(self.path(BAD), b"3")
                self.foreign = 1
            case "garbage":
                self.admin.set_data(self.path(BAD), b"7\n")
                self.foreign = 1
            case "may not be read":
                # another version makes the member read the znode, which the ACL forbids
                self.admin.set_data(self.path(BAD), b"3")
                self.store.unreadable = self.path(BAD)
                self.foreign = 1
            case "an owner znode is gone":
                self.admin.delete(f"/consumers/g/owners/t/{BAD.partition}")

    def mend(self):
        """Repair the faults, as an operator and the coordinator do."""
        self.store.unreadable = self.store.refused = None
        owner = f"/consumers/g/owners/t/{BAD.partition}"
        if self.admin.exists(owner) is None:
            self.store.create(owner, b"g_a-0", ephemeral=True)

    def seek(self, tp, position):
        epoch = self.progress.new_epoch()
        self.progress.move(tp, self.epochs[tp], epoch, position, None)
        self.epochs[tp] = epoch

    def consume(self):
        self.position += 5
        self.progress.note_consumed(dict.fromkeys(TPS, self.position), self.epochs)

    def committed(self):
        if self.storage == "kafka":
            return {tp: kept.offset for tp, kept in self.channel.kept.items()}
        znodes = self.admin.get_data_many([self.path(tp) for tp in TPS])
        return {tp: int(znode.data) for tp, znode in zip(TPS, znodes, strict=True) if znode is not None}

    def goes_on(self):
        """Check that the next commits succeed, and that the member wrote no lower offset and suspected no own write."""
        self.mend()
        for _ in range(2):
            self.consume()
            self.committer.commit()
        assert self.committed() == dict.fromkeys(TPS, self.position)
        if self.storage == "both":
            assert {kept.offset for kept in self.channel.kept.values()} == {self.position}
        own = {}
        for path, offset in self.store.written:
            assert offset >= own.get(path, 0)
            own[path] = offset
        # a foreign commit counts twice if the error came after the member found it and before it wrote over it
        assert self.committer.foreign_commits <= 2 * self.foreign


def calls_of_a_commit(storage, situation):
    """Return (call, its number) for each request of a commit to ZooKeeper."""
    world = World(storage, situation)
    world.consume()
    world.store.calls.clear()
    world.committer.commit()
    return [(call, number) for call, count in world.store.calls.items() for number in range(count)]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize(("storage", "situation"), STORED)
def test_after_an_error_in_any_call_to_zookeeper_the_next_commit_goes_on(storage, situation, error):
    calls = calls_of_a_commit(storage, situation)
    assert ("multi", 0) in calls
    for call, number in calls:
        world = World(storage, situation)
        world.consume()
        world.store.fault = (call, number, error)
        with pytest.raises(ERRORS[error][2]):
            world.committer.commit()
        assert world.committer.failed_commits == 1
        world.goes_on()


@pytest.mark.parametrize("error", ["connection lost before", "connection lost after"])
@pytest.mark.parametrize(("storage", "number"), [("zookeeper", 0), ("zookeeper", 1), ("both", 0)])
def test_users_back_where_the_offset_stood_before_a_commit_without_an_answer_are_committed_again(
    storage, number, error
):
    world = World(storage)
    for tp in TPS:
        # the user's code seeks
        world.seek(tp, 2)
    world.store.fault = ("multi", number, error)
    with pytest.raises(ConnectionLostError):
        world.committer.commit()
    world.progress.note_consumed(dict.fromkeys(TPS, world.position), world.epochs)
    world.committer.commit()
    assert world.committed() == dict.fromkeys(TPS, world.position)
    assert world.committer.foreign_commits == 0
    multis = world.store.calls["multi"]
    world.committer.commit()
    if storage == "zookeeper":
        assert world.store.calls["multi"] == multis, "what was answered is not written again"


@pytest.mark.parametrize("storage", ["zookeeper", "kafka", "both"])
def test_the_writes_of_a_commit_interrupted_at_any_line_are_not_taken_for_another_clients(storage):
    world = World(storage)
    world.consume()
    with PassedLines() as passed:
        world.committer.commit_consumed(object())
    for line in passed.first_times(2):
        for seeks_back in (False, True):
            world = World(storage)
            world.consume()
            strike = AtLine(line, interrupt)
            with contextlib.suppress(KeyboardInterrupt), strike:
                world.committer.commit_consumed(object())
            if seeks_back:
                # back to the offset before the interrupted commit
                world.position -= 5
                for tp in TPS:
                    world.seek(tp, world.position)
                world.committer.commit()
                assert world.committed() == dict.fromkeys(TPS, world.position), f"interrupted at line {line}"
                world.store.written.clear()
            world.goes_on()
        if not strike.struck:
            break
    assert line > 100, "the library's lines were not seen"


@pytest.mark.parametrize("storage", ["zookeeper", "both"])
def test_a_commit_without_an_answer_that_is_interrupted_when_tried_again_is_not_taken_for_somebody_elses(storage):
    def unanswered():
        world = World(storage)
        world.consume()
        world.store.fault = ("multi", 0, "connection lost after")
        with pytest.raises(ConnectionLostError):
            world.committer.commit()
        world.mend()
        return world

    world = unanswered()
    with PassedLines() as passed:
        world.committer.commit()
    for line in passed.first_times(2):
        world = unanswered()
        with contextlib.suppress(KeyboardInterrupt), AtLine(line, interrupt) as strike:
            world.committer.commit()
        world.goes_on()
        if not strike.struck:
            break
    assert line > 100, "the library's lines were not seen"


@pytest.mark.parametrize("refusal", REFUSALS)
@pytest.mark.parametrize("bad", [TPS[0], BAD, TPS[-1]], ids=str)
def test_a_refusal_of_one_partition_stops_no_other(bad, refusal):
    world = World()
    world.store.refused = (world.path(bad), REFUSALS[refusal])
    for _ in range(3):
        world.consume()
        world.committer.commit()
        assert world.committed() == {**dict.fromkeys(TPS, world.position), bad: 5}
    requests = world.server.requests["multi"]
    world.consume()
    world.committer.commit()
    assert world.server.requests["multi"] - requests <= 7, "it is tried apart from the others"
    world.committer.commit_last([bad], 1.0)
    world.goes_on()


@pytest.mark.parametrize("situation", SITUATIONS)
def test_one_bad_partition_stops_no_other(situation):
    world = World(situation=situation)
    world.consume()
    world.committer.commit()
    others = {tp: offset for tp, offset in world.committed().items() if tp != BAD}
    assert others == dict.fromkeys([tp for tp in TPS if tp != BAD], world.position)
    assert world.doubts == (situation == "an owner znode is gone")
    world.goes_on()


@pytest.mark.parametrize("passed", range(2))
@pytest.mark.parametrize("error", ERRORS)
def test_a_last_commit_is_worth_another_try_only_for_what_passes(error, passed):
    world = World()
    world.consume()
    world.store.fault = ("multi", passed, error)
    passes = error != "unforeseen"
    with pytest.raises(ERRORS[error][2]) if passes else contextlib.nullcontext():
        world.committer.commit_last(TPS, 1.0)
    world.committer.commit_last(TPS, 1.0)
    assert world.committed() == dict.fromkeys(TPS, world.position)


def test_partitions_refused_by_the_hundred_take_a_bounded_number_of_requests():
    server = MemoryZooKeeper()
    store = FaultyStore(server)
    store.start()
    store.ensure_path("/consumers/g/offsets/t")
    many = [TopicPartition("t", n) for n in range(300)]
    fine = TopicPartition("t", 299)

    offsets = ZooKeeperOffsetStore(store, "g")
    progress = Progress()
    epochs = {tp: progress.begin(tp, 0, committed) for tp, committed in offsets.read(many).items()}
    committer = Committer(
        CommitSettings("g", "g_a", False),
        offsets=offsets,
        progress=progress,
        streams=lambda: (),
        session_id=lambda: store.session_id,
        adopt=lambda _: None,
        resetting=frozenset,
        on_unowned=lambda: None,
    )
    store.create("/consumers/g/ids/g_a", b"", ephemeral=True, make_parents=True)
    for tp in many:
        store.create(f"/consumers/g/owners/t/{tp.partition}", b"g_a-0", ephemeral=True, make_parents=True)
    progress.note_consumed(dict.fromkeys(many, 7), epochs)
    allowed = f"/consumers/g/offsets/t/{fine.partition}"
    real = store.multi

    def refuse(ops, **options):
        for index, op in enumerate(ops):
            if isinstance(op, (SetOp, CreateOp)) and op.path != allowed:
                server.requests["refused"] += 1
                raise MultiFailedError(index, op.path, NotPermittedError(op.path))
        return real(ops, **options)

    store.multi = refuse
    for _ in range(8):
        before = server.requests["refused"]
        committer.commit()
        assert server.requests["refused"] - before <= 100
    assert store.exists(allowed) is not None, "it is found among all that are refused"
    store.multi = real
    for _ in range(8):
        committer.commit()
    assert len(store.get_children("/consumers/g/offsets/t")) == 300


# The group's coordinator

KAFKA_ERRORS = {
    "no answer to the question": (lambda c: setattr(c, "down", 10**9), CommitFailedError),
    "no answer to the write": (lambda c: setattr(c, "before_write", lambda: setattr(c, "down", 1)), CommitFailedError),
    "the answer to the write is lost": (lambda c: setattr(c, "lost", 1), CommitFailedError),
    "one partition is refused": (lambda c: setattr(c, "refused", {BAD}), CommitFailedError),
    "one partition is not told": (lambda c: setattr(c, "untold", {BAD}), None),
    "the group is refused": (lambda c: setattr(c, "before_read", _refuse_group), OffsetsNotCommittedError),
    "unforeseen": (lambda c: setattr(c, "before_write", _fail), MemoryError),
}


def _refuse_group():
    raise GroupRefusedError("g", "not authorized")


def _fail():
    raise MemoryError


@pytest.mark.parametrize("error", KAFKA_ERRORS)
@pytest.mark.parametrize("storage", ["kafka", "both"])
def test_after_an_error_of_the_coordinator_the_next_commit_goes_on(storage, error):
    world = World(storage)
    world.consume()
    inject, raised = KAFKA_ERRORS[error]
    inject(world.channel)
    if raised is None:
        world.committer.commit()
    else:
        with pytest.raises(raised):
            world.committer.commit()
    if "one partition" in error:
        others = {tp: kept.offset for tp, kept in world.channel.kept.items() if tp != BAD}
        assert others == dict.fromkeys([tp for tp in TPS if tp != BAD], world.position)
    world.committer.commit_last(TPS, 0.01)
    world.channel.mend()
    world.goes_on()


def test_a_write_that_is_carried_out_late_does_not_move_the_group_back():
    """The channel begins no write before an earlier one has ended: it refuses the next, whose retry comes on top."""
    world = World("kafka")
    world.consume()
    late = {}

    def hold_back():
        late.update(dict.fromkeys(TPS, world.position))
        raise BrokersUnavailableError("no answer to a commit within 0.1 s")

    world.channel.before_write = hold_back
    with pytest.raises(CommitFailedError):
        world.committer.commit()
    world.channel.mend()
    kept = world.channel.kept
    kept.update({tp: type(kept[tp])(offset, kept[tp].metadata) for tp, offset in late.items()})
    world.goes_on()
