"""A small Spark in this process: quiet, on loopback, with no files left at its end."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

_ENDING_S = 20.0


@contextmanager
def local_spark(name: str, *, cores: int = 2) -> Iterator[SparkSession]:
    """Start a session of local[cores], with its files in a temporary folder; its JVM ends with the block.

    Only for a process of its own: the settings hold for every session of the process. During the block, all that Spark,
    its JVM and its Python workers write to standard error goes to a file.
    """
    with tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "spark.log"
        with _stderr_to(log):
            try:
                yield _start(name, cores, Path(folder))
            finally:
                _stop()  # also if Spark has failed to start


def _start(name: str, cores: int, folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # this JVM runs briefly: the optimising compiler would cost more time than it saves
        "spark.driver.extraJavaOptions": " ".join(
            ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData", f"-Djava.io.tmpdir={folder}")
        ),
        "spark.driver.memory": "512m",
        "spark.local.dir": str(folder),
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "1",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    builder = SparkSession.builder.master(f"local[{cores}]").appName(name)
    return builder.config(map=settings).getOrCreate()


def _stop() -> None:
    try:
        session = SparkSession.getActiveSession()
        if session is not None:
            session.stop()
    finally:
        _end_jvm()


def _end_jvm() -> None:
    """End the JVM, which pyspark keeps until this process ends, and wait until it does not write its files any more."""
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    process = gateway.proc
    process.stdin.close()  # the JVM exits at the end of its input
    try:
        process.wait(timeout=_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    gateway.shutdown()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    # by descriptor, because the JVM and the Python workers inherit descriptor 2
    sys.stderr.flush()
    kept = os.dup(2)
    try:
        with path.open("wb") as file:
            os.dup2(file.fileno(), 2)
        yield
    finally:
        with suppress(OSError, ValueError):
            sys.stderr.flush()
        os.dup2(kept, 2)
        os.close(kept)
