"""Migrations over an in-memory ZooKeeper, coordinator and logs: their plans, writes, refusals and rollbacks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from legacy_consumer.errors import (
    BrokersUnavailableError,
    MigrationIncompleteError,
    MigrationRefusedError,
    NoSuchGroupError,
)
from legacy_consumer.offsets import KafkaOffset
from legacy_consumer.operations.admin.errors import DamagedRecordError
from legacy_consumer.operations.admin.group_trees import record_path
from legacy_consumer.operations.admin.migration import (
    Action,
    Direction,
    Phase,
    Sides,
    apply_migration,
    finish_migration,
    look_at,
    make_plan,
    read_record,
    read_records,
    roll_back_migration,
)
from legacy_consumer.operations.admin.migration.record import write_record
from legacy_consumer.operations.admin.offset_files import read_offsets
from tests.support.migration_world import TPS, World
from zk_layout.codecs import encode_topic
from zk_layout.errors import MultiFailedError, NotPermittedError
from zk_layout.model import TopicAssignment, TopicPartition


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def test_a_stopped_group_is_copied_whole_and_zookeeper_stays(world):
    assert world.actions() == [(Action.WRITE, 10), (Action.WRITE, 20), (Action.WRITE, 30)]
    outcome = world.apply()
    assert outcome.written == {TPS[0]: 10, TPS[1]: 20, TPS[2]: 30}
    assert (world.in_kafka(), world.in_zookeeper(), world.phase()) == ([10, 20, 30], [10, 20, 30], Phase.APPLIED)
    assert world.verify().is_sound


def test_a_second_apply_writes_nothing(world):
    world.apply()
    written = list(world.kafka.writes)
    assert world.apply().written == {}
    assert world.kafka.writes == written


def test_looking_and_planning_write_nothing(world):
    world.plan()
    world.verify()
    assert (world.in_kafka(), read_record(world.store, "g")) == ([None] * 3, None)


def test_a_backup_of_both_sides_comes_first_and_offsets_import_reads_it(world):
    world.put_in_kafka(5)
    outcome = world.apply()
    text = outcome.backup.read_text()
    assert read_offsets(text, "backup").of_group("g") == {TPS[0]: 10, TPS[1]: 20, TPS[2]: 30}
    assert json.loads(text)["kafka"] == {"g": {"t": {"0": 5, "1": None, "2": None}}}


def test_without_a_backup_nothing_is_written(world):
    existing = world.folder / "there.json"
    existing.touch()
    for file, reason in ((existing, "exists already"), (Path("/nowhere/b.json"), "no backup can be written")):
        with pytest.raises(MigrationRefusedError, match=reason):
            apply_migration(world.sides, world.plan(), file)
    assert (world.in_kafka(), read_record(world.store, "g")) == ([None] * 3, None)


def test_living_members_refuse_a_plain_apply(world):
    world.join()
    with pytest.raises(MigrationRefusedError, match="1 member is in ZooKeeper: stop them first, or move"):
        world.apply()
    assert world.in_kafka() == [None] * 3


def test_consumers_on_the_brokers_side_refuse_any_step(world):
    world.apply()
    world.newer = ("rdkafka@host",)
    for step in (world.apply, world.roll_back):
        with pytest.raises(MigrationRefusedError, match=r"1 consumer is in the group .*rdkafka@host"):
            step()


def test_rolling_writes_only_partitions_without_an_owner(world):
    world.join(owns=(0, 1))
    assert [action for action, _ in world.actions(rolling=True)] == [Action.WAIT, Action.WAIT, Action.WRITE]
    outcome = world.apply(rolling=True)
    assert (outcome.written, outcome.waiting, world.phase()) == ({TPS[2]: 30}, 2, Phase.ROLLING)
    found = world.verify()
    assert [(one.consumer_id, one.in_kafka, one.partitions) for one in found.members] == [("g_old", 0, 2)]
    assert any("g_old commits to ZooKeeper alone" in finding.text for finding in found.findings)
    assert not found.is_sound


def test_a_member_that_commits_to_both_stores_is_distinguished_from_others(world):
    world.join("g_both", owns=(0, 1))
    world.join("g_old", owns=(2,))
    world.apply(rolling=True)
    world.put_in_kafka(10, 20)
    stands = {one.consumer_id: (one.in_kafka, one.partitions) for one in world.verify().members}
    assert stands == {"g_both": (2, 2), "g_old": (0, 1)}


def test_after_the_last_member_has_stopped_apply_makes_up_for_the_rest(world):
    world.join(owns=(0, 1))
    world.apply(rolling=True)
    world.leave()
    assert world.apply().written == {TPS[0]: 10, TPS[1]: 20}
    assert world.phase() is Phase.APPLIED


def test_kafka_is_never_moved_backwards(world):
    world.apply()
    world.put_in_kafka(50, 20, 31)
    assert [action for action, _ in world.actions()] == [Action.KEEP] * 3
    world.apply()
    assert world.in_kafka() == [50, 20, 31]


def test_an_offset_in_kafka_from_before_the_migration_counts_only_on_request(world):
    world.put_in_kafka(50)
    with pytest.raises(MigrationRefusedError, match="Kafka is 40 ahead though no migration was begun"):
        world.apply()
    assert world.apply(accept_ahead=True).written == {TPS[1]: 20, TPS[2]: 30}
    assert world.in_kafka() == [50, 20, 30]


def test_rollback_copies_the_commits_of_the_newer_consumers(world):
    world.apply()
    world.put_in_kafka(50, 20, 60)
    outcome = world.roll_back()
    assert outcome.written == {TPS[0]: 50, TPS[2]: 60}
    assert (world.in_zookeeper(), world.phase()) == ([50, 20, 60], Phase.ROLLED_BACK)


def test_rollback_never_moves_zookeeper_backwards(world):
    world.apply()
    world.set(0, 90)
    world.roll_back()
    assert world.in_zookeeper() == [90, 20, 30]


def test_rollback_brings_partitions_that_only_the_newer_consumers_knew(world):
    world.store.create("/brokers/topics/u", encode_topic(TopicAssignment({0: (0,)})))
    world.logs.produce(TopicPartition("u", 0), 5)
    world.apply()
    world.kafka.kept[TopicPartition("u", 0)] = KafkaOffset(4)
    world.roll_back()
    assert world.store.get_data("/consumers/g/offsets/u/0").data == b"4"


def test_rollback_before_apply_and_after_finish_is_refused(world):
    with pytest.raises(MigrationRefusedError, match="no migration of this group was begun"):
        world.roll_back()
    world.apply()
    finish_migration(world.sides, look_at(world.sides), world.backup())
    with pytest.raises(MigrationRefusedError, match="closed the way back"):
        world.roll_back()
    with pytest.raises(MigrationRefusedError, match="the migration is finished"):
        world.apply()


def test_a_rewind_in_zookeeper_after_a_rollback_is_not_undone_by_the_next_apply(world):
    world.apply()
    world.roll_back()
    world.set(0, 5)
    with pytest.raises(MigrationRefusedError, match="Kafka is 5 ahead"):
        world.apply()


def test_finish_is_refused_while_an_offset_is_missing_or_a_member_lives(world):
    world.apply()
    world.set(1, 25)
    with pytest.raises(MigrationRefusedError, match="1 partition is behind in Kafka, t/1 at 20 instead of 25"):
        finish_migration(world.sides, look_at(world.sides), world.backup())
    world.put_in_kafka(None, 25)
    world.join()
    with pytest.raises(MigrationRefusedError, match="1 member is in ZooKeeper"):
        finish_migration(world.sides, look_at(world.sides), world.backup())
    assert world.phase() is Phase.APPLIED


def test_finish_may_delete_the_group(world):
    world.apply()
    world.finish(delete=True)
    assert world.store.exists("/consumers/g") is None


def test_deleted_messages_are_passed_over(world):
    world.logs.begins[TPS[0]] = 40
    [move, *_] = world.plan().moves
    assert (move.action, move.offset, move.reason) == (Action.WRITE, 40, "messages 10 to 39 are deleted from the log")


def test_a_topic_that_was_made_anew_begins_at_its_first_message(world):
    world.make_topic_anew()
    assert world.actions() == [(Action.WRITE, 0), (Action.WRITE, 0), (Action.WRITE, 0)]
    world.apply()
    assert (world.in_kafka(), world.verify().is_sound) == ([0, 0, 0], True)


def test_a_topic_that_is_gone_is_skipped(world):
    world.store.delete("/brokers/topics/t")
    assert [action for action, _ in world.actions()] == [Action.SKIP] * 3


@pytest.mark.parametrize(
    ("break_it", "reason"),
    [
        (lambda world: world.set(0, b"12x"), "mends it"),
        (lambda world: world.set(0, 101), "lies 1 beyond the end of the log"),
        (lambda world: world.put_in_kafka(101), "Kafka's lies beyond the end"),
        (lambda world: world.logs.without.add(TPS[0]), "no broker reports the ends of its log"),
    ],
)
def test_an_undecided_partition_blocks_the_step_unless_it_is_left_out(world, break_it, reason):
    break_it(world)
    assert reason in world.plan().moves[0].reason
    with pytest.raises(MigrationRefusedError, match=r"1 partition is blocked, t/0"):
        world.apply()
    assert world.apply(skip_blocked=True).written == {TPS[1]: 20, TPS[2]: 30}


def test_a_step_that_loses_its_coordinator_reports_its_progress_and_can_be_repeated(world, monkeypatch):
    monkeypatch.setattr("legacy_consumer.operations.admin.migration.apply._CHUNK", 1)
    plan = world.plan()

    def fail_at_the_second():
        if world.kafka.writes:
            raise BrokersUnavailableError("no group coordinator answered within 0.1 s")

    world.kafka.before_write = fail_at_the_second
    with pytest.raises(MigrationIncompleteError) as raised:
        apply_migration(world.sides, plan, world.backup())
    assert str(raised.value).startswith(
        "1 of 3 partitions of group 'g' were written to Kafka, and it is not known whether more were, then: no group c"
    )
    assert (world.phase(), world.verify().is_sound) == (Phase.APPLYING, False)
    world.kafka.before_write = lambda: None
    assert "goes on from there" in world.plan().notes[0]
    assert world.apply().written == {TPS[1]: 20, TPS[2]: 30}


@pytest.mark.parametrize("module", ["apply", "rollback"])
def test_a_step_that_ctrl_c_interrupts_says_how_far_it_came(world, monkeypatch, caplog, module):
    monkeypatch.setattr("legacy_consumer.operations.admin.migration.apply._CHUNK", 1)
    direction, step, target = Direction.TO_KAFKA, apply_migration, "Kafka"
    if module == "rollback":
        direction, step, target = Direction.TO_ZOOKEEPER, roll_back_migration, "ZooKeeper"
        world.apply()
        world.put_in_kafka(15, 25, 35)
    done = []

    def interrupt_the_second(many):
        done.append(many)
        if len(done) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        step(world.sides, world.plan(direction), world.backup(), interrupt_the_second)
    assert caplog.messages[-1] == (
        f"2 of 3 partitions of group 'g' were written to {target}, then: it was interrupted; "
        "the same command goes on from there"
    )


def test_a_partition_that_the_coordinator_refuses_is_named(world):
    world.kafka.refused = {TPS[1]}
    with pytest.raises(MigrationIncompleteError, match=r"2 of 3 partitions .* t/1: unknown topic or partition"):
        world.apply()


def test_an_offset_that_moved_on_since_the_plan_is_left_alone(world):
    plan = world.plan()
    world.put_in_kafka(15)
    outcome = apply_migration(world.sides, plan, world.backup())
    assert (outcome.passed, world.in_kafka()) == ([TPS[0]], [15, 20, 30])


def test_a_member_that_joins_after_the_plan_stops_the_step(world):
    plan = world.plan()
    world.join()
    with pytest.raises(MigrationIncompleteError, match=r"0 of 3 .* member g_old joined meanwhile"):
        apply_migration(world.sides, plan, world.backup())


def test_an_offset_that_another_client_writes_during_a_rollback_stays(world):
    world.apply()
    world.put_in_kafka(50, 60)
    plan = world.plan(Direction.TO_ZOOKEEPER)
    world.set(0, 12)
    with pytest.raises(MigrationIncompleteError, match=r"0 of 2 .* another client wrote the offset of t/0"):
        roll_back_migration(world.sides, plan, world.backup())
    assert world.in_zookeeper() == [12, 20, 30]


def test_an_offset_that_another_client_deletes_and_writes_again_before_a_rollback_stays(world):
    world.apply()
    world.put_in_kafka(50, 60)
    plan = world.plan(Direction.TO_ZOOKEEPER)
    path = "/consumers/g/offsets/t/0"
    version = world.store.get_data(path).stat.version
    world.store.delete(path)
    world.store.create(path, b"12")
    for _ in range(version):
        world.set(0, 12)
    with pytest.raises(MigrationIncompleteError, match=r"0 of 2 .* another client wrote the offset of t/0"):
        roll_back_migration(world.sides, plan, world.backup())
    assert world.in_zookeeper() == [12, 20, 30]


def test_of_two_operators_at_once_the_second_gets_an_error(world):
    plan = world.plan()
    write_record(world.store, "g", None, Phase.APPLYING, at_ms=1, zxid=0)
    with pytest.raises(MigrationRefusedError, match="another operator works on its migration"):
        apply_migration(world.sides, plan, world.backup())
    assert world.in_kafka() == [None] * 3
    assert list(world.folder.iterdir()) == []


def test_without_permission_in_zookeeper_nothing_is_written_to_kafka(world, monkeypatch):
    def refuse(ops, **_):
        raise MultiFailedError(0, ops[0].path, NotPermittedError(ops[0].path))

    monkeypatch.setattr(world.store, "multi", refuse)
    with pytest.raises(NotPermittedError, match="/consumers/g/migration may not be accessed"):
        world.apply()
    assert world.in_kafka() == [None] * 3
    assert list(world.folder.iterdir()) == []


def test_both_kinds_of_members_at_once_are_found(world):
    world.apply()
    world.join()
    world.newer = ("rdkafka@host",)
    assert any("each message is read twice" in finding.text for finding in world.verify().findings if finding.is_bad)


def test_records_of_all_groups_are_found_and_a_broken_one_is_named(world):
    world.apply()
    assert {group: record.phase for group, record in read_records(world.store, ["g", "h"]).items()} == {
        "g": Phase.APPLIED
    }
    assert [name for name, _ in read_record(world.store, "g").history] == ["applying", "applied"]
    world.store.set_data(record_path("g"), b'{"version":1,"phase":"elsewhere"}')
    with pytest.raises(
        DamagedRecordError, match="phase is not a phase of a migration; `legacy-consumer migrate forget"
    ):
        read_record(world.store, "g")


def test_a_missing_group_is_an_error(world):
    with pytest.raises(NoSuchGroupError):
        look_at(Sides("nobody", world.store, world.kafka, world.logs, tuple))


def test_an_unreadable_offset_of_a_deleted_topic_blocks_nothing(world):
    path = "/consumers/g/offsets/gone/0"
    world.store.create(path, b"5\n", make_parents=True)
    plan = make_plan(look_at(world.sides), Direction.TO_KAFKA)
    [gone] = [move for move in plan.moves if move.tp.topic == "gone"]
    assert (gone.action, gone.reason) == (Action.SKIP, "the topic does not exist any more")
    assert plan.refusals == ()


def test_a_step_tells_how_far_it_has_come(world):
    told = []
    apply_migration(
        world.sides, make_plan(look_at(world.sides), Direction.TO_KAFKA), world.folder / "there.json", told.append
    )
    world.put_in_kafka(15, 25, 35)
    roll_back_migration(
        world.sides, make_plan(look_at(world.sides), Direction.TO_ZOOKEEPER), world.folder / "back.json", told.append
    )
    assert (told, world.in_zookeeper()) == ([3, 3], [15, 25, 35])
