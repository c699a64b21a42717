"""A real standalone cluster, a master and two workers; applications bring this project by --py-files.

Its executors are processes of their own. The tests run both formats, batch and stream, with TLS, SASL and ACLs.
"""

import json
import os
import signal
import subprocess
import sys
import zipfile
from contextlib import contextmanager
from pathlib import Path

import pyspark
import pytest

from legacy_consumer.fetching.librdkafka import Record
from tests.spark import standalone_app, story_app
from tests.spark.conftest import QUICK_JVM, ROOT, Tree, store_of
from tests.spark.stories import Story
from tests.support.broker_cluster import PASSWORD, USER
from tests.support.standalone_spark import StandaloneSpark
from tests.support.waiting import eventually
from zk_layout.errors import NotPermittedError

pytestmark = [pytest.mark.kafka, pytest.mark.timeout(400)]

COUNTS = (30, 15)
SEEDS = (1, 2)
WAIT_S = 150
PACKAGES = ("zk_layout", "rebalance", "legacy_consumer", "spark_source")


class Standalone:
    """The cluster and its applications. Their Python has all packages of this one; it gets this project only by
    --py-files.
    """

    def __init__(self, folder):
        self.folder = folder
        self.spark = StandaloneSpark(self._home())
        self._python = self._other_python()
        self._project = self._py_files()

    def _home(self):
        """Return a folder with links to Spark's, so that workers do not leave files in the installed package."""
        home = self.folder / "spark-home"
        home.mkdir()
        for part in Path(pyspark.__file__).parent.iterdir():
            (home / part.name).symlink_to(part)
        return str(home)

    def _other_python(self):
        home = self.folder / "python"
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", home], check=True, timeout=120)
        [packages] = home.glob("lib/python*/site-packages")
        paths = [path for path in sys.path if path.endswith("site-packages")]
        (packages / "beside.pth").write_text("\n".join(paths) + "\n")
        python = str(home / "bin" / "python")
        command = [python, "-c", "import kazoo, spark_source"]
        missing = subprocess.run(command, cwd=self.folder, capture_output=True, text=True)
        assert "No module named 'spark_source'" in missing.stderr
        return python

    def _py_files(self):
        """Write the project as one zip file with the layout of a wheel."""
        file = self.folder / "legacy_consumer.zip"
        with zipfile.ZipFile(file, "w") as archive:
            for package in PACKAGES:
                for path in sorted((ROOT / package).rglob("*")):
                    if path.is_file() and path.suffix != ".pyc":
                        archive.write(path, path.relative_to(ROOT))
        return str(file)

    def application(self, module, folder, *arguments, **settings):
        """Return (command, keywords of Popen) to run an application in this folder. settings: names with _ for ."""
        # temporary files of a killed process go with the folder
        jvm = f"{QUICK_JVM} -Djava.io.tmpdir={folder}"
        given = {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": "512m",
            "spark.driver.extraJavaOptions": jvm,
            "spark.executor.memory": "512m",
            "spark.executor.extraJavaOptions": jvm,
            "spark.local.dir": str(folder),
            "spark.pyspark.python": self._python,
            "spark.ui.enabled": "false",
            "spark.sql.shuffle.partitions": "2",
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
        conf = [part for name, value in given.items() for part in ("--conf", f"{name}={value}")]
        program = folder / "app.py"
        program.write_text(Path(module.__file__).read_text())
        home = self.spark.home
        submit = [Path(home, "bin", "spark-submit"), "--master", self.spark.url, "--py-files", self._project, *conf]
        environment = {**os.environ, "SPARK_HOME": home, "TMPDIR": str(folder), "PYTHONPATH": ""}
        return [*submit, program, str(folder), *arguments], {"cwd": folder, "env": environment}


@pytest.fixture(scope="module")
def shared_cluster(tmp_path_factory):
    standalone = Standalone(tmp_path_factory.mktemp("standalone"))
    with standalone.spark:
        yield standalone


@pytest.fixture
def standalone(shared_cluster):
    """Return the cluster with two workers, also if the test before ended one."""
    shared_cluster.spark.have_workers(2)
    return shared_cluster


def test_a_package_of_py_files_reads_streams_and_writes_and_logs_no_secret(cluster, tmp_path, standalone):
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
    events_settings = {
        "spark_eventLog_enabled": "true",
        "spark_eventLog_compress": "false",
        "spark_eventLog_dir": str(events),
    }
    command, process = standalone.application(standalone_app, tmp_path, json.dumps(told), **events_settings)
    done = subprocess.run(command, **process, capture_output=True, text=True, timeout=360)
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
    assert found["standing"] == [[partition, count, 0] for partition, count in enumerate(COUNTS)]
    assert found["not_read_after"] == []
    left = [row for row in everything if row[1] >= row[0] + 3]
    assert found["left_when_put_back"] == [left, left]
    path = f"/consumers/{group}/offsets/{topic}"
    with store_of(connect) as store:
        assert [store.get_data(f"{path}/{partition}").data for partition in (0, 1)] == [b"3", b"4"]
        # the stream created this znode, with its ACL
        with pytest.raises(NotPermittedError):
            store.set_data(f"{path}/1", b"0")


class Rounds:
    """Controls an application that runs stories; files carry the orders and the reports."""

    def __init__(self, standalone, folder, stories):
        self._standalone = standalone
        self._folder = folder
        self._stories = stories
        self._number = -1
        self._application = None
        self._place = folder

    @contextmanager
    def driver(self):
        """Run an application, and kill it at the end."""
        command, process = self._standalone.application(story_app, self._folder)
        with (self._folder / "driver.log").open("wb") as log:
            self._application = subprocess.Popen(
                command, **process, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True
            )
            try:
                yield
            finally:
                os.killpg(self._application.pid, signal.SIGKILL)  # the driver's JVM, too
                self._application.wait()

    def begin(self, **told):
        self._number += 1
        self._place = self._folder / str(self._number)
        self._place.mkdir()
        story_app.put(
            self._place / story_app.ROUND, json.dumps({story.name: story.told(**told) for story in self._stories})
        )

    def wait(self, condition):
        """Wait until the condition holds for each story."""
        ended = self._place / story_app.ENDED
        log = self._folder / "driver.log"
        try:
            eventually(
                lambda: (
                    self._application.poll() is not None
                    or ended.exists()
                    or all(condition(each) for each in self._stories)
                ),
                WAIT_S,
            )
        except AssertionError as error:
            raise AssertionError(log.read_text()[-20_000:]) from error
        assert self._application.poll() is None, log.read_text()[-20_000:]
        assert not ended.exists() or set(json.loads(ended.read_text()).values()) == {None}, ended.read_text()

    def marks(self, kind):
        return sorted(self._place.glob(f"{kind}*"))

    def say(self, word):
        (self._place / word).touch()

    def end(self):
        self.wait(lambda _: (self._place / story_app.ENDED).exists())

    def stop(self):
        self.wait(Story.is_read)
        self.say(story_app.STOP)
        self.end()


def test_each_row_comes_once_and_before_its_commit_although_topics_workers_and_drivers_fail(
    cluster, tmp_path, standalone
):
    stories = [Story(cluster, tmp_path, seed) for seed in SEEDS]

    def happen(point):
        for story in stories:
            story.check()
            story.happen(point)

    rounds = Rounds(standalone, tmp_path, stories)
    with rounds.driver():
        rounds.begin(stands="in a task")
        rounds.wait(lambda _: rounds.marks(story_app.TASK))
        happen("in a task")
        executor = int(rounds.marks(story_app.TASK)[0].read_text())
        worker = standalone_app.parent_of(executor)
        for pid in (executor, worker):
            os.kill(pid, signal.SIGKILL)
        rounds.say(story_app.RELEASED)
        rounds.wait(Story.in_sink)
        happen("running")
        rounds.stop()
        assert sorted(each.is_running for each in standalone.spark.workers) == [False, True]
        happen("stopped")
        rounds.begin(stands="in the sink")
        rounds.wait(lambda _: len(rounds.marks(story_app.DRIVER)) == len(stories))
        happen("in the sink")
    happen("killed")
    with rounds.driver():
        # no query can claim a group before the session of the killed driver ends
        eventually(lambda: all(story.has_left() for story in stories), WAIT_S)
        rounds.begin(ends_by_itself=True)
        rounds.end()
    for story in stories:
        story.check_all()
