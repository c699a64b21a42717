"""Finds the Java that runs the embedded servers."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path

from legacy_consumer.errors import JavaMissingError

MINIMUM_VERSION = 17
"""The Java version that the ZooKeeper of the pyspark wheel needs; the oldest Kafka runs on it too."""

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')
_VERSION_TIMEOUT_S = 30.0


def find_java(java: str | os.PathLike[str] | None = None) -> Path:
    """The java program to use: the given one, else that of JAVA_HOME, else the first on PATH.

    A JAVA_HOME that is set but holds no java is an error, not a reason to look elsewhere.
    Raises: JavaMissingError if there is none or if it is older than Java 17.
    """
    if java is not None:
        return _checked(Path(java), "the java that was asked for")
    home = os.environ.get("JAVA_HOME")
    if home:
        return _checked(Path(home) / "bin" / "java", "JAVA_HOME")
    on_path = shutil.which("java")
    if on_path is None:
        raise JavaMissingError("there is no java on PATH")
    return _checked(Path(on_path), "PATH")


def _checked(path: Path, named_by: str) -> Path:
    try:
        changed_ns = path.stat().st_mtime_ns
    except OSError:
        raise JavaMissingError(f"{path} ({named_by}) does not exist") from None
    version = _version_of(path, changed_ns)
    if version is None:
        raise JavaMissingError(f"{path} ({named_by}) prints no version, so it is no java")
    if version < MINIMUM_VERSION:
        raise JavaMissingError(f"{path} ({named_by}) is Java {version}, which is too old")
    return path


@lru_cache(maxsize=8)
def _version_of(path: Path, changed_ns: int) -> int | None:  # noqa: ARG001  (part of the cache's key)
    """Asked once per program and process: `java -version` takes 50 ms."""
    try:
        answer = subprocess.run(
            [path, "-version"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    found = _VERSION.search(answer.stderr + answer.stdout)
    return int(found.group(1)) if found else None
