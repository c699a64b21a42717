"""A Spark session for a measurement: local[2], without progress output, with all files in a temporary folder."""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

from pyspark.sql import SparkSession

from spark_source import register


@contextmanager
def measured_spark(jars: str = "") -> Iterator[SparkSession]:
    """Open a session with both formats registered. jars: paths separated by commas."""
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with tempfile.TemporaryDirectory(prefix="spark-benchmark-", ignore_cleanup_errors=True) as folder:
        builder = SparkSession.builder.master("local[2]").appName("benchmark")
        settings = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "2g",
            "spark.local.dir": folder,
            "spark.sql.warehouse.dir": f"{folder}/warehouse",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        }
        if jars:
            settings["spark.jars"] = jars
        for name, value in settings.items():
            builder = builder.config(name, value)
        spark = builder.getOrCreate()
        register(spark)
        try:
            yield spark
        finally:
            spark.stop()
