"""A command reads what its counterpart wrote; and one bad group, offset or disk stops nothing else."""

from __future__ import annotations

import csv
import errno
import json
import os
import re
import shlex
from pathlib import Path

import pytest

from legacy_consumer.operations.admin.backups import write_backup
from legacy_consumer.operations.admin.deletion import delete_tree
from legacy_consumer.operations.admin.errors import BackupError
from legacy_consumer.operations.admin.migration.record import Phase, write_record
from legacy_consumer.operations.admin.offset_files import read_offsets
from legacy_consumer.operations.admin.whole_files import replace_whole
from legacy_consumer.operations.cli.helpers import migrate_options
from tests.support.fake_group_offsets import FakeGroupOffsets
from tests.support.memory_cluster import BROKER, MemoryCluster, with_options
from zk_layout.errors import NotPermittedError
from zk_layout.model import TopicPartition

OF_0_9 = BROKER.replace('"version":1', '"version":2,"endpoints":["PLAINTEXT://h:9092"]')
ODD_NAMES = ("bill\u200bing", "a:b", "line\u2028separator", "-dash", "it's", "\u202egnp", "=1+1", "日本")


@pytest.fixture
def cluster(monkeypatch):
    made = MemoryCluster(monkeypatch)
    made.topic("t", (0, 50), (0, 50))
    return made


def offsets(cluster, group):
    return {path: data for path, data in cluster.tree(f"/consumers/{group}").items() if "/offsets/" in path and data}


def standing(cluster, group):
    """Return {path: data} of the group's offset znodes, also for a group that does not exist."""
    return {
        path: data for path, data in cluster.tree().items() if path.startswith(f"/consumers/{group}/offsets/") and data
    }


def only_file(folder):
    [file] = folder.iterdir()
    return str(file)


@pytest.mark.parametrize("form", ["zk", "json"])
def test_every_name_that_a_group_can_have_is_exported_and_imported(cluster, tmp_path, form):
    for number, name in enumerate(ODD_NAMES):
        cluster.commit(name, "t", number, number + 1)
    file = str(tmp_path / "offsets")
    assert cluster.run("offsets", "export", "--all-groups", "--format", form, "--output", file).code == 0
    before = {name: offsets(cluster, name) for name in ODD_NAMES}
    for name in ODD_NAMES:
        assert cluster.run("groups", "delete", "--execute", "--no-backup", "--", name).code == 0
    done = cluster.run("offsets", "import", file, "--execute", "--no-backup")
    assert done.code == 0, done
    assert {name: offsets(cluster, name) for name in ODD_NAMES} == before


@pytest.mark.parametrize("topic", [".", "..", "a\x01", "\ud800", "\ue000"])
def test_a_file_with_a_topic_that_no_znode_can_have_is_refused_as_a_whole(cluster, tmp_path, topic):
    cluster.commit("g", "t", 5, 6)
    file = tmp_path / "offsets.json"
    file.write_text(json.dumps({"version": 1, "offsets": {"g": {"t": {"0": 1}, topic: {"0": 7}}}}))
    before = cluster.tree()
    for words in (["import", str(file)], ["import", str(file), "--no-check"], ["reset", "g", "--from-file", str(file)]):
        done = cluster.run("offsets", *words, "--execute", "--no-backup")
        assert (done.code, cluster.tree()) == (1, before), done
        assert "is no name that a topic can have" in done.err
    assert cluster.run("offsets", "import", str(file), "--topic", "t", "--execute", "--no-backup").code == 0


@pytest.mark.parametrize("topic", ["..", "t/partitions", "a\x01", "\udcff"])
def test_a_name_that_no_topic_can_have_is_no_topic(cluster, topic):
    cluster.commit("g", "t", 5, 6)
    for words in (["reset", "g", "--to-earliest"], ["copy", "g", "other"]):
        done = cluster.run("offsets", *words, "--topic", topic)
        assert (done.code, "does not exist: check its name" in done.err) == (1, True), done


def test_the_printed_export_is_the_same_as_the_file(cluster, tmp_path, monkeypatch):
    cluster.commit("bill\u200bing", "t", 1, 2)
    cluster.run("offsets", "export", "--all-groups", "--output", str(tmp_path / "f"))
    monkeypatch.chdir(tmp_path)
    for output in ([], ["--output", "-"]):
        assert cluster.run("offsets", "export", "--all-groups", *output).out == (tmp_path / "f").read_text()
    assert [file.name for file in tmp_path.iterdir()] == ["f"], "- is no file"


def test_a_backup_with_offsets_of_a_deleted_topic_is_restored_with_a_warning(cluster, tmp_path):
    cluster.commit("g", "t", 5)
    cluster.commit("g", "nowhere", 7)
    before = offsets(cluster, "g")
    cluster.run("groups", "delete", "g", "--execute", "--backup-dir", str(tmp_path))
    done = cluster.run("offsets", "import", only_file(tmp_path), "--execute", "--no-backup")
    assert (done.code, offsets(cluster, "g")) == (0, before), done
    assert "(nowhere/0) without a place in the cluster: their offsets are put back without a check" in done.err


@pytest.mark.parametrize(
    "words",
    [
        "offsets export g --json --output FILE",
        "offsets export g --output FILE",
        "groups delete g --execute --backup-dir FOLDER",
        "groups prune --older-than 1s --execute --backup-dir FOLDER",
        "offsets reset g --to-offset 20 --execute --backup-dir FOLDER",
        "offsets copy g other --execute --no-backup",
        "migrate apply g --execute --backup FILE",
    ],
)
def test_an_offset_of_an_earlier_topic_is_written_as_the_zero_that_it_means(cluster, tmp_path, monkeypatch, words):
    """Each command that writes it elsewhere does so. Left out, it would send the new group to auto.offset.reset."""
    cluster.ago_ms = 5000
    cluster.commit("g", "again", 40)
    cluster.ago_ms = 0
    cluster.put("/brokers/topics/another", "")
    cluster.drop("another")
    cluster.topic("again", (0, 50))
    cluster.store.set_data("/brokers/ids/0", OF_0_9.encode())
    kafka = FakeGroupOffsets()
    monkeypatch.setattr(migrate_options, "open_group_offsets", lambda config, store: kafka)
    monkeypatch.setattr(migrate_options, "read_kafka_members", lambda *_: ())
    file = tmp_path / "backup.json"
    done = cluster.run(*words.replace("FILE", str(file)).replace("FOLDER", str(tmp_path)).split())
    assert done.code == 0, done
    if "copy" in words:
        assert offsets(cluster, "other") == {"/consumers/other/offsets/again/0": b"0"}
        return
    [written] = read_offsets(Path(only_file(tmp_path)).read_text(encoding="utf-8"), "f").groups.values()
    assert written == {TopicPartition("again", 0): 0}


def advised(text):
    """Return the words of each command in backticks, without the program's name."""
    return [shlex.split(one)[1:] for one in re.findall(r"`(legacy-consumer [^`]*)`", text)]


@pytest.mark.parametrize("group", ["g", "-g", "it's", "$(rm x)"])
@pytest.mark.parametrize("command", ["delete", "reset"])
def test_the_command_beside_a_backup_shows_its_plan_and_restores_with_execute(
    cluster, tmp_path, monkeypatch, group, command
):
    monkeypatch.chdir(tmp_path)
    cluster.commit(group, "t", 5, 7)
    cluster.commit("other", "t", 9)
    before = standing(cluster, group)
    words = ["groups", "delete"] if command == "delete" else ["offsets", "reset", "--to-earliest"]
    done = cluster.run(*words, "--execute", "--", group)
    [put_back] = advised(done.err)
    assert standing(cluster, group) != before
    assert cluster.run(*put_back).code == 0
    assert standing(cluster, group) != before, "it was only shown"
    assert cluster.run(*with_options(put_back, "--execute", "--no-backup")).code == 0
    assert standing(cluster, group) == before
    assert offsets(cluster, "other") == {"/consumers/other/offsets/t/0": b"9"}


@pytest.mark.parametrize("group", ["g", "-g"])
def test_commands_that_a_migration_proposes_can_be_pasted_and_show_a_plan(cluster, tmp_path, monkeypatch, group):
    monkeypatch.chdir(tmp_path)
    cluster.store.set_data("/brokers/ids/0", OF_0_9.encode())
    kafka = FakeGroupOffsets()
    monkeypatch.setattr(migrate_options, "open_group_offsets", lambda config, store: kafka)
    monkeypatch.setattr(migrate_options, "read_kafka_members", lambda *_: ())
    cluster.put(f"/consumers/{group}/offsets/t/0", " 7")
    cluster.commit(group, "t", None, 5)
    backup = str(tmp_path / "b")
    texts = [
        cluster.run("migrate", "verify", "--", group).out,
        cluster.run("migrate", "apply", "--skip-blocked", "--execute", "--backup", backup, "--", group).out,
        cluster.run("migrate", "verify", "--", group).out,
        cluster.run("groups", "delete", "--execute", "--", group).err,
    ]
    commands = [words for text in texts for words in advised(text)]
    assert {tuple(words[:2]) for words in commands} == {
        ("migrate", "apply"),
        ("migrate", "finish"),
        ("migrate", "verify"),
        ("migrate", "rollback"),
        ("offsets", "reset"),
    }
    before = cluster.tree()
    for words in commands:
        assert words[-1] == group
        assert cluster.run(*words).code in {0, 1}, words
        assert cluster.tree() == before, words
    [reset] = {tuple(words) for words in commands if words[0] == "offsets"}
    assert cluster.run(*with_options(reset, "--execute", "--no-backup")).code == 0
    changed = {path for path, data in cluster.tree().items() if before.get(path) != data}
    assert changed == {f"/consumers/{group}/offsets/t/0"}


def test_an_import_can_be_narrowed_to_a_topic(cluster, tmp_path):
    cluster.topic("u", (0, 50))
    cluster.commit("g", "t", 5)
    cluster.commit("g", "u", 7)
    file = str(tmp_path / "f")
    cluster.run("offsets", "export", "g", "--output", file)
    cluster.run("groups", "delete", "g", "--execute", "--no-backup")
    assert cluster.run("offsets", "import", file, "--topic", "u", "--execute", "--no-backup").code == 0
    assert offsets(cluster, "g") == {"/consumers/g/offsets/u/0": b"7"}


def test_the_backup_of_one_topic_rewinds_no_other(cluster, tmp_path):
    cluster.topic("old", (0, 50))
    cluster.commit("g", "t", 10)
    cluster.commit("g", "old", 3)
    cluster.run("groups", "delete", "g", "--topic", "old", "--execute", "--backup-dir", str(tmp_path))
    cluster.store.set_data("/consumers/g/offsets/t/0", b"40")
    cluster.run("offsets", "import", only_file(tmp_path), "--execute", "--no-backup")
    assert offsets(cluster, "g") == {"/consumers/g/offsets/t/0": b"40", "/consumers/g/offsets/old/0": b"3"}


@pytest.mark.parametrize("command", ["delete", "reset"])
def test_an_offset_that_cannot_be_read_is_in_the_backup_and_not_put_back_as_none(cluster, tmp_path, command):
    cluster.put("/consumers/g/offsets/t/0", " 12345\n")
    cluster.put("/consumers/g/offsets/t/1", "7")
    words = ["groups", "delete", "g"] if command == "delete" else ["offsets", "reset", "g", "--to-offset", "20"]
    done = cluster.run(*words, "--execute", "--backup-dir", str(tmp_path))
    assert done.code == 0, done
    document = json.loads(Path(only_file(tmp_path)).read_text(encoding="utf-8"))
    assert document["offsets"] == {"g": {"t": {"1": 7}}}
    assert document["unreadable"] == {"g": {"t": {"0": " 12345\n"}}}
    back = cluster.run("offsets", "import", only_file(tmp_path), "--execute", "--no-backup")
    assert "1 offset could not be read when the file was written" in back.err
    assert cluster.store.get_data("/consumers/g/offsets/t/1").data == b"7"
    if command == "delete":
        assert r"g t/0 holds b' 12345\n'" in done.err
    else:
        assert cluster.store.get_data("/consumers/g/offsets/t/0").data == b"20"


def test_one_offset_that_cannot_be_read_ends_no_export(cluster):
    cluster.commit("good", "t", 5)
    cluster.put("/consumers/bad/offsets/t/0", "7\n")
    cluster.put("/consumers/bad/offsets/t/1", "8")
    cluster.commit("closed", "t", 5)
    cluster.forbidden.append("/consumers/closed/offsets")
    done = cluster.run("offsets", "export", "--all-groups")
    assert done.out == "/consumers/bad/offsets/t/1:8\n/consumers/good/offsets/t/0:5\n"
    assert done.code == 1
    assert [line.partition(" ")[0] for line in done.err.splitlines()] == ["Left", "Left"]


@pytest.mark.parametrize("topic", ["ordres", "", "orders/0", ".."])
def test_a_misspelt_topic_is_an_error_and_deletes_nothing(cluster, topic):
    cluster.commit("g", "orders", 5)
    cluster.put("/consumers/g/owners")
    before = cluster.tree()
    done = cluster.run("groups", "delete", "g", "--topic", topic, "--execute", "--no-backup")
    assert done.code == 1
    assert done.err.startswith("Error: ")
    assert cluster.tree() == before


def test_partitions_of_a_topic_are_no_topic_to_delete(cluster):
    cluster.commit("g", "orders", 5)
    before = cluster.tree()
    done = cluster.run("groups", "delete", "g", "--topic", "orders:0", "--execute", "--no-backup")
    assert done.code == 2
    assert "name a topic without its partitions" in done.err
    assert cluster.tree() == before


def test_prune_and_its_backup_leave_out_groups_that_are_used_meanwhile(cluster, tmp_path, monkeypatch):
    cluster.ago_ms = 86_400_000
    cluster.commit("old", "t", 1)
    cluster.commit("job", "t", 5)
    cluster.ago_ms = 0
    real = write_backup.__globals__["create_whole"]

    def write(file, text, **rights):
        real(file, text, **rights)
        cluster.store.set_data("/consumers/job/offsets/t/0", b"1000")

    monkeypatch.setitem(write_backup.__globals__, "create_whole", write)
    done = cluster.run("groups", "prune", "--older-than", "1s", "--execute", "--backup-dir", str(tmp_path))
    assert done.code == 0, done
    assert "Left alone: group 'job' is in use" in done.err
    assert offsets(cluster, "job") == {"/consumers/job/offsets/t/0": b"1000"}
    assert cluster.store.exists("/consumers/old") is None
    assert list(json.loads(Path(only_file(tmp_path)).read_text(encoding="utf-8"))["offsets"]) == ["old"]


@pytest.mark.parametrize(
    ("pattern", "gone"),
    [
        ("job[12]", {"job[12]"}),
        ("job[!x]", {"job[!x]"}),
        ("job[*]", {"job[12]", "job[!x]"}),
        ("job?", {"job1"}),
        ("job*", {"job[12]", "job[!x]", "job1"}),
    ],
)
def test_only_star_and_question_mark_are_wildcards_in_the_names_to_prune(cluster, pattern, gone):
    names = {"job[12]", "job[!x]", "job1", "other"}
    cluster.ago_ms = 86_400_000
    for group in names:
        cluster.commit(group, "t", 1)
    cluster.ago_ms = 0
    done = cluster.run("groups", "prune", "--older-than", "1s", "--name", pattern, "--execute", "--no-backup")
    assert done.code == 0, done
    assert set(cluster.store.get_children("/consumers")) == names - gone


def test_prune_continues_after_a_group_that_an_acl_protects(cluster, tmp_path, monkeypatch):
    cluster.ago_ms = 86_400_000
    for group in ("a", "b", "c"):
        cluster.commit(group, "t", 1)
    cluster.ago_ms = 0

    def delete(store, tree, **options):
        if tree.group == "b":
            raise NotPermittedError("/consumers/b/requests/answers")
        delete_tree(store, tree, **options)

    monkeypatch.setattr("legacy_consumer.operations.cli.helpers.removals.delete_tree", delete)
    done = cluster.run("groups", "prune", "--older-than", "1s", "--execute", "--backup-dir", str(tmp_path))
    assert done.code == 1, done
    assert "Left alone: /consumers/b/requests/answers may not be accessed" in done.err
    assert [cluster.store.exists(f"/consumers/{group}") is None for group in ("a", "b", "c")] == [True, False, True]


def test_a_clock_that_is_ahead_of_zookeepers_prunes_nothing_that_is_in_use(cluster, tmp_path):
    cluster.ago_ms = 30 * 86_400_000  # this machine's clock is so far ahead
    cluster.commit("job", "t", 5)
    assert "job" in cluster.run("groups", "prune", "--older-than", "7d").out
    before = cluster.tree()
    done = cluster.run("groups", "prune", "--older-than", "7d", "--execute", "--backup-dir", str(tmp_path))
    assert "No group of 1 was unused for so long." in done.err
    assert cluster.tree() == before


def test_a_clock_that_is_behind_zookeepers_prunes_nothing_that_the_dry_run_does_not_name(cluster, tmp_path):
    cluster.commit("job", "t", 5)
    cluster.ago_ms = -30 * 86_400_000  # ZooKeeper's clock is so far ahead
    before = cluster.tree()
    assert "No group of 1" in cluster.run("groups", "prune", "--older-than", "7d").err
    done = cluster.run("groups", "prune", "--older-than", "7d", "--execute", "--backup-dir", str(tmp_path))
    assert "this machine's clock is 30 d behind ZooKeeper's" in done.err
    assert cluster.tree() == before


@pytest.mark.parametrize("command", [["delete", "g"], ["prune", "--older-than", "1s"]])
def test_a_removal_says_that_it_does_not_ask_the_brokers_for_the_offsets_of_a_migrated_group(cluster, command):
    cluster.ago_ms = 5000
    cluster.commit("g", "t", 5)
    write_record(cluster.store, "g", None, Phase.FINISHED, at_ms=1, zxid=0)
    done = cluster.run("groups", *command)
    assert done.code == 0
    assert "g migrated" in done.err
    assert "`legacy-consumer migrate finish --delete g` deletes a group only if they do" in done.err


def test_a_full_disk_leaves_no_part_of_a_backup_and_no_change(tmp_path, monkeypatch):
    there = tmp_path / "there"
    there.write_text("before")

    def full(_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(BackupError, match="No space left"):
        write_backup(tmp_path, "g", {TopicPartition("t", 0): 5})
    with pytest.raises(OSError, match="No space left"):
        replace_whole(there, "after")
    assert [(file.name, file.read_text()) for file in tmp_path.iterdir()] == [("there", "before")]


@pytest.mark.parametrize("is_carried_out", [False, True])
@pytest.mark.parametrize(
    "command",
    [
        ["offsets", "reset", "g", "--to-time", "2026-01-01"],
        ["offsets", "reset", "g", "--to-latest"],
        ["offsets", "copy", "g", "other"],
        ["offsets", "import", "FILE"],
        ["groups", "prune", "--older-than", "1s"],
        ["groups", "prune", "--older-than", "99d"],
    ],
    ids=" ".join,
)
def test_the_output_of_a_change_is_nothing_but_json_or_csv_if_that_is_asked_for(
    cluster, tmp_path, command, is_carried_out
):
    cluster.ago_ms = 86_400_000
    cluster.commit("g", "t", 1, 2)
    cluster.commit("h", "t", 1, 2)
    cluster.ago_ms = 0
    file = tmp_path / "offsets.txt"
    file.write_text("/consumers/g/offsets/t/0:9\n/consumers/h/offsets/t/0:9\n")
    words = [str(file) if word == "FILE" else word for word in command]
    planned = cluster.run(*words, "--format", "csv")
    words += ["--execute", "--backup-dir", str(tmp_path)] if is_carried_out else []
    names, *records = csv.reader(cluster.run(*words, "--format", "csv").out.splitlines())
    assert {len(record) for record in records} <= {len(names)}
    # the plan has deleted nothing yet
    told = [[*record[:-1], "false"] if names[-1] == "deleted" else record for record in records]
    assert [names, *told] == list(csv.reader(planned.out.splitlines()))
    assert isinstance(json.loads(cluster.run(*words, "--json").out), list if "prune" in words else dict)


def test_the_plan_in_json_is_json_also_while_members_live(cluster):
    cluster.commit("g", "t", 5, 5)
    cluster.join("g", "g_m", '{"t":1}')
    done = cluster.run("offsets", "reset", "g", "--to-earliest", "--json")
    assert json.loads(done.out)["executed"] is False
    assert "1 member of group g live" in done.err


def test_a_link_stays_a_link_and_a_pipe_a_pipe_when_they_are_written_to(tmp_path):
    there, link, pipe = tmp_path / "there", tmp_path / "link", tmp_path / "pipe"
    there.write_text("before")
    link.symlink_to(there)
    replace_whole(link, "after")
    assert (link.is_symlink(), there.read_text()) == (True, "after")
    os.mkfifo(pipe)
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    try:
        replace_whole(pipe, "through")
        assert (pipe.is_fifo(), os.read(reader, 100)) == (True, b"through")
    finally:
        os.close(reader)
    with pytest.raises(OSError):
        replace_whole(tmp_path, "a folder")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link", "pipe", "there"]


def test_a_link_that_leads_to_itself_is_replaced(tmp_path):
    """Path.resolve() raises RuntimeError for it before Python 3.13, and that was told as a defect."""
    link = tmp_path / "link"
    link.symlink_to(link)
    replace_whole(link, "after")
    assert (link.is_symlink(), link.read_text()) == (False, "after")
