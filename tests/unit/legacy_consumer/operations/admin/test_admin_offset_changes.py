"""Plans of offsets, made and carried out over the in-memory store."""

from __future__ import annotations

import itertools
import json

import pytest

from legacy_consumer.errors import ActiveGroupError, NoSuchGroupError, NoSuchPartitionError, NoSuchTopicError
from legacy_consumer.offsets.topic_partitions import TopicsOnce
from legacy_consumer.operations.admin.backups import write_backup
from legacy_consumer.operations.admin.change_progress import ChangeProgress
from legacy_consumer.operations.admin.deletion import delete_group
from legacy_consumer.operations.admin.errors import (
    BackupError,
    GroupDeletedError,
    NoOffsetToShiftError,
    OffsetsChangedError,
    OffsetsHalfWrittenError,
    OffsetsOutsideLogError,
    TopicMadeAnewError,
    UnknownLogEndsError,
    UnreadableOffsetsError,
)
from legacy_consumer.operations.admin.group_acls import GroupAcls
from legacy_consumer.operations.admin.log_times import BrokerLogTimes
from legacy_consumer.operations.admin.offset_files import read_offsets
from legacy_consumer.operations.admin.offset_plans import choose_partitions, make_plan, read_standings, readable_offsets
from legacy_consumer.operations.admin.offset_targets import (
    ShiftBy,
    ToEarliest,
    ToGiven,
    ToLatest,
    ToOffset,
    ToTime,
    resolve,
)
from legacy_consumer.operations.admin.offset_writes import write_plan
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import Fault, MemoryStore, MemoryZooKeeper
from zk_layout.model import Broker, TopicPartition
from zk_layout.store import EVERYBODY


class Logs:
    """Logs from {partition: (begin, end)}; the time of a message in milliseconds equals its offset."""

    def __init__(self, **logs):
        self.logs = {TopicPartition("t", int(name[1:])): ends for name, ends in logs.items()}
        self.questions = []

    def earliest(self, partitions):
        return {tp: self.logs[tp][0] for tp in partitions if tp in self.logs}

    def latest(self, partitions):
        return {tp: self.logs[tp][1] for tp in partitions if tp in self.logs}

    def at_times(self, times):
        self.questions.append(len(times))
        ends = {tp: self.logs[tp] for tp in times}
        return {tp: max(ends[tp][0], time_ms) if time_ms < ends[tp][1] else None for tp, time_ms in times.items()}


LOGS = Logs(p0=(10, 20), p1=(0, 100))
TIMES = BrokerLogTimes(LOGS, [Broker(0, "h", 1, (), 4)])
T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


@pytest.fixture
def server():
    return MemoryZooKeeper()


@pytest.fixture
def store(server):
    made = MemoryStore(server)
    made.start()
    put(made, "/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
    put(made, "/consumers/g/offsets/t/0", b"15")
    yield made
    made.close()


def put(store, path, data=None):
    store.create(path, data, make_parents=True)


def offset_of(store, partition, group="g"):
    return store.get_data(f"/consumers/{group}/offsets/t/{partition}").data


def plan_of(store, after, group="g"):
    return make_plan(store, group, read_standings(store, group), after)


@pytest.mark.parametrize(
    ("target", "after"),
    [
        (ToEarliest(), {T0: 10, T1: 0}),
        (ToLatest(), {T0: 20, T1: 100}),
        (ToOffset(12), {T0: 12, T1: 12}),
        (ShiftBy(-3), {T0: 12, T1: 27}),
        (ShiftBy(-50), {T0: 10, T1: 0}),
        (ShiftBy(50), {T0: 20, T1: 80}),
        (ToTime(14), {T0: 14, T1: 14}),
        (ToTime(50), {T0: 20, T1: 50}),
        (ToGiven({T0: 11}), {T0: 11}),
        (ToGiven({T0: None, T1: 5}), {T0: None, T1: 5}),
    ],
)
def test_a_target_means_an_offset_for_each_partition(target, after):
    assert resolve(target, {T0: 15, T1: 30}, TIMES) == after


def test_a_partition_without_an_offset_is_not_shifted():
    with pytest.raises(NoOffsetToShiftError, match="t/1 cannot be shifted"):
        resolve(ShiftBy(-3), {T0: 15, T1: None}, TIMES)


def test_an_offset_outside_the_log_is_refused_and_the_nearest_taken_on_request():
    with pytest.raises(OffsetsOutsideLogError, match="t/0: 5 is not in 10 to 20"):
        resolve(ToOffset(5), {T0: 15, T1: None}, TIMES)
    assert resolve(ToOffset(500), {T0: 15, T1: None}, TIMES, clamp=True) == {T0: 20, T1: 100}


@pytest.mark.parametrize("target", [ToEarliest(), ToLatest(), ToOffset(12), ShiftBy(1), ToTime(5)])
def test_nothing_is_resolved_while_one_partition_has_no_answer(target):
    with pytest.raises(UnknownLogEndsError, match="no broker answers for t/7"):
        resolve(target, {T0: 15, TopicPartition("t", 7): 3}, TIMES)


def test_nothing_is_asked_where_no_check_is_wanted():
    assert resolve(ToGiven({T0: 5000}), {T0: None}, None, check=False) == {T0: 5000}


def test_of_an_old_broker_no_answer_to_a_time_means_the_beginning():
    old = BrokerLogTimes(LOGS, [Broker(0, "h", 1, (), 4), Broker(1, "h", 1, (), 1)])
    assert old.at_times({T0: 50}) == {T0: 10}


def test_a_time_is_asked_of_all_partitions_at_once():
    logs = Logs(p0=(10, 20), p1=(0, 100))
    times = BrokerLogTimes(logs, [Broker(0, "h", 1, (), 4)])
    assert resolve(ToTime(14), {T0: 15, T1: None}, times) == {T0: 14, T1: 14}
    assert logs.questions == [2]


def test_a_plan_names_every_partition_of_the_group_and_its_change(store):
    put(store, "/consumers/g/offsets/t/1", b"-1")
    plan = plan_of(store, {T0: 10, T1: 100})
    assert [(c.partition, c.before.offset, c.after, c.moves_by) for c in plan.changes] == [
        (T0, 15, 10, -5),
        (T1, None, 100, None),
    ]
    assert plan.backup == {T0: 15, T1: None}


def test_partitions_are_chosen_by_topic_and_number(store):
    standings = read_standings(store, "g")
    assert list(choose_partitions(TopicsOnce(store), standings, {})) == [T0, T1]
    assert list(choose_partitions(TopicsOnce(store), standings, {"t": None})) == [T0, T1]
    assert list(choose_partitions(TopicsOnce(store), standings, {"t": frozenset({1})})) == [T1]
    with pytest.raises(NoSuchTopicError):
        choose_partitions(TopicsOnce(store), standings, {"u": None})
    with pytest.raises(NoSuchPartitionError):
        choose_partitions(TopicsOnce(store), standings, {"t": frozenset({2})})


def test_a_group_that_is_not_there_has_no_standings(store):
    with pytest.raises(NoSuchGroupError):
        read_standings(store, "h")


def test_an_unreadable_offset_is_not_copied_but_can_be_written_over(store):
    put(store, "/consumers/g/offsets/t/1", b"12\n")
    with pytest.raises(UnreadableOffsetsError, match="offsets/t/1"):
        readable_offsets("g", read_standings(store, "g"))
    write_plan(store, plan_of(store, {T1: 5}))
    assert offset_of(store, 1) == b"5"


def test_a_plan_is_written_in_one_multi(store):
    written = write_plan(store, plan_of(store, {T0: 10, T1: 7}))
    assert written.partitions == (T0, T1)
    assert (offset_of(store, 0), offset_of(store, 1)) == (b"10", b"7")
    stats = [store.get_data(f"/consumers/g/offsets/t/{n}").stat.mzxid for n in (0, 1)]
    assert stats[0] == stats[1]


def test_offsets_that_stand_there_already_are_not_written(store):
    version = store.get_data("/consumers/g/offsets/t/0").stat.version
    assert write_plan(store, plan_of(store, {T0: 15})).partitions == ()
    assert store.get_data("/consumers/g/offsets/t/0").stat.version == version


def test_none_removes_the_offset(store):
    write_plan(store, plan_of(store, {T0: None}))
    assert store.exists("/consumers/g/offsets/t/0") is None


def test_a_commit_in_between_is_noticed_and_nothing_is_written(store):
    plan = plan_of(store, {T0: 10, T1: 7})
    store.set_data("/consumers/g/offsets/t/0", b"16")
    with pytest.raises(OffsetsChangedError, match="nothing was written for group 'g': another client wrote"):
        write_plan(store, plan)
    assert offset_of(store, 0) == b"16"
    assert store.exists("/consumers/g/offsets/t/1") is None


def test_a_commit_in_between_to_an_unchanged_partition_of_the_plan_is_noticed(store):
    plan = plan_of(store, {T0: 15, T1: 7})
    store.set_data("/consumers/g/offsets/t/0", b"16")
    with pytest.raises(OffsetsChangedError, match="another client wrote the offset of t/0"):
        write_plan(store, plan)
    assert store.exists("/consumers/g/offsets/t/1") is None


@pytest.mark.parametrize("wanted", [10, 15], ids=["changed", "left as it is"])
def test_an_offset_that_was_deleted_and_made_again_in_between_is_noticed(store, wanted):
    """The new znode has the same version as the old one."""
    plan = plan_of(store, {T0: wanted, T1: 7})
    store.delete("/consumers/g/offsets/t/0")
    put(store, "/consumers/g/offsets/t/0", b"16")
    with pytest.raises(OffsetsChangedError, match="nothing was written for group 'g': another client wrote"):
        write_plan(store, plan)
    assert offset_of(store, 0) == b"16"
    assert store.exists("/consumers/g/offsets/t/1") is None


def test_a_first_commit_in_between_is_noticed_too(store):
    plan = plan_of(store, {T0: 10, T1: 7})
    put(store, "/consumers/g/offsets/t/1", b"3")
    with pytest.raises(OffsetsChangedError):
        write_plan(store, plan)
    assert (offset_of(store, 0), offset_of(store, 1)) == (b"15", b"3")


@pytest.mark.parametrize("acls", [None, GroupAcls(EVERYBODY, EVERYBODY)])
def test_a_plan_that_is_not_written_leaves_no_folders(store, acls):
    put(store, "/brokers/topics/u", b'{"version":1,"partitions":{"0":[0]}}')
    new = make_plan(store, "new", None, {T0: 10}, acls)
    of_members = make_plan(store, "g", read_standings(store, "g"), {TopicPartition("u", 0): 10})
    put(store, "/consumers/g/ids/g_c1", b"whatever it says")
    with pytest.raises(ActiveGroupError):
        write_plan(store, of_members)
    make_anew(store)
    with pytest.raises(TopicMadeAnewError):
        write_plan(store, new)
    assert store.get_children("/consumers/g/offsets") == ("t",)
    assert store.get_children("/consumers") == ("g",)


@pytest.mark.parametrize("wanted", [{T1: 7}, {T0: 10}, {T0: 10, T1: 7}], ids=["new", "old", "old and new"])
@pytest.mark.parametrize("force", [True, False])
def test_a_group_that_is_deleted_since_the_plan_is_not_made_again(wanted, force):
    """Another client deletes the group at any request of the write; afterwards nothing of the group is there."""
    for moment in itertools.count():
        server = MemoryZooKeeper()
        mine, other = MemoryStore(server), MemoryStore(server)
        mine.start()
        other.start()
        put(mine, "/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0]}}')
        put(mine, "/consumers/g/offsets/t/0", b"15")
        plan = plan_of(mine, wanted)
        requests = itertools.count()

        def delete_then(session_id, kind, mine=mine, other=other, requests=requests, moment=moment):
            if session_id == mine.session_id and next(requests) == moment:
                delete_group(other, "g")

        server.fault = delete_then
        try:
            write_plan(mine, plan, force=force)
        except (GroupDeletedError, OffsetsChangedError):
            assert other.get_children("/consumers") == ()
        else:
            if next(requests) <= moment:
                break
            # the offsets were written before the deletion, which deleted them too
            assert other.get_children("/consumers") == ()
    assert moment > 3


def test_offsets_that_stood_there_already_are_not_taken_for_written_when_the_request_is_lost(server, store):
    plan = plan_of(store, {T0: 15}).for_members()
    server.fault = lambda _, kind: Fault.LOSE_REQUEST if kind == "multi" else None
    with pytest.raises(ConnectionLostError):
        write_plan(store, plan)
    server.fault = lambda _, kind: Fault.LOSE_REPLY if kind == "multi" else None
    assert write_plan(store, plan).partitions == (T0,)


def test_a_topic_that_gets_partitions_in_the_moment_of_the_write_is_the_same_topic(store, monkeypatch):
    multi = store.multi

    def expanded_meanwhile(ops, **options):
        monkeypatch.undo()
        store.set_data("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0],"1":[0],"2":[0]}}')
        return multi(ops, **options)

    monkeypatch.setattr(store, "multi", expanded_meanwhile)
    assert write_plan(store, plan_of(store, {T0: 10})).partitions == (T0,)
    assert offset_of(store, 0) == b"10"


def test_a_group_with_members_is_refused_unless_forced(store):
    put(store, "/consumers/g/ids/g_c1", b"whatever it says")
    plan = plan_of(store, {T0: 10})
    with pytest.raises(ActiveGroupError):
        write_plan(store, plan)
    assert offset_of(store, 0) == b"15"
    write_plan(store, plan, force=True)
    assert offset_of(store, 0) == b"10"


def test_a_member_that_joins_during_the_write_is_named(store, monkeypatch):
    multi = store.multi

    def joined_meanwhile(ops, **options):
        put(store, "/consumers/g/ids/g_c9", b"{}")
        return multi(ops, **options)

    monkeypatch.setattr(store, "multi", joined_meanwhile)
    assert write_plan(store, plan_of(store, {T0: 10}), force=True).joined == ("g_c9",)


@pytest.mark.parametrize("folder", [True, False])
def test_a_member_that_joins_in_the_very_moment_of_the_write_stops_it(store, monkeypatch, folder):
    if folder:
        put(store, "/consumers/g/ids")
    multi = store.multi

    def joined_meanwhile(ops, **options):
        monkeypatch.undo()
        put(store, "/consumers/g/ids/g_c9", b"{}")
        return multi(ops, **options)

    monkeypatch.setattr(store, "multi", joined_meanwhile)
    with pytest.raises(ActiveGroupError, match="g_c9"):
        write_plan(store, plan_of(store, {T0: 10}))
    assert (offset_of(store, 0), store.get_children("/consumers/g/ids")) == (b"15", ("g_c9",))


def test_a_write_leaves_the_folder_of_the_members_as_it_was(store):
    write_plan(store, plan_of(store, {T0: 10}))
    assert store.exists("/consumers/g/ids") is None
    put(store, "/consumers/g/ids")
    write_plan(store, plan_of(store, {T0: 11}))
    assert store.exists("/consumers/g/ids") is not None


def test_a_plan_too_large_for_a_request_names_the_written_offsets_when_it_fails(store, monkeypatch):
    monkeypatch.setattr(type(store), "max_multi_bytes", property(lambda _: 800))
    for number in range(2, 9):
        put(store, f"/consumers/g/offsets/t/{number}", b"1")
    plan = plan_of(store, {TopicPartition("t", number): 2 for number in range(2, 9)})
    store.set_data("/consumers/g/offsets/t/8", b"9")
    with pytest.raises(OffsetsHalfWrittenError, match="of 7 offsets are written") as caught:
        write_plan(store, plan)
    done = caught.value.done
    assert 0 < len(done) < 7
    assert all(offset_of(store, tp.partition) == b"2" for tp in done)
    assert all(offset_of(store, n) == b"1" for n in range(2, 8) if TopicPartition("t", n) not in done)
    write_plan(store, plan_of(store, {TopicPartition("t", number): 2 for number in range(2, 9)}))
    assert all(offset_of(store, n) == b"2" for n in range(2, 9))


@pytest.mark.parametrize("fault", [Fault.LOSE_REQUEST, Fault.LOSE_REPLY])
def test_a_plan_of_several_requests_says_what_is_written_though_zookeeper_stays_away(server, store, monkeypatch, fault):
    monkeypatch.setattr(type(store), "max_multi_bytes", property(lambda _: 800))
    numbers = range(2, 9)
    for number in numbers:
        put(store, f"/consumers/g/offsets/t/{number}", b"1")
    multis = []

    def stay_away(_, kind):
        multis.extend([kind] if kind == "multi" else [])
        if len(multis) < 3:
            return None
        return fault if kind == "multi" else Fault.LOSE_REQUEST

    server.fault = stay_away
    progress = ChangeProgress()
    with pytest.raises(OffsetsHalfWrittenError, match=r"did not say whether it wrote the next [1-9],") as caught:
        write_plan(store, plan_of(store, {TopicPartition("t", number): 2 for number in numbers}), progress=progress)
    server.fault = None
    assert progress.is_unanswered
    written = [TopicPartition("t", number) for number in numbers if offset_of(store, number) == b"2"]
    done, unknown = list(caught.value.done), caught.value.unknown
    assert written == done or (fault is Fault.LOSE_REPLY and written[:-unknown] == done)
    assert 0 < len(done) < len(numbers)


def test_a_topic_made_anew_behind_one_of_several_requests_is_told_with_what_is_written(store, monkeypatch):
    monkeypatch.setattr(type(store), "max_multi_bytes", property(lambda _: 800))
    put(store, "/brokers/topics/u", b'{"version":1,"partitions":{"0":[0],"1":[0],"2":[0],"3":[0]}}')
    multi, multis = store.multi, []
    wanted = {T0: 10, T1: 7, **{TopicPartition("u", number): 2 for number in range(4)}}
    plan = plan_of(store, wanted)

    def made_anew_behind_it(ops, **options):
        done = multi(ops, **options)
        multis.append(ops)
        if len(multis) == 1:
            make_anew(store)
        return done

    monkeypatch.setattr(store, "multi", made_anew_behind_it)
    with pytest.raises(TopicMadeAnewError, match="removed its offsets again, and 0 of 6 offsets are written") as caught:
        write_plan(store, plan)
    assert (len(multis), caught.value.kept) == (1, ())
    assert store.exists("/consumers/g/offsets/u") is None


def test_a_plan_of_several_requests_leaves_no_folder_without_a_written_offset(store, monkeypatch):
    monkeypatch.setattr(type(store), "max_multi_bytes", property(lambda _: 800))
    for number in range(9):
        put(store, f"/brokers/topics/many{number}", b'{"version":1,"partitions":{"0":[0]}}')
    wanted = {TopicPartition(f"many{number}", 0): 2 for number in range(9)}
    plan = make_plan(store, "g", read_standings(store, "g"), wanted)
    put(store, "/consumers/g/offsets/many4/0", b"9")
    with pytest.raises(OffsetsHalfWrittenError) as caught:
        write_plan(store, plan)
    assert 0 < len(caught.value.done) < 5
    assert "are not written: another client wrote the offset of many4/0" in str(caught.value)
    written = {tp.topic for tp in caught.value.done}
    assert set(store.get_children("/consumers/g/offsets")) == {"t", "many4"} | written


def test_a_backup_restores_the_former_offsets(store, tmp_path):
    plan = plan_of(store, {T0: 10, T1: 7})
    file = write_backup(tmp_path, "g", plan.backup, now_s=0)
    assert file.name == "g-offsets-19700101T000000Z.json"
    write_plan(store, plan)
    back = read_offsets(file.read_text(), str(file)).of_group("g")
    write_plan(store, plan_of(store, back))
    assert offset_of(store, 0) == b"15"
    assert store.exists("/consumers/g/offsets/t/1") is None


def test_a_backup_never_overwrites_another(tmp_path):
    names = [write_backup(tmp_path, "g", {T0: n}, now_s=0).name for n in range(3)]
    assert len(set(names)) == 3
    assert json.loads((tmp_path / names[0]).read_text())["offsets"]["g"]["t"]["0"] == 0


def test_a_group_of_any_name_has_a_backup_in_the_folder(tmp_path):
    file = write_backup(tmp_path, "a:b/../\u200e*", {T0: 1})
    assert file.parent == tmp_path


def test_without_a_writable_backup_nothing_is_changed(tmp_path):
    with pytest.raises(BackupError, match=r"nothing of group 'g' was changed, no backup .*No such file"):
        write_backup(tmp_path / "missing", "g", {T0: 1})


def make_anew(store, *, partitions=2):
    store.delete("/brokers/topics/t")
    put(
        store,
        "/brokers/topics/t",
        b'{"version":1,"partitions":{%s}}' % b",".join(b'"%d":[0]' % n for n in range(partitions)),
    )


def test_an_offset_of_the_plan_is_not_written_for_a_topic_made_anew_since(store):
    plan = plan_of(store, {T0: 18})
    make_anew(store)
    with pytest.raises(TopicMadeAnewError, match="nothing was written for group 'g': topic 't'"):
        write_plan(store, plan)
    assert offset_of(store, 0) == b"15"


def test_an_offset_that_came_to_stand_in_a_topic_made_in_that_moment_goes_again(server, store):
    plan = plan_of(store, {T0: 18, T1: 7})

    class MadeAnewInside(MemoryStore):
        def multi(self, ops, **options):
            make_anew(store)
            return super().multi(ops, **options)

    mine = MadeAnewInside(server)
    mine.start()
    with pytest.raises(TopicMadeAnewError, match="the command removed its offsets again"):
        write_plan(mine, plan)
    assert store.exists("/consumers/g/offsets/t/0") is None
    assert store.exists("/consumers/g/offsets/t/1") is None


def test_a_reset_of_all_partitions_leaves_out_deleted_ones(store):
    put(store, "/consumers/g/offsets/t/1", b"15")
    make_anew(store, partitions=1)
    assert list(choose_partitions(TopicsOnce(store), read_standings(store, "g"), {})) == [T0]
