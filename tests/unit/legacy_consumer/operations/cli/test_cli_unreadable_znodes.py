"""A command about many groups shows all others when one znode is garbage, forbidden or deleted.

The tests spoil, one after another, each znode that a command reads of one group and its topic, and check that the
command shows the other group and its topic as before.
"""

from __future__ import annotations

import json

import pytest

from legacy_consumer.operations.cli.helpers import options
from tests.support.memory_cluster import BROKER, MemoryCluster
from zk_layout.errors import NoNodeError, NotEmptyError, NotPermittedError
from zk_layout.memory_store import MemoryStore

LOOKS = {
    "describe": ["groups", "describe", "--all-groups", "--json"],
    "members": ["groups", "members", "--all-groups", "--json"],
    "details": ["groups", "list", "--details", "--json"],
    "verify": ["groups", "verify", "--all-groups", "--json"],
    "prune": ["groups", "prune", "--older-than", "1s", "--json"],
    "export": ["offsets", "export", "--all-groups", "--json"],
    "doctor": ["doctor", "--json"],
    "topics": ["topics", "--json"],
    "brokers": ["brokers", "--json"],
    "status": ["migrate", "status", "--json"],
}
BESIDES = ("/brokers/ids/0", "/controller", "/controller_epoch", "/admin/delete_topics")


class SpoiledStore(MemoryStore):
    """A store in which one znode may not be read, or disappears right before or after a read of it.

    closed to all: exists() is forbidden too, as with ZooKeeper 3.9.
    """

    def __init__(self, cluster):
        super().__init__(cluster.server)
        self._cluster = cluster

    def _around(self, paths, read):
        cluster = self._cluster
        cluster.read.update(paths)
        if cluster.spoiled in paths:
            if cluster.how.startswith("closed"):
                raise NotPermittedError(cluster.spoiled)
            if cluster.how == "gone before":
                cluster.vanish()
        found = read()
        if cluster.spoiled in paths and cluster.how == "gone after":
            cluster.vanish()
        return found

    def get_data(self, path, watcher=None):
        return self._around([path], lambda: super(SpoiledStore, self).get_data(path, watcher))

    def get_children(self, path, watcher=None):
        return self._around([path], lambda: super(SpoiledStore, self).get_children(path, watcher))

    def exists(self, path, watcher=None):
        found = super().exists(path, watcher)
        if found is not None:
            self._check_existence([path])
        return found

    def exists_many(self, paths, watcher=None):
        found = super().exists_many(paths, watcher)
        self._check_existence([path for path, stat in zip(paths, found, strict=True) if stat is not None])
        return found

    def _check_existence(self, paths):
        if self._cluster.how == "closed to all" and self._cluster.spoiled in paths:
            raise NotPermittedError(self._cluster.spoiled)

    def get_data_many(self, paths, watcher=None):
        return self._around(paths, lambda: super(SpoiledStore, self).get_data_many(paths, watcher))

    def get_children_many(self, paths):
        return self._around(paths, lambda: super(SpoiledStore, self).get_children_many(paths))


class SpoiledCluster(MemoryCluster):
    """Groups bad and good, each with a topic of its own name. spoiled: the path of the znode; how: its fault."""

    def __init__(self, monkeypatch):
        super().__init__(monkeypatch)
        self.spoiled = self.how = None
        self.read = set()
        self.ago_ms = 90 * 86_400_000
        self.put("/controller_epoch", "1")
        self.put("/brokers/ids/1", BROKER)
        self.put("/admin/delete_topics")
        for name in ("bad", "good"):
            self.topic(name, (0, 10), (0, 10))
            self.commit(name, name, 5, 6)
            self.commit(f"{name}_idle", name, 5, 6)
            self.put(f"/consumers/{name}_moved/migration", "{}")
        self.put("/consumers/good/offsets/good/odd")
        self.ago_ms = 0
        for name in ("bad", "good"):
            self.join(name, f"{name}_m", f'{{"{name}":1}}', (name, 0), (name, 1))
        monkeypatch.setattr(options, "KazooStore", lambda _: SpoiledStore(self))

    def vanish(self):
        try:
            for path in sorted(self.paths(self.spoiled), reverse=True):
                self.store.delete(path)
        except (NoNodeError, NotEmptyError):
            pass

    def places(self):
        """Return the read paths that belong to the bad groups and their topic, or to no group."""
        bad = {path for path in self.read if path.startswith(("/consumers/bad", "/brokers/topics/bad"))}
        # the paths of partition 0 stand for the paths of partition 1
        return [path for path in sorted(bad) if "/1" not in path] + [path for path in BESIDES if path in self.read]


def sane(name, out):
    """Return the command's output about the good groups and their topic, without ages and data from brokers."""
    found = json.loads(out)
    match name:
        case "describe":
            return [
                [one["group"], [(r["partition"], r["committed"], r["owner"]) for r in one["partitions"]]]
                for one in found
                if one["group"].startswith("good")
            ]
        case "doctor":
            return [f["code"] for f in found if f["subject"] == "good"]
        case "topics":
            return [{**one, "groups": None} for one in found if one["topic"] == "good"]
        case "export":
            return {group: kept for group, kept in found["offsets"].items() if group.startswith("good")}
        case "brokers":
            return [one["broker"] for one in found if one["broker"] == "1"]
    return [
        {key: value for key, value in one.items() if not key.endswith(("_ms", "_id"))}
        for one in found
        if one["group"].startswith("good")
    ]


@pytest.mark.parametrize("how", ["closed", "closed to all", "garbage", "gone before", "gone after"])
@pytest.mark.parametrize("name", LOOKS)
def test_one_bad_znode_hides_nothing_of_others(monkeypatch, name, how):
    cluster = SpoiledCluster(monkeypatch)
    before = sane(name, cluster.run(*LOOKS[name]).out)
    assert before, name
    for path in cluster.places():
        cluster = SpoiledCluster(monkeypatch)
        if how == "garbage" and cluster.store.exists(path) is not None:
            cluster.store.set_data(path, b"\xff{")
        cluster.spoiled, cluster.how = path, how
        done = cluster.run(*LOOKS[name])
        assert done.code in {0, 1}, (path, done)
        assert sane(name, done.out) == before, (path, done)


@pytest.mark.parametrize("how", ["closed", "closed to all", "garbage"])
def test_a_topic_that_cannot_be_read_is_named_and_the_exit_code_tells(monkeypatch, how):
    cluster = SpoiledCluster(monkeypatch)
    path = "/brokers/topics/bad"
    cluster.spoiled, cluster.how = path, how
    if how == "garbage":
        cluster.store.set_data(path, b"\xff{")
    described = cluster.run(*LOOKS["describe"])
    assert described.code == 1
    problems = {one["group"]: one["topic_problems"] for one in json.loads(described.out)}
    assert [path in problem for problem in problems["bad"]] == [True]
    assert problems["good"] == []
    assert f"topic left out: {path}" in " ".join(cluster.run("groups", "describe", "bad").out.split())
    doctor = cluster.run("doctor", "--json")
    assert doctor.code == 1
    found = {finding["code"]: finding for finding in json.loads(doctor.out)}
    assert path in found["unreadable_topic" if how == "garbage" else "not_permitted"]["text"]
    assert found.keys().isdisjoint({"missing_topic", "left_topic", "deleted_topic"})
    # the topic's partitions are not known, so the command cannot know whether each has an owner
    verified = cluster.run(*LOOKS["verify"])
    assert verified.code == 1
    problems = {one["group"]: [problem["code"] for problem in one["problems"]] for one in json.loads(verified.out)}
    assert (problems["bad"], problems["good"]) == (["unreadable_topic"], [])


@pytest.mark.parametrize("how", ["closed", "closed to all"])
@pytest.mark.parametrize("path", ["/consumers/bad/ids", "/brokers/topics/bad"])
@pytest.mark.parametrize("form", [["--format", "csv"], ["--kafka-format", "1.1"]], ids=" ".join)
def test_a_format_without_a_place_for_what_cannot_be_read_names_it_on_standard_error(monkeypatch, form, path, how):
    cluster = SpoiledCluster(monkeypatch)
    cluster.spoiled, cluster.how = path, how
    done = cluster.run("groups", "describe", "--all-groups", *form)
    assert done.code == 1
    assert f"{path} may not be accessed" in done.err
    assert "good" in done.out
    topics = cluster.run("topics", "--format", "csv")
    assert topics.code == (1 if "topics" in path else 0)
    assert (f"{path} may not be accessed" in topics.out) == ("topics" in path)


@pytest.mark.parametrize("how", ["closed", "closed to all", "garbage"])
def test_brokers_are_asked_for_log_ends_though_a_topic_cannot_be_read_in_zookeeper(monkeypatch, how):
    cluster = SpoiledCluster(monkeypatch)
    cluster.spoiled, cluster.how = "/brokers/topics/bad", how
    if how == "garbage":
        cluster.store.set_data(cluster.spoiled, b"\xff{")
    found = {one["group"]: one["partitions"] for one in json.loads(cluster.run(*LOOKS["describe"]).out)}
    assert {row["log_end"] for group in ("good", "bad") for row in found[group]} == {10}


@pytest.mark.parametrize("how", ["closed", "closed to all", "garbage"])
@pytest.mark.parametrize(
    "command",
    [
        ["reset", "bad_idle", "--to-earliest"],
        ["reset", "bad_idle", "--from-file", "FILE"],
        ["import", "FILE"],
        ["import", "FILE", "--no-check"],
        ["copy", "bad_idle", "other"],
    ],
    ids=" ".join,
)
def test_no_offset_of_a_topic_that_cannot_be_read_is_moved(monkeypatch, tmp_path, command, how):
    """The command cannot know which partitions the topic has."""
    cluster = SpoiledCluster(monkeypatch)
    path = "/brokers/topics/bad"
    cluster.commit("bad_idle", "good", 5)
    cluster.spoiled, cluster.how = path, how
    if how == "garbage":
        cluster.store.set_data(path, b"\xff{")
    file = tmp_path / "offsets"
    file.write_text("/consumers/bad_idle/offsets/bad/0:9\n/consumers/bad_idle/offsets/good/0:9\n")
    words = ["offsets", *(str(file) if word == "FILE" else word for word in command), "--execute", "--no-backup"]
    before = cluster.tree()
    refused = cluster.run(*words)
    assert (refused.code, cluster.tree()) == (1, before), refused
    assert f"Error: {path}" in refused.err
    assert cluster.run(*words, "--topic", "good").code == 0


@pytest.mark.parametrize("how", ["closed", "closed to all"])
@pytest.mark.parametrize("path", ["/controller", "/brokers/ids", "/brokers/ids/0", "/brokers/topics", "/consumers"])
def test_the_doctor_names_znodes_that_an_acl_hides_and_examines_everything_else(monkeypatch, path, how):
    cluster = SpoiledCluster(monkeypatch)
    cluster.spoiled, cluster.how = path, how
    done = cluster.run("doctor", "--json")
    assert done.code == 1
    found = json.loads(done.out)
    assert [f["code"] for f in found if path in f["text"] and "may not be accessed" in f["text"]]
    assert "no_controller" not in {f["code"] for f in found}
