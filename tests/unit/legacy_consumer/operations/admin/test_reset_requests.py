"""A live reset of running members: whole connectors with their threads, over an in-memory ZooKeeper and logs."""

from __future__ import annotations

import threading

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from legacy_consumer import ConsumerConnector, OffsetsNotCommittedError, Phase
from legacy_consumer.member.resets import (
    Answer,
    AnswerState,
    Request,
    RequestState,
    answer_path,
    answers_path,
    decode_answer,
    decode_request,
    encode_answer,
    encode_request,
    request_path,
)
from legacy_consumer.operations.admin.deletion import delete_group
from legacy_consumer.operations.admin.errors import (
    GroupDeletedError,
    OffsetsChangedError,
    ResetRequestError,
    TopicMadeAnewError,
)
from legacy_consumer.operations.admin.live_resets import write_live
from legacy_consumer.operations.admin.offset_plans import make_plan, read_standings
from legacy_consumer.operations.admin.offset_writes import write_plan
from tests.support.fake_group_offsets import FakeGroupOffsets
from tests.support.fake_kafka import FakeFetchers, FakeKafka
from tests.support.waiting import eventually
from zk_layout.codecs import encode_topic
from zk_layout.errors import ConnectionLostError, MalformedZnodeError, SessionExpiredError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper, Refusal
from zk_layout.model import TopicAssignment, TopicPartition
from zk_layout.store import CreateOp, DeleteOp

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
REQUEST = request_path("g")


class Cluster:
    def __init__(self):
        self.zookeeper = MemoryZooKeeper()
        self.kafka = FakeKafka()
        self.admin = MemoryStore(self.zookeeper)
        self.admin.start()
        data = encode_topic(TopicAssignment({0: (0,), 1: (0,)}))
        self.admin.create("/brokers/topics/t", data, make_parents=True)
        self.connectors = []
        for tp in (T0, T1):
            self.kafka.produce(tp, 20)

    def connector(self, **properties):
        connector = ConsumerConnector(
            store=MemoryStore(self.zookeeper),
            fetchers=FakeFetchers(self.kafka),
            zookeeper_connect="memory",
            group_id="g",
            **{"auto_offset_reset": "smallest", "auto_commit_enable": False, **properties},
        )
        self.connectors.append(connector)
        return connector

    def member(self, **properties):
        connector = self.connector(**properties)
        return connector, connector.create_message_streams({"t": 1})["t"][0]

    def reset(self, offsets, **options):
        plan = make_plan(self.admin, "g", read_standings(self.admin, "g"), offsets)
        return write_live(self.admin, plan, **options)

    def committed(self, tp):
        path = f"/consumers/g/offsets/{tp.topic}/{tp.partition}"
        return None if self.admin.exists(path) is None else int(self.admin.get_data(path).data)

    def ask(self, state=RequestState.PREPARE, partitions=(T0, T1), request_id="r1"):
        """Create a request for a reset, as a command does."""
        self.admin.ensure_path("/consumers/g/requests/answers")
        self.admin.create(REQUEST, encode_request(Request(request_id, state, frozenset(partitions))), ephemeral=True)

    def answer_of(self, connector):
        path = answer_path("g", connector.consumer_id)
        if self.admin.exists(path) is None:
            return None
        return decode_answer(path, self.admin.get_data(path).data)


@pytest.fixture
def cluster():
    made = Cluster()
    yield made
    for connector in made.connectors:
        connector.shutdown()
    made.admin.close()
    assert not [thread for thread in threading.enumerate() if "coordinator" in thread.name]


def consume(stream, count):
    """Take about count messages and finish them. Returns: {partition: offsets}."""
    seen = {}
    for batch in stream.batches(1000, timeout=20.0):
        for message in batch:
            seen.setdefault(message.partition(), []).append(message.offset())
        if not batch or sum(map(len, seen.values())) >= count:
            break
    stream._stream.come_back()
    return seen


def test_a_running_member_continues_from_the_new_offsets(cluster):
    member, stream = cluster.member()
    assert sum(map(len, consume(stream, 40).values())) == 40
    member.commit_offsets()
    followed = cluster.reset({T0: 15})
    assert followed.unanswered == ()
    assert consume(stream, 5) == {0: [15, 16, 17, 18, 19]}
    member.commit_offsets()
    assert (cluster.committed(T0), cluster.committed(T1)) == (20, 20)


def test_a_member_that_has_read_on_since_its_commit_goes_back_to_it(cluster):
    member, stream = cluster.member()
    assert sum(map(len, consume(stream, 40).values())) == 40
    member.commit_offsets()
    for tp in (T0, T1):
        cluster.kafka.produce(tp, 5)
    assert consume(stream, 10) == {0: list(range(20, 25)), 1: list(range(20, 25))}
    followed = cluster.reset({T0: 20, T1: 3})
    assert (followed.unanswered, followed.written.partitions) == ((), (T0, T1))
    assert consume(stream, 27) == {0: list(range(20, 25)), 1: list(range(3, 25))}


def test_a_live_reset_leaves_no_znode(cluster):
    _, stream = cluster.member()
    consume(stream, 40)
    cluster.reset({T0: 15})
    eventually(lambda: cluster.admin.exists(REQUEST) is None)
    eventually(lambda: cluster.admin.get_children("/consumers/g/requests/answers") == ())


def test_a_member_commits_nothing_over_a_reset_while_it_has_old_messages_in_hand(cluster):
    member, stream = cluster.member()
    batches = stream.batches(1000, timeout=20.0)
    in_hand = next(batches)
    cluster.reset({T0: 3, T1: 3})
    member.commit_offsets()
    assert (cluster.committed(T0), cluster.committed(T1)) == (3, 3)
    assert len(in_hand) == 40
    assert consume(stream, 34) == {0: list(range(3, 20)), 1: list(range(3, 20))}


def test_the_owner_of_each_partition_follows(cluster):
    members = [cluster.member() for _ in range(2)]
    eventually(lambda: [len(connector.status.owned) for connector, _ in members] == [1, 1])
    for _, stream in members:
        consume(stream, 20)
    cluster.reset({T0: 18, T1: 19})
    seen = {}
    for _, stream in members:
        seen |= consume(stream, 1)
    assert seen == {0: [18, 19], 1: [19]}


def test_while_a_request_is_prepared_nothing_is_handed_out_and_its_end_lets_it_flow(cluster):
    member, stream = cluster.member()
    consume(stream, 40)
    cluster.ask()
    eventually(lambda: cluster.answer_of(member))
    assert cluster.answer_of(member) == Answer("r1", AnswerState.READY, frozenset({T0, T1}))
    cluster.kafka.produce(T0, 2)
    assert len(next(stream.batches(10, timeout=0.3))) == 0
    cluster.admin.delete(REQUEST)
    assert consume(stream, 2) == {0: [20, 21]}
    eventually(lambda: cluster.answer_of(member) is None)


def test_messages_in_hand_count_when_a_reset_is_called_off(cluster):
    member, stream = cluster.member()
    batches = stream.batches(1000, timeout=20.0)
    assert len(next(batches)) == 40
    cluster.ask()
    eventually(lambda: cluster.answer_of(member))
    cluster.admin.delete(REQUEST)
    eventually(lambda: cluster.answer_of(member) is None)
    cluster.kafka.produce(T0, 1)
    assert [m.offset() for m in next(batches)] == [20], "nothing is delivered again"
    member.commit_offsets()
    assert (cluster.committed(T0), cluster.committed(T1)) == (21, 20)


def test_a_command_that_died_after_writing_is_followed_all_the_same(cluster):
    member, stream = cluster.member()
    consume(stream, 40)
    member.commit_offsets()
    cluster.ask()
    eventually(lambda: cluster.answer_of(member))
    cluster.admin.set_data("/consumers/g/offsets/t/0", b"18")
    cluster.admin.delete(REQUEST)
    assert consume(stream, 2) == {0: [18, 19]}


def test_a_member_that_joins_meanwhile_answers_too(cluster):
    cluster.ask()
    member, stream = cluster.member()
    eventually(lambda: cluster.answer_of(member) == Answer("r1", AnswerState.READY, frozenset({T0, T1})))
    assert len(next(stream.batches(10, timeout=0.3))) == 0


def test_partitions_that_are_not_named_flow_on(cluster):
    member, stream = cluster.member()
    cluster.ask(partitions=[T0])
    eventually(lambda: cluster.answer_of(member))
    consume(stream, 20)
    cluster.kafka.produce(T1, 3)
    assert consume(stream, 3) == {1: [20, 21, 22]}


@pytest.mark.parametrize("conflict", ["keep", "adopt"])
@pytest.mark.parametrize("is_named", [False, True])
def test_offsets_of_others_count_beside_a_reset_as_commit_conflict_says(cluster, caplog, conflict, is_named):
    """While a reset of one partition ran, an earlier version adopted every client's offsets, and skipped messages."""
    member, stream = cluster.member(commit_conflict=conflict)
    assert sum(map(len, consume(stream, 40).values())) == 40
    member.commit_offsets()
    cluster.kafka.produce(T1, 5)
    assert consume(stream, 5) == {1: list(range(20, 25))}
    cluster.ask(partitions=[T0])
    eventually(lambda: member.status.held == {T0})
    cluster.admin.set_data("/consumers/g/offsets/t/1", b"30")
    if conflict == "adopt" and is_named:
        with pytest.raises(OffsetsNotCommittedError, match=r"t/1: another client committed 30"):
            member.commit_offsets({T1: 25})
    else:
        member.commit_offsets({T1: 25} if is_named else None)
    assert f"ours is 25: commit.conflict={conflict}" in caplog.text
    assert (cluster.committed(T1), member.position(T1)) == ((25, 25) if conflict == "keep" else (30, 30))


@pytest.mark.parametrize("ending", ["called off", "applied"])
@pytest.mark.parametrize("is_deleted", [False, True])
def test_a_commit_writes_over_nothing_of_a_partition_that_is_being_reset(cluster, caplog, ending, is_deleted):
    """The end of the reset decides where the member continues: a commit cannot know which client wrote, and why."""
    member, stream = cluster.member(auto_offset_reset="largest", commit_conflict="keep")
    for tp in (T0, T1):
        cluster.kafka.produce(tp, 20)
    assert sum(map(len, consume(stream, 40).values())) == 40
    member.commit_offsets()
    cluster.kafka.produce(T0, 5)
    in_hand = next(stream.batches(1000, timeout=20.0))
    assert [message.offset() for message in in_hand] == list(range(40, 45))
    cluster.ask(partitions=[T0])
    eventually(lambda: member.status.held == {T0})
    if is_deleted:
        cluster.admin.delete("/consumers/g/offsets/t/0")
    else:
        cluster.admin.set_data("/consumers/g/offsets/t/0", b"7")
    assert member.commit_offsets().foreign.keys() == {T0}
    assert cluster.committed(T0) == (None if is_deleted else 7)
    assert "ours is 45: left as it is, because an operator resets the partition" in caplog.text
    what = "deleted the offset" if is_deleted else "committed 7"
    with pytest.raises(OffsetsNotCommittedError, match=f"t/0: another client {what}, and that stands"):
        member.commit_offsets({T0: 45})
    cluster.kafka.produce(T0, 3)
    if ending == "applied":
        cluster.admin.set_data(REQUEST, encode_request(Request("r1", RequestState.APPLIED, frozenset([T0]))))
    else:
        cluster.admin.delete(REQUEST)
    eventually(lambda: not member.status.held)
    if is_deleted and ending == "called off":
        assert consume(stream, 3) == {0: [45, 46, 47]}
    elif is_deleted:
        assert member.position(T0) is None, "it begins at the end, as a partition without an offset does"
    else:
        assert consume(stream, 41) == {0: list(range(7, 48))}


@pytest.mark.parametrize("why", ["unreadable", "unsaid"])
def test_a_member_follows_a_reset_of_partitions_that_could_not_begin(cluster, why):
    """doctor advises such a reset for an unreadable offset. An earlier version took the member for a JVM member."""

    class Listener:
        """A listener that raises as long as t/1 has no offset."""

        def starting_offsets(self, partitions):
            if partitions.get(T1, 0) is None:
                raise OSError("the database is down")
            return {}

        def before_releasing_partitions(self, partitions):
            pass

        def before_starting_fetchers(self, partitions, assignment):
            pass

    cluster.admin.create("/consumers/g/offsets/t/0", b"0", make_parents=True)
    if why == "unreadable":
        cluster.admin.create("/consumers/g/offsets/t/1", b"abc")
    member = cluster.connector(rebalance_backoff_ms=20, rebalance_max_retries=2)
    if why == "unsaid":
        member.set_rebalance_listener(Listener())
    stream = member.create_message_streams({"t": 1})["t"][0]
    eventually(lambda: member.status.phase is Phase.DEGRADED)
    followed = cluster.reset({T0: 15, T1: 5})
    assert (followed.unanswered, followed.written.partitions) == ((), (T0, T1))
    assert consume(stream, 20) == {0: list(range(15, 20)), 1: list(range(5, 20))}


def test_nothing_is_written_while_an_owner_does_not_answer(cluster):
    cluster.admin.create("/consumers/g/owners/t/0", b"g_jvm-0", make_parents=True)
    with pytest.raises(ResetRequestError, match=r"no answer within 0\.1 s from g_jvm; stop JVM members"):
        cluster.reset({T0: 5}, timeout_s=0.1)
    assert cluster.committed(T0) is None
    assert cluster.admin.exists(REQUEST) is None


@pytest.mark.parametrize("ephemeral", [True, False])
def test_an_answer_counts_only_from_the_session_that_owns_the_partition(cluster, ephemeral):
    jvm, stranger = MemoryStore(cluster.zookeeper), MemoryStore(cluster.zookeeper)
    jvm.start()
    stranger.start()
    jvm.create("/consumers/g/owners/t/0", b"g_jvm-0", ephemeral=True, make_parents=True)

    class Clock:
        """A clock: while the command waits, another client answers in the owner's name."""

        now = 0.0

        def monotonic(self):
            return self.now

        def wait(self, event, timeout_s):
            self.now += timeout_s
            request = decode_request(REQUEST, stranger.get_data(REQUEST).data)
            data = encode_answer(Answer(request.request_id, AnswerState.READY, request.partitions))
            if stranger.exists(answer_path("g", "g_jvm")) is None:
                stranger.create(answer_path("g", "g_jvm"), data, ephemeral=ephemeral)

    with pytest.raises(ResetRequestError, match="no answer within 1 s from g_jvm"):
        cluster.reset({T0: 5}, timeout_s=1, clock=Clock())
    assert cluster.committed(T0) is None


def test_a_folder_of_requests_that_members_keep_is_left(cluster):
    cluster.admin.ensure_path("/consumers/g/requests/answers")
    cluster.reset({T0: 5}, timeout_s=0.1)
    assert cluster.admin.get_children("/consumers/g/requests") == ("answers",)


def test_a_member_whose_offsets_are_in_kafka_refuses(cluster):
    connector = ConsumerConnector(
        store=MemoryStore(cluster.zookeeper),
        fetchers=FakeFetchers(cluster.kafka),
        group_offsets=FakeGroupOffsets(),
        zookeeper_connect="memory",
        group_id="g",
        offsets_storage="kafka",
    )
    cluster.connectors.append(connector)
    connector.create_message_streams({"t": 1})
    with pytest.raises(ResetRequestError, match="refuses: it keeps its offsets in kafka"):
        cluster.reset({T0: 5})
    assert cluster.committed(T0) is None


def test_a_member_that_refuses_after_the_write_is_an_owner_that_has_not_answered(cluster):
    member, stream = cluster.member()
    consume(stream, 40)
    member.commit_offsets()
    other = MemoryStore(cluster.zookeeper)
    other.start()

    class TakenOver(MemoryStore):
        def multi(self, ops, **options):
            zxid = super().multi(ops, **options)
            if DeleteOp(REQUEST) in ops:
                return zxid
            request = decode_request(REQUEST, cluster.admin.get_data(REQUEST).data)
            member.shutdown()
            other.create("/consumers/g/owners/t/0", b"g_other-0", ephemeral=True)
            refusal = Answer(request.request_id, AnswerState.REFUSED, frozenset(), "it keeps its offsets in kafka")
            other.create(answer_path("g", "g_other"), encode_answer(refusal), ephemeral=True)
            return zxid

    operator = TakenOver(cluster.zookeeper)
    operator.start()
    plan = make_plan(operator, "g", read_standings(operator, "g"), {T0: 15})
    followed = write_live(operator, plan, timeout_s=0.1)
    assert (followed.unanswered, followed.written.partitions) == (("g_other",), (T0,))
    assert cluster.committed(T0) == 15
    operator.close()
    other.close()


def test_a_second_reset_waits_for_the_first(cluster):
    cluster.ask()
    with pytest.raises(
        ResetRequestError,
        match=r"session 0x\w+ asks since .* for a reset of t/0, t/1 .*wait for the end of that command",
    ):
        cluster.reset({T0: 5})


def test_a_reset_names_a_request_that_no_session_stands_for_and_how_to_delete_it(cluster):
    cluster.admin.ensure_path("/consumers/g/requests/answers")
    cluster.admin.create(REQUEST, encode_request(Request("r1", RequestState.PREPARE, frozenset([T0]))))
    with pytest.raises(ResetRequestError, match=f"no session stands for it.*client: delete {REQUEST}"):
        cluster.reset({T0: 5})
    cluster.admin.delete(REQUEST)
    cluster.reset({T0: 5})
    assert cluster.committed(T0) == 5


def test_a_reset_of_unowned_partitions_asks_no_member(cluster):
    cluster.admin.ensure_path("/consumers/g")
    cluster.reset({T0: 5}, timeout_s=0.1)
    assert cluster.committed(T0) == 5


partitions = st.frozensets(st.builds(TopicPartition, st.sampled_from(["a", "b.c", "d-e_f"]), st.integers(0, 2**31 - 1)))


@settings(max_examples=30)
@given(st.text(max_size=10), st.sampled_from(RequestState), partitions)
def test_a_request_is_read_as_it_was_written(request_id, state, tps):
    request = Request(request_id, state, tps)
    assert decode_request("/p", encode_request(request)) == request


@settings(max_examples=30)
@given(st.text(max_size=10), st.sampled_from(AnswerState), partitions, st.text(max_size=10))
def test_an_answer_is_read_as_it_was_written(request_id, state, tps, reason):
    answer = Answer(request_id, state, tps, reason)
    assert decode_answer("/p", encode_answer(answer)) == answer


@pytest.mark.parametrize(
    "data", [None, b"", b"x", b"[]", b"{}", b'{"version":2}', b'{"version":1,"id":"a","state":"x"}']
)
def test_an_invalid_request_is_refused(data):
    with pytest.raises(MalformedZnodeError):
        decode_request("/p", data)
    with pytest.raises(MalformedZnodeError):
        decode_answer("/p", data)


def test_nothing_is_written_when_a_member_of_the_jvm_took_over_since_the_owner_held_still(cluster):
    member, stream = cluster.member()
    consume(stream, 40)
    member.commit_offsets()
    other = MemoryStore(cluster.zookeeper)
    other.start()

    def take_over(plan):
        member.shutdown()
        other.create("/consumers/g/ids/g_jvm", b"{}", ephemeral=True, make_parents=True)
        other.create("/consumers/g/owners/t/0", b"g_jvm-0", ephemeral=True, make_parents=True)

    with pytest.raises(ResetRequestError, match="changed their owners"):
        cluster.reset({T0: 15}, before_write=take_over)
    assert cluster.committed(T0) == 20
    other.close()


def test_nothing_is_written_when_an_owner_gives_its_partition_up_in_the_moment_of_the_write(cluster):
    """A member that claims the partition, such as a JVM member in a rebalance, may have read the old offset."""
    for tp in (T0, T1):
        cluster.admin.create(f"/consumers/g/offsets/t/{tp.partition}", b"20", make_parents=True)
        cluster.admin.create(f"/consumers/g/owners/t/{tp.partition}", b"g_m-0", ephemeral=True, make_parents=True)

    class InThatMoment(MemoryStore):
        def multi(self, ops, **options):
            cluster.admin.delete("/consumers/g/owners/t/1")
            return super().multi(ops, **options)

    operator = InThatMoment(cluster.zookeeper)
    operator.start()
    plan = make_plan(operator, "g", read_standings(operator, "g"), {T0: 15, T1: 15})
    with pytest.raises(OffsetsChangedError, match="t/1"):
        write_plan(operator, plan, force=True, held_in=operator.session_id)
    assert (cluster.committed(T0), cluster.committed(T1)) == (20, 20)
    operator.close()


def test_nothing_is_written_for_a_topic_that_is_made_anew_while_its_members_hold_still(cluster):
    member, stream = cluster.member()
    consume(stream, 40)
    member.commit_offsets()

    def make_anew(plan):
        cluster.admin.delete("/brokers/topics/t")
        data = encode_topic(TopicAssignment({0: (0,), 1: (0,)}))
        cluster.admin.create("/brokers/topics/t", data)

    with pytest.raises(TopicMadeAnewError, match="nothing was written"):
        cluster.reset({T0: 15}, before_write=make_anew)
    assert cluster.committed(T0) == 20


def test_a_commit_in_between_to_a_partition_without_an_owner_stays(cluster):
    cluster.admin.create("/consumers/g/offsets/t/0", b"9", make_parents=True)
    plan = make_plan(cluster.admin, "g", read_standings(cluster.admin, "g"), {T0: 5})
    cluster.admin.set_data("/consumers/g/offsets/t/0", b"12")
    with pytest.raises(OffsetsChangedError, match="t/0"):
        write_live(cluster.admin, plan, timeout_s=0.1)
    assert cluster.committed(T0) == 12


def test_a_reset_to_where_the_group_stands_is_not_taken_for_written_when_its_request_is_lost(cluster):
    """Its members have consumed more since, so their positions are not at the committed offset."""
    member, stream = cluster.member()
    consume(stream, 40)
    member.commit_offsets()

    def lose(session_id, kind):
        if (session_id, kind) == (cluster.admin.session_id, "multi"):
            cluster.zookeeper.fault = None
            return Fault.LOSE_REQUEST
        return None

    def begin_to_lose(plan):
        cluster.zookeeper.fault = lose

    with pytest.raises(ConnectionLostError):
        cluster.reset({T0: 20}, before_write=begin_to_lose)
    assert cluster.zookeeper.fault is None


def test_a_reset_does_not_make_a_group_again_that_was_deleted(cluster):
    cluster.admin.create("/consumers/g/offsets/t/0", b"9", make_parents=True)
    plan = make_plan(cluster.admin, "g", read_standings(cluster.admin, "g"), {T1: 5})
    delete_group(cluster.admin, "g")
    with pytest.raises(GroupDeletedError):
        write_live(cluster.admin, plan, timeout_s=0.1)
    assert cluster.admin.get_children("/consumers") == ()


class Interrupted(MemoryStore):
    """An operator's connection. happens: (a write, the function to call right before it, once)."""

    happens = None

    def create(self, path, data, **options):
        self._happen(path)
        return super().create(path, data, **options)

    def multi(self, ops, **options):
        for op in ops:
            self._happen(op)
        return super().multi(ops, **options)

    def _happen(self, write):
        if self.happens is not None and write == self.happens[0]:
            (_, act), self.happens = self.happens, None
            act()


@pytest.fixture
def operator(cluster):
    cluster.admin.ensure_path("/consumers/g")
    made = Interrupted(cluster.zookeeper)
    made.start()
    yield made
    made.close()


def reset_unowned(operator, **options):
    return write_live(operator, make_plan(operator, "g", read_standings(operator, "g"), {T0: 5}), **options)


def test_a_reset_that_ends_leaves_the_folder_in_which_the_next_one_is_answered(cluster, operator):
    operator.happens = DeleteOp(answers_path("g")), cluster.ask
    reset_unowned(operator)
    assert operator.happens is None
    assert cluster.admin.get_children("/consumers/g/requests") == ("answers", "reset")


def test_a_reset_begins_although_the_one_before_deletes_its_folders(cluster, operator):
    def end():
        cluster.admin.delete(answers_path("g"))
        cluster.admin.delete("/consumers/g/requests")

    operator.happens = REQUEST, end
    reset_unowned(operator)
    assert operator.happens is None
    assert cluster.committed(T0) == 5


@pytest.mark.parametrize("moment", ["while it waits", "as it writes"])
def test_a_reset_whose_session_ended_leaves_the_request_of_the_next_one_alone(cluster, operator, moment):
    def sleep(plan=None):
        cluster.zookeeper.expire(operator.session_id)
        cluster.ask()

    if moment == "as it writes":
        operator.happens = CreateOp("/consumers/g/offsets/t/0", b"5"), sleep
    options = {"before_write": sleep} if moment == "while it waits" else {}
    with pytest.raises(ResetRequestError, match="the session of this command ended"):
        reset_unowned(operator, **options)
    assert decode_request(REQUEST, cluster.admin.get_data(REQUEST).data).state is RequestState.PREPARE
    assert cluster.committed(T0) is None


@pytest.mark.parametrize("lost", ["exists", "multi"])
def test_a_reset_that_is_written_succeeds_though_its_request_cannot_be_deleted(cluster, operator, caplog, lost):
    """If the command failed, the operator would repeat it, and a shift would move the group once more."""

    def lose(session_id, kind):
        is_written = session_id == operator.session_id and cluster.committed(T0) == 5
        return Fault.LOSE_REQUEST if is_written and kind == lost else None

    cluster.zookeeper.fault = lose
    followed = reset_unowned(operator)
    assert followed.written.partitions == (T0,)
    assert "group g: the request of this reset may still be there" in caplog.text
    assert cluster.admin.exists(REQUEST) is not None
    operator.close()
    assert cluster.admin.exists(REQUEST) is None


def test_a_reset_that_is_refused_says_why_though_its_request_cannot_be_deleted(cluster, operator):
    cluster.admin.create("/consumers/g/owners/t/0", b"g_jvm-0", ephemeral=True, make_parents=True)
    cluster.zookeeper.fault = lambda session_id, kind: Fault.LOSE_REQUEST if kind == "multi" else None
    with pytest.raises(ResetRequestError, match="no answer within 0 s from g_jvm"):
        reset_unowned(operator, timeout_s=0)
    assert cluster.admin.exists(REQUEST) is not None


@pytest.mark.parametrize("is_answered", [True, False])
def test_no_reset_that_may_be_written_ends_in_an_error_that_says_that_nothing_was_written(
    cluster, operator, is_answered
):
    """The session ends right after the write, whose reply comes or is lost."""

    def end(session_id, kind):
        if session_id != operator.session_id:
            return None
        if kind == "multi" and not is_answered:
            return Fault.LOSE_REPLY
        if cluster.committed(T0) != 5:
            return None
        cluster.zookeeper.fault = None  # another session begins
        return Refusal(SessionExpiredError("ended"))

    cluster.zookeeper.fault = end
    with pytest.raises(SessionExpiredError):
        reset_unowned(operator)
    assert cluster.committed(T0) == 5
