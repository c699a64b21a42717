"""A file of offsets says for which topics they were committed, and no later topic of the same name is given them."""

from __future__ import annotations

import json

import pytest

from tests.support.memory_cluster import MemoryCluster


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
def test_a_topic_of_which_the_file_has_nothing_is_an_error(cluster, tmp_path, reader):
    file = tmp_path / "o.json"
    file.write_text(json.dumps({"version": 1, "offsets": {"g": {"kept": {"0": 5}}}}))
    done = cluster.run(*READERS[reader](file), "--topic", "misspelt")
    assert done.code == 1
    assert "holds no such offsets of misspelt" in done.err
    assert stands(cluster, "kept") == b"60"
