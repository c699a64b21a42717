"""A query that claims its group's partitions, and JVM members of the same group."""

import pytest

from tests.spark.stream_scene import WAIT_S, failed, numbers
from tests.support.jvm_member import ConsoleConsumer, JvmMember, Subscription
from tests.support.waiting import eventually

pytestmark = [pytest.mark.kafka, pytest.mark.interop]

VERSION = "1.1.1"


@pytest.fixture
def join(scene, programs):
    """Yield a function that starts members of the scene's group."""
    members = []

    def start(kind, **properties):
        given = {
            "zookeeper.connect": scene.kafka.zookeeper_connect,
            "group.id": scene.group,
            "auto.offset.reset": "smallest",
            "auto.commit.enable": "false",
            "rebalance.backoff.ms": 200,
            **{name.replace("_", "."): value for name, value in properties.items()},
        }
        subscription = Subscription("static", f"{scene.topic}:1")
        members.append(kind(programs, VERSION, f"{scene.group}-{len(members)}", subscription, given))
        return members[-1]

    yield start
    for member in members:
        member.kill()


def test_a_group_with_a_member_of_the_jvm_is_refused_and_taken_over_once_it_is_gone(scene, join):
    scene.produce(0, 4)
    scene.produce(1, 3)
    member = join(JvmMember)
    member.wait_until(lambda: len(member.consumed) == 7, "reading everything")
    owners = scene.owners()
    assert f"has live members ({member.consumer_id}): stop them first" in failed(scene.start(claimOwnership="true"))
    assert (scene.owners(), scene.members()) == (owners, (member.consumer_id,))
    member.commit()
    member.shutdown()
    assert member.await_end() == 0
    scene.produce(0, 2)
    scene.elsewhere().run(claimOwnership="true")
    assert scene.elsewhere().output() == numbers((0, range(4, 6)))
    assert scene.committed() == {"0": 6, "1": 3}


def test_a_console_consumer_that_joins_gets_nothing_until_the_query_has_stopped(scene, join):
    scene.produce(0, 5)
    scene.produce(1, 5)
    query = scene.start(once=False, claimOwnership="true")
    try:
        eventually(lambda: scene.committed() == {"0": 5, "1": 5}, WAIT_S)
        beside = join(ConsoleConsumer, rebalance_max_retries=3)
        # the console consumer finds the query's owner znodes, uses up its tries, and gives up
        assert beside.await_end() != 0
        assert "can't rebalance after 3 retries" in beside.log_text()
        scene.produce(0, 3)
        scene.produce(1, 3)
        eventually(lambda: scene.committed() == {"0": 8, "1": 8}, WAIT_S)
        assert query.isActive
    finally:
        query.stop()
    eventually(lambda: scene.members() == () and scene.owners() == {}, WAIT_S)
    assert beside.lines == []
    assert scene.output() == numbers((0, range(8)), (1, range(8)))

    after = join(ConsoleConsumer)
    eventually(lambda: len(scene.owners()) == 2, WAIT_S)
    scene.produce(0, 2)
    after.wait_until(lambda: len(after.lines) == 2, "two messages")
    assert after.lines == ["0:8", "0:9"]
