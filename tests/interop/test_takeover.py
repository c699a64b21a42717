"""A group moves from JVM members to Python members, one after another, and back."""

import pytest

from tests.interop.mixed_group import PYTHON
from tests.support.jvm_member import Subscription

pytestmark = [pytest.mark.interop]


@pytest.mark.parametrize("version", ["0.8.2.2", pytest.param("0.10.2.2", marks=pytest.mark.long), "1.1.1"])
def test_group_goes_over_to_python_and_back_without_a_gap_or_a_repeat(new_group, version):
    name = f"over{version.replace('.', '')}"
    group = new_group(name, {name: 4})
    subscription = Subscription("static", f"{name}:1")
    group.join(version, "j1", subscription)
    group.join(version, "j2", subscription)
    group.produce_round(20)
    # the Python members' names sort last, so that JVM members lose and gain partitions at each step
    group.join("python", "p1", subscription)
    group.produce_round(20)
    group.leave("j1")
    group.produce_round(20)
    group.join("python", "p2", subscription)
    group.leave("j2", by_signal=True)
    assert {member.kind for member in group.living.values()} == {PYTHON}
    group.produce_round(20)
    group.join(version, "j3", subscription)
    group.leave("p1", by_signal=True)
    group.produce_round(20)
    group.join(version, "j4", subscription)
    group.leave("p2")
    assert {member.kind for member in group.living.values()} == {version}
    group.produce_round(20)

    verdict = group.verdict()
    for tp in group.partitions:
        if not any(message[0] == tp for message in verdict.redelivered):
            assert group.order_of(tp) == list(range(120))
    group.leave("j3")
    group.leave("j4")
    assert {tp: group.committed(tp) for tp in group.partitions} == dict.fromkeys(group.partitions, 120)


def test_group_whose_jvm_member_was_killed_continues_from_its_last_commit(new_group):
    group = new_group("inherit", {"inherit": 3})
    subscription = Subscription("static", "inherit:1")
    group.join("1.1.1", "j1", subscription)
    group.produce_round(5)
    group.join("python", "p1", subscription)
    group.produce_round(5)
    group.living["inherit_j1"].commit()
    group.produce_round(10)
    lost = {tp for tp, owner in group.owners().items() if owner.startswith("inherit_j1")}
    group.kill("j1")
    group.produce_round(10)
    assert set(group.verdict().redelivered) == {(tp, offset) for tp in lost for offset in range(10, 20)}
    group.leave("p1")
    assert {group.committed(tp) for tp in group.partitions} == {30}


@pytest.mark.parametrize("version", ["0.8.2.2", "1.1.1"])
def test_nothing_is_lost_while_messages_flow(new_group, version):
    """Members come, leave and are killed while messages are produced without a pause."""
    name = f"flow{version.replace('.', '')}"
    group = new_group(name, {name: 6}, properties={"auto.commit.interval.ms": 500})
    subscription = Subscription("static", f"{name}:2")
    group.join("python", "b", subscription)
    with group.flow():
        group.join(version, "a", subscription)
        group.join("python", "c", subscription)
        group.leave("b")
        group.kill("a")
        group.join(version, "d", subscription)
        group.leave("d", by_signal=True)
        group.join(version, "e", subscription)
        group.kill("c")
    group.verdict()
