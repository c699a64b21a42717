"""A standalone Spark cluster: a master and workers, each a separate process, on loopback."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pyspark

from legacy_consumer.sandbox.servers.java import find_java
from legacy_consumer.sandbox.servers.process import ServerProcess, Workspace

HOME = Path(pyspark.__file__).parent
_START_S = 90.0
_FLAGS = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:-UsePerfData", "-XX:TieredStopAtLevel=1")
_DEPLOY = "org.apache.spark.deploy"
_URL = re.compile(r"Starting Spark master at (spark://\S+)")
_REGISTERED = "Successfully registered with master"


class StandaloneSpark:
    """A context manager: a master and two workers of one core. home: SPARK_HOME of the applications."""

    def __init__(self, home: str) -> None:
        self.home = home
        self._workspace = Workspace("spark")
        self._processes: list[ServerProcess] = []
        self.workers: list[ServerProcess] = []
        self.url = ""

    def __enter__(self) -> StandaloneSpark:
        self._workspace.open()
        try:
            master = self._launch("master", "master.Master", "--port", "0")
            master.wait_until(lambda: bool(_URL.search(master.log_text())), _START_S, "it did not say where it is")
            found = _URL.search(master.log_text())
            assert found is not None
            self.url = found[1]
            self.have_workers(2)
        except BaseException:
            self._close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._close()

    def have_workers(self, count: int) -> None:
        """Start workers until `count` run."""
        started = []
        for _ in range(count - sum(worker.is_running for worker in self.workers)):
            number = len(self.workers)
            work = str(self._workspace.folder / f"work-{number}")
            told = ["--cores", "1", "--memory", "1g", "--work-dir", work, self.url]
            started.append(self._launch(f"worker-{number}", "worker.Worker", *told))
            self.workers.append(started[-1])
        for worker in started:
            worker.wait_until(lambda log=worker.log_text: _REGISTERED in log(), _START_S, "it did not register")

    def _launch(self, name: str, main: str, *arguments: str) -> ServerProcess:
        folder = self._workspace.folder
        command = [
            "env",
            f"SPARK_HOME={self.home}",
            "SPARK_SCALA_VERSION=2.13",
            "SPARK_LOCAL_IP=127.0.0.1",
            os.fspath(find_java()),
            *_FLAGS,
            f"-Djava.io.tmpdir={folder}",
            *(f"--add-opens=java.base/{part}=ALL-UNNAMED" for part in ("java.nio", "sun.nio.ch", "java.lang")),
            "-cp",
            f"{HOME}/jars/*",
            f"{_DEPLOY}.{main}",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *arguments,
        ]
        process = ServerProcess(name, command, self._workspace, folder / f"{name}.log")
        self._processes.append(process)
        return process

    def _close(self) -> None:
        for process in reversed(self._processes):
            process.stop(10)
        self._workspace.close()
