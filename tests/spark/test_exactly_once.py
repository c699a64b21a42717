"""A driver that is killed in the middle of a batch: what its sink holds after the query was started again."""

import json
import os
import signal
import subprocess
import sys

import pytest

from tests.spark import killed_driver
from tests.spark.conftest import WITHOUT_REUSE, child_environment
from tests.spark.stream_scene import WAIT_S, numbers
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka]


def test_a_driver_killed_in_the_middle_of_a_batch_leaves_each_message_once_after_a_restart(scene, tmp_path):
    scene.produce(0, 30)
    scene.produce(1, 15)
    options = {
        "zookeeper.connect": scene.kafka.zookeeper_connect,
        "topics": scene.topic,
        "group.id": scene.group,
        "maxOffsetsPerTrigger": "10",
        "claimOwnership": "true",
        "fetcher": "librdkafka",  # quick to load
    }
    command = [sys.executable, killed_driver.__file__, str(tmp_path), "2", json.dumps(options)]
    with (tmp_path / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=child_environment(TMPDIR=str(tmp_path), PYSPARK_SUBMIT_ARGS=WITHOUT_REUSE),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
    try:
        eventually(lambda: driver.poll() is not None or (tmp_path / killed_driver.HALF).exists(), 2 * WAIT_S)
        assert driver.poll() is None, (tmp_path / "driver.log").read_text()
    finally:
        os.killpg(driver.pid, signal.SIGKILL)  # its JVM, too
        driver.wait()

    def output():
        rows = scene.spark.read.schema("value string").json(str(tmp_path / "out")).collect()
        return sorted(tuple(map(int, row["value"].split(":"))) for row in rows)

    assert len(output()) == 10 + 10 + 3
    # what stands in ZooKeeper is what was done with, and no more
    assert sum(scene.committed().values()) == 20
    # nobody can take the group over before the session of the dead driver is over
    eventually(lambda: scene.members() == () and scene.owners() == {}, WAIT_S)
    scene.produce(1, 5)
    assert killed_driver.start_query(scene.spark, tmp_path, options).awaitTermination(2 * WAIT_S)
    assert output() == numbers((0, range(30)), (1, range(20)))
    assert scene.committed() == {"0": 30, "1": 20}
    assert scene.members() == ()
