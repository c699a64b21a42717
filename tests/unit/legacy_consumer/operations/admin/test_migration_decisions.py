"""A migration keeps the operator's decisions, and a repeated step undoes nothing that was done since."""

from __future__ import annotations

import contextlib
import json
from functools import partial

import pytest

from legacy_consumer.errors import ActiveGroupError, MigrationIncompleteError, MigrationRefusedError
from legacy_consumer.operations.admin.deletion import delete_group
from legacy_consumer.operations.admin.errors import GroupChangedError
from legacy_consumer.operations.admin.group_trees import read_trees, record_path
from legacy_consumer.operations.admin.migration import (
    Action,
    Direction,
    Phase,
    apply_migration,
    finish_migration,
    look_at,
    read_record,
    read_records,
    roll_back_migration,
)
from legacy_consumer.operations.admin.migration.record import write_record
from legacy_consumer.operations.admin.offset_plans import make_plan as plan_offsets
from legacy_consumer.operations.admin.offset_plans import read_standings
from legacy_consumer.operations.admin.offset_writes import write_plan
from tests.support.migration_world import TPS, World
from zk_layout.errors import ConnectionLostError
from zk_layout.model import TopicPartition


@pytest.fixture
def world(tmp_path):
    return World(tmp_path)


def left_out(world):
    return {str(tp): reason for tp, reason in read_record(world.store, "g").left_out.items()}


# A topic that is created again


def test_an_offset_without_our_mark_is_a_newer_consumers_and_is_not_moved_back(world):
    world.apply()
    world.make_topic_anew()
    world.put_in_kafka(5, 15, 25)
    assert world.verify().is_sound
    world.apply()
    assert world.in_kafka() == [5, 15, 25]
    world.roll_back()
    assert world.in_zookeeper() == [5, 15, 25]


def test_an_offset_with_our_mark_of_an_earlier_topic_is_none_and_the_plan_names_it(world):
    world.apply()
    world.make_topic_anew()
    assert [(move.action, move.offset) for move in world.plan().moves] == [(Action.WRITE, 0)] * 3
    assert "Kafka's 10 is of an earlier topic" in world.plan().moves[0].reason


def test_before_a_migration_an_offset_without_our_mark_is_asked_about(world):
    world.make_topic_anew()
    world.put_in_kafka(10)
    with pytest.raises(MigrationRefusedError, match="t/0: Kafka is 10 ahead though no migration was begun"):
        world.apply()


def test_an_offset_that_only_kafka_had_before_the_migration_is_asked_about(world):
    world.store.delete("/consumers/g/offsets/t/1")
    world.put_in_kafka(None, 45)
    with pytest.raises(MigrationRefusedError, match="t/1: Kafka has 45 and ZooKeeper nothing"):
        world.apply()


# Partitions that were left out


def test_a_partition_that_was_left_out_is_named_with_its_reason_until_it_is_decided(world):
    world.put_in_kafka(None, 45)
    world.apply(skip_blocked=True)
    assert list(left_out(world)) == ["t/1"]
    assert "Kafka is 25 ahead though no migration was begun" in left_out(world)["t/1"]
    found = world.verify()
    assert not found.is_sound
    assert any(f.text.startswith("t/1 was left out of the migration: Kafka is 25 ahead") for f in found.findings)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda world: world.store.delete("/brokers/topics/t"), "the topic does not exist any more"),
        (lambda world: world.set(1, 45), "in both"),
    ],
    ids=["topic gone", "reset to Kafka's"],
)
def test_a_partition_that_was_left_out_is_named_also_without_an_open_decision(world, change, reason):
    world.put_in_kafka(None, 45)
    world.apply(skip_blocked=True)
    change(world)
    [said] = [one for one in world.verify().findings if "t/1 was left out of the migration" in one.text]
    assert not said.is_bad
    assert said.text.endswith(f"nothing has to be decided any more: {reason}")


def test_a_partition_that_was_left_out_of_a_topic_made_anew_has_that_reason(world):
    world.put_in_kafka(None, 45)
    world.apply(skip_blocked=True)
    world.make_topic_anew()
    [said] = [one for one in world.verify().findings if "t/1 was left out of the migration" in one.text]
    assert said.is_bad
    assert said.text.endswith("(the topic was deleted and created again since: begins anew)")


def test_a_rollback_leaves_partitions_that_were_left_out_unchanged(world):
    world.put_in_kafka(None, 45)
    world.apply(skip_blocked=True)
    [move] = [move for move in world.plan(Direction.TO_ZOOKEEPER).moves if move.tp == TPS[1]]
    assert (move.action, move.reason[:33]) == (Action.SKIP, "it was left out of the migration:")
    world.roll_back()
    assert world.in_zookeeper() == [10, 20, 30]


def test_a_partition_that_was_left_out_blocks_the_next_apply_and_the_finish(world):
    world.put_in_kafka(None, 45)
    world.apply(skip_blocked=True)
    with pytest.raises(MigrationRefusedError, match="t/1: Kafka is 25 ahead since before the migration"):
        world.apply()
    with pytest.raises(MigrationRefusedError, match="t/1 was left out of the migration"):
        world.finish()
    world.apply(skip_blocked=True)
    assert list(left_out(world)) == ["t/1"]


@pytest.mark.parametrize("decide", ["accept", "reset zookeeper", "finish anyway"])
def test_a_decision_ends_it(world, decide):
    world.put_in_kafka(None, 45)
    world.apply(skip_blocked=True)
    if decide == "accept":
        world.apply(accept_ahead=True)
    elif decide == "reset zookeeper":
        world.set(1, 45)
        world.apply()
    else:
        world.finish(accept_ahead=True)
    assert left_out(world) == {}
    assert world.verify().is_sound


def test_a_rollback_records_the_partitions_that_it_left_out(world):
    world.apply()
    world.put_in_kafka(50, 101)
    world.roll_back(skip_blocked=True)
    assert list(left_out(world)) == ["t/1"]
    assert world.in_zookeeper() == [50, 20, 30]


def test_records_of_earlier_versions_left_nothing_out(world):
    world.apply()
    record = json.loads(world.store.get_data(record_path("g")).data)
    assert "left_out" not in record
    del record["zxid"]
    world.store.set_data(record_path("g"), json.dumps(record).encode())
    assert left_out(world) == {}
    assert world.verify().is_sound
    rewind(world)
    assert not world.verify().is_sound


# A rollback that is repeated


def test_a_rollback_given_again_undoes_no_later_rewind(world):
    world.apply()
    world.put_in_kafka(95)
    world.roll_back()
    world.set(0, 10)
    with pytest.raises(MigrationRefusedError, match="t/0: the migration is rolled back already"):
        world.roll_back()
    world.roll_back(skip_blocked=True)
    assert world.in_zookeeper() == [10, 20, 30]


def test_a_rollback_given_again_at_once_does_nothing(world):
    world.apply()
    world.put_in_kafka(95)
    world.roll_back()
    assert world.roll_back().written == {}
    assert (world.phase(), world.in_zookeeper()) == (Phase.ROLLED_BACK, [95, 20, 30])


def test_after_a_rollback_verify_names_no_open_way_back(world):
    def is_open():
        return any("the way back is open" in finding.text for finding in world.verify().findings)

    world.apply()
    assert is_open()
    world.roll_back()
    assert not is_open()


# A rewind after the migration, on either side


def rewind(world):
    world.set(0, 5)


def rewind_while_newer_consumers_go_on(world):
    rewind(world)
    world.put_in_kafka(80)


def delete(world):
    world.store.delete("/consumers/g/offsets/t/0")


@pytest.mark.parametrize("decide", [rewind, rewind_while_newer_consumers_go_on, delete])
def test_a_rollback_undoes_no_rewind_in_zookeeper_unless_the_operator_asks_for_it(world, decide):
    world.apply()
    decide(world)
    with pytest.raises(MigrationRefusedError, match="ZooKeeper's offset was moved after the migration"):
        world.roll_back()
    assert world.roll_back(skip_blocked=True).written == {}


@pytest.mark.parametrize("decide", [rewind, rewind_while_newer_consumers_go_on])
def test_a_rewind_in_zookeeper_is_asked_about_by_verify_and_the_next_apply_and_may_be_undone(world, decide):
    world.apply()
    decide(world)
    assert not world.verify().is_sound
    with pytest.raises(MigrationRefusedError, match=r"Kafka is \d+ ahead because ZooKeeper's offset was moved"):
        world.apply()
    kafka = world.in_kafka()
    world.roll_back(accept_ahead=True)
    assert world.in_zookeeper() == kafka


class KilledError(BaseException):
    """Ends a command as if its process were killed."""


def kill_before_its_last_write(step):
    """Run the step, and end it right before its last write, which records that the step is complete."""

    def kill(*_):
        raise KilledError

    with pytest.MonkeyPatch.context() as patch:
        for module in ("apply", "rollback"):
            patch.setattr(f"legacy_consumer.operations.admin.migration.{module}.end_step", kill)
        with pytest.raises(KilledError):
            step()


def at_request(world, number, act):
    """Have act() called before request `number` of the next command. Returns: a list that grows with each request."""
    seen = []

    def around(request):
        def counted(*arguments, **options):
            seen.append(number)
            if len(seen) == number:
                act()
            return request(*arguments, **options)

        return counted

    for name in ("get_data_many", "get_children_many", "exists_many", "exists", "get_data", "multi"):
        setattr(world.store, name, around(getattr(world.store, name)))
    for name in ("read", "write"):
        setattr(world.kafka, name, around(getattr(world.kafka, name)))
    return seen


def reset_to_the_beginning(world):
    plan = plan_offsets(world.store, "g", read_standings(world.store, "g"), dict.fromkeys(TPS, 0))
    write_plan(world.store, plan)


def apply_twice(world):
    world.apply()
    world.apply()


@pytest.mark.parametrize("step", [World.apply, apply_twice, World.roll_back])
def test_a_reset_at_any_moment_of_a_step_is_never_undone_nor_passed_over_in_silence(tmp_path, step):
    for number in range(1, 100):
        world = World(tmp_path)
        world.backups = 10 * number
        if step is World.roll_back:
            world.apply()
            world.put_in_kafka(60, 70, 80)
        seen = at_request(world, number, partial(reset_to_the_beginning, world))
        with contextlib.suppress(MigrationIncompleteError, MigrationRefusedError):
            step(world)
        if len(seen) < number:
            break
        assert world.in_zookeeper() == [0, 0, 0]
        assert world.in_kafka() == [0, 0, 0] or not world.verify().is_sound
    assert number > 10


@pytest.mark.parametrize("killed", [Phase.APPLYING, Phase.ROLLING_BACK])
def test_a_step_that_was_killed_is_no_reason_to_undo_a_rewind(world, killed):
    step = world.apply
    if killed is Phase.ROLLING_BACK:
        world.apply()
        step = world.roll_back
    kill_before_its_last_write(step)
    assert world.phase() is killed
    rewind(world)
    with pytest.raises(MigrationRefusedError, match="Kafka is 5 ahead because ZooKeeper's offset was moved"):
        step()
    assert (world.in_zookeeper(), world.in_kafka()) == ([5, 20, 30], [10, 20, 30])


def test_a_rewind_after_the_last_member_of_a_rolling_migration_stands(world):
    world.join(owns=(0, 1))
    world.apply(rolling=True)
    world.put_in_kafka(10, 20)
    world.leave()
    rewind(world)
    assert not world.verify().is_sound
    for step in (world.apply, world.roll_back):
        with pytest.raises(MigrationRefusedError, match="Kafka is 5 ahead because ZooKeeper's offset was moved"):
            step()


def test_a_rewind_in_kafka_that_was_left_out_stands_also_after_a_step_that_was_killed(world):
    world.apply()
    world.put_in_kafka(5)
    kill_before_its_last_write(partial(world.apply, skip_blocked=True))
    with pytest.raises(MigrationRefusedError, match="it was rewound there"):
        world.apply()
    assert world.in_kafka() == [5, 20, 30]


@pytest.mark.parametrize("meanwhile", [5, 95])
def test_a_rollback_writes_nothing_that_kafka_does_not_have_any_more(world, meanwhile):
    world.apply()
    world.put_in_kafka(60)
    plan = world.plan(Direction.TO_ZOOKEEPER)
    world.put_in_kafka(meanwhile)
    with pytest.raises(MigrationIncompleteError, match=r"then: another client wrote the offset of t/0"):
        roll_back_migration(world.sides, plan, world.backup())
    assert world.in_zookeeper() == [10, 20, 30]


def test_an_offset_whose_messages_are_deleted_from_the_log_is_no_rewind(world):
    world.logs.begins[TPS[0]] = 40
    world.apply()
    assert world.roll_back().written == {TPS[0]: 40}


def test_a_rewind_in_kafka_is_not_undone_by_the_next_apply_nor_advised_to_be(world):
    world.apply()
    world.put_in_kafka(5)
    [bad] = [finding.text for finding in world.verify().findings if finding.is_bad]
    assert bad.startswith("t/0: Kafka is 5 behind, and no step or member of legacy-consumer wrote its offset")
    with pytest.raises(MigrationRefusedError, match="it was rewound there"):
        world.apply()
    assert world.in_kafka() == [5, 20, 30]


def test_a_rewind_in_kafka_ends_with_a_rollback_and_a_new_apply(world):
    world.apply()
    world.put_in_kafka(5)
    world.roll_back()
    world.apply()
    assert world.in_kafka() == [10, 20, 30]


def test_after_the_finish_a_rewind_in_kafka_is_its_consumers_business(world):
    world.apply()
    world.finish()
    world.put_in_kafka(5)
    assert world.verify().is_sound


@pytest.mark.parametrize("newer", [None, 12])
def test_after_the_finish_a_member_that_went_on_in_zookeeper_is_named(world, newer):
    world.apply()
    world.finish()
    world.set(0, 15)
    if newer is not None:
        world.put_in_kafka(newer)
    [bad] = [finding.text for finding in world.verify().findings if finding.is_bad]
    assert bad.endswith(
        f"t/0 at {newer or 10} instead of 15: a member went on in ZooKeeper after the finish; stop it, and see from "
        "where the newer consumers go on"
    )


# A topic with fewer partitions


def test_a_topic_made_anew_with_fewer_partitions_has_a_line_for_each_that_is_gone(world):
    world.store.delete("/brokers/topics/t")
    world.store.create("/brokers/topics/t", b'{"version":1,"partitions":{"0":[0]}}')
    world.logs.without |= set(TPS[1:])
    assert [(move.action, move.reason) for move in world.plan().moves[1:]] == [
        (Action.SKIP, "the topic has no such partition any more")
    ] * 2
    world.apply()
    assert world.verify().is_sound


# Members and consumers that join in the middle


def test_a_newer_consumer_that_joins_after_the_plan_is_not_written_over(world):
    plan = world.plan()
    world.newer = ("rdkafka@host",)
    with pytest.raises(MigrationIncompleteError, match="consumer rdkafka@host joined the group on the brokers' side"):
        apply_migration(world.sides, plan, world.backup())
    assert world.in_kafka() == [None] * 3


def test_a_member_that_joins_after_the_plan_of_a_rollback_stops_it(world):
    world.apply()
    world.put_in_kafka(50)
    plan = world.plan(Direction.TO_ZOOKEEPER)
    world.join()
    with pytest.raises(MigrationIncompleteError, match="member g_old joined meanwhile: stop it"):
        roll_back_migration(world.sides, plan, world.backup())
    assert world.in_zookeeper() == [10, 20, 30]


def test_a_member_that_registers_at_the_moment_of_a_rollbacks_write_stops_it(world):
    world.apply()
    world.put_in_kafka(50)
    plan = world.plan(Direction.TO_ZOOKEEPER)
    write = world.store.multi

    def join_before(ops, **options):
        if any("/offsets/" in op.path for op in ops) and not world.store.get_children("/consumers/g/ids"):
            world.join()
        return write(ops, **options)

    world.store.create("/consumers/g/ids", None)
    world.store.multi = join_before
    with pytest.raises(MigrationIncompleteError, match="group 'g' has 1 member: stop it first"):
        roll_back_migration(world.sides, plan, world.backup())
    assert world.in_zookeeper() == [10, 20, 30]


def test_of_a_rollback_whose_answer_is_lost_all_that_stands_is_counted(world):
    world.apply()
    world.put_in_kafka(50, 60)
    plan = world.plan(Direction.TO_ZOOKEEPER)
    write = world.store.multi

    def lose_the_answer(ops, **options):
        write(ops, **options)
        if any("/offsets/" in op.path for op in ops):
            raise ConnectionLostError("no answer")

    world.store.multi = lose_the_answer
    assert roll_back_migration(world.sides, plan, world.backup()).written == {TPS[0]: 50, TPS[1]: 60}
    assert world.phase() is Phase.ROLLED_BACK


def test_a_step_without_an_answer_does_not_say_that_its_last_request_wrote_nothing(world):
    world.kafka.lost = 1
    unknown = r"0 of 3 partitions .* were written to Kafka, and it is not known whether more were, then: no answer"
    with pytest.raises(MigrationIncompleteError, match=unknown):
        world.apply()
    assert world.in_kafka() == [10, 20, 30]
    assert world.apply().written == {}
    world.put_in_kafka(50, 60)
    plan = world.plan(Direction.TO_ZOOKEEPER)
    write, read = world.store.multi, world.store.get_data_many

    def lose_zookeeper(ops, **options):
        write(ops, **options)
        if any("/offsets/" in op.path for op in ops):
            world.store.get_data_many = no_answer
            no_answer()

    def no_answer(*_):
        raise ConnectionLostError("no answer")

    world.store.multi = lose_zookeeper
    with pytest.raises(MigrationIncompleteError, match=r"0 of 2 .* to ZooKeeper, and it is not known whether more"):
        roll_back_migration(world.sides, plan, world.backup())
    world.store.get_data_many = read
    assert world.in_zookeeper() == [50, 60, 30]


def test_a_group_that_is_deleted_in_the_middle_is_told_with_what_was_written(world):
    def delete():
        world.kafka.before_write = lambda: None
        delete_group(world.store, "g")

    world.kafka.before_write = delete
    with pytest.raises(MigrationIncompleteError, match=r"3 of 3 partitions .* then: the group, or the record of its"):
        world.apply()
    assert world.in_kafka() == [10, 20, 30]


def test_another_operators_step_in_the_middle_is_told_with_what_was_written(world):
    world.kafka.before_write = lambda: [setattr(world.kafka, "before_write", lambda: None), world.roll_back()]
    with pytest.raises(MigrationIncompleteError, match=r"3 of 3 partitions .* then: another operator works on its"):
        world.apply()
    assert world.in_kafka() == [10, 20, 30]


# The end


def test_a_member_that_registers_after_the_look_keeps_the_way_back_open(world):
    world.apply()
    look = look_at(world.sides)
    world.join()
    with pytest.raises(ActiveGroupError, match="group 'g' has 1 member: stop it first"):
        finish_migration(world.sides, look, world.backup())
    assert world.phase() is Phase.APPLIED


def test_after_a_finish_the_only_copy_of_an_offset_is_not_deleted(world):
    world.apply()
    world.finish()
    world.kafka.kept.clear()
    [bad] = [finding for finding in world.verify().findings if finding.is_bad]
    assert "--group=g --reset-offsets --topic=t:0 --to-offset=10 --execute`, `kafka-consumer-groups" in bad.text
    with pytest.raises(MigrationRefusedError, match="the brokers forgot it"):
        world.finish(delete=True)
    assert world.in_zookeeper() == [10, 20, 30]


def test_a_commit_between_the_look_and_the_deletion_keeps_the_group(world):
    world.apply()
    trees, look = read_trees(world.store, ["g"]), look_at(world.sides)
    world.set(2, 99)
    with pytest.raises(GroupChangedError, match="a client wrote /consumers/g/offsets/t/2"):
        finish_migration(world.sides, look, world.backup(), delete=trees[0])
    assert (world.in_zookeeper(), world.phase()) == ([10, 20, 99], Phase.APPLIED)


# Records that are large or cannot be read


@pytest.mark.parametrize(("many", "longest"), [(100, 121), (9000, 25)])
def test_reasons_are_shortened_until_the_record_fits_in_a_request(world, many, longest):
    left_out = {TopicPartition("t", n): "x" * 121 for n in range(many)}
    write_record(world.store, "g", None, Phase.APPLYING, at_ms=1, zxid=0, left_out=left_out)
    found = read_record(world.store, "g").left_out
    assert (len(found), set(map(len, found.values()))) == (many, {longest})
    assert len(world.store.get_data(record_path("g")).data) < world.store.max_multi_bytes


def test_more_partitions_than_a_record_has_room_for_are_refused_with_nothing_written(world):
    left_out = {TopicPartition("t", n): "x" for n in range(60_000)}
    with pytest.raises(MigrationRefusedError, match="no room for 60000 partitions"):
        write_record(world.store, "g", None, Phase.APPLYING, at_ms=1, zxid=0, left_out=left_out)
    assert read_record(world.store, "g") is None


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"1e999",
        b"[" * 100_000,
        b'{"version":1e999}',
        b'{"version":1,"phase":"applied","at_ms":1e999,"partitions":1,"backup":null,"history":[]}',
        b'{"version":1,"phase":"applied","at_ms":1,"partitions":1e999,"backup":null,"history":[]}',
        b'{"version":1,"phase":"applied","at_ms":1,"partitions":1,"backup":5,"history":[]}',
        b'{"version":1,"phase":"applied","at_ms":1,"partitions":1,"backup":null,"history":[["applied",1e999]]}',
        b'{"version":1,"phase":"applied","at_ms":1,"partitions":1,"backup":null,"history":[],"left_out":{"t":{"x":""}}}',
        b'{"version":1,"phase":["applied"],"at_ms":1,"partitions":1,"backup":null,"history":[]}',
        b'{"version":1,"phase":"applied","at_ms":' + b"9" * 5000 + b',"partitions":1,"backup":null,"history":[]}',
        b'"\\ud800"',
        b"\xff\xfe",
    ],
)
def test_one_unreadable_record_hides_no_other(world, data):
    world.apply()
    world.store.create(record_path("h"), data, make_parents=True)
    found = read_records(world.store, ["g", "h"])
    assert found["g"].phase is Phase.APPLIED
    assert found["h"].startswith("/consumers/h/migration holds ")
