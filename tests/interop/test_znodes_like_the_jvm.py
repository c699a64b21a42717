"""What a Python member leaves in ZooKeeper is, byte for byte, what a JVM member leaves there."""

import re

import pytest
from kazoo.client import KazooClient

from tests.support.jvm_member import Subscription
from zk_layout.paths import GroupPath

pytestmark = pytest.mark.interop

_TIMESTAMP = re.compile(rb'"timestamp":"\d{13}"')


@pytest.fixture(scope="module")
def kazoo(cluster):
    client = KazooClient(cluster.kafka.zookeeper_connect)
    client.start()
    yield client
    client.stop()
    client.close()


def tree_of(kazoo, group):
    """{path below the group: (data, ephemeral, ACL)}, the group's own name and timestamps left out."""
    found = {}

    def walk(path, shown):
        data, stat = kazoo.get(path)
        acls, _ = kazoo.get_acls(path)
        # no data and empty data are two things
        said = data and _TIMESTAMP.sub(b'"timestamp":"T"', data.replace(group.encode(), b"GROUP"))
        found[shown] = (said, stat.ephemeralOwner != 0, tuple(acls))
        for child in sorted(kazoo.get_children(path)):
            walk(f"{path}/{child}", f"{shown}/{child.replace(group, 'GROUP')}")

    walk(GroupPath(group).path, "")
    return found


@pytest.mark.parametrize("version", ["0.8.2.2", "0.10.2.2", "1.1.1"])
@pytest.mark.parametrize("kind", ["static", "whitelist", "blacklist"])
def test_same_member_same_znodes(new_group, cluster, kazoo, kind, version):
    prefix = f"bytes-{kind}-{version.replace('.', '')}"
    topics = {f"{prefix}-x": 3, f"{prefix}-y": 2}
    subscription = {
        "static": Subscription("static", f"{prefix}-x:2,{prefix}-y:1"),
        "whitelist": Subscription("whitelist", f" '{prefix}-x, {prefix}-[y\"/]' ", 2),
        "blacklist": Subscription(
            "blacklist", ",".join(t for t in cluster.store.get_children("/brokers/topics") if t not in topics), 2
        ),
    }[kind]
    trees = {}
    group = new_group(f"{prefix}-of-{version}", topics)
    for side in (version, "python"):
        name = f"{prefix}-of-{side}"
        group = group if side == version else new_group(name, {})
        group.topics = dict(topics)
        group.produced = dict.fromkeys(group.partitions, 0)
        member = group.join(side, "m", subscription)
        if side == version:
            group.produce(3)
        for tp in group.partitions:
            group.produced[tp] = 3
        group.verdict()
        member.commit()
        trees[side] = tree_of(kazoo, name)
        group.leave("m")
        trees[f"{side}, left"] = tree_of(kazoo, name)
    assert trees["python"] == trees[version]
    assert trees["python, left"] == trees[f"{version}, left"]
    assert trees["python"][f"/offsets/{prefix}-x/0"][0] == b"3"
