"""Streams of zk_messages in a real Spark: their start, their commits, and the other consumers of their group."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from legacy_consumer.sandbox.servers.waiting import wait_for
from spark_source import source_progress
from tests.spark.conftest import child_environment
from tests.spark.stream_scene import WAIT_S, failed, numbers

pytestmark = [pytest.mark.kafka]


def test_a_stream_continues_at_the_groups_offsets_and_the_group_where_the_stream_stopped(scene):
    scene.produce(0, 20)
    scene.produce(1, 10)
    scene.commit(0, 12)
    query = scene.run(maxOffsetsPerTrigger="6")
    assert scene.output() == numbers((0, range(12, 20)), (1, range(10)))
    assert scene.committed() == {"0": 20, "1": 10}
    batches = [progress["numInputRows"] for progress in query.recentProgress if progress["numInputRows"]]
    assert batches == [6, 6, 6]
    # the progress reports the messages that were left after each batch
    progress = [source_progress(p["sources"][0]) for p in query.recentProgress[:3]]
    assert [sum(p["endOffset"][scene.topic].values()) for p in progress] == [18, 24, 30]
    assert [p["latestOffset"] for p in progress] == [{scene.topic: {"0": 20, "1": 10}}] * 3
    assert [p["metrics"]["avgOffsetsBehindLatest"] for p in progress] == [6, 3, 0]

    # after a restart, with a partition more, no message is lost or comes twice
    scene.kafka.add_partitions(scene.topic, 3)
    scene.produce(0, 5)
    scene.produce(2, 4)
    scene.run()
    assert scene.output() == numbers((0, range(12, 25)), (1, range(10)), (2, range(4)))
    assert scene.committed() == {"0": 25, "1": 10, "2": 4}


def test_progress_is_committed_while_the_stream_runs_unless_opted_out(scene):
    scene.produce(0, 5)
    query = scene.start(once=False)
    try:
        wait_for(lambda: scene.committed() == {"0": 5, "1": 0}, WAIT_S, lambda: AssertionError(scene.committed()))
        scene.produce(1, 3)
        wait_for(lambda: scene.committed() == {"0": 5, "1": 3}, WAIT_S, lambda: AssertionError(scene.committed()))
    finally:
        query.stop()
    scene.produce(0, 2)
    scene.run(commitOffsets="false")
    assert scene.output() == numbers((0, range(7)), (1, range(3)))
    assert scene.committed() == {"0": 5, "1": 3}


def test_an_error_of_a_stream_reaches_the_user_and_so_does_trigger_once(scene):
    scene.produce(0, 1)
    assert failed(scene.start(endingOffsets="5")).startswith("endingOffsets: is for batch reads")
    writer = scene.reading().writeStream.format("noop").option("checkpointLocation", str(scene.folder / "once"))
    assert "use Trigger.AvailableNow, or set commitOffsets=false" in failed(writer.trigger(once=True).start())
    assert scene.committed() == {}


def test_ownership_is_claimed_while_the_stream_runs_and_released_when_it_stops(scene):
    scene.produce(0, 5)
    query = scene.start(once=False, claimOwnership="true", **{"zookeeper.session.timeout.ms": "60000"})
    try:
        wait_for(lambda: scene.committed() == {"0": 5, "1": 0}, WAIT_S, lambda: AssertionError(query.exception()))
        [member] = scene.members()
        assert member.startswith(f"{scene.group}_")
        assert scene.owners() == {"0": f"{member}-0", "1": f"{member}-0"}
        # a second query is refused, because the group has a live member
        assert f"has live members ({member})" in failed(scene.elsewhere().start(claimOwnership="true"))
    finally:
        query.stop()
    # well before the session would expire
    wait_for(lambda: scene.members() == () and scene.owners() == {}, 30.0, lambda: AssertionError(scene.members()))
    assert scene.committed() == {"0": 5, "1": 0}


def test_a_second_signal_while_the_planner_leaves_keeps_no_group_taken(scene):
    """Spark sends SIGTERM twice in a row. Regression: the planner's znodes then stayed until its session expired."""
    options = {"zookeeper.connect": scene.kafka.zookeeper_connect, "topics": scene.topic, "claimOwnership": "true"}
    groups = [f"{scene.group}-{n}" for n in range(8)]
    ended = subprocess.run(
        [sys.executable, Path(__file__).with_name("planners_that_end.py"), json.dumps(options), *groups],
        env=child_environment(),
        stdout=subprocess.PIPE,
        timeout=WAIT_S,
        check=True,
        text=True,
    )
    first, *later = ended.stdout.splitlines()
    assert first.startswith("stream.py:")
    assert len(later) == len(groups) - 1
    for group in groups:
        assert scene.store.get_children(f"/consumers/{group}/ids") == ()
        assert scene.store.get_children(f"/consumers/{group}/owners/{scene.topic}") == ()


def test_a_group_with_live_members_is_left_alone_unless_allowed(scene):
    scene.produce(0, 5)
    scene.store.create(f"/consumers/{scene.group}/ids/somebody", b"{}", ephemeral=True, make_parents=True)
    reason = failed(scene.start())
    assert reason.startswith(f"group '{scene.group}' has live members (somebody): stop them first, or set ")
    assert scene.committed() == {}
    scene.run(liveGroup="allow")
    assert scene.output() == numbers((0, range(5)))
    assert scene.committed() == {"0": 5, "1": 0}
