"""Finds the jars of ZooKeeper servers: 3.9 in the pyspark wheel, older versions among the Kafka jars."""

from __future__ import annotations

import re
from pathlib import Path

from legacy_consumer.errors import JarsUnavailableError
from legacy_consumer.sandbox.servers.jars import kafka_jars
from legacy_consumer.sandbox.servers.pyspark_wheel import pyspark_jar_folder

KAFKA_WITH_ZOOKEEPER = {"3.4": "1.1.1", "3.5": "2.8.2", "3.8": "3.9.1"}
"""ZooKeeper version -> the Kafka version whose jars contain it: 3.4.10, 3.5.9, 3.8.4."""

ZOOKEEPER_VERSIONS = ("3.4", "3.5", "3.8", "3.9")

# what QuorumPeerMain loads, and of that only what runs here; the wheel holds 200 jars more
_WANTED = re.compile(
    r"(zookeeper|zookeeper-jute|slf4j-api|log4j-slf4j2-impl|log4j-api|log4j-core|metrics-core|snappy-java|"
    r"audience-annotations|commons-io|commons-cli|commons-lang|netty-(?!tcnative|all|transport-native)[a-z0-9-]+?)-\d[^-]*\.jar"
)
_NEEDED = ("zookeeper-3", "zookeeper-jute-", "slf4j-api-", "metrics-core-", "snappy-java-")


def zookeeper_jars(version: str) -> list[Path]:
    """The jars of a ZooKeeper version, 3.9 without a network. Raises: JarsUnavailableError."""
    if version == "3.9":
        return _pyspark_zookeeper()
    if version in KAFKA_WITH_ZOOKEEPER:
        return kafka_jars(KAFKA_WITH_ZOOKEEPER[version])
    raise JarsUnavailableError(f"ZooKeeper {version}", f"there are only the versions {', '.join(ZOOKEEPER_VERSIONS)}")


def _pyspark_zookeeper() -> list[Path]:
    folder = pyspark_jar_folder("ZooKeeper 3.9")
    jars = sorted(jar for jar in folder.glob("*.jar") if _WANTED.fullmatch(jar.name))
    missing = [name for name in _NEEDED if not any(jar.name.startswith(name) for jar in jars)]
    if missing:
        raise JarsUnavailableError(
            "ZooKeeper 3.9",
            f"{folder} has no {missing[0]}*.jar: install pyspark from its wheel, with legacy-consumer[spark]",
        )
    return jars
