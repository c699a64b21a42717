"""`migrate` and the commands beside it, over a cluster in memory."""

from __future__ import annotations

import json
import signal

import pytest

from legacy_consumer.errors import BrokersUnavailableError
from legacy_consumer.operations.cli import kafka_offsets
from tests.simulation.operators.world import PARTITIONS, OperatorsWorld
from zk_layout.errors import ConnectionLostError


@pytest.fixture
def world(monkeypatch, tmp_path):
    return OperatorsWorld(monkeypatch, tmp_path)


def migrate(world, verb, *words):
    world.files = getattr(world, "files", 0) + 1
    return world.run("migrate", verb, "g", *words, "--execute", "--backup", str(world.folder / f"{world.files}.json"))


def test_finish_counts_the_offsets_in_kafka_and_a_second_finish_reports_that_it_is_done(world):
    world.put("/consumers/g/owners/t")
    for path in ("/consumers/g/offsets/t/1", "/consumers/g/offsets/u/0"):
        world.store.delete(path)
    assert migrate(world, "apply").code == 0
    done = migrate(world, "finish", "--delete")
    assert (done.code, done.err) == (0, ""), done
    assert "; 1 partition of 3 in Kafka." in done.out
    assert world.store.exists("/consumers/g") is None
    again = migrate(world, "finish", "--delete")
    assert (again.code, again.out) == (0, "/consumers/g is deleted already.\n")


def test_a_group_that_is_in_neither_is_no_group_that_was_deleted(world):
    for group in ("g", "h"):
        world.run("groups", "delete", group, "--execute", "--no-backup")
    assert migrate(world, "finish", "--delete").code == 1


def test_status_counts_partitions_that_were_left_out_and_names_unreadable_records(world):
    world.commit_in_kafka("g", PARTITIONS[1], 45, is_own=False)
    assert migrate(world, "apply", "--skip-blocked").code == 0
    world.put("/consumers/h/migration", "1e999")
    done = world.run("migrate", "status", "--json")
    assert done.code == 1
    g, h = json.loads(done.out)
    assert (g["phase"], [one["partition"] for one in g["left_out"]]) == ("applied", [1])
    assert h["problem"].startswith("/consumers/h/migration holds b'1e999'")
    assert world.run("migrate", "status").code == 1


@pytest.mark.parametrize("data", ["1e999", "", '{"version":2}', b"\xff"])
def test_an_unreadable_record_is_an_error_that_names_the_command_which_deletes_it(world, data):
    world.put("/consumers/g/migration", data)
    for words in (["migrate", "plan", "g"], ["migrate", "verify", "g"], ["groups", "delete", "g"]):
        done = world.run(*words)
        assert done.code == 1
        assert "`legacy-consumer migrate forget g` deletes the record, with --execute" in done.err
        assert len(done.err.splitlines()) == 1
    before = world.numbers()
    assert migrate(world, "forget").code == 0
    assert world.numbers() == before
    [file] = world.folder.iterdir()
    assert file.read_text() == ("\\xff" if data == b"\xff" else data)
    assert migrate(world, "forget").out == "Group g has no record of a migration.\n"
    assert migrate(world, "apply").code == 0


def test_forget_looks_first_and_deletes_no_record_that_can_be_read(world):
    world.put("/consumers/g/migration", "1e999")
    assert world.run("migrate", "forget", "g").err == "Nothing was written: add --execute to delete it.\n"
    assert world.store.exists("/consumers/g/migration") is not None
    world.store.delete("/consumers/g/migration")
    assert migrate(world, "apply").code == 0
    done = migrate(world, "forget")
    assert (done.code, "its record can be read: the migration is applied" in done.err) == (1, True)


def test_steps_in_the_same_second_do_not_want_the_same_backup(world, monkeypatch):
    monkeypatch.chdir(world.folder)
    for verb in ("apply", "apply", "rollback", "apply"):
        done = world.run("migrate", verb, "g", "--execute")
        assert done.code == 0, done
    assert len(list(world.folder.iterdir())) == 4


def test_prune_and_delete_say_that_a_migration_is_open(world, monkeypatch):
    assert migrate(world, "apply").code == 0
    done = world.run("groups", "prune", "--older-than", "1s")
    assert "Left out, a migration is open: g (see `legacy-consumer migrate status`)" in done.err
    done = world.run("groups", "delete", "g", "--execute", "--no-backup")
    assert (done.code, world.store.exists("/consumers/g/migration") is not None) == (1, True)
    assert "the migration of group 'g' is open (applied)" in done.err


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_step_that_a_signal_ends_says_how_far_it_came(world, number):
    def signal_at_the_write_to_kafka():
        if world.store.exists("/consumers/g/migration") is not None:
            world.before_write = world.kafka["g"].before_write = lambda: None
            signal.raise_signal(number)

    world.before_write = signal_at_the_write_to_kafka
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    try:
        done = migrate(world, "apply")
    finally:
        signal.signal(signal.SIGHUP, before)
    assert done.code == 128 + number
    assert "0 of 3 partitions of group 'g' were written to Kafka, and it is not known whether more were" in done.err


@pytest.mark.parametrize("is_lost", [False, True], ids=["stopped", "ZooKeeper is lost"])
def test_a_finish_that_does_not_know_whether_it_deleted_the_group_says_so_and_names_its_backup(world, is_lost):
    assert migrate(world, "apply").code == 0

    def stop():
        if is_lost:
            raise ConnectionLostError("lost")
        signal.raise_signal(signal.SIGTERM)

    world.before_write = stop
    done = migrate(world, "finish", "--delete")
    assert done.code == (1 if is_lost else 128 + signal.SIGTERM)
    assert "It is not known whether group g is changed: see `legacy-consumer offsets export g`\n" in done.err
    assert f"The offsets of both sides before are in {world.folder / '2.json'}.\n" in done.err
    assert (world.folder / "2.json").exists()


def test_a_finish_that_a_member_stops_before_it_has_deleted_anything_leaves_no_backup(world):
    assert migrate(world, "apply").code == 0

    def join():
        world.before_write = lambda: None
        world.put("/consumers/g/ids/late", "{}")

    world.before_write = join
    done = migrate(world, "finish", "--delete")
    assert (done.code, "group 'g' has 1 member" in done.err) == (1, True)
    assert [file.name for file in world.folder.iterdir()] == ["1.json"]


def test_consume_deletes_no_group_whose_migration_is_open(world):
    assert migrate(world, "apply").code == 0
    before = world.tree("/consumers/g")
    done = world.run("consume", "--group", "g", "--topic", "t", "--delete-consumer-offsets")
    assert (done.code, world.tree("/consumers/g")) == (1, before)
    assert "the migration of group 'g' is open (applied)" in done.err


def test_a_topic_that_is_deleted_in_a_migration_holds_a_rollback_up_and_the_command_says_so(world):
    delete = ["groups", "delete", "g", "--topic", "t"]
    assert "migration" not in world.run(*delete).err
    assert migrate(world, "apply").code == 0
    for execute in ([], ["--execute", "--no-backup"]):
        done = world.run(*delete, *execute)
        assert done.code == 0
        assert "Note: a migration is open: g. Without these offsets `migrate rollback` is refused" in done.err
    assert migrate(world, "rollback").code == 1
    assert migrate(world, "rollback", "--accept-ahead").code == 0
    assert world.numbers()["zookeeper", "g", PARTITIONS[0]] == 10


def test_copy_says_that_its_source_is_ahead_in_kafka(world):
    world.commit_in_kafka("g", PARTITIONS[1], 45)
    done = world.run("offsets", "copy", "g", "h")
    assert done.code == 0
    assert "Warning: g is ahead in Kafka (t/1 at 45)" in done.err


def test_a_group_that_no_member_can_join_has_no_offsets_in_kafka_and_hides_none_of_others(world):
    """Any client may create such a group, whose name Kafka's consumers refuse."""
    world.put("/consumers/a b/offsets/t/0", "5")
    world.commit_in_kafka("g", PARTITIONS[0], 45)
    file = world.folder / "given.json"
    file.write_text(json.dumps({"version": 1, "offsets": {group: {"t": {"0": 30}} for group in ("a b", "g")}}))
    done = world.run("offsets", "import", str(file))
    assert done.code == 0
    assert "group g has offsets in Kafka too (t/0 at 45)" in done.err
    assert len(done.err.splitlines()) == 1
    assert "group g has offsets in Kafka too" in world.run("offsets", "copy", "a b", "g").err


OF_BOTH = json.dumps({"version": 1, "offsets": {group: {"t": {"0": 30}} for group in ("g", "h")}})
CHANGES = {
    "reset": ["offsets", "reset", "g", "--topic", "t", "--to-earliest"],
    "import": ["offsets", "import", "FILE", "--group", "g"],
    "copy": ["offsets", "copy", "h", "g"],
}


def typed(command, folder):
    file = folder / "given.json"
    file.write_text(OF_BOTH)
    return [str(file) if word == "FILE" else word for word in command]


@pytest.mark.parametrize("command", CHANGES)
def test_a_change_says_that_its_group_has_offsets_in_kafka(world, tmp_path, command):
    assert "Kafka" not in world.run(*typed(CHANGES[command], tmp_path)).err
    world.commit_in_kafka("g", PARTITIONS[0], 45)
    done = world.run(*typed(CHANGES[command], tmp_path))
    assert done.code == 0, done
    assert "Warning: group g has offsets in Kafka too (t/0 at 45): members with offsets.storage=kafka go on" in done.err


def silence(monkeypatch, asked):
    def silent(*_):
        asked.append(1)
        raise BrokersUnavailableError("the coordinator does not answer")

    monkeypatch.setattr(kafka_offsets, "read_offsets_in_kafka", silent)


@pytest.mark.parametrize("command", CHANGES)
def test_a_change_says_that_no_broker_tells_of_offsets_in_kafka(world, tmp_path, monkeypatch, command):
    asked = []
    silence(monkeypatch, asked)
    done = world.run(*typed(CHANGES[command], tmp_path))
    assert (done.code, len(asked)) == (0, 1), done
    group = "h" if command == "copy" else "g"
    assert f"Warning: it is not known whether group {group} has offsets in Kafka" in done.err
    assert ("Kafka was not asked about group g." in done.err) == (command == "copy")


def test_an_import_asks_no_more_brokers_for_offsets_in_kafka_after_a_silent_one(world, tmp_path, monkeypatch):
    asked = []
    silence(monkeypatch, asked)
    command = typed(["offsets", "import", "FILE"], tmp_path)
    done = world.run(*command)
    assert (done.code, len(asked)) == (0, 1), done
    assert "Kafka was not asked about the other 1 group." in done.err
    assert "Kafka" not in world.run(*command, "--no-check").err


@pytest.mark.parametrize("tells_existence", [True, False], ids=["zookeeper-3.8", "zookeeper-3.9"])
def test_a_topic_that_may_not_be_read_keeps_no_group_that_does_not_use_it_from_moving(world, tells_existence):
    world.put("/brokers/topics/closed", '{"version":1,"partitions":{"0":[0]}}')
    world.forbidden.append("/brokers/topics/closed")
    world.tells_existence = tells_existence
    done = world.run("migrate", "plan", "g")
    assert (done.code, "partitions of topic closed may be missing" in done.err) == (0, True), done
    assert migrate(world, "apply").code == 0
