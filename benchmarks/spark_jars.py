"""The four jars of Spark's own Kafka connector, the peer of zk_messages, without their dependencies.

The installed pyspark has the dependencies, and loads the jars. Its own resolver fetches them once; they are checked and
kept beside the jars of the embedded servers.
"""

from __future__ import annotations

import os
from pathlib import Path

from legacy_consumer.errors import JarsUnavailableError
from legacy_consumer.sandbox.servers.jars import jar_root, sha256_of
from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace
from legacy_consumer.sandbox.servers.pyspark_wheel import pyspark_jar_folder

_WHAT = "Spark's Kafka connector"
_SPARK = "org.apache.spark"
_JARS = (
    (
        _SPARK,
        "spark-sql-kafka-0-10_2.13",
        "4.2.0",
        "64539c45e5d39f7ddb747312c239f38f5208d08c1a0ddf7d70beb2fbd9373705",
    ),
    (
        _SPARK,
        "spark-token-provider-kafka-0-10_2.13",
        "3.5.1",
        "fa7ad616d8439085099e8d521a6538bad601e9d74f17b263d1e32bd9506bbe96",
    ),
    (
        "org.apache.kafka",
        "kafka-clients",
        "3.9.1",
        "7568b998572d256f0b7bc0afdc1b7a2588b8b08415c62ce314c864a6851ae9d9",
    ),
    (
        "org.apache.commons",
        "commons-pool2",
        "2.12.0",
        "6d3bd18df8410f3e31b031aca582cc109342358a62a2759ebd0c4cdf30d06f8b",
    ),
)
"""(organisation, module, version, SHA-256) of each jar."""
_TIMEOUT_S = 600.0


def connector_jars() -> list[Path]:
    """Return the four files; fetch them at the first call. Raises: JarsUnavailableError, also for a wrong hash."""
    folder = jar_root() / "spark-connector-4.2.0"
    if not folder.is_dir():
        folder.parent.mkdir(parents=True, exist_ok=True)
        with Workspace("spark-connector", folder.parent) as workspace:
            _fetch(workspace).rename(folder)
    jars = [folder / f"{module}-{version}.jar" for _, module, version, _ in _JARS]
    for jar, (*_, wanted) in zip(jars, _JARS, strict=True):
        if not jar.is_file() or sha256_of(jar) != wanted:
            raise JarsUnavailableError(_WHAT, f"{jar.name} is not the file that is meant: remove {folder}")
    return jars


def _fetch(workspace: Workspace) -> Path:
    inside = workspace.folder
    wanted = "\n".join(
        f'<dependency org="{org}" name="{name}" rev="{rev}" conf="default->master" transitive="false"/>'
        for org, name, rev, _ in _JARS
    )
    (inside / "ivy.xml").write_text(
        '<ivy-module version="2.0"><info organisation="legacy-consumer" module="spark-connector"/>'
        f'<configurations><conf name="default"/></configurations><dependencies>{wanted}</dependencies></ivy-module>',
        encoding="ascii",
    )
    [*_, resolver] = sorted(pyspark_jar_folder(_WHAT).glob("ivy-*.jar"))
    jars = inside / "jars"
    command = [
        os.fspath(find_java()),
        f"-Divy.default.ivy.user.dir={inside / 'ivy'}",
        "-jar", os.fspath(resolver),
        "-ivy", os.fspath(inside / "ivy.xml"),
        "-cache", os.fspath(inside / "cache"),
        "-retrieve", os.fspath(jars / "[artifact]-[revision].[ext]"),
        "-types", "jar",
    ]  # fmt: skip
    ivy = ServerProcess("ivy", command, workspace, inside / "ivy.log")
    try:
        code = ivy.wait(_TIMEOUT_S)
    finally:
        ivy.kill()
    if code != 0 or not jars.is_dir():
        raise JarsUnavailableError(_WHAT, f"the resolver failed (exit code {code}): {ivy.log_tail()[-300:]}")
    return jars
