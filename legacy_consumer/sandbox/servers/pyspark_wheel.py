"""Finds the jars inside the pyspark wheel: a ZooKeeper server, and Ivy, which fetches Kafka's."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from legacy_consumer.errors import JarsUnavailableError


def pyspark_jar_folder(what: str) -> Path:
    """The jars of the installed pyspark wheel, found without importing it. Raises: JarsUnavailableError."""
    spec = importlib.util.find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise JarsUnavailableError(
            what, "pyspark, whose jars they are, is not installed: install legacy-consumer[spark]"
        )
    return Path(next(iter(spec.submodule_search_locations))) / "jars"
