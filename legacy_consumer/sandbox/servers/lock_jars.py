"""Writes jars.lock.json anew: `python -m legacy_consumer.sandbox.servers.lock_jars [VERSION ...]`.

Run it after changing a version in jars.py. It trusts the jars published at that moment, so check the difference before
you commit it.
"""

from __future__ import annotations

import json
import sys

from legacy_consumer.sandbox.servers.jars import KAFKA_VERSIONS, LOCK_FILE, jar_root, read_lock, resolve, sha256_of
from legacy_consumer.sandbox.servers.process import Workspace


def lock(versions: list[str]) -> None:
    """Resolve each version and write down the SHA-256 of its files; other versions keep theirs."""
    locked = read_lock() if LOCK_FILE.exists() else {}
    for version in versions:
        with Workspace(f"lock-{version}") as workspace:
            jars = sorted(resolve(version, workspace, jar_root() / version).glob("*.jar"))
            locked[version] = {jar.name: sha256_of(jar) for jar in jars}
    ordered = {version: locked[version] for version in KAFKA_VERSIONS if version in locked}
    LOCK_FILE.write_text(json.dumps(ordered, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    lock(sys.argv[1:] or list(KAFKA_VERSIONS))
