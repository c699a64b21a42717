"""The jars of each Kafka version: resolved once, checked against a lock, kept outside the project.

The pyspark wheel ships Ivy, a resolver that knows by itself where such jars are published. It runs with everything it
writes inside one folder, which becomes the version's folder by a rename once every checksum in jars.lock.json holds:
a folder that exists is complete, and of two processes that want it at once one waits for the other.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import urllib.parse
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path

from legacy_consumer.errors import JarsUnavailableError, ServerStartError
from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from legacy_consumer.sandbox.servers.pyspark_wheel import pyspark_jar_folder
from zk_layout.errors import ConfigError
from zk_layout.loggers import safe_logger

logger = safe_logger(__name__)

KAFKA_MODULES = {
    "0.8.2.2": "kafka_2.11",
    "0.10.2.2": "kafka_2.12",
    "1.1.1": "kafka_2.12",
    "2.8.2": "kafka_2.13",
    "3.9.1": "kafka_2.13",
}
"""Kafka version -> the module that holds its broker, oldest first."""

KAFKA_VERSIONS = tuple(KAFKA_MODULES)

JARS_ENVIRONMENT = "LEGACY_CONSUMER_JARS"
LOCK_FILE = Path(__file__).with_name("jars.lock.json")

_RESOLVE_TIMEOUT_S = 600.0
_CHUNK_BYTES = 1 << 20

# slf4j-reload4j: Kafka up to 1.1.1 names log4j 1, which Java 17 users replace by reload4j; without a binding the
# broker's log is lost. jaxb-api: Kafka 0.10.2 uses it for base 64, and Java 11 dropped it.
_IVY_FILE = """\
<ivy-module version="2.0">
  <info organisation="legacy-consumer" module="embedded-kafka"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="org.apache.kafka" name="{module}" rev="{version}" conf="default->runtime(*),master(*)"/>
    <dependency org="org.slf4j" name="slf4j-reload4j" rev="1.7.36" conf="default->runtime(*),master(*)"/>
    <dependency org="javax.xml.bind" name="jaxb-api" rev="2.3.1" conf="default->runtime(*),master(*)"/>
    <exclude org="log4j" module="log4j"/>
    <exclude org="org.slf4j" module="slf4j-log4j12"/>
  </dependencies>
</ivy-module>
"""
_REASON = re.compile(
    r"(Connection refused|Connection reset|Network is unreachable|No route to host|UnknownHostException|"
    r"[Hh]ost \S+ not found|timed out|SSLHandshakeException|No space left on device|Permission denied)"
)


def jar_root() -> Path:
    """The folder that holds one folder of jars per Kafka version: $LEGACY_CONSUMER_JARS, else in the user's cache."""
    given = os.environ.get(JARS_ENVIRONMENT)
    if given:
        return Path(given)
    cache = os.environ.get("XDG_CACHE_HOME")
    base = Path(cache) if cache and Path(cache).is_absolute() else Path.home() / ".cache"
    return base / "legacy-consumer" / "jars"


def kafka_jars(version: str, root: Path | None = None) -> list[Path]:
    """The jars that a broker of this version and its tools run on; fetched when they are not there yet.

    root: instead of jar_root(). A folder that is there needs no network and is not written to.
    Raises: JarsUnavailableError (also for a file that is not the locked one), JavaMissingError, ConfigError for a
    variable of a proxy.
    """
    if version not in KAFKA_MODULES:
        raise JarsUnavailableError(f"Kafka {version}", f"there are only the versions {', '.join(KAFKA_VERSIONS)}")
    root = jar_root() if root is None else root
    folder = root.absolute() / version
    if not folder.is_dir():
        _fetch(version, folder)
    names = _verified(version, folder, folder.stat().st_mtime_ns)
    return [folder / name for name in names]


def read_lock() -> dict[str, dict[str, str]]:
    """{Kafka version: {file name: SHA-256 in hex}}."""
    lock: dict[str, dict[str, str]] = json.loads(LOCK_FILE.read_text(encoding="utf-8"))
    return lock


def sha256_of(path: Path) -> str:
    """The file's SHA-256 in hex."""
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while chunk := file.read(_CHUNK_BYTES):
            digest.update(chunk)
    return digest.hexdigest()


def resolve(version: str, workspace: Workspace, destined: Path) -> Path:
    """Let Ivy bring the jars into a folder inside the workspace, unverified, and give that folder.

    destined: the folder that they are to end in, for the error to name.

    Raises: JarsUnavailableError if it cannot, JavaMissingError.
    """
    what = f"Kafka {version}"
    resolvers = sorted(pyspark_jar_folder(what).glob("ivy-*.jar"))
    if not resolvers:
        raise JarsUnavailableError(
            what, "the installed pyspark has no ivy-*.jar to fetch them with: install legacy-consumer[spark]"
        )
    java = find_java()
    inside = workspace.folder
    (inside / "ivy.xml").write_text(_IVY_FILE.format(module=KAFKA_MODULES[version], version=version), encoding="ascii")
    jars = inside / "jars"
    command = [
        os.fspath(java),
        "-XX:-UsePerfData",
        f"-Divy.default.ivy.user.dir={inside / 'ivy'}",
        "-Dsun.net.client.defaultConnectTimeout=20000",
        "-Dsun.net.client.defaultReadTimeout=60000",
        *_proxy_flags(os.environ),
        "-jar",
        os.fspath(resolvers[-1]),
        "-ivy",
        os.fspath(inside / "ivy.xml"),
        "-cache",
        os.fspath(inside / "cache"),
        "-retrieve",
        os.fspath(jars / "[artifact]-[revision].[ext]"),
        "-types",  # "bundle" is how snappy, jackson and others are published; without it they are left out in silence
        "jar",
        "bundle",
    ]
    ivy = ServerProcess("ivy", command, workspace, inside / "ivy.log")
    try:
        code = ivy.wait(_RESOLVE_TIMEOUT_S)
    finally:
        ivy.kill()
    log = ivy.log_text()
    for line in log.splitlines():
        logger.debug("resolving the jars of %s: %s", what, line)
    if code is None:
        raise JarsUnavailableError(
            what, f"fetching took longer than {_RESOLVE_TIMEOUT_S:g} s; {_way_out(version, destined)}"
        )
    if code != 0 or not jars.is_dir():
        found = _REASON.search(log)
        reason = f"the resolver failed ({found.group(1) if found else f'exit code {code}'})"
        raise JarsUnavailableError(what, f"{reason}; {_way_out(version, destined)}")
    return jars


def _fetch(version: str, folder: Path) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with _locked(folder.parent / f".{version}.lock"):
            if folder.is_dir():  # the process that we waited for brought them
                return
            logger.warning("fetching the jars of Kafka %s into %s, once", version, folder)
            with Workspace(f"jars-{version}", folder.parent) as workspace:
                jars = resolve(version, workspace, folder)
                _verify(version, jars, _way_out(version, folder))
                jars.rename(folder)
    except (OSError, ServerStartError) as error:
        raise JarsUnavailableError(f"Kafka {version}", f"{error}; {_way_out(version, folder)}") from error


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold an exclusive lock on the file; the lock ends with the process, so a dead process blocks no other."""
    with path.open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@lru_cache(maxsize=32)
def _verified(version: str, folder: Path, changed_ns: int) -> tuple[str, ...]:  # noqa: ARG001  (of the cache's key)
    """Checked once per process: hashing takes about as long as the JVM takes to open the files."""
    return _verify(version, folder, f"remove {folder} to have them fetched again")


def _verify(version: str, folder: Path, advice: str) -> tuple[str, ...]:
    """Compare the folder with the lock. Returns the locked file names; other files in the folder do not count."""
    locked = read_lock()[version]
    for name, wanted in locked.items():
        try:
            found = sha256_of(folder / name)
        except OSError:
            raise JarsUnavailableError(f"Kafka {version}", f"{name} is missing; {advice}") from None
        if found != wanted:
            raise JarsUnavailableError(
                f"Kafka {version}",
                f"{name} is not the file that is locked (SHA-256 {found[:16]}..., not {wanted[:16]}...); {advice}",
            )
    return tuple(locked)


def _way_out(version: str, folder: Path) -> str:
    return (
        "connect to the network, set HTTPS_PROXY if there is a proxy, or put the files that "
        f"{LOCK_FILE.name} lists for {version} into the folder {folder} "
        f"({JARS_ENVIRONMENT} names another parent folder)"
    )


def _proxy_flags(environment: Mapping[str, str]) -> list[str]:
    """The proxy as Java wants it told; it does not look at the variables that every other program looks at.

    Raises: ConfigError, which does not quote the variable: it may hold a password.
    """
    flags = []
    for scheme in ("http", "https"):
        url = environment.get(f"{scheme}_proxy") or environment.get(f"{scheme.upper()}_PROXY")
        if url:
            try:
                proxy = urllib.parse.urlsplit(url if "//" in url else f"//{url}")
                host, port = proxy.hostname, proxy.port or 80
            except ValueError:
                raise ConfigError(f"{scheme}_proxy", None, "is no address such as http://HOST:PORT") from None
            if host:
                flags += [f"-D{scheme}.proxyHost={host}", f"-D{scheme}.proxyPort={port}"]
    return flags
