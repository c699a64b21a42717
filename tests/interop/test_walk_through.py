"""The walk-through of Kafka's design documents, with the partitions and messages of each member."""

from collections import Counter

import pytest

from tests.interop.mixed_group import PYTHON
from tests.support.jvm_member import Subscription

pytestmark = [pytest.mark.interop]


def shares(group):
    """Return how many partitions each living member owns, in the order of their names."""
    owned = Counter(owner.rpartition("-")[0] for owner in group.owners().values())
    return [owned[member] for member in sorted(group.living)]


@pytest.mark.parametrize(
    "kinds", [[PYTHON, PYTHON, PYTHON, PYTHON], [PYTHON, "1.1.1", PYTHON, "0.8.2.2"]], ids=["python", "mixed"]
)
def test_four_members_join_three_partitions_and_leave_until_the_fourth_has_all(new_group, kinds):
    name = f"walk-{len(set(kinds))}"
    group = new_group(name, {name: 3})
    subscription = Subscription("static", f"{name}:1")
    for number, share in enumerate(([3], [2, 1], [1, 1, 1], [1, 1, 1, 0]), 1):
        group.join(kinds[number - 1], f"consumer{number}", subscription)
        assert shares(group) == share
        group.produce_round()
    for number, share in enumerate(([1, 1, 1], [2, 1], [3]), 1):
        group.leave(f"consumer{number}")
        assert shares(group) == share
        group.produce_round()
    assert {owner.rpartition("-")[0] for owner in group.owners().values()} == {f"{name}_consumer4"}
    verdict = group.verdict()
    assert set(kinds) != {PYTHON} or not verdict.redelivered


@pytest.mark.parametrize("strategy", ["sticky", "cooperative-sticky"])
def test_the_same_in_a_group_that_a_member_leads_and_a_jvm_member_in_between(new_group, strategy):
    """While the JVM member is registered, all members assign by its strategy; then a member leads again."""
    name = f"walk-{strategy}"
    group = new_group(name, {name: 3})
    subscription = Subscription("static", f"{name}:1")
    led = {"group.coordination": "leader", "partition.assignment.strategy": strategy}
    for number, share in enumerate(([3], [2, 1], [1, 1, 1], [1, 1, 1, 0]), 1):
        group.join(PYTHON, f"consumer{number}", subscription, **led)
        assert shares(group) == share
        group.produce_round()
    group.join("1.1.1", "a-jvm", subscription)
    assert shares(group) == [1, 1, 1, 0, 0]
    group.produce_round()
    group.leave("a-jvm")
    for number, share in enumerate(([1, 1, 1], [2, 1], [3]), 1):
        group.leave(f"consumer{number}")
        assert sorted(shares(group), reverse=True) == share
        group.produce_round()
    assert {owner.rpartition("-")[0] for owner in group.owners().values()} == {f"{name}_consumer4"}
    group.verdict()


def test_one_topic_is_a_queue_within_a_group_and_a_broadcast_to_two(new_group):
    topic = "queue-and-broadcast"
    group1 = new_group("group1", {topic: 3})
    group2 = new_group("group2", {topic: 3}, create=False)
    subscription = Subscription("static", f"{topic}:1")
    group1.join(PYTHON, "a", subscription)
    for name in "bcd":
        group2.join(PYTHON, name, subscription)
    group1.produce(1)  # one message for each partition, as Kafka's old producer distributes the keys 1, 2, 3
    wanted = {tp: range(1) for tp in group1.partitions}
    for group in (group1, group2):
        group.await_consumed(wanted)
    assert sorted(len(member.consumed) for member in group1.living.values()) == [3]
    assert sorted(len(member.consumed) for member in group2.living.values()) == [1, 1, 1]
    assert {message.tp for message in group2.consumed()} == set(group1.partitions)
