"""Kafka's own tools of each version read a group of one Python and one JVM member."""

import re
from pathlib import Path

import pytest

from tests.interop.mixed_group import MixedGroup
from tests.support.jvm_member import Subscription

pytestmark = pytest.mark.interop


@pytest.fixture(scope="module")
def group(cluster):
    group = MixedGroup(cluster, "toolgroup", {"tools-a": 3, "tools-b": 2})
    subscription = Subscription("static", "tools-a:1,tools-b:1")
    group.join("python", "p-1", subscription)
    group.join("1.1.1", "j-1", subscription)
    group.produce_round(7)
    for member in group.living.values():
        member.commit()
    group.produce_round(2)
    yield group
    group.close()


def zookeeper(group):
    return group.cluster.kafka.zookeeper_connect


@pytest.mark.parametrize("version", ["0.10.2.2", "1.1.1"])
def test_verify_consumer_rebalance_finds_the_group_sound(group, tools, version):
    printed = tools(version).run(
        "kafka.tools.VerifyConsumerRebalance", "--zookeeper.connect", zookeeper(group), "--group", group.name
    )
    assert printed == ["Rebalance operation successful !"]


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2"])
def test_consumer_offset_checker_shows_offset_lag_and_owner(group, tools, version):
    head, *rows = tools(version).run(
        "kafka.tools.ConsumerOffsetChecker", "--zookeeper", zookeeper(group), "--group", group.name
    )
    assert head.split() == ["Group", "Topic", "Pid", "Offset", "logSize", "Lag", "Owner"]
    owners = group.owners()
    assert [row.split() for row in rows] == [
        [group.name, tp.topic, str(tp.partition), "7", "9", "2", owners[tp]] for tp in group.partitions
    ]


@pytest.mark.parametrize("version", ["0.10.2.2", "1.1.1"])
def test_consumer_groups_describes_offset_lag_and_member(group, tools, version):
    printed = tools(version).run(
        "kafka.admin.ConsumerGroupCommand", "--zookeeper", zookeeper(group), "--describe", "--group", group.name
    )
    rows = [row.split() for row in printed if re.match(r"tools-[ab] ", row)]
    owners = {tp: text.rpartition("-")[0] for tp, text in group.owners().items()}
    assert sorted(rows) == [[tp.topic, str(tp.partition), "7", "9", "2", owners[tp]] for tp in group.partitions]


@pytest.mark.parametrize("version", ["0.10.2.2", "1.1.1"])
def test_consumer_groups_lists_the_group(group, tools, version):
    printed = tools(version).run("kafka.admin.ConsumerGroupCommand", "--zookeeper", zookeeper(group), "--list")
    assert group.name in printed


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1"])
def test_export_writes_every_offset(group, tools, version, tmp_path):
    file = Path(tmp_path) / "offsets"
    tools(version).run(
        "kafka.tools.ExportZkOffsets",
        "--zkconnect",
        zookeeper(group),
        "--group",
        group.name,
        "--output-file",
        str(file),
    )
    assert sorted(file.read_text().splitlines()) == [
        f"/consumers/{group.name}/offsets/{tp.topic}/{tp.partition}:7" for tp in group.partitions
    ]
