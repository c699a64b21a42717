"""A command for many groups that ends in the middle says how far it came, and its backup restores no other group."""

from __future__ import annotations

import errno
import json
import re
import signal
from pathlib import Path

import pytest

from legacy_consumer.member.resets import (
    Answer,
    AnswerState,
    answer_path,
    decode_request,
    encode_answer,
    request_path,
)
from legacy_consumer.operations.admin.backups import Backup
from legacy_consumer.operations.admin.deletion import delete_tree
from legacy_consumer.operations.admin.group_trees import read_trees
from legacy_consumer.operations.cli import changes
from legacy_consumer.operations.cli.helpers import options, removals
from tests.support.memory_cluster import cluster_of_unused_groups
from zk_layout.errors import ConnectionLostError, MultiFailedError, NotPermittedError
from zk_layout.memory_store import Fault, MemoryStore
from zk_layout.store import DeleteOp

GROUPS = ("a", "b", "c", "d")
COMMANDS = {
    "prune": ["groups", "prune", "--older-than", "1s"],
    "delete": ["groups", "delete", *GROUPS],
    "delete of a topic": ["groups", "delete", *GROUPS, "--topic", "t"],
    "import": ["offsets", "import", "FILE"],
}


@pytest.fixture
def cluster(monkeypatch):
    return cluster_of_unused_groups(monkeypatch, GROUPS)


def standing(cluster):
    """Return {group: its offset, as bytes; None without one}."""
    found = {}
    for group in GROUPS:
        path = f"/consumers/{group}/offsets/t/0"
        found[group] = cluster.store.get_data(path).data if cluster.store.exists(path) is not None else None
    return found


def typed(command, folder):
    file = folder / "given.json"
    file.write_text(json.dumps({"version": 1, "offsets": {group: {"t": {"0": 30}} for group in GROUPS}}))
    return [str(file) if word == "FILE" else word for word in COMMANDS[command]]


def stop(monkeypatch, store_method, group, error, *, is_done):
    """Have the write to the group end with the error, before it is done or after."""
    original = getattr(MemoryStore, store_method)

    def stopped(self, ops, **options):
        if not any(op.path.startswith(f"/consumers/{group}/offsets") for op in ops):
            return original(self, ops, **options)
        if is_done:
            original(self, ops, **options)
        if error is signal.SIGKILL:
            # a killed command does nothing afterwards
            monkeypatch.setattr(Backup, "keep_only", lambda *_: None)
            raise KeyboardInterrupt
        if isinstance(error, signal.Signals):
            signal.raise_signal(error)
        raise error

    monkeypatch.setattr(MemoryStore, store_method, stopped)


def unknown(done):
    """Return the groups of which the command says that it does not know whether it has changed them."""
    return re.findall("It is not known whether group (.*) is changed: see `legacy-consumer offsets export ", done.err)


def run_stopped(cluster, monkeypatch, words, error, *, is_done):
    """Run a command whose write to group c ends with the error. Returns: the run; None if it found the write done."""
    with monkeypatch.context() as patch:
        stop(patch, "multi", "c", error, is_done=is_done)
        done = cluster.run(*words)
    if done.code:
        return done
    assert is_done, "a write without an answer was looked for, and found"
    return None


@pytest.fixture(autouse=True)
def no_nohup():
    """Reset SIGHUP, because a command keeps ignoring a signal that is ignored at its start, as under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize(
    "error",
    [KeyboardInterrupt(), ConnectionLostError("gone"), signal.SIGTERM, signal.SIGHUP, signal.SIGKILL],
    ids=["ctrl-c", "connection", "terminated", "hung up", "killed"],
)
@pytest.mark.parametrize("command", COMMANDS)
def test_the_backup_of_a_command_that_was_stopped_moves_no_group_that_it_left_alone(
    cluster, tmp_path, monkeypatch, command, error, is_done
):
    backups = tmp_path / "backups"
    backups.mkdir()
    words, before = typed(command, tmp_path), standing(cluster)
    words = [*words, "--execute", "--backup-dir", str(backups)]
    done = run_stopped(cluster, monkeypatch, words, error, is_done=is_done)
    if done is None:
        return
    if isinstance(error, signal.Signals) and error is not signal.SIGKILL:
        assert done.code == 128 + error
    assert "a, b; the groups after these" in done.err or error is signal.SIGKILL
    assert unknown(done) == ["c"]
    assert standing(cluster)["d"] == before["d"]
    cluster.store.set_data("/consumers/d/offsets/t/0", b"40")  # the group's member consumes on
    [backup] = backups.iterdir()
    put_back = cluster.run("offsets", "import", str(backup), "--execute", "--no-backup")
    assert put_back.code == 0
    assert ("was stopped before it changed 1 group (d): left out" in put_back.err) is (error is signal.SIGKILL)
    assert standing(cluster) == {**before, "d": b"40"}


@pytest.mark.parametrize("is_done", [False, True])
@pytest.mark.parametrize("error", [KeyboardInterrupt(), ConnectionLostError("gone"), signal.SIGTERM], ids=repr)
@pytest.mark.parametrize(
    "command",
    [["groups", "delete", "c"], ["offsets", "reset", "c", "--to-offset", "30"], ["offsets", "copy", "a", "c"]],
    ids=" ".join,
)
def test_a_command_that_was_stopped_in_its_write_says_that_it_may_be_done(
    cluster, tmp_path, monkeypatch, command, error, is_done
):
    cluster.store.set_data("/consumers/a/offsets/t/0", b"20")
    words = [*command, "--execute", "--backup-dir", str(tmp_path)]
    done = run_stopped(cluster, monkeypatch, words, error, is_done=is_done)
    if done is None:
        return
    assert unknown(done) == ["c"]
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize(
    ("command", "max_bytes"),
    [(["offsets", "reset", "c", "--shift-by=-2"], 1_000_000), (["groups", "delete", "c"], 500)],
    ids=["reset", "delete in several requests"],
)
def test_a_command_that_loses_zookeeper_after_a_write_says_that_the_group_is_changed(cluster, command, max_bytes):
    """ZooKeeper answers its first write of offsets, and nothing later. A repeated shift would move the group again."""

    def lose(session_id, kind):
        is_changed = session_id != cluster.store.session_id and standing(cluster)["c"] != b"5"
        return Fault.LOSE_REQUEST if is_changed else None

    cluster.server.max_multi_bytes = max_bytes
    cluster.server.fault = lose
    done = cluster.run(*command, "--execute", "--no-backup")
    assert done.code == 1, done
    assert "Group c is changed, at least in part: see `legacy-consumer offsets export c" in done.err
    assert unknown(done) == []


class FollowedStore(MemoryStore):
    """A command's store. Member m answers at once; the store calls first(its number) before each write of offsets."""

    def __init__(self, cluster, member, first):
        super().__init__(cluster.server)
        self.member, self.first, self.writes = member, first, 0

    def answer(self, state, data):
        request = decode_request(request_path("a"), data)
        self.member.create(
            answer_path("a", "m"),
            encode_answer(Answer(request.request_id, state, request.partitions)),
            ephemeral=True,
        )

    def create(self, path, data, **options):
        stat = super().create(path, data, **options)
        if path == request_path("a"):
            self.answer(AnswerState.READY, data)
        return stat

    def multi(self, ops, **options):
        if isinstance(ops[0], DeleteOp):
            return super().multi(ops, **options)
        self.writes += 1
        self.first(self.writes)
        zxid = super().multi(ops, **options)
        self.member.delete(answer_path("a", "m"))
        self.answer(AnswerState.DONE, self.get_data(request_path("a")).data)
        return zxid


@pytest.mark.parametrize("tries", [0, 1, 4, 5])
def test_a_live_reset_leaves_one_backup_of_what_it_wrote_over_or_none(cluster, tmp_path, monkeypatch, tries):
    """The member commits right before each of the first tries, so each of these tries fails."""
    member = cluster.join("a", "m", '{"t":1}', ("t", 0))

    def commit(number):
        if number <= tries:
            member.set_data("/consumers/a/offsets/t/0", b"%d" % (40 + number))

    monkeypatch.setattr(options, "KazooStore", lambda _: FollowedStore(cluster, member, commit))
    done = cluster.run(
        "offsets", "reset", "a", "--to-offset", "30", "--live", "--execute", "--backup-dir", str(tmp_path)
    )
    backups = [json.loads(file.read_text())["offsets"] for file in tmp_path.iterdir()]
    if tries == 5:
        assert (done.code, backups, standing(cluster)["a"]) == (1, [], b"45"), done
    else:
        before = 40 + tries if tries else 5
        assert (done.code, backups, standing(cluster)["a"]) == (0, [{"a": {"t": {"0": before}}}], b"30"), done


class ReadOnStore(FollowedStore):
    """A FollowedStore whose member commits 40 right before it answers that it is ready."""

    def answer(self, state, data):
        if state is AnswerState.READY:
            self.member.set_data("/consumers/a/offsets/t/0", b"40")
        super().answer(state, data)


@pytest.mark.parametrize(
    ("target", "after"), [("--shift-by=3", 43), ("--shift-by=-3", 37), ("--shift-by=20", 50), ("--to-offset=30", 30)]
)
def test_a_live_shift_counts_from_the_last_commit_and_the_output_shows_what_was_written(
    cluster, monkeypatch, target, after
):
    """A shift ahead would move the group back if it counted from the offset in the plan."""
    member = cluster.join("a", "m", '{"t":1}', ("t", 0))
    monkeypatch.setattr(options, "KazooStore", lambda _: ReadOnStore(cluster, member, lambda _: None))
    words = ["offsets", "reset", "a", target, "--live", "--execute", "--no-backup"]
    done = cluster.run(*words, "--json")
    assert done.code == 0, done
    [change] = json.loads(done.out)["changes"]
    assert (change["before"], change["after"]) == (40, after)
    assert standing(cluster)["a"] == b"%d" % after
    member.delete(answer_path("a", "m"))
    cluster.store.set_data("/consumers/a/offsets/t/0", b"5")
    told = cluster.run(*words).out
    _, written = told.split("Offsets or owners changed after the plan was made. This was written:")
    assert f"{after - 40:+d}" in written


def test_a_live_reset_shows_its_plan_once_if_it_was_written_as_it_was_shown(cluster, monkeypatch):
    member = cluster.join("a", "m", '{"t":1}', ("t", 0))
    monkeypatch.setattr(options, "KazooStore", lambda _: FollowedStore(cluster, member, lambda _: None))
    done = cluster.run("offsets", "reset", "a", "--shift-by=3", "--live", "--execute", "--no-backup")
    assert (done.code, done.out.count("MOVES BY")) == (0, 1), done


def test_a_live_reset_that_is_refused_after_its_backup_leaves_none(cluster, tmp_path, monkeypatch):
    member = cluster.join("a", "m", '{"t":1}', ("t", 0))
    monkeypatch.setattr(options, "KazooStore", lambda _: FollowedStore(cluster, member, lambda _: None))
    original = changes.back_up

    def overtaken(*args):
        made = original(*args)
        member.delete(answer_path("a", "m"))  # as if m released the partition, and another member claimed it
        return made

    monkeypatch.setattr(changes, "back_up", overtaken)
    done = cluster.run(
        "offsets", "reset", "a", "--to-offset", "30", "--live", "--execute", "--backup-dir", str(tmp_path)
    )
    assert (done.code, list(tmp_path.iterdir()), standing(cluster)["a"]) == (1, [], b"5"), done
    assert "nothing was written" in done.err


@pytest.mark.parametrize("command", ["delete", "import"])
def test_a_command_that_is_stopped_names_all_groups_that_it_changed_however_many(
    cluster, tmp_path, monkeypatch, command
):
    many = [f"console-consumer-{number:05}" for number in range(150)]
    for group in many:
        cluster.commit(group, "t", 5)
    file = tmp_path / "given.json"
    file.write_text(json.dumps({"version": 1, "offsets": {group: {"t": {"0": 30}} for group in [*many, "d"]}}))
    words = ["groups", "delete", *many, "d"] if command == "delete" else ["offsets", "import", str(file)]
    stop(monkeypatch, "multi", "d", KeyboardInterrupt(), is_done=False)
    done = cluster.run(*words, "--execute", "--no-backup")
    assert done.code == 130
    [line] = [line for line in done.err.splitlines() if " before it stopped: " in line]
    assert f"before it stopped: {', '.join(many)}; the groups after" in line


@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_disk_between_two_groups_is_no_reason_to_say_that_nothing_was_changed(
    cluster, tmp_path, monkeypatch, command
):
    words, before = typed(command, tmp_path), standing(cluster)
    write = Path.open

    def full(file, mode, **options):
        if standing(cluster)["b"] != before["b"]:
            raise OSError(errno.ENOSPC, "No space left on device")
        return write(file, mode, **options)

    monkeypatch.setattr(Path, "open", full)
    done = cluster.run(*words, "--execute", "--backup-dir", str(tmp_path))
    changed = [group for group, offset in standing(cluster).items() if offset != before[group]]
    assert (done.code, changed) == (1, ["a", "b"])
    assert "Error: nothing of group 'c' was changed, no backup can be written to " in done.err


@pytest.mark.parametrize("command", ["delete", "delete of a topic", "import"])
def test_a_command_that_changed_nothing_leaves_no_backup_that_could_move_something(
    cluster, tmp_path, monkeypatch, command
):
    """A member commits between the backup and the write, and leaves."""
    words = typed(command, tmp_path)
    original = MemoryStore.multi

    def overtaken(self, ops, **options):
        monkeypatch.setattr(MemoryStore, "multi", original)
        cluster.store.set_data("/consumers/a/offsets/t/0", b"40")
        return original(self, ops, **options)

    monkeypatch.setattr(MemoryStore, "multi", overtaken)
    backups = tmp_path / "backups"
    backups.mkdir()
    done = cluster.run(*words, "--execute", "--backup-dir", str(backups))
    assert done.code == 1, done
    assert list(backups.iterdir()) == []
    assert "Nothing was changed: the backup is gone." in done.err
    assert standing(cluster) == {"a": b"40", "b": b"5", "c": b"5", "d": b"5"}


def refuse(monkeypatch, group):
    """Refuse each multi with an offset of the group, as an ACL does."""
    original = MemoryStore.multi

    def refused(self, ops, **options):
        for index, op in enumerate(ops):
            if op.path.startswith(f"/consumers/{group}/offsets"):
                raise MultiFailedError(index, op.path, NotPermittedError(op.path))
        return original(self, ops, **options)

    monkeypatch.setattr(MemoryStore, "multi", refused)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_group_that_an_acl_kept_as_it_was_is_not_in_the_backup(cluster, tmp_path, monkeypatch, command):
    words, backups = typed(command, tmp_path), tmp_path / "backups"
    backups.mkdir()
    refuse(monkeypatch, "b")
    done = cluster.run(*words, "--execute", "--backup-dir", str(backups))
    assert done.code == 1, done
    [backup] = backups.iterdir()
    changed = ["a", "c", "d"] if command == "prune" else ["a"]
    assert list(json.loads(backup.read_text())["offsets"]) == changed
    assert "The backup holds only the groups that were changed." in done.err


@pytest.mark.parametrize("command", [["groups", "delete", "b"], ["offsets", "reset", "b", "--to-latest"]])
def test_a_change_that_an_acl_refused_leaves_no_backup(cluster, tmp_path, monkeypatch, command):
    refuse(monkeypatch, "b")
    done = cluster.run(*command, "--execute", "--backup-dir", str(tmp_path))
    assert (done.code, list(tmp_path.iterdir())) == (1, []), done
    assert "Nothing was changed: the backup is gone." in done.err


@pytest.mark.parametrize("command", [["delete", "b"], ["prune", "--older-than", "1s"]], ids=" ".join)
def test_a_group_that_an_acl_kept_in_part_is_named_and_in_the_backup(cluster, tmp_path, monkeypatch, command):
    cluster.topic("closed", (0, 50))
    cluster.ago_ms = 5000
    cluster.commit("b", "closed", 5)
    cluster.ago_ms = 0
    multi = MemoryStore.multi

    def refused(self, ops, **options):
        for index, op in enumerate(ops):
            if op.path.startswith("/consumers/b/offsets/closed"):
                raise MultiFailedError(index, op.path, NotPermittedError(op.path))
        return multi(self, ops, **options)

    monkeypatch.setattr(MemoryStore, "max_multi_bytes", property(lambda _: 500))
    monkeypatch.setattr(MemoryStore, "multi", refused)
    done = cluster.run("groups", *command, "--execute", "--backup-dir", str(tmp_path))
    assert done.code == 1
    assert "Group b was deleted only in part: /consumers/b/offsets/closed" in done.err
    assert cluster.store.exists("/consumers/b/offsets/t/0") is None
    [backup] = tmp_path.iterdir()
    assert json.loads(backup.read_text())["offsets"]["b"] == {"closed": {"0": 5}, "t": {"0": 5}}


@pytest.mark.parametrize("moment", ["between two requests", "as a topic is made anew"])
def test_a_shift_that_was_written_in_part_is_given_again_after_its_backup(cluster, tmp_path, monkeypatch, moment):
    """Both errors advise to restore the backup first, because a repeated shift moves the written offsets again."""
    cluster.topic("u", (0, 50), (0, 50), (0, 50))
    cluster.commit("a", "u", 20, 20, 20)
    multi, multis = MemoryStore.multi, []

    def stopped(self, ops, **options):
        multis.append(ops)
        if moment == "between two requests" and len(multis) == 2:
            raise ConnectionLostError("gone")
        done = multi(self, ops, **options)
        if moment != "between two requests" and len(multis) == 1:
            cluster.drop("t")
            cluster.topic("t", (0, 50))
        return done

    if moment == "between two requests":
        monkeypatch.setattr(MemoryStore, "max_multi_bytes", property(lambda _: 900))
    monkeypatch.setattr(MemoryStore, "multi", stopped)
    shift = ["offsets", "reset", "a", "--topic", "t", "--topic", "u", "--shift-by=-2", "--execute"]
    done = cluster.run(*shift, "--backup-dir", str(tmp_path))
    assert done.code == 1
    assert "offsets are written" in done.err
    assert "with --shift-by import the backup first" in done.err
    [backup] = tmp_path.iterdir()
    cluster.run("offsets", "import", str(backup), "--execute", "--no-backup")
    if moment != "between two requests":
        cluster.commit("a", "t", 5)
    assert cluster.run(*shift, "--no-backup").code == 0
    assert [cluster.store.get_data(f"/consumers/a/offsets/u/{n}").data for n in range(3)] == [b"18"] * 3


def meet_a_member(cluster, monkeypatch, group):
    """Have a member join, and another operator delete a topic of the group, right before the command deletes it."""
    original = removals.delete_tree

    def meanwhile(store, tree, **options):
        if tree.group == group:
            delete_tree(cluster.store, read_trees(cluster.store, [group])[0], topic="u")
            cluster.join(group, "m", '{"t":1}')
        return original(store, tree, **options)

    monkeypatch.setattr(removals, "delete_tree", meanwhile)


def test_prune_leaves_a_group_alone_of_which_another_operator_deletes_a_topic_as_a_member_joins(
    cluster, tmp_path, monkeypatch
):
    cluster.topic("u", (0, 50))
    cluster.ago_ms = 5000
    cluster.commit("b", "u", 5)
    cluster.ago_ms = 0
    meet_a_member(cluster, monkeypatch, "b")
    done = cluster.run("groups", "prune", "--older-than", "1s", "--execute", "--backup-dir", str(tmp_path))
    assert done.code == 0, done
    assert "Left alone: group 'b' has 1 member" in done.err
    assert cluster.store.get_children("/consumers") == ("b",)
    [backup] = tmp_path.iterdir()
    assert list(json.loads(backup.read_text())["offsets"]) == ["a", "c", "d"]


@pytest.mark.parametrize("execute", [[], ["--execute", "--no-backup"]], ids=["dry run", "execute"])
def test_a_dry_run_names_no_group_of_which_a_session_holds_a_znode(cluster, execute):
    """The znode is the owner znode of a member that has just died."""
    cluster.put("/consumers/b/owners/t/0", "m-0", store=cluster.new_store(), ephemeral=True)
    before = cluster.tree("/consumers/b")
    for command in (["groups", "delete", "b"], ["groups", "delete", "b", "--topic", "t"]):
        done = cluster.run(*command, *execute)
        assert done.code == 1
        assert "a living session holds /consumers/b/owners/t/0" in done.err
    done = cluster.run("groups", "prune", "--older-than", "1s", "--json", *execute)
    assert (done.code, [one["group"] for one in json.loads(done.out)]) == (0, ["a", "c", "d"])
    assert cluster.tree("/consumers/b") == before


def test_prune_tells_programs_which_groups_it_has_deleted(cluster, monkeypatch):
    command = ["groups", "prune", "--older-than", "1s", "--json"]
    assert not any(one["deleted"] for one in json.loads(cluster.run(*command).out))
    meet_a_member(cluster, monkeypatch, "b")
    done = cluster.run(*command, "--execute", "--no-backup")
    assert done.code == 0, done
    assert [one["group"] for one in json.loads(done.out) if one["deleted"]] == ["a", "c", "d"]


def test_offsets_are_not_imported_where_there_is_no_cluster(cluster, tmp_path):
    """Members would never find such offsets, which are above the chroot, for example."""
    words = typed("import", tmp_path)
    cluster.drop("t")
    cluster.store.delete("/brokers/ids/0")
    before = cluster.tree()
    done = cluster.run(*words, "--execute", "--no-backup")
    assert (done.code, cluster.tree()) == (1, before), done
    assert "check the chroot of zookeeper.connect" in done.err
    assert cluster.run(*words, "--execute", "--no-backup", "--no-check").code == 0
    assert standing(cluster)["a"] == b"30"


@pytest.mark.parametrize("command", [["offsets", "reset", "a", "--to-earliest"], ["offsets", "import", "FILE"]])
def test_a_group_that_is_deleted_before_the_write_is_not_made_again_and_is_an_error(
    cluster, tmp_path, monkeypatch, command
):
    file = tmp_path / "given.json"
    file.write_text('{"version": 1, "offsets": {"a": {"t": {"0": 30}}}}')
    original = MemoryStore.multi

    def overtaken(self, ops, **options):
        monkeypatch.setattr(MemoryStore, "multi", original)
        assert cluster.run("groups", "delete", "a", "--execute", "--no-backup").code == 0
        return original(self, ops, **options)

    monkeypatch.setattr(MemoryStore, "multi", overtaken)
    backups = tmp_path / "backups"
    backups.mkdir()
    words = [str(file) if word == "FILE" else word for word in command]
    done = cluster.run(*words, "--execute", "--backup-dir", str(backups))
    assert done.code == 1
    assert "Error: nothing was written for group 'a': it was deleted since the plan was made" in done.err
    assert cluster.store.exists("/consumers/a") is None
    assert list(backups.iterdir()) == [], "an import would make it again"
