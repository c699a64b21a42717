"""A small Spark in this process: quiet, on loopback, gone without a trace afterwards."""

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
    """A session of local[cores] whose files lie in a temporary folder and whose JVM ends with the block.

    Only for a process of its own: the settings hold for every session of the process, and what Spark, its JVM and its
    Python workers write to standard error goes to a file for as long as the block lasts.
    """
    with tempfile.TemporaryDirectory(prefix="spark-", ignore_cleanup_errors=True) as folder:
        log = Path(folder) / "spark.log"
        with _stderr_to(log):
            try:
                yield _start(name, cores, Path(folder))
            finally:
                _stop()  # also a Spark that was only half started


def _start(name: str, cores: int, folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # little work in a short life: the optimising compiler would cost more than it gains
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
    """End what pyspark lets live as long as this process, and wait until its files are no longer written to."""
    gateway = SparkContext._gateway  # noqa: SLF001 - there is no public way
    if gateway is None:
        return
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001
    process = gateway.proc
    process.stdin.close()  # the JVM takes the end of its input as the end of its driver
    try:
        process.wait(timeout=_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    gateway.shutdown()


@contextmanager
def _stderr_to(path: Path) -> Iterator[None]:
    # by descriptor, for the JVM and the Python workers inherit it
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
