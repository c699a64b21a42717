from pathlib import Path

import pytest

from legacy_consumer.embedded import KAFKA_VERSIONS, kafka_jars
from legacy_consumer.errors import JarsUnavailableError
from legacy_consumer.sandbox.servers import jars
from legacy_consumer.sandbox.servers.jars import _proxy_flags, jar_root, read_lock
from legacy_consumer.sandbox.servers.zookeeper_jars import zookeeper_jars
from zk_layout.errors import ConfigError


def test_every_version_has_its_broker_and_a_logger_and_no_log4j_in_the_lock():
    lock = read_lock()
    assert tuple(lock) == KAFKA_VERSIONS
    for version, files in lock.items():
        names = set(files)
        assert any(name.startswith("kafka_2.") and name.endswith(f"-{version}.jar") for name in names)
        assert {"slf4j-reload4j-1.7.36.jar", "jaxb-api-2.3.1.jar"} <= names
        assert any(name.startswith("snappy-java-") for name in names)  # its packaging in Maven is bundle, not jar
        assert not any(name.startswith(("log4j-", "slf4j-log4j12")) for name in names)
        assert not any("-sources" in name or "-tests" in name for name in names)
        assert all(len(bytes.fromhex(digest)) == 32 for digest in files.values())


def test_a_jar_that_is_not_the_locked_one_is_named(tmp_path):
    folder = tmp_path / "1.1.1"
    folder.mkdir()
    for name in read_lock()["1.1.1"]:
        (folder / name).write_bytes(b"not a jar")
    first = next(iter(read_lock()["1.1.1"]))
    with pytest.raises(JarsUnavailableError, match=f"{first} is not the file that is locked") as caught:
        kafka_jars("1.1.1", tmp_path)
    assert f"remove {folder}" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_fetched_jars_that_are_not_the_locked_ones_are_gone_and_the_error_says_where_to_put_the_right_ones(
    tmp_path, monkeypatch
):
    """In an earlier version, the error said to remove the folder of the fetched jars, which did not exist any more."""

    def resolve(version, workspace, _):
        fetched = workspace.folder / "jars"
        fetched.mkdir()
        for name in read_lock()[version]:
            (fetched / name).write_bytes(b"a page of the proxy")
        return fetched

    monkeypatch.setattr(jars, "resolve", resolve)
    with pytest.raises(JarsUnavailableError, match="is not the file that is locked") as caught:
        kafka_jars("1.1.1", tmp_path)
    assert "remove" not in str(caught.value)
    assert f"into the folder {tmp_path / '1.1.1'}" in str(caught.value)
    assert [path.name for path in tmp_path.iterdir()] == [".1.1.1.lock"]


def test_a_jar_that_is_missing_is_named(tmp_path):
    (tmp_path / "1.1.1").mkdir()
    with pytest.raises(JarsUnavailableError, match=r"jackson-annotations-2\.9\.0\.jar is missing"):
        kafka_jars("1.1.1", tmp_path)


@pytest.mark.parametrize("version", ["1.1.0", "", "../1.1.1"])
def test_an_unknown_version_is_answered_with_the_known_ones(version):
    with pytest.raises(JarsUnavailableError, match=r"there are only the versions 0\.8\.2\.2, 0\.10\.2\.2, 1\.1\.1"):
        kafka_jars(version)
    with pytest.raises(JarsUnavailableError, match=r"there are only the versions 3\.4, 3\.5, 3\.8, 3\.9"):
        zookeeper_jars(version)


def test_the_folder_follows_the_environment(monkeypatch):
    monkeypatch.delenv("LEGACY_CONSUMER_JARS", raising=False)
    monkeypatch.setenv("HOME", "/h/somebody")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    assert jar_root() == Path("/h/somebody/.cache/legacy-consumer/jars")
    monkeypatch.setenv("XDG_CACHE_HOME", "/var/cache/somebody")
    assert jar_root() == Path("/var/cache/somebody/legacy-consumer/jars")
    monkeypatch.setenv("LEGACY_CONSUMER_JARS", "/opt/jars")
    assert jar_root() == Path("/opt/jars")


def test_java_gets_the_settings_of_the_proxy():
    assert _proxy_flags({}) == []
    assert _proxy_flags({"https_proxy": "http://proxy.example:3128"}) == [
        "-Dhttps.proxyHost=proxy.example",
        "-Dhttps.proxyPort=3128",
    ]
    assert _proxy_flags({"HTTP_PROXY": "proxy.example:8080"}) == [
        "-Dhttp.proxyHost=proxy.example",
        "-Dhttp.proxyPort=8080",
    ]


@pytest.mark.parametrize("address", ["http://me:secret@proxy:port", "http://secret@[proxy:1", "me:secret"])
def test_a_proxy_that_cannot_be_is_an_error_that_does_not_quote_it(address):
    with pytest.raises(ConfigError, match=r"https_proxy: is no address such as http://HOST:PORT") as caught:
        _proxy_flags({"HTTPS_PROXY": address})
    assert "secret" not in str(caught.value)
