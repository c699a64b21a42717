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
            spark = _start(name, cores, Path(folder))
            try:
                yield spark
            finally:
                _stop(spark)


def _start(name: str, cores: int, folder: Path) -> SparkSession:
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings: dict[str, bool | float | int | str | None] = {
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # little work in a short life: the optimising compiler would cost more than it gains
        "spark.driver.extraJavaOptions": f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Djava.io.tmpdir={folder}",
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


def _stop(spark: SparkSession) -> None:
    spark.stop()
    gateway = SparkContext._gateway  # noqa: SLF001 - pyspark lets the JVM live until the process ends
    if gateway is None:
        return
    gateway.shutdown()
    process = gateway.proc
    process.stdin.close()  # the JVM takes the end of its input as the end of its driver
    try:
        process.wait(timeout=_ENDING_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001


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
