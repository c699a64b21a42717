"""A real standalone cluster, a master and two workers, to which an application brings this project by --py-files.

Its executors are processes of their own: both formats, batch and stream, with TLS, SASL and a guarded ZooKeeper.
"""

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from legacy_consumer.librdkafka import Record
from tests.spark import standalone_app
from tests.spark.conftest import QUICK_JVM, ROOT, Tree, store_of
from tests.support import standalone_spark
from tests.support.broker_cluster import PASSWORD, USER
from zk_layout.errors import NotPermittedError

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
    cluster, tmp_path, spark_home, other_python, py_files
):
    topic = cluster.new_topic(len(COUNTS))
    group, malformed = f"g-{topic}", f"malformed-{topic}"
    cluster.produce(topic, [Record(None, b"x", partition) for partition, n in enumerate(COUNTS) for _ in range(n)])
    connect = cluster.kafka.zookeeper_connect
    with store_of(connect) as store:
        Tree(connect, store).commit(group, topic, 0, 0)
        Tree(connect, store).commit(malformed, topic, 0, "five")
    told = {
        "zookeeper": connect,
        "topic": topic,
        "group": group,
        "malformed": malformed,
        "security": {
            "tls": {"security.protocol": "SSL", "ssl.ca.location": str(cluster.ca)},
            "sasl": {
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.plain.without.tls": "true",
                "sasl.username": USER,
                "sasl.password": PASSWORD,
            },
        },
    }
    events = tmp_path / "events"
    events.mkdir()
    settings = {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.memory": "512m",
        "spark.driver.extraJavaOptions": QUICK_JVM,
        "spark.executor.memory": "512m",
        "spark.executor.extraJavaOptions": QUICK_JVM,
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
            [submit, "--master", spark.url, "--py-files", py_files, *conf, app, str(tmp_path), json.dumps(told)],
            cwd=tmp_path,
            env={**os.environ, "SPARK_HOME": spark_home, "TMPDIR": str(tmp_path), "PYTHONPATH": ""},
            capture_output=True,
            text=True,
            timeout=360,
        )
        alive = [worker.is_running for worker in spark.workers]
    said = [line for line in done.stderr.splitlines() if " INFO " not in line and not line.startswith("\tat ")]
    assert done.returncode == 0, "\n".join(said[-100:])
    found = json.loads(done.stdout.splitlines()[-1])
    assert all("legacy_consumer.zip" in place for place in found["places"])
    log = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert all(log.count(form) > 5 for form in ("zk_messages", "zk_offsets"))
    assert [secret for secret in (*standalone_app.SECRETS.values(), PASSWORD) if secret in log] == []
    everything = [[partition, n] for partition, count in enumerate(COUNTS) for n in range(count)]
    assert found["executors_of_two_groups"] == 2
    assert found["read_with_tls"] == found["read_with_sasl"] == found["not_read_before"] == everything
    for complaint in found["refused"]:
        assert complaint.startswith("AnalysisException: ")
        assert complaint.endswith("check security.protocol, sasl.* and ssl.*")
    assert len(found["refused"]) == 2
    assert found["malformed"].startswith(f"4 tries: /consumers/{malformed}/offsets/{topic}/0 holds b'five'")
    assert found["streamed"] == everything
    assert sorted(alive) == [False, True]
    assert found["standing"] == [[partition, count, 0] for partition, count in enumerate(COUNTS)]
    assert found["not_read_after"] == []
    left = [row for row in everything if row[1] >= row[0] + 3]
    assert found["left_when_put_back"] == [left, left]
    path = f"/consumers/{group}/offsets/{topic}"
    with store_of(connect) as store:
        assert [store.get_data(f"{path}/{partition}").data for partition in (0, 1)] == [b"3", b"4"]
        # the stream was the first to write there
        with pytest.raises(NotPermittedError):
            store.set_data(f"{path}/1", b"0")
