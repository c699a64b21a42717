import shutil

import pytest

from legacy_consumer.embedded import EmbeddedKafka, kafka_jars
from legacy_consumer.errors import JarsUnavailableError
from legacy_consumer.sandbox.servers.jars import read_lock
from legacy_consumer.sandbox.servers.ports import free_port

pytestmark = pytest.mark.kafka

VERSION = "1.1.1"


@pytest.fixture
def copied(tmp_path):
    """Copy the jars to a folder, as in an image for machines without a network."""
    folder = tmp_path / "jars" / VERSION
    folder.mkdir(parents=True)
    for jar in kafka_jars(VERSION):
        shutil.copy(jar, folder)
    return folder


def no_network(monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{free_port()}")


def test_jars_in_the_named_folder_need_no_network_and_are_not_touched(copied, monkeypatch):
    monkeypatch.setenv("LEGACY_CONSUMER_JARS", str(copied.parent))
    no_network(monkeypatch)
    before = sorted(copied.parent.rglob("*"))
    with EmbeddedKafka(VERSION) as kafka:
        assert {jar.parent for jar in kafka.jars} == {copied}
        assert [jar.name for jar in kafka.jars] == [*read_lock()[VERSION]]
        kafka.create_topic("t")
    assert sorted(copied.parent.rglob("*")) == before


def test_one_changed_byte_in_one_jar_is_noticed_and_the_jar_named(copied):
    victim = copied / "zkclient-0.10.jar"
    changed = bytearray(victim.read_bytes())
    changed[-1] ^= 1
    victim.write_bytes(changed)
    with pytest.raises(JarsUnavailableError, match=r"zkclient-0\.10\.jar is not the file that is locked"):
        kafka_jars(VERSION, copied.parent)


def test_a_file_that_is_not_locked_does_not_reach_the_class_path(copied):
    (copied / "another.jar").write_bytes(b"")
    assert "another.jar" not in [jar.name for jar in kafka_jars(VERSION, copied.parent)]


def test_without_a_network_the_error_says_what_to_do_and_nothing_is_left(tmp_path, monkeypatch):
    no_network(monkeypatch)
    root = tmp_path / "jars"
    with pytest.raises(JarsUnavailableError) as caught:
        kafka_jars(VERSION, root)
    text = str(caught.value)
    assert text.startswith(f"the jars of Kafka {VERSION} are not available: the resolver failed (Connection refused)")
    assert f"put the files that jars.lock.json lists for {VERSION} into the folder {root / VERSION}" in text
    assert "\n" not in text
    assert [path.name for path in root.iterdir()] == [f".{VERSION}.lock"]


def test_a_folder_that_cannot_be_written_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(JarsUnavailableError, match="file"):
        kafka_jars(VERSION, tmp_path / "file" / "jars")


@pytest.mark.slow
def test_two_processes_that_want_the_jars_at_once_fetch_them_once(two_that_fetch_the_same_jars):
    folder, both = two_that_fetch_the_same_jars
    outputs = [process.communicate(timeout=280) for process in both]
    assert [output for output, _ in outputs] == ["19\n", "19\n"], outputs
    assert sum("fetching the jars" in errors for _, errors in outputs) == 1
    # only the jars and the lock remain, no cache of the resolver
    assert sorted(path.name for path in (folder / "jars").iterdir()) == [f".{VERSION}.lock", VERSION]
    assert [path.name for path in folder.iterdir()] == ["jars"]
