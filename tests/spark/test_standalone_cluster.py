"""A real standalone cluster, a master and two workers, to which an application brings this project by --py-files."""

import json
import os
import subprocess
import sys
import uuid
import zipfile
from pathlib import Path

import pytest

from legacy_consumer.librdkafka import produce_all
from tests.spark import standalone_app
from tests.spark.conftest import ROOT, Tree, store_of
from tests.support import standalone_spark

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

COUNTS = (30, 15)
PACKAGES = ("zk_layout", "rebalance", "legacy_consumer", "spark_source")


@pytest.fixture
def other_python(tmp_path):
    """A Python with all packages of this one, but without this project."""
    home = tmp_path / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=120)
    [packages] = home.glob("lib/python*/site-packages")
    paths = [path for path in sys.path if path.endswith("site-packages")]
    (packages / "beside.pth").write_text("\n".join(paths) + "\n")
    python = home / "bin" / "python"
    missing = subprocess.run([python, "-c", "import kazoo, spark_source"], cwd=tmp_path, capture_output=True, text=True)
    assert "No module named 'spark_source'" in missing.stderr
    return str(python)


@pytest.fixture
def py_files(tmp_path):
    """The project as one file, laid out as a wheel is."""
    file = tmp_path / "legacy_consumer.zip"
    with zipfile.ZipFile(file, "w") as archive:
        for package in PACKAGES:
            for path in sorted((ROOT / package).rglob("*")):
                if path.is_file() and path.suffix != ".pyc":
                    archive.write(path, path.relative_to(ROOT))
    return str(file)


def test_what_py_files_brings_reads_streams_and_writes_while_a_worker_is_killed_and_no_secret_is_logged(
    kafka, tmp_path, spark_home, other_python, py_files
):
    topic = f"t-{uuid.uuid4().hex[:8]}"
    group = f"g-{topic}"
    kafka.create_topic(topic, partitions=len(COUNTS))
    records = [(None, b"x", partition) for partition, count in enumerate(COUNTS) for _ in range(count)]
    produce_all(topic, records, {"bootstrap.servers": kafka.bootstrap_servers})
    with store_of(kafka.zookeeper_connect) as store:
        Tree(kafka.zookeeper_connect, store).commit(group, topic, 0, 0)
    options = {"zookeeper.connect": kafka.zookeeper_connect, "topics": topic, "group.id": group}
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
        "spark.local.dir": str(tmp_path),
        "spark.pyspark.python": other_python,
        "spark.eventLog.enabled": "true",
        "spark.eventLog.compress": "false",
        "spark.eventLog.dir": str(events),
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    conf = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    submit = Path(spark_home, "bin", "spark-submit")
    app = tmp_path / "app.py"
    app.write_text(Path(standalone_app.__file__).read_text())
    with standalone_spark.StandaloneSpark(spark_home) as spark:
        done = subprocess.run(
            [submit, "--master", spark.url, "--py-files", py_files, *conf, app, str(tmp_path), json.dumps(options)],
            cwd=tmp_path,
            env={**os.environ, "SPARK_HOME": spark_home, "TMPDIR": str(tmp_path), "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=360,
        )
        alive = [worker.is_running for worker in spark.workers]
    said = [line for line in done.stderr.splitlines() if " INFO " not in line and not line.startswith("\tat ")]
    assert done.returncode == 0, "\n".join(said[-100:])
    told = json.loads(done.stdout.splitlines()[-1])
    assert all("legacy_consumer.zip" in place for place in told["places"])
    log = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert {form: log.count(form) > 5 for form in ("zk_messages", "zk_offsets")} == {
        "zk_messages": True,
        "zk_offsets": True,
    }
    assert [name for name, secret in standalone_app.SECRETS.items() if secret in log] == []
    everything = [[partition, n] for partition, count in enumerate(COUNTS) for n in range(count)]
    assert told["read"] == everything
    assert told["streamed"] == everything
    assert sorted(alive) == [False, True]
    assert told["standing"] == [[partition, count, 0] for partition, count in enumerate(COUNTS)]
    with store_of(kafka.zookeeper_connect) as store:
        path = f"/consumers/{group}/offsets/{topic}"
        assert [store.get_data(f"{path}/{partition}").data for partition in (0, 1)] == [b"3", b"4"]
