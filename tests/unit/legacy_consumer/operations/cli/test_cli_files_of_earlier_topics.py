"""A file of offsets names the topics of the commits, and no command gives them to a later topic of the same name."""

from __future__ import annotations

import itertools
import json

import pytest

from legacy_consumer.operations.cli.helpers import options
from tests.support.memory_cluster import GuardedStore, MemoryCluster


@pytest.fixture
def cluster(monkeypatch):
    made = MemoryCluster(monkeypatch)
    for topic in ("anew", "kept"):
        made.topic(topic, (0, 100))
        made.commit("g", topic, 60)
    return made


WRITERS = {
    "export": lambda file: ["offsets", "export", "g", "--json", "--output", str(file)],
    "reset": lambda file: ["offsets", "reset", "g", "--to-earliest", "--execute", "--backup-dir", str(file.parent)],
    "delete": lambda file: ["groups", "delete", "g", "--execute", "--backup-dir", str(file.parent)],
}
READERS = {
    "import": lambda file: ["offsets", "import", str(file), "--execute", "--no-backup"],
    "reset": lambda file: ["offsets", "reset", "g", "--from-file", str(file), "--execute", "--no-backup"],
}


@pytest.fixture(params=["export", "reset", "delete"])
def file(cluster, request, tmp_path):
    done = cluster.run(*WRITERS[request.param](tmp_path / "o.json"))
    assert done.code == 0, done
    cluster.drop("anew")
    cluster.topic("anew", (0, 100))
    if cluster.store.exists("/consumers/g") is None:
        cluster.put("/consumers/g")
    [found] = tmp_path.iterdir()
    return found


def stands(cluster, topic):
    path = f"/consumers/g/offsets/{topic}/0"
    return None if cluster.store.exists(path) is None else cluster.store.get_data(path).data


@pytest.mark.parametrize("reader", READERS)
def test_an_offset_of_an_earlier_topic_is_left_out_and_said(cluster, file, reader):
    before = stands(cluster, "anew")
    done = cluster.run(*READERS[reader](file))
    assert done.code == 1
    assert "Left out: anew/0 of group g" in done.err
    assert "--of-earlier-topics" in done.err
    assert (stands(cluster, "anew"), stands(cluster, "kept")) == (before, b"60")


@pytest.mark.parametrize("reader", READERS)
def test_a_flag_takes_it_all_the_same(cluster, file, reader):
    done = cluster.run(*READERS[reader](file), "--of-earlier-topics")
    assert done.code == 0, done
    assert (stands(cluster, "anew"), stands(cluster, "kept")) == (b"60", b"60")


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize("writer", ["export", "import", "delete"])
def test_an_offset_of_a_topic_that_did_not_exist_is_of_an_earlier_one_when_it_does(cluster, tmp_path, writer, reader):
    cluster.drop("anew")
    given, folder = tmp_path / "given.json", tmp_path / "written"
    folder.mkdir()
    given.write_text(json.dumps({"version": 1, "offsets": {"g": {"anew": {"0": 70}}}}))
    words = ["offsets", "import", str(given), "--execute", "--backup-dir", str(folder)]
    assert cluster.run(*(words if writer == "import" else WRITERS[writer](folder / "o.json"))).code == 0
    [file] = folder.iterdir()
    if cluster.store.exists("/consumers/g") is None:
        cluster.put("/consumers/g")
    before = stands(cluster, "anew")
    # while the topic does not exist, the import may write the offset
    if reader == "import":
        assert cluster.run(*READERS[reader](file)[:-2]).code == 0
    cluster.topic("anew", (0, 100))
    done = cluster.run(*READERS[reader](file))
    assert (done.code, stands(cluster, "anew")) == (1, before), done
    assert "Left out: anew/0 of group g" in done.err
    assert cluster.run(*READERS[reader](file), "--of-earlier-topics").code == 0
    assert stands(cluster, "anew") == b"60"


@pytest.mark.parametrize("reader", READERS)
def test_a_topic_of_which_the_file_has_nothing_is_an_error(cluster, tmp_path, reader):
    file = tmp_path / "o.json"
    file.write_text(json.dumps({"version": 1, "offsets": {"g": {"kept": {"0": 5}}}}))
    done = cluster.run(*READERS[reader](file), "--topic", "misspelt")
    assert done.code == 1
    assert "holds no such offsets of misspelt" in done.err
    assert stands(cluster, "kept") == b"60"


class MadeAnewMeanwhile(GuardedStore):
    """A command's connection: before its nth read request, another client creates the topic again."""

    def __init__(self, cluster, nth):
        super().__init__(cluster.server, cluster.forbidden)
        self._cluster = cluster
        self.left = nth

    def _check(self, *paths):
        super()._check(*paths)
        self._come_nearer()

    def exists_many(self, paths):
        self._come_nearer()
        return super().exists_many(paths)

    def read_acls(self, paths):
        self._come_nearer()
        return super().read_acls(paths)

    def _come_nearer(self):
        self.left -= 1
        if self.left == 0:
            self._cluster.drop("anew")
            self._cluster.topic("anew", (0, 100))


@pytest.mark.parametrize("writer", WRITERS)
def test_a_file_gives_no_offset_to_a_topic_that_was_made_anew_while_it_was_written(monkeypatch, tmp_path, writer):
    for nth in itertools.count(1):
        cluster = MemoryCluster(monkeypatch)
        cluster.topic("anew", (0, 100))
        cluster.commit("g", "anew", 60)
        folder = tmp_path / str(nth)
        folder.mkdir()
        store = MadeAnewMeanwhile(cluster, nth)
        with monkeypatch.context() as patch:
            patch.setattr(options, "KazooStore", lambda _, store=store: store)
            cluster.run(*WRITERS[writer](folder / "o.json"))
        if store.left > 0:
            break
        for file in folder.iterdir():
            cluster.run(*READERS["import"](file))
            offset = stands(cluster, "anew")
            [czxid] = [stat.czxid for stat in cluster.store.exists_many(["/brokers/topics/anew"])]
            if offset == b"60":
                [stat] = cluster.store.exists_many(["/consumers/g/offsets/anew/0"])
                assert stat.mzxid < czxid, f"made anew before request {nth}: {file.read_text()}"
    assert nth > 5
