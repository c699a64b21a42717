"""A command for many groups is stopped in the middle: it says how far it came, and its backup moves nothing else."""

from __future__ import annotations

import json
import signal

import pytest

from legacy_consumer.operations.admin.backups import Backup
from tests.support.memory_cluster import MemoryCluster
from zk_layout.errors import ConnectionLostError
from zk_layout.memory_store import MemoryStore

GROUPS = ("a", "b", "c", "d")
COMMANDS = {
    "prune": ["groups", "prune", "--older-than", "1s"],
    "delete": ["groups", "delete", *GROUPS],
    "delete of a topic": ["groups", "delete", *GROUPS, "--topic", "t"],
    "import": ["offsets", "import", "FILE"],
}


@pytest.fixture
def cluster(monkeypatch):
    made = MemoryCluster(monkeypatch)
    made.topic("t", (0, 50))
    made.ago_ms = 5000
    for group in GROUPS:
        made.commit(group, "t", 5)
    made.ago_ms = 0
    return made


def standing(cluster):
    """{group: its offset}."""
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
    """The write to the group ends with the error, before it is done or after."""
    original = getattr(MemoryStore, store_method)

    def stopped(self, ops):
        if not any(op.path.startswith(f"/consumers/{group}/offsets") for op in ops):
            return original(self, ops)
        if is_done:
            original(self, ops)
        if error is signal.SIGKILL:
            # nothing that the command does after this comes to pass
            monkeypatch.setattr(Backup, "keep_only", lambda *_: None)
            raise KeyboardInterrupt
        if isinstance(error, signal.Signals):
            signal.raise_signal(error)
        raise error

    monkeypatch.setattr(MemoryStore, store_method, stopped)


@pytest.fixture(autouse=True)
def no_nohup():
    """A command leaves a signal alone that is ignored when it starts, as nohup has SIGHUP."""
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
    with monkeypatch.context() as patch:
        stop(patch, "multi", "c", error, is_done=is_done)
        done = cluster.run(*words, "--execute", "--backup-dir", str(backups))
    if done.code == 0:
        assert is_done, "a write without an answer was looked for, and found"
        return
    if isinstance(error, signal.Signals) and error is not signal.SIGKILL:
        assert done.code == 128 + error
    assert "a, b; the groups after these" in done.err or error is signal.SIGKILL
    assert standing(cluster)["d"] == before["d"]
    cluster.store.set_data("/consumers/d/offsets/t/0", b"40")  # it goes on
    [backup] = backups.iterdir()
    put_back = cluster.run("offsets", "import", str(backup), "--execute", "--no-backup")
    assert put_back.code == 0
    assert ("was stopped before it changed 1 group (d): left out" in put_back.err) is (error is signal.SIGKILL)
    assert standing(cluster) == {**before, "d": b"40"}


@pytest.mark.parametrize("command", ["delete", "delete of a topic", "import"])
def test_a_command_that_changed_nothing_leaves_no_backup_that_could_move_something(
    cluster, tmp_path, monkeypatch, command
):
    """A member commits and leaves between the backup and the write."""
    words = typed(command, tmp_path)
    original = MemoryStore.multi

    def overtaken(self, ops):
        monkeypatch.setattr(MemoryStore, "multi", original)
        cluster.store.set_data("/consumers/a/offsets/t/0", b"40")
        return original(self, ops)

    monkeypatch.setattr(MemoryStore, "multi", overtaken)
    backups = tmp_path / "backups"
    backups.mkdir()
    done = cluster.run(*words, "--execute", "--backup-dir", str(backups))
    assert done.code == 1, done
    assert list(backups.iterdir()) == []
    assert "Nothing was changed: the backup is gone." in done.err
    assert standing(cluster) == {"a": b"40", "b": b"5", "c": b"5", "d": b"5"}


def test_offsets_are_not_imported_where_there_is_no_cluster(cluster, tmp_path):
    """Such as above the chroot: members would never find them."""
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

    def overtaken(self, ops):
        monkeypatch.setattr(MemoryStore, "multi", original)
        assert cluster.run("groups", "delete", "a", "--execute", "--no-backup").code == 0
        return original(self, ops)

    monkeypatch.setattr(MemoryStore, "multi", overtaken)
    done = cluster.run(*(str(file) if word == "FILE" else word for word in command), "--execute", "--no-backup")
    assert done.code == 1
    assert "Error: nothing was written: group 'a' was deleted since the plan was made" in done.err
    assert cluster.store.exists("/consumers/a") is None
