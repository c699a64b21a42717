"""A Python member with another strategy or dialect than its group of JVM members; and odd JVM registrations."""

import pytest

from legacy_consumer import ConsumerConfig, ConsumerConnector
from legacy_consumer.operations.admin.groups import describe_group
from rebalance.errors import StrategyMismatchError
from tests.support.jvm_member import Subscription

pytestmark = [pytest.mark.interop]


DIALECT = "partition.assignment.dialect"


class NoLogs:
    """Stands for the brokers' log ends, which these tests do not need."""

    def latest(self, partitions):
        return {}


def changes_below(group):
    """Return the changes below the group's znode in order, from ZooKeeper's transaction log."""
    root = f"{group.cluster.chroot}/consumers/{group.name}"
    changes = [change for znode in group.cluster.history.below(root).values() for change in znode]
    return sorted(changes, key=lambda change: change.zxid)


def writers(group, changes, members):
    """Return the sessions behind these changes, without the sessions that ever registered one of the members."""
    ids = {f"{group.cluster.chroot}/consumers/{group.name}/ids/{group.name}_{member}" for member in members}
    registered = {change.session for change in changes_below(group) if change.path in ids and change.data is not None}
    return {change.session for change in changes} - registered


def refusal(group, version, overrides, topic):
    """Join until our member refuses the group. Returns: the error, and the changes below the group since that try.

    On a busy machine JVM members may rebalance even after the group has settled. Our member cannot judge a group in the
    middle of a rebalance, and joins it; then the log shows that a JVM member claimed something meanwhile.
    """
    while True:
        group.settle("all are there", version)
        before = len(changes_below(group))
        connector = ConsumerConnector(ConsumerConfig.load(overrides=overrides))
        try:
            connector.create_message_streams({topic: 1})
        except StrategyMismatchError as error:
            return error, changes_below(group)[before:]
        connector.shutdown()
        meanwhile = [change for change in changes_below(group)[before:] if "/owners/" in change.path]
        assert {change.session for change in meanwhile} - writers(group, meanwhile, "abc"), "it joined a group at rest"


@pytest.mark.parametrize(
    ("version", "theirs", "ours", "advice"),
    [
        ("0.8.2.2", "range", {"strategy": "roundrobin"}, "range,"),
        ("1.1.1", "range", {"strategy": "roundrobin"}, "range,"),
        ("0.8.2.2", "roundrobin", {"strategy": "range"}, f"roundrobin and {DIALECT}=0.8.2 or 0.10.2"),
        (
            "0.10.2.2",
            "roundrobin",
            {"strategy": "roundrobin", "dialect": "1.0"},
            f"roundrobin and {DIALECT}=0.8.2 or 0.10.2, whichever",
        ),
        ("1.1.1", "roundrobin", {"strategy": "roundrobin", "dialect": "0.10.2"}, f"roundrobin and {DIALECT}=1.0, or"),
    ],
)
def test_a_group_that_divides_otherwise_is_not_joined_and_not_disturbed(new_group, version, theirs, ours, advice):
    told = "-".join(ours.values()).replace(".", "")
    name = f"mismatch-{version.replace('.', '')}-{theirs}-{told}"
    dialect = {"0.8.2.2": "0.8.2", "0.10.2.2": "0.10.2", "1.1.1": "1.0"}[version]
    # the dialects of round-robin only differ from 11 partitions on
    group = new_group(name, {f"{name}-t": 12}, strategy=theirs, dialect=dialect)
    everything = Subscription("static", f"{name}-t:1")
    for member in ("a", "b", "c"):
        group.start(version, member, everything)
    group.settle("all join", version)
    overrides = {
        **group.properties,
        "consumer.id": "me",
        "rebalance.max.retries": 2,
        "rebalance.backoff.ms": 200,
        **{f"partition.assignment.{key}": value for key, value in ours.items()},
    }
    refused, changes = refusal(group, version, overrides, f"{name}-t")
    assert f"set partition.assignment.strategy={advice}" in str(refused)
    assert sorted(group.snapshot().members) == [f"{name}_{member}" for member in ("a", "b", "c")]
    assert writers(group, changes, "abc") == set()
    assert writers(group, changes_below(group), "ab"), "a member that is not named is seen"
    found = describe_group(group.cluster.store, NoLogs(), name)
    assert found.divides_by == refused.shown
    assert {member.kind for member in found.members} == {"Kafka 0.8.1+"}
    assert found.warnings == ()


@pytest.mark.parametrize(
    ("version", "kind"),
    [("0.8.2.2", "Kafka 0.8.2 to 1.0.0"), ("0.10.2.2", "Kafka 0.8.2 to 1.0.0"), ("1.1.1", "Kafka 1.0.1+")],
)
def test_a_wildcard_with_a_backslash_is_judged_as_its_writer_judges_it_and_described(new_group, version, kind):
    name = f"backslash-{version.replace('.', '')}"
    group = new_group(name, {f"{name}-t1": 2})
    group.join("python", "a", Subscription("static", f"{name}-t1:1"))
    # settle() compares the owners with our own assignment for both registrations
    group.join(version, "w", Subscription("whitelist", rf"{name}-t\d", 1))
    found = describe_group(group.cluster.store, NoLogs(), name)
    odd = next(member for member in found.members if member.consumer_id == f"{name}_w")
    assert odd.kind == kind
    assert odd.partitions == (0 if version == "1.1.1" else 1)
    assert [warning.code for warning in found.warnings] == (["regex_escaped_twice"] if version == "1.1.1" else [])
    if version == "1.1.1":
        assert rf"registered its filter {name}-t\d escaped twice" in found.warnings[0].text
        assert "it owns nothing" in found.warnings[0].text
